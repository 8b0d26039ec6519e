"""`wholecall config` as its users meet it."""

import json
import re
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from tools.mcp_calls import scripted
from wholecall.cli import main
from wholecall.proxy.config.check import list_settings

GOOD = """\
models:
  fast:
    upstream: openai/gpt-x
    api_key: ${K1_TEST_KEY}
"""
SERVER = json.dumps({"command": sys.executable, "args": scripted("look")})[1:-1]
SERVERS = f"""\
tools:
  - {{"mcp": "time", {SERVER}}}
  - {{mcp: other, command: wc-no-such-program, required: false}}
"""


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delenv("WHOLECALL_CONFIG", raising=False)
    monkeypatch.delenv("K1_TEST_KEY", raising=False)


def run(*arguments: str) -> int | str | None:
    with pytest.raises(SystemExit) as exited:
        main.main(["config", *arguments])
    return exited.value.code


def test_check_says_that_a_file_is_good(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("my.yaml").write_text(GOOD + SERVERS, "utf-8")
    monkeypatch.setenv("K1_TEST_KEY", "sk-123")
    assert not run("check", "my.yaml", "--no-tools")
    said = capsys.readouterr()
    assert said.out == "my.yaml: good; 1 model, 0 Python tools, 2 MCP servers\n"
    assert said.err == ""
    assert not run("check", "my.yaml")
    again = capsys.readouterr()
    assert again.out == said.out
    assert again.err.startswith("my.yaml:7: tools.1.mcp: MCP server 'other' did not start: ")
    assert again.err.endswith("; it is not required\n")


def test_check_starts_the_servers_unless_told_not_to(capsys: pytest.CaptureFixture[str]) -> None:
    Path("wholecall.yaml").write_text("tools: [{mcp: a, command: wc-no-such-program}]", "utf-8")
    assert run("check") == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("wholecall.yaml:1: tools.0.mcp: MCP server 'a' did not start: ")
    assert not run("check", "--no-tools")


def test_check_knocks_at_upstreams_only_if_it_is_told_to(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = "models: {a: {upstream: openai/x, base_url: 'http://127.0.0.1:9'}}"
    Path("wholecall.yaml").write_text(text, "utf-8")
    assert not run("check")
    capsys.readouterr()
    assert run("check", "--connect") == 1
    told = "wholecall.yaml:1: models.a.upstream: the upstream's address cannot be reached"
    assert capsys.readouterr().err.startswith(told)


def test_check_names_every_problem_on_a_line_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("wholecall.yaml").write_text("listen: {prot: 1}\nlimits:\n  body_bytes: x\n", "utf-8")
    assert run("check") == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "wholecall.yaml:1: listen.prot: there is no such setting; did you mean 'port'?",
        'wholecall.yaml:3: limits.body_bytes: "x" is not a whole number above 0',
    ]


def test_check_imports_the_functions_unless_told_not_to(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("wholecall.yaml").write_text("tools: [{python: k1_missing:search}]", "utf-8")
    assert run("check") == 1
    assert "there is no module 'k1_missing'" in capsys.readouterr().err
    assert not run("check", "--no-tools")
    assert capsys.readouterr().out.startswith("wholecall.yaml: good")


def test_check_looks_at_the_file_of_the_keys(capsys: pytest.CaptureFixture[str]) -> None:
    Path("wholecall.yaml").write_text("keys: {required: true, path: missing/k}", "utf-8")
    assert run("check", "--no-tools") == 1
    told = "wholecall.yaml:1: keys.path: there is no folder 'missing': make it, or name another"
    assert capsys.readouterr().err.startswith(told)


def test_without_a_file_the_defaults_are_good(capsys: pytest.CaptureFixture[str]) -> None:
    assert not run("check")
    said = capsys.readouterr()
    assert said.out.startswith("the defaults: good; 0 models")
    assert said.err == "It names no model: `wholecall serve` needs --upstream URL with it.\n"


def test_show_needs_no_keys_and_shows_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("my.yaml").write_text(GOOD, "utf-8")
    monkeypatch.setenv("WHOLECALL_CONFIG", "my.yaml")
    monkeypatch.setenv("WHOLECALL__LISTEN__PORT", "99")
    assert not run("show")
    without = capsys.readouterr().out
    monkeypatch.setenv("K1_TEST_KEY", "sk-123")
    assert not run("show")
    assert capsys.readouterr().out == without
    lines = without.splitlines()
    assert 'models.fast.api_key = "${K1_TEST_KEY}"  # my.yaml:4' in lines
    assert "listen.port = 99  # WHOLECALL__LISTEN__PORT" in lines


def test_show_refuses_a_wrong_file_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    Path("wholecall.yaml").write_text("listen: 5", "utf-8")
    assert run("show") == 2
    assert capsys.readouterr().err.startswith(
        "wholecall: wholecall.yaml:1: listen: 5 is not a section"
    )


def test_settings_lists_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    assert not run("settings")
    out = capsys.readouterr().out
    port = "a whole number from 0 to 65535; default: 8787; a change needs a restart"
    assert f"listen.port ({port})\n    Port to" in out
    assert "models.NAME.upstream (text; required)\n" in out
    assert "keys.required (true or false; default: false)\n" in out
    assert len(out.splitlines()) == 2 * len(list_settings())


def test_init_writes_a_file_that_the_proxy_can_start_with(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert not run("init")
    assert "run `wholecall serve --config wholecall.yaml`" in capsys.readouterr().out
    assert not run("check")
    assert capsys.readouterr().out.startswith("wholecall.yaml: good; 1 model")
    # With its examples, too: what is commented out is one space of indentation away from valid.
    text = Path("wholecall.yaml").read_text("utf-8")
    Path("all.yaml").write_text(
        re.sub(r"(?m)^( *)# (?=  |[a-z]+: |[a-z]+:$)", r"\1", text), "utf-8"
    )
    assert not run("check", "--no-tools", "all.yaml")
    assert capsys.readouterr().out.startswith("all.yaml: good; 2 models")


def test_init_overwrites_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.yaml").write_text("mine", "utf-8")
    assert run("init", "mine.yaml") == 2
    assert "mine.yaml exists already" in capsys.readouterr().err
    assert Path("mine.yaml").read_text("utf-8") == "mine"
    assert run("init", "nowhere/mine.yaml") == 2
    assert "cannot be written" in capsys.readouterr().err


def test_the_schema_accepts_what_the_proxy_accepts(capsys: pytest.CaptureFixture[str]) -> None:
    assert not run("schema")
    schema = json.loads(capsys.readouterr().out)
    validator = jsonschema.Draft202012Validator(schema)
    assert not run("init")
    written = yaml.safe_load(Path("wholecall.yaml").read_text("utf-8"))
    assert validator.is_valid(written)
    assert not validator.is_valid({**written, "listne": {}})
    assert not validator.is_valid({"listen": {"port": "8787"}})
    # Every setting of the table is in it.
    named = set(re.findall(r'"([a-z_]+)": ', json.dumps(schema)))
    last = {row.setting.rpartition(".")[2] for row in list_settings()} - {"NAME", "N"}
    assert last <= named
