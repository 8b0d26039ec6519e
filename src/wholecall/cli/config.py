"""The command line: `wholecall config init`, `check`, `show`, `settings`, `schema`."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from wholecall.cli.report import escape
from wholecall.proxy.config.check import REQUIRED, SettingRow, list_settings, show_config
from wholecall.proxy.config.load import FILE_NAME, Loaded, find_file, load
from wholecall.proxy.config.schema import ConfigError, ConfigProblem, McpTool, json_schema

app = typer.Typer(
    help="Write, check and show the configuration of the proxy.",
    add_completion=False,
    rich_markup_mode=None,
)
_WRONG = 1
_FIRST = """\
# The configuration of a Wholecall proxy. `wholecall config check` checks it, `wholecall config
# settings` lists every setting, and `kill -HUP` makes a running proxy read it again.
# For completion in an editor: `wholecall config schema > wholecall.schema.json`.
# yaml-language-server: $schema=wholecall.schema.json

listen:
  host: 127.0.0.1   # any other address needs keys.required and listen.hosts
  port: 8787

models:             # by the names that clients use
  "*":              # every name that is not listed here
    upstream: openai/*
    base_url: http://127.0.0.1:11434/v1   # Ollama; remove this line for OpenAI itself
    mode: gate      # calls are checked and handed to the client
  # claude:
  #   upstream: anthropic/claude-x        # the key is read from ANTHROPIC_API_KEY
  #   mode: run                           # the tools below run here
  #   tools: [time__*, search]

# tools:            # for models in mode `run`
#   - python: shop.tools:search           # a function of a module beside this file
#   - mcp: time                           # a program that speaks MCP
#     command: uvx
#     args: [mcp-server-time]

keys:
  required: false   # true: clients need a key; `wholecall keys create` makes one

inspector:
  enabled: true     # http://127.0.0.1:8787/inspector shows calls being built
  bodies: false     # true: store and show texts, arguments and results; they may be private
"""

_WHICH = f"The configuration. Default: what WHOLECALL_CONFIG names, or {FILE_NAME} here."
FileArgument = Annotated[
    Path | None, typer.Argument(metavar="FILE", help=_WHICH, show_default=False)
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help=_WHICH, show_default=False)
]
ToolsOption = Annotated[
    bool,
    typer.Option(
        "--tools/--no-tools",
        help="Whether to import the Python functions and to start the MCP servers it names.",
    ),
]
ConnectOption = Annotated[
    bool, typer.Option("--connect", help="Also connect to the upstreams. No model is asked.")
]


FirstArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="The file to write. It must not exist.")
]


@app.command()
def init(file: FirstArgument = Path(FILE_NAME)) -> None:
    """Write a configuration to begin with, and explain it in comments."""
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(_FIRST)
    except FileExistsError:
        raise typer.BadParameter(f"{file} exists already: name another file") from None
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be written: {error.strerror}") from None
    typer.echo(f"{file} is written: edit it, then run `wholecall serve --config {file}`")


@app.command()
def schema() -> None:
    """Print the JSON schema of a configuration file, for editors."""
    typer.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))


@app.command()
def check(
    file: FileArgument = None, *, tools: ToolsOption = True, connect: ConnectOption = False
) -> None:
    """Say whether the proxy can start with a configuration.

    Python functions are imported; MCP servers are started, or reached, and ended again, each
    within its start_timeout. Exits with 1 if the proxy cannot start, and names each problem with
    its file and line.
    """
    try:
        loaded = load(find_file(file, os.environ), os.environ)
        functions = _rehearse(loaded, tools=tools, connect=connect)
    except ConfigError as error:
        _complain(error.problems)
        raise typer.Exit(_WRONG) from None
    typer.echo(f"{_name(loaded)}: good; {_sum_up(loaded, functions)}")
    if not loaded.config.models:
        typer.echo("It names no model: `wholecall serve` needs --upstream URL with it.", err=True)


def _rehearse(loaded: Loaded, *, tools: bool, connect: bool) -> int:
    """Try what a start needs; return the number of Python functions."""
    # Importing what starts and reaches takes a second that other checks need not wait.
    from wholecall.proxy import preflight  # noqa: PLC0415

    functions = preflight.check_start(loaded, os.environ, tools=tools)
    wanted = [preflight.probe_servers(loaded)] if tools else []
    wanted += [preflight.probe_upstreams(loaded, os.environ)] if connect else []
    found = [asyncio.run(each) for each in wanted]
    _complain([note for each in found for note in each.notes])
    problems = [problem for each in found for problem in each.problems]
    if problems:
        raise ConfigError(problems)
    return len(functions)


def _complain(problems: Iterable[ConfigProblem]) -> None:
    for problem in problems:
        typer.echo(escape(str(problem)), err=True)


@app.command()
def show(file: FileArgument = None) -> None:
    """Show every setting, its value, and where it comes from. Keys are not shown."""
    loaded = load(find_file(file, os.environ), os.environ, without_keys=True)
    for line in show_config(loaded.config, loaded.places):
        typer.echo(escape(line))


@app.command()
def settings() -> None:
    """List every setting with its default and its meaning, and which need a restart."""
    for row in list_settings():
        typer.echo(f"{row.setting} ({'; '.join(_tell_row(row))})")
        typer.echo(f"    {row.meaning}")


def _tell_row(row: SettingRow) -> Iterator[str]:
    yield row.takes
    yield "required" if row.default == REQUIRED else f"default: {row.default.strip('`')}"
    if row.restart:
        yield "a change needs a restart"


def _name(loaded: Loaded) -> str:
    return "the defaults" if loaded.file is None else str(loaded.file)


def _sum_up(loaded: Loaded, functions: int) -> str:
    config = loaded.config
    counts = [
        _count(len(config.models), "model"),
        _count(functions, "Python tool"),
        _count(sum(isinstance(tool, McpTool) for tool in config.tools), "MCP server"),
    ]
    return ", ".join(counts)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
