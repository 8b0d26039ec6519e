# Every target makes .venv from requirements.lock when it is missing or out of date.
PYTHON ?= python3
UV_VERSION ?= 0.13.7
LOCK_FLAGS ?=

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PEERS_VENV := .venv-peers
PEERS_BIN := $(PEERS_VENV)/bin
PEERS_STAMP := $(PEERS_VENV)/.installed
LLM_VENV := .venv-llm
LLM_STAMP := $(LLM_VENV)/.installed
DOCS_VENV := .venv-docs
DOCS_STAMP := $(DOCS_VENV)/.installed
AI_SDK := tests/peers/ai_sdk
AI_SDK_STAMP := $(AI_SDK)/node_modules/.installed
AGENTS := tests/real_agents
SMALL_AGENTS := $(AGENTS)/small
NPM_FOLDERS := $(AI_SDK) $(AGENTS) $(SMALL_AGENTS)
NPM := npm --no-audit --no-fund --ignore-scripts --loglevel=error
LOCK_VENV := .venv-lock
RESOLVE = $(LOCK_VENV)/bin/uv pip compile --quiet --universal --generate-hashes \
	--python-version 3.11 --prerelease disallow --no-emit-index-url --no-emit-find-links \
	--custom-compile-command 'make lock' $(LOCK_FLAGS)
# `litellm` wants an older openai than `dev`.
EXTRAS := fleet learn local mcp otel proxy
PEERS_EXTRAS := litellm mcp proxy
# What LangChain's tests bring along, and no other test wants.
LANGCHAIN_PLUGINS := asyncio benchmark codspeed recording socket syrupy
PIP := -m pip install -qq --disable-pip-version-check
# Images of Debian come without lists of packages.
APT_INSTALL := apt-get update -qq; apt-get install -qq -y --no-install-recommends

CHECKED := $(wildcard src tests bench fuzz examples docs)
BENCHES := $(filter-out bench/tables.py,$(sort $(wildcard bench/*.py)))
# The sans-IO folders: the tests beside them must take each branch. Only these tests are traced,
# because tracing costs as much as the tests themselves.
SANS_IO := arguments assembly protocols dialects
SANS_IO_MODULES := events messages tool_choice
SANS_IO_TESTS := $(addprefix tests/,$(SANS_IO)) \
	$(foreach module,$(SANS_IO_MODULES),$(wildcard tests/test_$(module)*.py))
PARALLEL := -n auto --dist worksteal

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test coverage test-clients test-agents test-small-agents test-model test-small-model test-browser test-fleet picture eval lint format reference docs bench fuzz chaos soak mutants dist lock clean python-version free-port

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

run: free-port $(STAMP) ## Start the proxy with the inspector, a real model and four tools (MODEL=demo: no download)
	@$(BIN)/wholecall demo $(if $(MODEL),--model '$(MODEL)') $(if $(PORT),--port '$(PORT)')

test: $(STAMP) ## Run the tests; core, protocols and dialects need 100 % branch coverage
	$(BIN)/pytest $(PARALLEL) --cov-report= $(SANS_IO:%=--cov=src/wholecall/%) \
		$(SANS_IO_MODULES:%=--cov=wholecall.%) $(SANS_IO_TESTS)
	@echo 'Branch coverage of the sans-IO folders by the tests beside them (100 % is demanded):'
	$(BIN)/coverage report --fail-under=100
	$(BIN)/pytest $(PARALLEL) $(SANS_IO_TESTS:%=--ignore=%)

coverage: $(STAMP) ## Run the tests, and show what they cover of the whole library
	$(BIN)/pytest $(PARALLEL) --cov --cov-report=
	$(BIN)/coverage report

# Clients wait between their retries, so more of them than cores run at a time.
test-clients: $(PEERS_STAMP) $(LLM_STAMP) $(AI_SDK_STAMP) ## Run tests/peers: with LiteLLM and agent libraries, in environments of their own
	$(PEERS_BIN)/pytest -n 6 --dist loadgroup --show-capture=no --confcutdir=tests/peers $(LANGCHAIN_PLUGINS:%=-p no:%) \
		--ignore tests/peers/test_langchain_standard.py tests/peers
	$(PEERS_BIN)/pytest -n 2 --show-capture=no --confcutdir=tests/peers -W ignore -o asyncio_mode=auto \
		-o asyncio_default_fixture_loop_scope=function tests/peers/test_langchain_standard.py

test-agents: $(STAMP) $(AGENTS)/node_modules/.installed $(SMALL_AGENTS)/node_modules/.installed $(AI_SDK_STAMP) ## Run tests/real_agents: Claude Code, Codex, opencode, qwen-code, the AI SDK and pi (1.7 GB from npm)
	CI= $(BIN)/pytest -n 0 -q $(AGENTS)

test-small-agents: $(STAMP) $(SMALL_AGENTS)/node_modules/.installed ## The part of test-agents with Codex and pi: for CI
	CI=1 $(BIN)/pytest -n 0 -q $(AGENTS)

test-model: $(STAMP) ## Run tests/models: a small real model (98 MB, pulled), and the default one if it is here
	@$(BIN)/wholecall model pull smollm2
	$(BIN)/pytest -n 0 -o pythonpath='tests bench' tests/models

test-small-model: $(STAMP) ## The part of test-model that takes seconds, where the small model can be had: for CI
	@if $(BIN)/wholecall model pull smollm2; then \
		$(BIN)/pytest -n 0 -o pythonpath='tests bench' tests/models/test_smollm2.py tests/models/test_protocols.py; \
	else \
		echo 'NOT RUN: the tests with a real model. It could not be fetched; the reason stands above.' >&2; \
	fi

test-browser: $(STAMP) ## Run tests/browser: the inspector in chromium; pictures go to build/inspector
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { \
		echo 'Installing chromium with apt-get ...'; \
		$(APT_INSTALL) chromium >/dev/null; } || { \
		echo 'chromium is needed, and apt-get could not install it: install it and try again.' >&2; exit 1; }
	$(BIN)/pytest -n 0 tests/browser

test-fleet: $(STAMP) ## Run the tests that need PostgreSQL: journals and workers of many machines
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || { \
		echo 'Installing postgresql with apt-get ...'; \
		$(APT_INSTALL) postgresql >/dev/null; } || { \
		echo 'PostgreSQL is needed, and apt-get could not install it: install it and try again.' >&2; exit 1; }
	$(BIN)/pytest -n 0 -q tests/journal/test_journal_stores.py tests/journal/test_postgres_journal.py tests/journal/test_fleet.py tests/journal/test_killed_process.py

picture: $(STAMP) ## Take the picture of README anew: a scripted model, the real proxy, the real page
	PYTHONPATH=tests $(BIN)/python tests/browser/picture.py docs/inspector.png

eval: $(STAMP) ## Ask the default model (1.1 GB, pulled) 175 questions in each way, and write the tables
	@$(BIN)/wholecall model pull
	$(BIN)/python bench/eval/evaluate_answers.py --write
	$(BIN)/python bench/eval/evaluate.py --write
	$(BIN)/python bench/eval/evaluate.py --write --questions held-out

lint: $(STAMP) ## Check format, lint rules and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy $(CHECKED)

format: $(STAMP) ## Format the code and apply ruff's safe fixes
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

reference: $(STAMP) ## Write docs/reference.md from the docstrings
	$(BIN)/python docs/make_reference.py

docs: $(DOCS_STAMP) ## Build the docs site into build/docs, with its links checked, offline search and llms.txt
	$(DOCS_VENV)/bin/python docs/make_site.py
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict
	@echo 'The site is in build/docs: open build/docs/index.html.'

bench: $(STAMP) $(PEERS_STAMP) ## Run every benchmark: the numbers that the docs quote
	@command -v valgrind >/dev/null || { \
		echo 'Installing valgrind with apt-get ...'; \
		$(APT_INSTALL) valgrind >/dev/null; } || { \
		echo 'valgrind is needed, and apt-get could not install it: install it and try again.' >&2; exit 1; }
	@set -e; for script in $(BENCHES); do echo "== $$script"; $(BIN)/python "$$script"; done

fuzz: $(STAMP) ## Cut streams at every byte, mutate streams and request bodies, look for a broken law (MINUTES=1)
	$(BIN)/python fuzz/cuts.py $(if $(CI),--step 97)
	$(BIN)/python fuzz/mutated.py --minutes $(or $(MINUTES),1)

chaos: $(STAMP) ## Kill workers of a real proxy while clients resend, audit what began, and attack it (MINUTES=1.5 STORE=sqlite|postgres ROUNDS=10)
	$(BIN)/python fuzz/chaos.py --minutes $(or $(MINUTES),$(if $(CI),0.3,1.5)) --store $(or $(STORE),sqlite)
	$(BIN)/python fuzz/resends.py --rounds $(or $(ROUNDS),$(if $(CI),2,10))
	$(if $(CI),,$(BIN)/python fuzz/attacks.py)

soak: $(STAMP) ## Load a real proxy: steady streams, idle clients, bursts, faults and reloads (MINUTES=4)
	$(BIN)/python fuzz/soak.py --minutes $(or $(MINUTES),4)

mutants: $(STAMP) ## Take the guards out one at a time and see the tests fail
	$(BIN)/python fuzz/mutants.py

dist: $(STAMP) $(LOCK_VENV)/bin/uv ## Build the wheel and the sdist, check them, and try the wheel in clean environments
	rm -rf dist
	$(BIN)/hatchling build
	$(BIN)/twine check --strict dist/*
	UVX=$(abspath $(LOCK_VENV))/bin/uvx $(BIN)/pytest -n 0 tests/wheel

lock: $(LOCK_VENV)/bin/uv ## Regenerate the lock files (LOCK_FLAGS=--upgrade for newer versions)
	@echo 'Resolving the lock files ...'
	@$(RESOLVE) $(EXTRAS:%=--extra %) --group dev --output-file requirements.lock pyproject.toml
	@$(RESOLVE) $(PEERS_EXTRAS:%=--extra %) --group peers --output-file requirements-peers.lock pyproject.toml
	@$(RESOLVE) --group pyproject.toml:llm --output-file requirements-llm.lock
	@$(RESOLVE) --group pyproject.toml:docs --output-file requirements-docs.lock
	@if command -v npm >/dev/null; then for folder in $(NPM_FOLDERS); do ( \
		cd $$folder && $(NPM) install --package-lock-only --omit-lockfile-registry-resolved && \
		sed -i 's|"[a-z]*://[^"]*"|""|' package-lock.json ); done; fi
	@if grep -nE '://|^-|file:|(^|[ "])/' requirements*.lock || grep -n '://' $(NPM_FOLDERS:%=%/package-lock.json); then \
		echo 'A lock file names an address or a path: see the lines above.' >&2; exit 1; fi

clean: ## Remove the environments, caches and build results
	rm -rf $(VENV) $(PEERS_VENV) $(LLM_VENV) $(DOCS_VENV) $(LOCK_VENV) $(NPM_FOLDERS:%=%/node_modules) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	rm -f .coverage .coverage.*
	find src tests bench fuzz examples -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

$(STAMP): requirements.lock pyproject.toml | python-version
	@test -x $(BIN)/python || { echo 'Creating $(VENV) ...'; $(PYTHON) -m venv $(VENV); }
	@echo 'Installing the locked packages into $(VENV) ...'
	@$(BIN)/python $(PIP) --require-hashes --no-deps -r requirements.lock
	@echo 'Installing wholecall (editable) ...'
	@$(BIN)/python $(PIP) --no-deps --no-build-isolation -e .
	@touch $@

# `dev` and `peers` want different versions of the same clients.
$(PEERS_STAMP): requirements-peers.lock pyproject.toml | python-version
	@test -x $(PEERS_BIN)/python || { echo 'Creating $(PEERS_VENV) ...'; $(PYTHON) -m venv $(PEERS_VENV); }
	@echo 'Installing the locked peers into $(PEERS_VENV) ...'
	@$(PEERS_BIN)/python $(PIP) --require-hashes --no-deps -r requirements-peers.lock
	@echo 'Installing wholecall (editable) ...'
	@$(PEERS_BIN)/python $(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(LLM_STAMP): requirements-llm.lock | python-version
	@test -x $(LLM_VENV)/bin/python || { echo 'Creating $(LLM_VENV) ...'; $(PYTHON) -m venv $(LLM_VENV); }
	@echo 'Installing the locked llm into $(LLM_VENV) ...'
	@$(LLM_VENV)/bin/python $(PIP) --require-hashes --no-deps -r requirements-llm.lock
	@touch $@

$(DOCS_STAMP): requirements-docs.lock | python-version
	@test -x $(DOCS_VENV)/bin/python || { echo 'Creating $(DOCS_VENV) ...'; $(PYTHON) -m venv $(DOCS_VENV); }
	@echo 'Installing the locked site builder into $(DOCS_VENV) ...'
	@$(DOCS_VENV)/bin/python $(PIP) --require-hashes --no-deps -r requirements-docs.lock
	@touch $@

$(LOCK_VENV)/bin/uv: | python-version
	@test -x $(LOCK_VENV)/bin/python || $(PYTHON) -m venv $(LOCK_VENV)
	@$(LOCK_VENV)/bin/python $(PIP) 'uv==$(UV_VERSION)'

$(AI_SDK_STAMP): $(AI_SDK)/package-lock.json
	@if command -v npm >/dev/null; then \
		echo 'Installing the locked AI SDK with npm ...'; \
		cd $(AI_SDK) && $(NPM) ci && touch node_modules/.installed; \
	else \
		echo 'NOT RUN: the clients from npm. npm (Node 20 or newer) is not on this machine.' >&2; \
	fi

# Where npm or a program cannot be had, its tests are skipped. `npm ci` also wants the optional
# packages of other platforms, which not every registry has: `npm install` takes those in the lock.
%/node_modules/.installed: %/package-lock.json
	@if command -v npm >/dev/null; then \
		echo 'Installing the locked programs of $* with npm ...'; \
		cd $* && if $(NPM) ci 2>/dev/null || $(NPM) install --no-save; then touch node_modules/.installed; else \
			echo 'NOT RUN: the programs of $*. npm could not fetch them; the reason is above.' >&2; fi; \
	else \
		echo 'NOT RUN: the programs of $*. npm (Node 20 or newer) is not on this machine.' >&2; \
	fi

python-version:
	@command -v $(PYTHON) >/dev/null || { \
		echo '$(PYTHON) was not found. Wholecall needs Python 3.11 or newer: make PYTHON=python3.12 ...' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Wholecall needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) -V 2>&1). Name another: make PYTHON=python3.12 ..." >&2; exit 1; }

# Setting up takes its time: that PORT cannot be had is told before.
free-port: | python-version
	@test -z '$(PORT)' || $(PYTHON) -c 'import socket, sys; socket.create_server(("127.0.0.1", int(sys.argv[1])))' \
		'$(PORT)' 2>/dev/null || { echo 'PORT=$(PORT): it is taken, or no port; name another.' >&2; exit 1; }
