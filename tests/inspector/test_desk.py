"""Calls that wait for approval, in one process and in several."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from upstreams.serving import in_loop
from wholecall.inspector.desk import LONGEST_WHY, SILENCE, Desk, Waiting
from wholecall.inspector.store import StoreFailed
from wholecall.runs.approvals import Approval

CALL = Waiting(
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
async def opened(path: Path | None = None, *, clock: Clock | None = None) -> AsyncIterator[Desk]:
    desk = Desk(path, clock=clock or Clock(), pace=0.01)
    yield desk
    await desk.close()


async def until_waiting(desk: Desk, count: int = 1) -> list[str]:
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
        assert await desk.answer(id, Approval(False, "x" * 9999), owner=None)
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
        gone = Desk(path, clock=clock)
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
        Desk(tmp_path / "nowhere" / "file.sqlite")
    desk = Desk()
    await desk.close()
    with pytest.raises(StoreFailed, match="cannot wait"):
        await desk.wait_for(CALL)
    assert desk._look() == {}
