"""The command line: `wholecall demo`, `wholecall replay`, `wholecall check`."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata, resources
from itertools import chain
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from wholecall import cli_config, cli_dialects, cli_faults, cli_keys, cli_record, cli_serve
from wholecall.board import watch
from wholecall.core.outcome import Outcome, collect
from wholecall.core.values import Event
from wholecall.errors import WholecallError
from wholecall.recording import Recording, load, load_tools
from wholecall.report import as_json, as_text, escape
from wholecall.terminal import play

app = typer.Typer(
    help="Makes any model's tool calls safe to run.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(cli_faults.app, name="faults")
app.add_typer(cli_dialects.app, name="dialects")
app.add_typer(cli_config.app, name="config")
app.add_typer(cli_keys.app, name="keys")
_REJECTED = 1
_BAD_INPUT = 2


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"wholecall {metadata.version('wholecall')}")
        raise typer.Exit


VersionOption = Annotated[
    bool,
    typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True),
]
FilesArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE",
        help="Recorded answers: a raw SSE dump, JSON lines of payloads, or a whole JSON answer. "
        "`-` is the standard input.",
    ),
]
ProtocolOption = Annotated[
    str | None,
    typer.Option(
        "--protocol",
        metavar="NAME",
        help="The protocol of the recording, such as openai-chat or anthropic. "
        "Default: what its payloads look like.",
    ),
]
ToolsOption = Annotated[
    Path | None,
    typer.Option(
        "--tools",
        metavar="FILE",
        help="A JSON array of the tool definitions that were offered. Arguments are checked "
        "against their schemas.",
    ),
]
PauseOption = Annotated[
    float,
    typer.Option("--pause", min=0.0, help="Seconds between two chunks, in a terminal."),
]
ReadableOption = Annotated[
    bool | None,
    typer.Option(
        "--readable/--json",
        help="Words for people, or one line of JSON an answer. "
        "Default: words in a terminal, JSON in a pipe.",
        show_default=False,
    ),
]


@app.callback()
def options(version: VersionOption = False) -> None:
    """Makes any model's tool calls safe to run."""


@app.command()
def demo(pause: PauseOption = 0.12) -> None:
    """Play the recorded streams that come with the package."""
    with resources.as_file(resources.files("wholecall") / "demo" / "streams.jsonl") as path:
        recordings = load(path)
    for number, recording in enumerate(recordings, 1):
        title = f"{number}/{len(recordings)}  {recording.title}"
        _show(recording.play(), title=title, pause=pause)


@app.command()
def replay(
    files: FilesArgument,
    *,
    protocol: ProtocolOption = None,
    tools: ToolsOption = None,
    pause: PauseOption = 0.05,
) -> None:
    """Show calls of recorded answers being built, and their verdicts."""
    offered = None if tools is None else load_tools(tools)
    for recording in _load_all(files, protocol):
        _show(recording.play(offered), title=recording.title, pause=pause)


@app.command()
def check(
    files: FilesArgument,
    *,
    protocol: ProtocolOption = None,
    tools: ToolsOption = None,
    readable: ReadableOption = None,
) -> None:
    """Print what recorded answers deliver, and what was wrong.

    That is: the calls that may run, with their repairs and coercions; the rejected ones, with
    the reason and every problem; what was odd, and how each answer ended.

    Exits with 1 if a call was rejected or a stream failed, and with 2 if a file cannot be read.
    """
    offered = None if tools is None else load_tools(tools)
    wants_words = sys.stdout.isatty() if readable is None else readable
    good = True
    for recording in _load_all(files, protocol):
        events = list(chain.from_iterable(recording.play(offered)))
        outcome = collect(events)
        good = good and _is_good(outcome)
        if wants_words:
            _show([events], title=recording.title)
        else:
            typer.echo(as_json(recording.title, outcome))
    raise typer.Exit(0 if good else _REJECTED)


app.command()(cli_record.record)
app.command()(cli_serve.serve)


def _load_all(files: Iterable[Path], protocol: str | None) -> Iterator[Recording]:
    for file in files:
        yield from load(file, protocol)


def _show(steps: Iterable[list[Event]], *, title: str, pause: float = 0.0) -> None:
    """In a terminal the calls are seen being built; elsewhere plain lines say what came of it."""
    if sys.stdout.isatty():
        play(steps, title=title, console=Console(), pause=pause)
    else:
        typer.echo(as_text(title, watch(chain.from_iterable(steps))))
    typer.echo()


def _is_good(outcome: Outcome) -> bool:
    return (
        not outcome.rejected
        and outcome.error is None
        and all(_is_good(choice) for choice in outcome.choices.values())
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A model may write what the terminal's character set has not.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = app(args=arguments or sys.argv[1:] or ["--help"], standalone_mode=False)
    except WholecallError as error:
        _refuse(str(error))
    except typer.TyperException as error:
        _refuse(f"{error.format_message().rstrip('.')} (see wholecall --help)")
    sys.exit(code)


def _refuse(message: str) -> NoReturn:
    typer.echo(f"wholecall: {escape(message)}", err=True)
    sys.exit(_BAD_INPUT)
