"""Calls that wait for a person, in one process and in several."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from upstreams.fake_endpoint import in_loop
from wholecall.errors import RunWaiting
from wholecall.events import Call, Evidence
from wholecall.inspector.approval_queue import ApprovalQueue, DecidedCall
from wholecall.inspector.page_encoder import Quoting
from wholecall.journal.journal_rows import DecisionRow, Row
from wholecall.journal.run_journal import RunJournal, RunRow, RunStatus
from wholecall.journal.run_operations import LONGEST_WHY, OperationRefused
from wholecall.journal.sqlite_journal import SqliteJournal
from wholecall.proxy.observe.redaction import Redactor

CALL = Call(
    id="c/1 a",
    name="send",
    arguments={"to": "ada"},
    raw='{"to": "ada"}',
    evidence=Evidence.CLOSED,
)
RUN = RunRow("run_1", key_id="k1", model="m", plan=b"{}")
YES, NO = DecisionRow("approve"), DecisionRow("deny", "x" * 9999)
LATE = 0.0


class Desk(ApprovalQueue):
    """A queue on a store, and a run that asks."""

    def __init__(self, store: SqliteJournal) -> None:
        super().__init__(lambda: store, quoting=lambda: Quoting(True, Redactor()))
        self.store = store
        self.journal = RunJournal(store, store.open_run(RUN).result())
        self.journal.request_id = "req_1"

    def ask(self, seconds: float = 60.0) -> asyncio.Task[DecisionRow]:
        until = time.time() + seconds
        return asyncio.create_task(self.journal.await_approval(CALL, until=until, pace=0.01))

    async def until_waiting(self, count: int = 1) -> list[str]:
        while len(waiting := await self.list_waiting(None)) != count:
            await asyncio.sleep(0)
        return [str(row["id"]) for row in waiting]


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[Desk]:
    store = SqliteJournal(path / "runs.sqlite")
    yield Desk(store)
    store.close()


@in_loop
async def test_a_call_waits_until_somebody_answers(tmp_path: Path) -> None:
    async with opened(tmp_path) as desk:
        asked = desk.ask()
        [id] = await desk.until_waiting()
        [row] = await desk.list_waiting("k1")
        assert (row["name"], row["arguments"]) == ("send", '{"to": "ada"}')
        assert (row["model"], row["request_id"], row["run"]) == ("m", "req_1", "run_1")
        assert row["decisions"] == ["approve", "deny"]
        assert not asked.done()
        given = await desk.answer(id, NO, owner=None)
        assert given == DecidedCall("req_1", "send", "deny")
        assert await asked == DecisionRow("deny", "x" * LONGEST_WHY)
        assert await desk.list_waiting(None) == []


@in_loop
async def test_the_first_answer_counts(tmp_path: Path) -> None:
    async with opened(tmp_path) as desk:
        asked = desk.ask()
        [id] = await desk.until_waiting()
        assert await desk.answer(id, YES, owner="k1")
        assert not await desk.answer(id, NO, owner="k1")
        assert await asked == YES
        assert not await desk.answer(id, YES, owner=None)


@pytest.mark.parametrize("id", ["another", "", "é", "YQ=="])
@in_loop
async def test_only_who_may_see_the_run_may_answer(tmp_path: Path, id: str) -> None:
    async with opened(tmp_path) as desk:
        asked = desk.ask()
        [mine] = await desk.until_waiting()
        assert await desk.list_waiting("k2") == []
        assert not await desk.answer(mine, YES, owner="k2")
        assert not await desk.answer(id, YES, owner=None)
        assert await desk.answer(mine, YES, owner="k1")
        assert await asked == YES


@in_loop
async def test_an_approval_is_not_answered_with_words_about_an_outcome(tmp_path: Path) -> None:
    async with opened(tmp_path) as desk:
        asked = desk.ask()
        [id] = await desk.until_waiting()
        with pytest.raises(OperationRefused, match="approve, deny"):
            await desk.answer(id, DecisionRow("done"), owner=None)
        await desk.answer(id, YES, owner=None)
        await asked


@in_loop
async def test_what_became_of_a_call_is_asked_with_three_answers(tmp_path: Path) -> None:
    async with opened(tmp_path) as desk:
        why = await desk.journal.ask(CALL, "what became of it?")
        assert isinstance(why, RunWaiting)
        [row] = await desk.list_waiting(None)
        assert (row["decisions"], row["until"]) == (["done", "not_done", "rerun"], 0.0)
        given = await desk.answer(str(row["id"]), DecisionRow("rerun"), owner=None)
        assert given == DecidedCall("req_1", "send", "rerun")
        body = await asyncio.wrap_future(desk.store.read_row("run_1", f"decision {CALL.id}"))
        assert body is not None


@in_loop
async def test_what_is_over_or_is_not_awaited_any_more_is_not_shown(tmp_path: Path) -> None:
    async with opened(tmp_path) as desk:
        asked = desk.ask()
        [id] = await desk.until_waiting()
        asked.cancel()
        left = desk.store.append("run_1", (), epoch=1, status=RunStatus.READY)
        await asyncio.wrap_future(left)
        assert await desk.list_waiting(None) == []
        assert not await desk.answer(id, YES, owner=None)


@in_loop
async def test_when_the_time_is_over_that_is_a_no_and_no_answer_is_taken(tmp_path: Path) -> None:
    async with opened(tmp_path) as desk:
        assert await desk.ask(LATE) == DecisionRow("deny", "nobody answered in time")
        assert await desk.list_waiting(None) == []
        assert not desk.store.decide("run_1", f"approval {CALL.id}", body=b"{}").result()


@in_loop
async def test_a_question_that_cannot_be_read_is_left_to_its_run(tmp_path: Path) -> None:
    async with opened(tmp_path) as desk:
        asked = desk.ask()
        await desk.until_waiting()
        damaged = [Row("ask c2", b"nothing")]
        await asyncio.wrap_future(desk.store.append("run_1", damaged, epoch=1))
        assert len(await desk.list_waiting(None)) == 1
        asked.cancel()


@in_loop
async def test_without_a_journal_no_call_waits() -> None:
    desk = ApprovalQueue(lambda: None, quoting=lambda: Quoting(True, Redactor()))
    assert await desk.list_waiting(None) == []
    assert await desk.answer("any", YES, owner=None) is None
