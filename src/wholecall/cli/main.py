"""The command line: `wholecall replay`, `wholecall check`, and the others.

Those that open connections stand in modules of their own, which are imported when they are
used: `wholecall check` in a script should not wait for an HTTP client.
"""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module, resources
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console
from typer.core import TyperGroup
from typer.main import get_command

from wholecall import __version__
from wholecall.arguments.describe import name_nearest
from wholecall.cli.recordings import Recording, load, load_tools
from wholecall.cli.report import as_json, as_text, escape, forget_output, play, watch
from wholecall.errors import MissingExtra, WholecallError
from wholecall.events import Event, Outcome, collect

if TYPE_CHECKING:
    from typer._click.core import Command, Context

_LATER = (
    "ask",
    "chat",
    "config",
    "demo",
    "dialects",
    "faults",
    "keys",
    "model",
    "record",
    "runs",
    "serve",
    "worker",
)
"""Commands in modules of their names, which are imported when they are used."""


class _Commands(TyperGroup):
    """Commands that are here, and those that are imported first."""

    def list_commands(self, context: Context) -> list[str]:
        return sorted([*super().list_commands(context), *_LATER])

    def get_command(self, context: Context, name: str) -> Command | None:
        if name not in self.list_commands(context):
            hint = name_nearest(name, self.list_commands(context))
            context.fail(f"there is no command {name!r}; {hint}")
        if name not in _LATER:
            return super().get_command(context, name)
        try:
            # Both talk to a model in a terminal.
            module = import_module(f"wholecall.cli.{'chat' if name == 'ask' else name}")
            command: Command = get_command(module.ask_app if name == "ask" else module.app)
        except MissingExtra as missing:
            command = get_command(_stand_in(missing))
        command.name = name
        return command


def _stand_in(missing: MissingExtra) -> typer.Typer:
    """Return a command that says in the list of commands, and when it runs, what is missing."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    anything = {"ignore_unknown_options": True, "allow_extra_args": True}

    @app.command(help=str(missing), context_settings=anything)
    def refuse() -> None:
        raise missing

    return app


app = typer.Typer(
    cls=_Commands,
    help="Makes any model's tool calls safe to run.",
    pretty_exceptions_enable=False,
    suggest_commands=False,  # it knows only those that are here
    rich_markup_mode=None,
)
_NAME = "wholecall"
_REJECTED = 1
_BAD_INPUT = 2


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"wholecall {__version__}")
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
ReplayedArgument = Annotated[
    list[Path] | None,
    typer.Argument(metavar="FILE", help="Recorded answers, as `wholecall check` takes them."),
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
    typer.Option(
        "--pause", metavar="SECONDS", min=0.0, help="Seconds between two chunks, in a terminal."
    ),
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
def replay(
    files: ReplayedArgument = None,
    *,
    protocol: ProtocolOption = None,
    tools: ToolsOption = None,
    pause: PauseOption = 0.1,
) -> None:
    """Show calls of recorded answers being built, and their verdicts.

    Without a FILE it plays the streams that come with the package.
    """
    offered = None if tools is None else load_tools(tools)
    recordings = _load_ours() if files is None else _load_all(files, protocol)
    for title, recording in recordings:
        _show(recording.play(offered), title=title, pause=pause)


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
    for title, recording in _load_all(files, protocol):
        events = list(chain.from_iterable(recording.play(offered)))
        outcome = collect(events)
        good = good and _is_good(outcome)
        if wants_words:
            _show([events], title=title)
        else:
            typer.echo(as_json(title, outcome))
    raise typer.Exit(0 if good else _REJECTED)


def _load_all(files: Iterable[Path], protocol: str | None) -> Iterator[tuple[str, Recording]]:
    """Recordings with their titles."""
    for file in files:
        yield from ((recording.title, recording) for recording in load(file, protocol))


def _load_ours() -> Iterator[tuple[str, Recording]]:
    with resources.as_file(resources.files("wholecall") / "demo" / "streams.jsonl") as path:
        recordings = load(path)
    for number, recording in enumerate(recordings, 1):
        yield f"{number}/{len(recordings)}  {recording.title}", recording


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
    # A command spends its first half second on imports, which leave no garbage; to look for some
    # as often as by default takes an eighth of it. A proxy sets its own numbers when it is ready.
    gc.set_threshold(50_000, 20, 20)
    _mend_streams()
    try:
        words = arguments or sys.argv[1:] or ["--help"]
        code = app(args=words, prog_name=_NAME, standalone_mode=False)
    except WholecallError as error:
        _refuse(str(error))
    except typer.TyperException as error:
        _refuse(_tell_misuse(error))
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename is not None:
            raise
        forget_output()
        _refuse(f"the output cannot be written: {error.strerror}")
    sys.exit(code)


def _mend_streams() -> None:
    """Replace a standard stream that was closed (`>&-`), so that writing to it does not fail."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nothing = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 - until the end
            setattr(sys, name, nothing)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A model may write what the terminal's character set has not.
        sys.stdout.reconfigure(errors="backslashreplace")


def _tell_misuse(error: typer.TyperException) -> str:
    """Describe a wrong command line, and name the command that prints the right one."""
    # Our own messages are sentences. Messages of typer need the name of the value they refer to.
    is_ours = type(error) is typer.BadParameter and error.param is None and not error.param_hint
    said = error.message if is_ours else error.format_message().rstrip(".")
    context: Context | None = getattr(error, "ctx", None)
    return f"{said} (see {_NAME if context is None else context.command_path} --help)"


def _refuse(message: str) -> NoReturn:
    typer.echo(f"wholecall: {escape(message)}", err=True)
    sys.exit(_BAD_INPUT)
