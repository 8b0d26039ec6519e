"""The command line: `wholecall runs list`, `show`, `resume`, `cancel`, `decide`."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from wholecall.cli.config import ConfigOption
from wholecall.cli.report import escape
from wholecall.errors import WholecallError
from wholecall.journal.journal_rows import APPROVALS, OUTCOMES, DecisionRow
from wholecall.journal.postgres_journal import find_store
from wholecall.journal.run_journal import JournalStore
from wholecall.journal.run_operations import (
    FILTERS,
    decide,
    describe_run,
    describe_whole,
    find_run,
    list_runs,
    release,
)
from wholecall.proxy.config.load import find_file, load
from wholecall.proxy.handlers.background import cancel_run
from wholecall.proxy.observe.redaction import Redactor
from wholecall.proxy.service_builder import name_journal

app = typer.Typer(
    help="List and show durable runs, decide about their calls, continue or cancel them.",
    add_completion=False,
    rich_markup_mode=None,
)
_NOT_FOUND = 1
_Found = TypeVar("_Found")

JournalOption = Annotated[
    str | None,
    typer.Option(
        "--journal",
        metavar="URL",
        help="The journal: sqlite:FILE or postgresql://… Default: what WHOLECALL_JOURNAL holds, "
        "or the journal of the proxy.",
        show_default=False,
    ),
]
StatusOption = Annotated[
    str | None,
    typer.Option(
        "--status",
        metavar="WORD",
        help=f"Only runs that are {', '.join(FILTERS)}. Default: all.",
        show_default=False,
    ),
]
LimitOption = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Runs, at most.")]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON, one line a run.")]
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="As `runs list` shows it.")]
CallArgument = Annotated[str, typer.Argument(metavar="CALL", help="As `runs show` shows it.")]
DecisionArgument = Annotated[
    str,
    typer.Argument(
        metavar="DECISION",
        help=f"{' or '.join(APPROVALS)} for a call that waits for approval; {', '.join(OUTCOMES)} "
        "for one that had begun before a crash.",
    ),
]
WhyOption = Annotated[str, typer.Option("--why", metavar="TEXT", help="For the model.")]


@app.command("list")
def list_all(
    *,
    status: StatusOption = None,
    limit: LimitOption = 50,
    journal: JournalOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the runs, newest first."""
    wanted = status or ""
    if wanted and wanted not in FILTERS:
        raise typer.BadParameter(f"--status: it is one of {', '.join(FILTERS)}")
    with _open(journal, config) as store:
        runs = _ask(lambda: list_runs(store, wanted, most=limit))
    if not runs:
        typer.echo("wholecall: there are no such runs", err=True)
    for run in runs:
        fields = describe_run(run)
        typer.echo(json.dumps(fields) if as_json else escape(_tell(fields)))


@app.command()
def show(
    id: IdArgument,
    *,
    journal: JournalOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a run with its calls. Secrets are hidden."""
    with _open(journal, config) as store:
        _show(store, id, as_json=as_json)


@app.command()
def resume(id: IdArgument, *, journal: JournalOption = None, config: ConfigOption = None) -> None:
    """Continue a waiting run, for example when its tool is back. A running proxy or worker takes a
    background run up; another one continues when its client sends its request again."""
    with _open(journal, config) as store:
        _ask(lambda: find_run(store, id))
        _ask(lambda: release(store, id))
        _show(store, id)


@app.command()
def cancel(id: IdArgument, *, journal: JournalOption = None, config: ConfigOption = None) -> None:
    """End a run. Its worker begins nothing more; a tool that runs comes to its end."""
    with _open(journal, config) as store:
        _ask(lambda: find_run(store, id))
        if not _ask(lambda: cancel_run(store, id)):
            typer.echo(f"wholecall: the run {escape(id)} is over", err=True)
            raise typer.Exit(_NOT_FOUND)
        _show(store, id)


@app.command("decide")
def decide_call(  # noqa: PLR0913, PLR0917 - the parameters of a command are its options
    id: IdArgument,
    call: CallArgument,
    decision: DecisionArgument,
    *,
    why: WhyOption = "",
    journal: JournalOption = None,
    config: ConfigOption = None,
) -> None:
    """Decide about a call that waits for a person. The first decision counts."""
    with _open(journal, config) as store:
        _ask(lambda: find_run(store, id))
        _ask(lambda: decide(store, id, call_id=call, given=DecisionRow(decision, why)))
        _show(store, id)


@contextmanager
def _open(journal: str | None, config: Path | None) -> Iterator[JournalStore]:
    name = journal or (os.environ.get("WHOLECALL_JOURNAL") if config is None else None)
    if not name:
        loaded = load(find_file(config, os.environ), os.environ, without_keys=True)
        name = name_journal(loaded.config)
    kind, _, place = name.partition(":")
    if kind == "sqlite" and not Path(place).exists():
        typer.echo(f"wholecall: there is no journal {escape(place)}", err=True)
        raise typer.Exit(_NOT_FOUND)
    store = find_store(name)
    try:
        yield store
    finally:
        store.close()


def _ask(make: Callable[[], Coroutine[None, None, _Found]]) -> _Found:
    try:
        return asyncio.run(make())
    except WholecallError as error:
        typer.echo(f"wholecall: {escape(str(error))}", err=True)
        raise typer.Exit(_NOT_FOUND) from None


def _show(store: JournalStore, id: str, *, as_json: bool = False) -> None:
    fields: Any = describe_whole(_ask(lambda: find_run(store, id)), hide=Redactor().hide)
    if as_json:
        typer.echo(json.dumps(fields))
        return
    typer.echo(escape(_tell(fields)))
    for call in fields["calls"]:
        typer.echo(escape(_tell_call(call)))
    if "error" in fields:
        typer.echo(escape(f"  {fields['error']}"))


# ── Words ───────────────────────────────────────────────────────────────────────────


def _tell(run: Any) -> str:
    said = f"{run['id']}  {run['status']}  {run['model']}  {_tell_time(run['touched_at'])}"
    by = f"  by {run['worker']}" if run["worker"] else ""
    return f"{said}{by}  {run['stop']}".rstrip()


def _tell_call(call: Any) -> str:
    state = call.get("status", call["state"])
    waits = f"  decide: {', '.join(call['decisions'])}" if call["decisions"] else ""
    given = next((f"  {call[kind]}" for kind in ("decision", "approval") if kind in call), "")
    return f"  {call['id']}  {call['name']} {call['arguments']}  {state}{given}{waits}"


def _tell_time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
