"""The command line: `wholecall serve`."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from wholecall.arguments.describe import name_nearest
from wholecall.cli.config import ConfigOption
from wholecall.cli.report import escape, forget_output
from wholecall.cli.tool_options import McpOption, ToolOption, describe_server
from wholecall.proxy.config.check import ANY_MODEL
from wholecall.proxy.config.load import FILE_VARIABLE, PREFIX, find_file, load
from wholecall.proxy.config.schema import Config, ConfigError, Position
from wholecall.proxy.preflight import check_start
from wholecall.upstreams.base import PREFIX as LOCAL
from wholecall.upstreams.providers import PREFIXES

_USUAL = "openai"
_PROTOCOLS = tuple(prefix for prefix in PREFIXES if f"{prefix}/" != LOCAL)
"""A model on this machine has no address."""
_OPTIONS = {
    f"{PREFIX}MODELS": "--upstream",
    f"{PREFIX}LISTEN__HOST": "--host",
    f"{PREFIX}LISTEN__PORT": "--port",
    f"{PREFIX}LISTEN__WORKERS": "--workers",
    f"{PREFIX}TOOLS": "--tool or --mcp",
}
"""By the variables that they are put in."""

app = typer.Typer(add_completion=False, rich_markup_mode=None)

UpstreamOption = Annotated[
    str | None,
    typer.Option(
        "--upstream",
        metavar="[PROTOCOL=]URL",
        help="Serve every model of this address under its own name, without a file. PROTOCOL is "
        f"one of {', '.join(_PROTOCOLS)}; default: {_USUAL}.",
    ),
]
HostOption = Annotated[
    str | None, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")
]
PortOption = Annotated[
    int | None,
    typer.Option("--port", metavar="PORT", min=0, max=65535, help="Port; 0: any that is free."),
]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", metavar="N", min=1, help="Processes.")
]


InspectorOption = Annotated[
    bool, typer.Option("--inspector", help="Serve the page that shows calls being built.")
]


@app.command()
def serve(  # noqa: PLR0913 - the parameters of a command are its options
    *,
    config: ConfigOption = None,
    upstream: UpstreamOption = None,
    host: HostOption = None,
    port: PortOption = None,
    workers: WorkersOption = None,
    tool: ToolOption = None,
    mcp: McpOption = None,
    inspector: InspectorOption = False,
) -> None:
    """Start the proxy: one address for OpenAI's and Anthropic's clients.

    Ctrl-C ends it; SIGHUP makes it read its configuration again.
    """
    # Worker processes read the same environment, so what is said here is put there.
    tools = [*({"python": name} for name in tool or ()), *map(describe_server, mcp or ())]
    given = _as_variables(config, upstream, tools=tools)
    if inspector:
        given[f"{PREFIX}INSPECTOR__ENABLED"] = "true"
    given |= _as_settings({"HOST": host, "PORT": port, "WORKERS": workers})
    os.environ |= given
    try:
        loaded = load(find_file(None, os.environ), os.environ)
        if not loaded.config.models:
            raise typer.BadParameter(_tell_no_model(loaded.file))
        # Workers are forked from this process, and import the tools themselves.
        check_start(loaded, os.environ, tools=loaded.config.listen.workers == 1)
    except ConfigError as error:
        raise _name_options(error, given) from None
    # Importing the server takes half a second that other commands need not wait.
    from wholecall.proxy import server  # noqa: PLC0415

    try:
        server.serve(loaded.config, announce=partial(_announce, loaded.config))
    except OSError as error:
        listen = loaded.config.listen
        raise typer.BadParameter(
            f"cannot listen on {listen.host}:{listen.port}: {error.strerror}; "
            "give another port with --port, or 0 for any that is free"
        ) from None


def _tell_no_model(file: Path | None) -> str:
    if file is None:
        return "there is no model to serve: give --upstream URL, or a file"
    return f"{file} names no model to serve: write one under `models`, or give --upstream URL"


def _as_variables(
    config: Path | None, upstream: str | None, *, tools: Sequence[Mapping[str, Any]]
) -> dict[str, str]:
    variables = {} if config is None else {FILE_VARIABLE: str(config)}
    if tools and upstream is None:
        raise typer.BadParameter(
            "--tool and --mcp go with --upstream; in a file, write them under `tools`"
        )
    if upstream is not None:
        before, _, url = upstream.partition("=")
        named = before in _PROTOCOLS
        if not named and url and before.isalpha():
            hint = name_nearest(before, _PROTOCOLS)
            raise typer.BadParameter(f"--upstream: no protocol is called {before!r}; {hint}")
        prefix, address = (before, url) if named else (_USUAL, upstream)
        model = {"upstream": f"{prefix}/*", "base_url": address}
        if tools:
            model["mode"] = "run"
            variables[f"{PREFIX}TOOLS"] = json.dumps(tools)
        variables[f"{PREFIX}MODELS"] = json.dumps({"*": model})
    return variables


def _as_settings(listen: Mapping[str, str | int | None]) -> dict[str, str]:
    return {
        f"{PREFIX}LISTEN__{name}": json.dumps(value)
        for name, value in listen.items()
        if value is not None
    }


def _name_options(error: ConfigError, given: Collection[str]) -> ConfigError:
    """The same problems; those of an option by its name, and not by the variable it is put in."""
    problems = [
        replace(problem, place=Position(_OPTIONS[problem.place.file]), setting="")
        if problem.place.file in given and problem.place.file in _OPTIONS
        else problem
        for problem in error.problems
    ]
    return ConfigError(problems)


def _announce(config: Config, address: str) -> None:
    try:
        typer.echo(f"OPENAI_BASE_URL={address}/v1")
        typer.echo(f"ANTHROPIC_BASE_URL={address}")
        for line in _describe(config, address):
            typer.echo(f"# {escape(line)}")
    except BrokenPipeError:
        forget_output()  # who starts it with `| head -1` has read enough


def _describe(config: Config, address: str) -> Iterator[str]:
    """Yield what is served, as comments: a shell can read the output."""
    for name, model in config.models.items():
        shown = "every other model" if name == ANY_MODEL and len(config.models) > 1 else name
        shown = "every model" if shown == ANY_MODEL else shown
        at = f" at {model.base_url}" if model.base_url else ""
        does = "its tools run here" if model.mode == "run" else "its calls go to the client"
        yield f"{shown}: {model.upstream}{at}; {does}"
    if config.inspector.enabled:
        yield f"inspector: {address}/inspector"
    if config.keys.required:
        yield "clients need a key: wholecall keys create"
