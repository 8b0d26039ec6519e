"""The command line: `wholecall worker`."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Annotated

import typer

from wholecall.agent.api import resume
from wholecall.cli.tool_options import ToolOption, import_tools
from wholecall.errors import WholecallError
from wholecall.fleet import FleetLimits, FleetWorker
from wholecall.journal.postgres_journal import PostgresJournal
from wholecall.journal.postgres_server import name_server
from wholecall.tools.tool import Tool

app = typer.Typer(add_completion=False, rich_markup_mode=None)
_FAILED = 1

JournalOption = Annotated[
    str | None,
    typer.Option(
        "--journal",
        metavar="URL",
        help="The database of the runs: postgresql://… Default: what WHOLECALL_JOURNAL holds, "
        "which does not show a password in the list of processes.",
        show_default=False,
    ),
]
ConcurrentOption = Annotated[
    int, typer.Option("--concurrent", metavar="N", min=1, help="Runs at a time in this worker.")
]
FleetOption = Annotated[
    int | None,
    typer.Option(
        "--fleet-concurrent",
        metavar="N",
        min=1,
        help="Runs at a time in all workers. Default: no limit.",
        show_default=False,
    ),
]


@app.command()
def worker(
    *,
    journal: JournalOption = None,
    tool: ToolOption = None,
    concurrent: ConcurrentOption = 20,
    fleet_concurrent: FleetOption = None,
) -> None:
    """Carry out the runs that were submitted to a fleet, until SIGTERM or Ctrl-C.

    It can be started on any number of machines. Runs of a worker that died are taken over.
    """
    url = journal or os.environ.get("WHOLECALL_JOURNAL", "")
    if url.partition(":")[0] not in {"postgresql", "postgres"}:
        raise typer.BadParameter("--journal: write postgresql://user@host/database")
    limits = FleetLimits(worker=concurrent, fleet=fleet_concurrent)
    try:
        asyncio.run(_work(url, import_tools(tool or ()), limits=limits))
    except WholecallError as error:
        typer.echo(f"wholecall: {error}", err=True)
        raise typer.Exit(_FAILED) from None


async def _work(url: str, tools: tuple[Tool, ...], *, limits: FleetLimits) -> None:
    journal = await asyncio.to_thread(PostgresJournal, url)

    async def carry_out(id: str) -> None:
        await resume(id, journal=journal, tools=tools)

    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    fleet = await asyncio.to_thread(FleetWorker, journal, carry_out, limits=limits)
    await fleet.start()
    try:
        typer.echo(f"worker {journal.worker} takes runs from {name_server(url)}")
        await stopped.wait()
    finally:
        await fleet.stop()
        await asyncio.to_thread(journal.close)
