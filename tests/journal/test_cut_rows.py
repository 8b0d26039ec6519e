"""Cut the rows of every fault scenario after every row, restore the run, and demand the laws.

A cut is a crash after that row was on disk. The tools start as early as they may, those that must
not be repeated as well, so that calls have begun before their answers were read to the end.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from example_counts import sample
from fault_agent import SILENCE, no_wait
from wholecall.agent.api import resume, run
from wholecall.agent.run import RunResult
from wholecall.errors import RunFailed, UpstreamError
from wholecall.events import JSON, Start, Text
from wholecall.faults.fault_server import FaultServer
from wholecall.faults.scenarios import SCENARIOS
from wholecall.faults.script import READ_ONLY, TOOLS, Form, Scenario
from wholecall.journal.journal_rows import Row
from wholecall.journal.sqlite_journal import SqliteJournal
from wholecall.messages import CallResult, PastCall, Result, Role
from wholecall.tools.tool import Context, Tool
from wholecall.upstreams.http import HttpSettings, HttpUpstream
from wholecall.upstreams.http_connection import Timeouts
from wholecall.upstreams.retry import RetryPolicy

ROWS = [
    pytest.param(scenario, form, id=f"{scenario.name}-{form.protocol}-{form.streamed}")
    for scenario in SCENARIOS.values()
    for form in sorted(scenario.forms)
    if scenario.expect(form).runs
]


@dataclass
class Effects:
    """The calls that began, by their ids."""

    began: list[tuple[str, str]] = field(default_factory=list)

    def tools(self) -> list[Tool]:
        return [
            Tool(
                spec=replace(spec, start=Start.CLOSED),
                run=self._runner(spec.name),
                read_only=spec.name in READ_ONLY,
            )
            for spec in TOOLS
        ]

    def _runner(self, name: str) -> Any:
        async def run_tool(_: Mapping[str, JSON], context: Context) -> Result:
            self.began.append((name, context.call_id))
            return Result((Text(f"{name} is done"),))

        return run_tool


@dataclass
class Trial:
    """One scenario in one form, with one store for all its cuts."""

    scenario: Scenario
    form: Form
    store: SqliteJournal
    server: FaultServer

    def options(self, effects: Effects) -> dict[str, Any]:
        anthropic = self.form.protocol == "anthropic"
        address = self.server.address if anthropic else self.server.base_url
        settings = HttpSettings(
            timeouts=Timeouts(first_byte=SILENCE, between_chunks=SILENCE),
            retry=RetryPolicy(sleep=no_wait),
            environ={},
        )
        upstream = HttpUpstream(self.form.protocol, address, api_key="key", settings=settings)
        return {"tools": effects.tools(), "upstream": upstream, "journal": self.store}

    async def play(self, id: str, effects: Effects, *, new: bool) -> RunResult[Any] | Exception:
        options = self.options(effects)
        choice = "required" if self.scenario.refuses_choice else "auto"
        try:
            if not new:
                return await resume(id, rescue="all", **options)
            started = run(
                self.scenario.name,
                self.scenario.prompt,
                id=id,
                rescue="all",
                tool_choice=choice,
                stream=self.form.streamed,
                **options,
            )
            return await started.result()
        except (RunFailed, UpstreamError) as error:
            return error
        finally:
            await options["upstream"].close()


def copy_run(path: Path, rows: list[Row], *, to: str) -> None:
    """Insert a run that was interrupted after these rows."""
    with sqlite3.connect(path) as database:
        database.execute(
            "INSERT INTO runs SELECT ?, key_id, model, 'running', 'dead', 1, created, touched, 0, "
            "'', plan, background FROM runs WHERE id = 'whole'",
            (to,),
        )
        insert = "INSERT INTO rows (run, key, epoch, at, body) VALUES (?, ?, 1, 0, ?)"
        database.executemany(insert, [(to, row.key, row.body) for row in rows])
    database.close()


def check_history(result: RunResult[Any]) -> None:
    """Every call has exactly one result, in call order."""
    asked: list[str] = []
    for message in result.messages:
        if message.role is Role.ASSISTANT:
            assert not asked
            asked = [part.id for part in message.parts if isinstance(part, PastCall)]
        elif message.role is Role.TOOL:
            assert [p.call_id for p in message.parts if isinstance(p, CallResult)] == asked
            asked = []


async def check_cuts(trial: Trial) -> int:
    whole = Effects()
    given = await trial.play("whole", whole, new=True)
    found = await asyncio.wrap_future(trial.store.load("whole"))
    assert found is not None
    rows = list(found.rows)
    early = 0
    for cut in range(len(rows)):
        kept = rows[:cut]
        if rows[cut].key == "end":
            continue  # it is one change with the turn before it
        copy_run(trial.store.path, kept, to=f"cut {cut}")
        effects = Effects()
        again = await trial.play(f"cut {cut}", effects, new=False)
        begun = {row.key.split(" ", 2)[2] for row in kept if row.key.startswith("intent ")}
        check_effects(effects, begun)
        answered = any(row.key.startswith("answer ") for row in kept)
        early += bool(begun) and not answered
        if isinstance(again, RunResult):
            check_history(again)
        if not isinstance(given, RunResult) and isinstance(given, RunFailed):
            continue  # the fault comes again, or the run goes on from what had begun
        assert type(again) is type(given), (cut, again)
        over = await asyncio.wrap_future(trial.store.load(f"cut {cut}"))
        assert over is not None
        assert over.run.status is found.run.status
    return early


def check_effects(effects: Effects, begun: set[str]) -> None:
    """A tool that must not be repeated begins once, before the cut or after it."""
    lasting = [call_id for name, call_id in effects.began if name not in READ_ONLY]
    assert not begun.intersection(lasting), "a tool began a second time"
    assert not [id for id, times in Counter(lasting).items() if times > 1]


@pytest.mark.parametrize(("scenario", "form"), sample(ROWS))
def test_a_run_cut_after_any_row_is_restored(
    scenario: Scenario, form: Form, *, tmp_path: Path
) -> None:
    async def go() -> None:
        store = SqliteJournal(tmp_path / "runs.sqlite")
        try:
            async with asyncio.timeout(120), FaultServer(hang_seconds=30) as server:
                await check_cuts(Trial(scenario, form, store, server))
        finally:
            store.close()

    asyncio.run(go())
