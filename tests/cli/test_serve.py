"""What `wholecall serve` makes of its options; tests/proxy/test_server.py starts it."""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer

from wholecall.cli.serve import serve
from wholecall.proxy import server
from wholecall.proxy.app import make_app
from wholecall.proxy.config.schema import (
    Config,
    ConfigError,
    ListenConfig,
    ModelConfig,
    ServerLimits,
)
from wholecall.proxy.server import make_server_config, make_worker_app
from wholecall.upstreams import providers


@pytest.fixture(autouse=True)
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An environment and a folder of the test's own: options are put into the environment."""
    before = dict(os.environ)
    monkeypatch.chdir(tmp_path)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port on which somebody else listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


def test_a_port_that_is_taken_is_told(taken_port: int) -> None:
    with pytest.raises(typer.BadParameter, match=str(taken_port)):
        serve(upstream="http://127.0.0.1:9", port=taken_port)


def test_without_models_there_is_nothing_to_serve() -> None:
    with pytest.raises(typer.BadParameter, match="give --upstream URL, or a file"):
        serve()
    Path("mine.yaml").write_text("inspector: {enabled: true}", "utf-8")
    with pytest.raises(typer.BadParameter, match=r"mine.yaml names no model to serve: .* `models`"):
        serve(config=Path("mine.yaml"))


def test_a_file_that_is_not_there_is_told() -> None:
    with pytest.raises(ConfigError):
        serve(config=Path("nowhere.yaml"))


@pytest.mark.parametrize("protocol", ["local", "bogus"])
def test_a_protocol_that_has_no_addresses_is_told_with_those_that_have(protocol: str) -> None:
    said = f"--upstream: no protocol is called '{protocol}'; there are openai, responses"
    with pytest.raises(typer.BadParameter, match=said):
        serve(upstream=f"{protocol}=http://127.0.0.1:9", port=0)


def test_what_is_missing_for_an_upstream_is_told_by_its_option(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(providers, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"^--upstream: litellm/… models need litellm"):
        serve(upstream="litellm=http://127.0.0.1:9", port=0)


@pytest.mark.parametrize(
    ("upstream", "why"),
    [
        ("foo", "'foo' is not an http:// or https:// address"),
        ("anthropic=foo", "'foo' is not an http:// or https:// address"),
        ("http://[::1", "Invalid IPv6 URL"),
        ("http://h:99999", "Port out of range"),
        ("http://a b/", "write it as in http://"),
        ("http://u:p@h", "an address must not contain a password"),
        ("http://${HOST_OF_NOBODY}", "HOST_OF_NOBODY is not set"),
    ],
)
def test_an_upstream_that_cannot_be_asked_is_told_by_its_option(upstream: str, why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        serve(upstream=upstream)
    assert str(refused.value).startswith("--upstream: ")
    assert why in str(refused.value)
    assert "WHOLECALL__" not in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ("keys: {required: true, path: missing/k.sqlite}", "there is no folder 'missing'"),
        ("tools: [{python: k1_missing:search}]", "there is no module 'k1_missing'"),
    ],
)
def test_what_cannot_start_is_told_before_an_address_is(
    settings: str, why: str, *, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("wholecall.yaml").write_text(settings, "utf-8")
    with pytest.raises(ConfigError) as refused:
        serve(upstream="http://127.0.0.1:9", port=0)
    assert str(refused.value).startswith("wholecall.yaml:1: ")
    assert why in str(refused.value)
    assert capsys.readouterr().out == ""


def test_a_variable_that_no_option_set_keeps_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHOLECALL__LISTEN__PORT", "x")
    with pytest.raises(ConfigError, match=r"WHOLECALL__LISTEN__PORT: listen\.port"):
        serve(upstream="http://127.0.0.1:9")
    with pytest.raises(ConfigError, match=r"^--host: .10\.0\.0\.1. can be reached"):
        serve(upstream="http://127.0.0.1:9", host="10.0.0.1", port=1)


def test_a_process_reads_what_the_options_left_in_the_environment(
    taken_port: int, monkeypatch: pytest.MonkeyPatch, *, capsys: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    with pytest.raises(typer.BadParameter):
        serve(upstream="ollama=http://127.0.0.1:9", host="127.0.0.1", port=taken_port, workers=2)
    proxy = make_worker_app()
    assert proxy.config.models["*"] == ModelConfig(
        upstream="ollama/*", base_url="http://127.0.0.1:9"
    )
    assert proxy.config.listen.workers == 2
    # What the server has to say goes the way of all lines.
    capsys.readouterr()
    logging.getLogger("uvicorn.error").error("it broke")
    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["logger"]) == ("it broke", "uvicorn.error")


def test_uvicorn_is_told_to_drain_and_not_to_log_requests() -> None:
    config = Config(listen=ListenConfig(port=7), limits=ServerLimits(drain_seconds=2.5))
    settings = make_server_config(config)
    assert settings.port == 7
    settings.loaded_app = make_app(config, environ={})
    assert settings.timeout_graceful_shutdown == 3
    assert not settings.access_log
    assert settings.log_config is None
    assert settings.app == f"{server.__name__}:make_worker_app"


TOOLS_MODULE = '''
def look(shelf: int) -> str:
    """Look at a shelf."""
    return "empty"
'''


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Config, list[str]]]:
    """Configurations that would be served, with what the user is told of them."""
    found: list[tuple[Config, list[str]]] = []

    def note(config: Config, *, announce: Callable[[str], None]) -> None:
        lines: list[str] = []
        monkeypatch.setattr(typer, "echo", lines.append)
        announce("http://127.0.0.1:9")
        found.append((config, lines))

    monkeypatch.setattr(server, "serve", note)
    return found


def test_tools_of_the_command_line_run_here(served: list[tuple[Config, list[str]]]) -> None:
    Path("shelf_tools.py").write_text(TOOLS_MODULE, "utf-8")
    serve(
        upstream="http://127.0.0.1:9/v1",
        tool=["shelf_tools:look"],
        mcp=["time=uvx mcp-server-time"],
        inspector=True,
    )
    [(config, lines)] = served
    assert config.models["*"].mode == "run"
    assert [type(tool).__name__ for tool in config.tools] == ["PythonTool", "McpTool"]
    assert lines == [
        "OPENAI_BASE_URL=http://127.0.0.1:9/v1",
        "ANTHROPIC_BASE_URL=http://127.0.0.1:9",
        "# every model: openai/* at http://127.0.0.1:9/v1; its tools run here",
        "# inspector: http://127.0.0.1:9/inspector",
    ]


def test_the_start_names_every_model_and_that_keys_are_needed(
    served: list[tuple[Config, list[str]]],
) -> None:
    models = "models: {a: {upstream: ollama/q}, '*': {upstream: ollama/*}}"
    Path("wholecall.yaml").write_text(f"{models}\nkeys: {{required: true}}", "utf-8")
    serve()
    [(_, lines)] = served
    assert lines[2:] == [
        "# a: ollama/q; its calls go to the client",
        "# every other model: ollama/*; its calls go to the client",
        "# clients need a key: wholecall keys create",
    ]


def test_tools_need_an_upstream_beside_them() -> None:
    with pytest.raises(typer.BadParameter, match="go with --upstream"):
        serve(tool=["a:b"])


def test_a_tool_that_cannot_be_imported_is_named_by_its_option() -> None:
    with pytest.raises(ConfigError, match=r"--tool or --mcp: there is no module 'nowhere'"):
        serve(upstream="http://127.0.0.1:9/v1", tool=["nowhere:f"])
