"""Tools of the user's own on the command line: `--tool` and `--mcp`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from wholecall.cli.tool_options import describe_server, import_tools, read_servers

MODULE = '''
def shout(text: str) -> str:
    """Say it loudly."""
    return text.upper()
'''


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loud_tools.py").write_text(MODULE, "utf-8")
    (tmp_path / "poor_tools.py").write_text("import k1_nowhere", "utf-8")
    (tmp_path / "vague_tools.py").write_text("raise ModuleNotFoundError('no plug-in')", "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])


def test_a_function_of_a_module_in_this_folder_is_a_tool() -> None:
    [tool] = import_tools(["loud_tools:shout"])
    assert (tool.name, tool.spec.description) == ("shout", "Say it loudly.")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere:f", "--tool nowhere:f: there is no module 'nowhere'"),
        ("loud_tool:shout", "there is no module 'loud_tool'; did you mean 'loud_tools:shout'?"),
        ("loud_tools.py:shout", "did you mean 'loud_tools:shout'?"),
        ("loud_tools.shout", "did you mean 'loud_tools:shout'?"),
        ("poor_tools:f", "the module 'poor_tools' imports 'k1_nowhere', which is not installed"),
        ("vague_tools:f", "'vague_tools' cannot be imported: ModuleNotFoundError: no plug-in"),
        ("loud_tools:shuot", "did you mean 'shout'?"),
        ("loud_tools", "the module 'loud_tools' has no function ''; there are shout"),
    ],
)
def test_what_cannot_be_a_tool_is_named(name: str, said: str) -> None:
    with pytest.raises(typer.BadParameter) as refused:
        import_tools([name])
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        (
            "uvx mcp-server-time",
            {"mcp": "mcp-server-time", "command": "uvx", "args": ("mcp-server-time",)},
        ),
        (
            "time=uvx mcp-server-time --local-timezone UTC",
            {
                "mcp": "time",
                "command": "uvx",
                "args": ("mcp-server-time", "--local-timezone", "UTC"),
            },
        ),
        ("'my server' -v", {"mcp": "my-server", "command": "my server", "args": ("-v",)}),
        ("./tools/serve.py", {"mcp": "serve-py", "command": "./tools/serve.py", "args": ()}),
        (
            "https://mcp.example.com/mcp?a=b",
            {"mcp": "mcp-example-com", "url": "https://mcp.example.com/mcp?a=b"},
        ),
        ("s=https://mcp.example.com/", {"mcp": "s", "url": "https://mcp.example.com/"}),
    ],
)
def test_a_server_is_a_command_or_an_address(text: str, settings: dict[str, Any]) -> None:
    assert describe_server(text) == settings
    [server] = read_servers([text])
    assert server.name == settings["mcp"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("uvx 'unclosed", "No closing quotation"),
        ("http://", "the url must be that of an HTTP endpoint"),
        ("", "--mcp: there is no command"),
        ("  ", "--mcp: there is no command"),
    ],
)
def test_what_is_no_server_is_named(text: str, said: str) -> None:
    with pytest.raises(typer.BadParameter) as refused:
        read_servers([text])
    assert said in str(refused.value)
