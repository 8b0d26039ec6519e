"""CPU that a journal adds to a step of a run: one answer of the model with one call of a tool.

    .venv/bin/python bench/journal.py              print the table
    .venv/bin/python bench/journal.py --write      and put it into docs/performance.md
    WHOLECALL_JOURNAL=postgresql://… .venv/bin/python bench/journal.py    with PostgreSQL, too

Twenty runs of ten steps at a time, all in this process; the model is a script in memory. The tool
must not be repeated, so each step waits for its intent to be on disk. In each round every journal
takes its turn, in another order. The lowest figure of the rounds counts: other programs on the
machine only make it larger. The CPU of this process is counted, with all of its threads, and not
that of a server.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

import wholecall
from tables import markdown, write_section
from wholecall.agent.api import RunOptions
from wholecall.journal.postgres_journal import PostgresJournal
from wholecall.journal.run_journal import JournalStore
from wholecall.journal.sqlite_journal import SqliteJournal
from wholecall.messages import Request, Role
from wholecall.upstreams.base import Answer

RUNS, STEPS, ROUNDS = 20, 10, 15
LIMITS = wholecall.RunLimits(turns=STEPS + 2)
NONE = "no journal"
GOALS = {"SQLite": 0.1, "PostgreSQL": 0.3}
"""Milliseconds that a step may cost on top."""
Work: TypeAlias = Callable[[], Awaitable[None]]


class ScriptedModel:
    """Calls the tool in each turn, and then answers."""

    protocol = "openai-chat"

    @asynccontextmanager
    async def answer(self, request: Request) -> AsyncIterator[Answer]:
        turn = sum(message.role is Role.ASSISTANT for message in request.messages)
        deltas = [_call(turn)] if turn < STEPS else [{"content": "All "}, {"content": "done."}]
        yield Answer(protocol=self.protocol, chunks=_stream(deltas))

    async def close(self) -> None:
        pass


def _call(turn: int) -> dict[str, Any]:
    function = {"name": "charge", "arguments": json.dumps({"order": f"order {turn}"})}
    return {"tool_calls": [{"index": 0, "id": f"call_{turn}", "function": function}]}


async def _stream(deltas: list[dict[str, Any]]) -> AsyncIterator[Any]:
    for delta in deltas:
        yield {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    yield "data: [DONE]"
    yield ""


async def charge(order: str) -> str:
    """Charge an order."""
    return f"paid for {order}"


async def run_all(journal: JournalStore | None = None) -> None:
    """Carry out the runs, all at a time."""

    async def run_one() -> None:
        options: RunOptions = {"tools": [charge], "upstream": ScriptedModel(), "limits": LIMITS}
        if journal is not None:
            options["journal"], options["id"] = journal, uuid4().hex
        result = await wholecall.ask("openai/model", "Charge them.", **options)
        assert len(result.ended) == STEPS

    await asyncio.gather(*(run_one() for _ in range(RUNS)))


@contextmanager
def sqlite_work() -> Iterator[Work]:
    with tempfile.TemporaryDirectory() as folder:
        journal = SqliteJournal(Path(folder) / "runs.sqlite")
        try:
            yield lambda: run_all(journal)
        finally:
            journal.close()


@contextmanager
def postgres_work(url: str) -> Iterator[Work]:
    journal = PostgresJournal(url)
    try:
        yield lambda: run_all(journal)
    finally:
        journal.close()


async def measure(works: dict[str, Work]) -> dict[str, list[float]]:
    """Return the CPU milliseconds of a step: one figure of each round."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():  # compiled patterns, prepared statements, grown files
        await work()
    for _ in range(ROUNDS):
        for name in random.sample(list(works), len(works)):
            before = time.process_time()
            await works[name]()
            found[name].append((time.process_time() - before) * 1e3 / (RUNS * STEPS))
    return found


def report(found: dict[str, list[float]]) -> str:
    header = ["ms of CPU", "a step", "on top", "goal"]
    rows = []
    for name, figures in found.items():
        on_top = "–" if name == NONE else f"{min(figures) - min(found[NONE]):+.3f}"
        goal = f"≤ {GOALS[name]}" if name in GOALS else "–"
        rows.append([name, f"{min(figures):.3f}", on_top, goal])
    return markdown(header, rows)


def main() -> None:
    with ExitStack() as stack:
        works: dict[str, Work] = {NONE: run_all}
        works["SQLite"] = stack.enter_context(sqlite_work())
        url = os.environ.get("WHOLECALL_JOURNAL")
        if url:
            works["PostgreSQL"] = stack.enter_context(postgres_work(url))
        table = report(asyncio.run(measure(works)))
    print(table)
    if "--write" in sys.argv:
        write_section("journal", table)


if __name__ == "__main__":
    main()
