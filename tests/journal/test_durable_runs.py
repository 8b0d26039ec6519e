"""A durable run is carried out once, whatever interrupts it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import wholecall
from scripted import calls, says
from wholecall.agent.run import RunResult
from wholecall.agent.run_events import (
    ApprovalAnswered,
    ApprovalAsked,
    Resumed,
    RunEvent,
    Status,
    ToolEnded,
    ToolRecalled,
    ToolStarted,
)
from wholecall.errors import RunFailed, RunWaiting
from wholecall.journal.journal_rows import DecisionRow, encode_row
from wholecall.journal.sqlite_journal import SqliteJournal
from wholecall.upstreams.replay import ReplayUpstream, ScriptedAnswer

MODEL = "openai/model"


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqliteJournal]:
    store = SqliteJournal(tmp_path / "runs.sqlite")
    yield store
    store.close()


class Till:
    """Tools that write down what they begin."""

    def __init__(self) -> None:
        self.began: list[str] = []

    async def charge(self, order: str) -> str:
        """Charge an order."""
        self.began.append(order)
        return f"{order} is paid"


def interrupt(path: Path, *, after: int, id: str = "order-17") -> None:
    """Leave a run as a crash after so many rows leaves it."""
    database = sqlite3.connect(path)
    with database:
        database.execute("UPDATE runs SET status = 'running', owner = 'dead', due = 0")
        numbers = [n for (n,) in database.execute("SELECT number FROM rows WHERE run = ?", (id,))]
        database.executemany(
            "DELETE FROM rows WHERE number = ?", [(number,) for number in sorted(numbers)[after:]]
        )
    database.close()


def read_status(path: Path, id: str = "order-17") -> tuple[str, str]:
    database = sqlite3.connect(path)
    (row,) = database.execute("SELECT status, stop FROM runs WHERE id = ?", (id,)).fetchall()
    database.close()
    return str(row[0]), str(row[1])


def play(
    journal: SqliteJournal,
    *answers: ScriptedAnswer,
    again: bool = False,
    seen: list[RunEvent] | None = None,
    **options: Any,
) -> tuple[RunResult[Any], list[RunEvent]]:
    seen = [] if seen is None else seen
    upstream = ReplayUpstream(answers)
    more: Any = {**options, "upstream": upstream, "journal": journal, "taps": [seen.append]}

    async def go() -> RunResult[Any]:
        if again:
            return await wholecall.resume("order-17", **more)
        return await wholecall.ask(MODEL, "Charge it", id="order-17", **more)

    return asyncio.run(go()), seen


CHARGES = calls(("charge", {"order": "17"}))
INTENT = 2
"""The rows up to the intent of the first call: the answer, the intent."""


def test_the_same_id_again_returns_the_result(journal: SqliteJournal) -> None:
    till = Till()
    upstream = ReplayUpstream([calls(("charge", {"order": "17"})), says("done")])
    options: Any = {"tools": [till.charge], "upstream": upstream, "journal": journal}

    async def go() -> list[RunResult[Any]]:
        return [
            await wholecall.ask(MODEL, "Charge it", id="order-17", **options),
            await wholecall.ask(MODEL, "Charge it", id="order-17", **options),
            await wholecall.resume("order-17", **options),
        ]

    first, again, resumed = asyncio.run(go())
    assert till.began == ["17"]
    assert first.text == again.text == resumed.text == "done"
    assert first.messages == again.messages == resumed.messages
    assert [each.call.name for each in again.ended] == ["charge"]
    assert (again.usage, again.turns, again.output) == (first.usage, 2, "done")


def test_a_recalled_result_does_not_run_again(journal: SqliteJournal) -> None:
    till = Till()
    play(journal, CHARGES, says("done"), tools=[till.charge])
    interrupt(journal.path, after=INTENT + 1)
    result, seen = play(journal, says("again"), again=True, tools=[till.charge])
    assert (till.began, result.text) == (["17"], "again")
    assert [type(e) for e in seen if isinstance(e, Resumed | ToolRecalled | ToolStarted)] == [
        Resumed,
        ToolRecalled,
    ]
    assert read_status(journal.path)[0] == "done"


def test_a_tool_that_must_not_be_repeated_is_unknown_after_a_crash(journal: SqliteJournal) -> None:
    till = Till()
    play(journal, CHARGES, says("done"), tools=[till.charge])
    interrupt(journal.path, after=INTENT)
    result, _ = play(journal, says("again"), again=True, tools=[till.charge])
    assert till.began == ["17"]
    assert [each.status for each in result.ended] == [Status.UNKNOWN]
    assert "unknown" in result.ended[0].result.text


def test_a_repeatable_tool_runs_again_with_the_same_idempotency_key(
    journal: SqliteJournal,
) -> None:
    keys: list[str] = []

    async def look(order: str, context: wholecall.Context) -> str:
        keys.append(context.idempotency_key)
        return order

    offered = wholecall.tool(idempotent=True)(look)
    play(journal, calls(("look", {"order": "17"})), says("done"), tools=[offered])
    interrupt(journal.path, after=INTENT)
    play(journal, says("again"), again=True, tools=[offered])
    assert len(keys) == 2
    assert keys[0] == keys[1]


FOUND = [
    pytest.param("17 was paid", Status.DONE, 1, id="its result"),
    pytest.param(True, Status.DONE, 1, id="it was carried out"),
    pytest.param(False, Status.DONE, 2, id="it was not: it begins"),
    pytest.param(None, Status.UNKNOWN, 1, id="it does not know"),
    pytest.param(ValueError("no answer"), Status.UNKNOWN, 1, id="it fails"),
]


@pytest.mark.parametrize(("found", "status", "times"), FOUND)
def test_a_function_finds_out_what_a_call_did(
    journal: SqliteJournal, *, found: object, status: Status, times: int
) -> None:
    till = Till()

    async def find_out(call: wholecall.Call, context: wholecall.Context) -> object:
        assert context.idempotency_key == f"order-17:{call.id}"
        if isinstance(found, Exception):
            raise found
        return found

    offered = wholecall.tool(on_crash=find_out)(till.charge)
    play(journal, CHARGES, says("done"), tools=[offered])
    interrupt(journal.path, after=INTENT)
    result, _ = play(journal, says("again"), again=True, tools=[offered])
    assert len(till.began) == times
    assert [each.status for each in result.ended] == [status]


DECISIONS = [("done", Status.DONE, 1), ("not_done", Status.FAILED, 1), ("rerun", Status.DONE, 2)]


@pytest.mark.parametrize(("decision", "status", "times"), DECISIONS)
def test_a_person_decides_what_a_call_did(
    journal: SqliteJournal, *, decision: str, status: Status, times: int
) -> None:
    till = Till()
    offered = wholecall.tool(on_crash="ask")(till.charge)
    play(journal, CHARGES, says("done"), tools=[offered])
    interrupt(journal.path, after=INTENT)
    for _ in range(2):  # asking again changes nothing
        with pytest.raises(RunWaiting, match="decide `done`, `not_done` or `rerun`"):
            play(journal, again=True, tools=[offered])
        assert read_status(journal.path)[0] == "waiting"
    body = encode_row(DecisionRow(decision))
    assert journal.decide("order-17", "decision c0", body=body).result()
    assert not journal.decide("order-17", "decision c0", body=body).result()
    result, _ = play(journal, says("again"), again=True, tools=[offered])
    assert len(till.began) == times
    assert [each.status for each in result.ended] == [status]


APPROVED = [("approve", Status.DONE, 1), ("deny", Status.DENIED, 0)]


@pytest.mark.parametrize(("decision", "status", "times"), APPROVED)
def test_a_call_that_needs_approval_waits_in_the_journal(
    journal: SqliteJournal, *, decision: str, status: Status, times: int
) -> None:
    till = Till()
    offered = wholecall.tool(approve=True)(till.charge)
    told: list[RunEvent] = []
    with pytest.raises(RunWaiting, match="'charge' waits for approval"):
        play(journal, CHARGES, tools=[offered], seen=told)
    assert [type(e) for e in told if isinstance(e, ApprovalAsked | ToolEnded)] == [ApprovalAsked]
    with pytest.raises(RunWaiting, match="decide `approve` or `deny`"):
        play(journal, again=True, tools=[offered])
    assert (read_status(journal.path)[0], till.began) == ("waiting", [])
    body = encode_row(DecisionRow(decision, "it is late"))
    assert journal.decide("order-17", "approval c0", body=body).result()
    result, seen = play(journal, says("again"), again=True, tools=[offered])
    assert len(till.began) == times
    assert [each.status for each in result.ended] == [status]
    answered = [e for e in seen if isinstance(e, ApprovalAnswered)]
    assert [(e.approved, e.why) for e in answered] == [(decision == "approve", "it is late")]


def test_an_approval_says_nothing_about_what_became_of_the_call(journal: SqliteJournal) -> None:
    till = Till()
    offered = wholecall.tool(approve=True, on_crash="ask")(till.charge)
    with pytest.raises(RunWaiting, match="approval"):
        play(journal, CHARGES, tools=[offered])
    yes = encode_row(DecisionRow("approve"))
    assert journal.decide("order-17", "approval c0", body=yes).result()
    play(journal, says("done"), again=True, tools=[offered])
    interrupt(journal.path, after=4)  # the answer, the question, its decision, the intent
    with pytest.raises(RunWaiting, match="had begun before the run was interrupted"):
        play(journal, again=True, tools=[offered])
    assert till.began == ["17"]


def test_a_rule_that_fails_lets_no_call_wait(journal: SqliteJournal) -> None:
    def fail(_: wholecall.Call) -> bool:
        raise OSError

    offered = wholecall.tool(approve=fail)(Till().charge)
    result, _ = play(journal, CHARGES, says("no"), tools=[offered])
    assert [each.status for each in result.ended] == [Status.DENIED]


def test_a_run_waits_for_a_tool_that_is_missing(journal: SqliteJournal) -> None:
    till = Till()
    play(journal, CHARGES, says("done"), tools=[till.charge])
    interrupt(journal.path, after=1)
    with pytest.raises(RunWaiting, match="'charge', which is not among its tools any more"):
        play(journal, again=True)
    result, _ = play(journal, says("again"), again=True, tools=[till.charge])
    assert (result.text, till.began) == ("again", ["17", "17"])


BROKEN = [b"not JSON", b'{"version": 99}', b'{"version": 1}']


@pytest.mark.parametrize("body", BROKEN)
def test_a_run_with_a_bad_row_is_broken_and_says_why(journal: SqliteJournal, body: bytes) -> None:
    till = Till()
    play(journal, CHARGES, says("done"), tools=[till.charge])
    interrupt(journal.path, after=INTENT + 1)
    database = sqlite3.connect(journal.path)
    with database:
        database.execute("UPDATE rows SET body = ? WHERE key LIKE 'result %'", (body,))
    database.close()
    with pytest.raises(RunFailed, match="the run 'order-17' is broken: a ResultRow"):
        play(journal, again=True, tools=[till.charge])
    assert read_status(journal.path)[0] == "broken"
    assert till.began == ["17"]


def test_a_run_without_the_answer_of_a_turn_is_broken_and_says_why(journal: SqliteJournal) -> None:
    till = Till()
    play(journal, CHARGES, says("done"), tools=[till.charge])
    interrupt(journal.path, after=4)  # the answer, the intent, the result, the turn
    database = sqlite3.connect(journal.path)
    with database:
        lost = database.execute("DELETE FROM rows WHERE key = 'answer 1'").rowcount
    database.close()
    assert lost == 1
    with pytest.raises(RunFailed, match="the run 'order-17' is broken: the turn 1 has no answer"):
        play(journal, says("done"), again=True, tools=[till.charge])
    assert read_status(journal.path)[0] == "broken"
    assert till.began == ["17"]


def test_a_failed_run_fails_again_and_an_upstream_may_be_asked_again(
    journal: SqliteJournal,
) -> None:
    with pytest.raises(RunFailed, match="empty"):
        play(journal, says(""), says(""), says(""))
    with pytest.raises(RunFailed, match="empty"):
        play(journal, says("too late"))
    assert read_status(journal.path)[0] == "failed"


def test_an_id_of_another_question_is_refused(journal: SqliteJournal) -> None:
    play(journal, says("done"))
    with pytest.raises(ValueError, match="of another model or other messages"):
        asyncio.run(
            wholecall.ask(
                MODEL, "Something else", id="order-17", journal=journal, upstream=ReplayUpstream([])
            )
        )


def test_an_id_needs_a_journal_and_a_journal_a_kind() -> None:
    with pytest.raises(TypeError, match="give its journal="):
        wholecall.run(MODEL, "hi", id="order-17", upstream=ReplayUpstream([]))
    with pytest.raises(TypeError, match="needs the journal="):
        asyncio.run(wholecall.resume("order-17"))
    with pytest.raises(ValueError, match="write 'sqlite:<file>'"):
        asyncio.run(wholecall.resume("order-17", journal="redis:runs"))


def test_a_run_that_is_not_there_cannot_be_resumed(journal: SqliteJournal) -> None:
    with pytest.raises(ValueError, match="there is no run 'order-18'"):
        asyncio.run(wholecall.resume("order-18", journal=journal))


def test_a_tool_begins_after_its_intent_is_on_disk(journal: SqliteJournal) -> None:
    found: list[list[str]] = []

    async def charge(order: str) -> str:
        database = sqlite3.connect(journal.path)
        found.append([key for (key,) in database.execute("SELECT key FROM rows ORDER BY number")])
        database.close()
        return order

    play(journal, CHARGES, says("done"), tools=[charge])
    assert found == [["answer 1", "intent 1 c0"]]


def test_a_cancelled_run_does_not_go_on(journal: SqliteJournal) -> None:
    till = Till()
    play(journal, CHARGES, says("Paid."), tools=[till.charge])
    interrupt(journal.path, after=INTENT)
    assert journal.cancel("order-17", "not wanted any more").result()
    with pytest.raises(RunFailed, match="is cancelled: not wanted any more"):
        play(journal, says("Paid."), again=True, tools=[till.charge])
    assert till.began == ["17"]
