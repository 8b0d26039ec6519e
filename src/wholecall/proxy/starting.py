"""Preflight: find what would prevent the proxy from starting, before it listens."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from wholecall.files.database import find_trouble
from wholecall.proxy.building import responses_path, state_path
from wholecall.proxy.config.functions import load_functions
from wholecall.proxy.config.loading import FILE_NAME, Loaded
from wholecall.proxy.config.problems import ConfigError, ConfigProblem, Position
from wholecall.proxy.config.secret import reveal
from wholecall.proxy.config.settings import Config
from wholecall.proxy.figures import FOLDER
from wholecall.proxy.inspecting import STORE_FILE
from wholecall.proxy.keys import find_key_trouble, needs_keys
from wholecall.proxy.serving import Mode
from wholecall.tools.tool import Tool
from wholecall.upstreams.names import NamedModel, check_environment, find_lack

_KEYS = ("keys", "path")
_HOLDS = "responses/"
"""Upstreams that hold responses in an account of their own."""


def check_start(
    loaded: Loaded, environ: Mapping[str, str], *, tools: bool = True
) -> tuple[Tool, ...]:
    """Import the functions, look at the files of the keys and of what is kept, at what the
    environment says of upstreams, and at what models on this machine need; `ConfigError` names
    what is wrong.

    `tools`: whether to import. MCP servers are not started, and nothing is written.
    """
    _check_models(loaded, environ)
    _check_keys(loaded)
    _check_responses(loaded)
    _check_stores(loaded)
    _check_counts(loaded.config, environ)
    return load_functions(loaded) if tools else ()


def _check_models(loaded: Loaded, environ: Mapping[str, str]) -> None:
    problems: list[ConfigProblem] = []
    for name, model in loaded.config.models.items():
        key = None if model.api_key is None else reveal(model.api_key)
        asked = NamedModel(model=model.upstream, base_url=model.base_url, api_key=key)
        try:
            check_environment(asked, environ)
            why = find_lack(model.upstream, environ)
        except ValueError as error:
            why = str(error)
        if why:
            path = ("models", name, "upstream")
            problems.append(ConfigProblem(loaded.places[path], ".".join(path), why))
    if problems:
        raise ConfigError(problems)


def _check_responses(loaded: Loaded) -> None:
    path = responses_path(loaded.config)
    if path is None or os.access(path if path.exists() else path.parent, os.W_OK):
        return
    why = (
        f"several workers hold responses in {path}, which cannot be written: name another folder "
        "in keys.path, or set responses.kept_seconds to 0"
    )
    setting = ("listen", "workers")
    place = loaded.places.get(setting, Position(str(loaded.file or FILE_NAME)))
    raise ConfigError([ConfigProblem(place, ".".join(setting), why)])


def _check_stores(loaded: Loaded) -> None:
    """Files that hold what the proxy keeps: a process that cannot open one cannot start."""
    for path in _find_stores(loaded.config):
        trouble = find_trouble(path)
        if trouble:
            raise ConfigError([ConfigProblem(_find_place(loaded), ".".join(_KEYS), trouble)])


def _check_counts(config: Config, environ: Mapping[str, str]) -> None:
    """Several processes count in files of a folder; without it no request could be counted."""
    folder = environ.get(FOLDER)
    if not config.metrics.enabled or not folder:
        return
    if not (Path(folder).is_dir() and os.access(folder, os.W_OK | os.X_OK)):
        why = f"{folder!r} is no folder that can be written: make it, or leave the variable out"
        raise ConfigError([ConfigProblem(Position(FOLDER), "", why)])


def _find_stores(config: Config) -> Iterator[Path]:
    runs = any(model.mode == Mode.RUN.value for model in config.models.values())
    held = any(model.upstream.startswith(_HOLDS) for model in config.models.values())
    if runs or (held and needs_keys(config)):
        yield state_path(config)
    responses = responses_path(config)
    if responses is not None:
        yield responses
    if config.inspector.enabled:
        yield Path(config.keys.path).with_name(STORE_FILE)


def _find_place(loaded: Loaded) -> Position:
    """Return the position of the folder setting; the default has none."""
    return loaded.places.get(_KEYS, Position(str(loaded.file or FILE_NAME)))


def _check_keys(loaded: Loaded) -> None:
    config = loaded.config
    trouble = find_key_trouble(config.keys.path) if needs_keys(config) else ""
    if trouble:
        raise ConfigError([ConfigProblem(_find_place(loaded), ".".join(_KEYS), trouble)])
