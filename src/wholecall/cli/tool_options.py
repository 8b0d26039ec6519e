"""The options `--tool` and `--mcp`: tools of the user's own, on the command line."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from wholecall.tools.mcp.server_config import McpServer
from wholecall.tools.tool import Tool
from wholecall.tools.toolbox import import_tool

_NAMED = re.compile(r"(?P<name>[A-Za-z0-9_-]{1,32})=(?P<rest>.+)", re.DOTALL)
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST_NAME = 32

ToolOption = Annotated[
    list[str] | None,
    typer.Option(
        "--tool",
        metavar="MODULE:FUNCTION",
        help="Offer a Python function; may be repeated. This folder is searched, too.",
    ),
]
McpOption = Annotated[
    list[str] | None,
    typer.Option(
        "--mcp",
        metavar="[NAME=]COMMAND",
        help="Offer the tools of an MCP server: a command to start, or its URL; may be repeated.",
    ),
]


def import_tools(names: Iterable[str]) -> tuple[Tool, ...]:
    """Import functions as tools. Raise `typer.BadParameter` for one that cannot be."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    tools: list[Tool] = []
    for name in names:
        found = import_tool(name)
        if isinstance(found, str):
            raise typer.BadParameter(f"--tool {name}: {found}")
        tools.append(found)
    return tuple(tools)


def read_servers(written: Iterable[str]) -> tuple[McpServer, ...]:
    """Return the MCP servers that the options describe. Raise `typer.BadParameter` for a bad
    one."""
    servers: list[McpServer] = []
    for text in written:
        settings = describe_server(text)
        try:
            servers.append(McpServer(settings.pop("mcp"), **settings))
        except ValueError as error:
            raise typer.BadParameter(f"--mcp: {error}") from None
    return tuple(servers)


def describe_server(text: str) -> dict[str, Any]:
    """Return the settings of a server, as a configuration file has them.

    Without a name the server gets that of its program: `uvx mcp-server-time` is
    `mcp-server-time`.
    """
    named = _NAMED.fullmatch(text)
    name, rest = (named["name"], named["rest"]) if named else ("", text)
    if rest.startswith(("http://", "https://")):
        return {"mcp": name or _shorten(rest.partition("://")[2].partition("/")[0]), "url": rest}
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise typer.BadParameter(f"--mcp {text}: {error}") from None
    if not words:
        raise typer.BadParameter("--mcp: there is no command")
    command, *args = words
    program = next((word for word in args if not word.startswith("-")), command)
    return {"mcp": name or _shorten(Path(program).name), "command": command, "args": tuple(args)}


def _shorten(name: str) -> str:
    return _NOT_IN_NAMES.sub("-", name).strip("-")[:_LONGEST_NAME] or "mcp"
