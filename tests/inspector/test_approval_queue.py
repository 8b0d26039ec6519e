"""Calls that wait for approval, in one process and in several."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from upstreams.fake_endpoint import in_loop
from wholecall.agent.approvals import Approval
from wholecall.inspector.approval_queue import (
    LONGEST_WHY,
    SILENCE,
    AnsweredApproval,
    ApprovalQueue,
    WaitingCall,
)
from wholecall.storage import StoreFailed

CALL = WaitingCall(
    key="k1",
    request_id="req_1",
    model="m",
    call_id="c1",
    name="send",
    arguments='{"to": "ada"}',
    seconds=60.0,
)
YES = Approval(True)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def opened(
    path: Path | None = None, *, clock: Clock | None = None
) -> AsyncIterator[ApprovalQueue]:
    desk = ApprovalQueue(path, clock=clock or Clock(), pace=0.01)
    yield desk
    await desk.close()


async def until_waiting(desk: ApprovalQueue, count: int = 1) -> list[str]:
    while len(waiting := await desk.list_waiting(None)) != count:
        await asyncio.sleep(0)
    return [row["id"] for row in waiting]


@in_loop
async def test_a_call_waits_until_somebody_answers() -> None:
    async with opened() as desk:
        asked = asyncio.create_task(desk.wait_for(CALL))
        [id] = await until_waiting(desk)
        [row] = await desk.list_waiting("k1")
        assert (row["name"], row["arguments"], row["until"]) == ("send", '{"to": "ada"}', 1060.0)
        assert not asked.done()
        given = await desk.answer(id, Approval(False, "x" * 9999), owner=None)
        assert given == AnsweredApproval("req_1", "send", False)
        assert await asked == Approval(False, "x" * LONGEST_WHY)
        assert await desk.list_waiting(None) == []


@in_loop
async def test_the_first_answer_counts() -> None:
    async with opened() as desk:
        asked = asyncio.create_task(desk.wait_for(CALL))
        [id] = await until_waiting(desk)
        assert await desk.answer(id, YES, owner="k1")
        assert not await desk.answer(id, Approval(False), owner="k1")
        assert (await asked).approved
        assert not await desk.answer(id, YES, owner=None)


@in_loop
async def test_only_who_may_see_the_run_may_answer() -> None:
    async with opened() as desk:
        asked = asyncio.create_task(desk.wait_for(CALL))
        [id] = await until_waiting(desk)
        assert await desk.list_waiting("k2") == []
        assert not await desk.answer(id, YES, owner="k2")
        assert not await desk.answer("another", YES, owner=None)
        assert await desk.answer(id, YES, owner="k1")
        assert (await asked).approved


@in_loop
async def test_an_answer_may_come_by_another_process(tmp_path: Path) -> None:
    path = tmp_path / "file.sqlite"
    async with opened(path) as desk, opened(path) as other:
        asked = asyncio.create_task(desk.wait_for(CALL))
        [id] = await until_waiting(other)
        assert await other.answer(id, YES, owner="k1")
        assert (await asked).approved


@in_loop
async def test_a_wait_that_is_broken_off_is_not_shown_any_more() -> None:
    async with opened() as desk:
        asked = asyncio.create_task(desk.wait_for(CALL))
        await until_waiting(desk)
        asked.cancel()
        await until_waiting(desk, 0)
        again = asyncio.create_task(desk.wait_for(CALL))
        [id] = await until_waiting(desk)
        await desk.answer(id, YES, owner=None)
        assert (await again).approved


@in_loop
async def test_what_is_over_or_whose_process_is_gone_cannot_be_answered(tmp_path: Path) -> None:
    path, clock = tmp_path / "file.sqlite", Clock()
    async with opened(path, clock=clock) as other:
        gone = ApprovalQueue(path, clock=clock)
        gone._write("left behind", CALL)
        await gone.close()
        assert [row["id"] for row in await other.list_waiting(None)] == ["left behind"]
        clock.now += SILENCE
        assert await other.list_waiting(None) == []
        assert not await other.answer("left behind", YES, owner=None)
        clock.now += 2 * SILENCE
        asked = asyncio.create_task(other.wait_for(CALL))
        await until_waiting(other)
        assert other._ask("SELECT count(*) FROM approvals") == [(1,)]
        clock.now += CALL.seconds
        assert await other.list_waiting(None) == []
        asked.cancel()


@in_loop
async def test_a_file_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match="nowhere"):
        ApprovalQueue(tmp_path / "nowhere" / "file.sqlite")
    desk = ApprovalQueue()
    await desk.close()
    with pytest.raises(StoreFailed, match="cannot wait"):
        await desk.wait_for(CALL)


@in_loop
async def test_a_process_that_stood_still_keeps_its_calls(tmp_path: Path) -> None:
    path, clock = tmp_path / "file.sqlite", Clock()
    async with opened(path, clock=clock) as desk, opened(path, clock=clock) as other:
        desk._write("mine", CALL)
        clock.now += 3 * SILENCE
        desk._write("next", CALL)
        assert desk._look() == {}  # it goes on
        assert [row["id"] for row in await other.list_waiting(None)] == ["mine", "next"]
        assert await other.answer("mine", YES, owner=None)
        assert desk._look() == {"mine": YES}


@in_loop
async def test_what_nobody_took_out_goes_when_its_time_is_long_over() -> None:
    clock = Clock()
    async with opened(clock=clock) as desk:
        desk._write("left behind", CALL)
        clock.now += CALL.seconds + 3 * SILENCE
        desk._write("next", CALL)
        assert desk._ask("SELECT id FROM approvals") == [("next",)]


# ── The last moment ─────────────────────────────────────────────────────────────────


class AnsweredAtOnce(ApprovalQueue):
    """Somebody else answers before this one can look."""

    def _write(self, id: str, waiting: WaitingCall) -> None:
        super()._write(id, replace(waiting, seconds=60))
        answer = "UPDATE approvals SET approved = 1, why = 'hurry' WHERE id = ?"
        self._database.execute(answer, (id,))


@in_loop
async def test_an_answer_that_was_taken_counts_although_the_time_is_over() -> None:
    desk = AnsweredAtOnce(clock=Clock(), pace=3600)
    assert await desk.wait_for(replace(CALL, seconds=0)) == Approval(True, "hurry")
    await desk.close()


@in_loop
async def test_when_the_time_is_over_that_is_a_no_and_no_answer_is_taken() -> None:
    async with opened() as desk:
        late = await desk.wait_for(replace(CALL, seconds=0))
        assert late == Approval(False, "nobody answered in time")
        assert desk._ask("SELECT * FROM approvals") == []
        desk._write("mine", CALL)
        assert desk._take("mine") is None
        assert not await desk.answer("mine", YES, owner=None)


# ── Disks ───────────────────────────────────────────────────────────────────────────


@in_loop
async def test_a_file_that_others_use_is_looked_at_again(tmp_path: Path) -> None:
    path = tmp_path / "file.sqlite"
    async with opened(path) as desk, opened(path) as other:
        asked = asyncio.create_task(desk.wait_for(CALL))
        [id] = await until_waiting(other)
        with desk._lock:
            desk._database.execute("PRAGMA busy_timeout = 0")
        other._database.execute("BEGIN IMMEDIATE")
        assert desk._look() == {}
        other._database.execute("COMMIT")
        assert await other.answer(id, YES, owner=None)
        assert (await asked).approved


@in_loop
async def test_a_file_that_breaks_is_told_to_all_who_wait_and_who_ask() -> None:
    async with opened() as desk:
        asked = [asyncio.create_task(desk.wait_for(CALL)) for _ in range(2)]
        await until_waiting(desk, 2)
        with desk._lock:
            desk._database.execute("DROP TABLE approvals")
        told = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(one) for one in told] == [StoreFailed, StoreFailed]
        with pytest.raises(StoreFailed, match="cannot be reached"):
            await desk.list_waiting(None)
        with pytest.raises(StoreFailed, match="cannot be reached"):
            await desk.answer("any", YES, owner=None)
        with pytest.raises(StoreFailed, match="cannot wait"):
            await desk.wait_for(CALL)
        with pytest.raises(StoreFailed, match="no answer"):
            desk._take("any")
