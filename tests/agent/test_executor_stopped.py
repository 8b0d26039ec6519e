"""An executor that is cancelled, left or halted leaves nothing running."""

from __future__ import annotations

import asyncio

import pytest

from agent.doors import House, play, texts
from executor_calls import make_call
from wholecall.agent.run_events import Status


def test_cancelling_stops_what_runs_and_begins_nothing_more() -> None:
    async def scenario(house: House) -> None:
        house.start("write", "alone", "pay", "look")
        await house.inside(0)
        await house.executor.cancel()
        await house.executor.cancel()
        house.executor.start(make_call("look", 4, door=4))
        assert len(await house.executor.settle()) == 5
        assert [call.id for call in house.executor.ran] == ["c0"]

    assert play(scenario).ear.ended == {
        "c0": Status.CANCELLED,
        "c1": Status.SKIPPED,
        "c2": Status.SKIPPED,
        "c3": Status.SKIPPED,
        "c4": Status.SKIPPED,
    }


def test_what_changes_things_may_run_to_its_end() -> None:
    async def scenario(house: House) -> None:
        house.start("write", "look", "alone")
        await house.inside(0, 1)
        cancelling = asyncio.create_task(house.executor.cancel(keep_unsafe=True))
        await house.inside(0)
        assert not cancelling.done()
        house.doors.open(0)
        await cancelling
        assert texts(await house.executor.settle())[0] == "door 0"

    assert play(scenario).ear.ended == {
        "c0": Status.DONE,
        "c1": Status.CANCELLED,
        "c2": Status.SKIPPED,
    }


def test_cancelling_before_the_first_step_leaves_a_result_all_the_same() -> None:
    async def scenario(house: House) -> None:
        house.start("write", "look")
        await house.executor.cancel()
        assert len(await house.executor.settle()) == 2
        assert house.executor.ran == ()

    assert play(scenario).ear.words == ["c0 skipped", "c1 skipped"]


def test_leaving_the_context_leaves_nothing_behind() -> None:
    async def scenario(house: House) -> None:
        async def leave_by_error() -> None:
            async with house.executor as executor:
                executor.start(make_call("write", 0, door=0))
                await house.inside(0)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await leave_by_error()
        assert house.doors.inside == []

    assert play(scenario).ear.ended == {"c0": Status.CANCELLED}


def test_a_settle_that_is_cancelled_can_be_repeated() -> None:
    async def scenario(house: House) -> None:
        house.start("write")
        await house.inside(0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await house.executor.settle()
        house.doors.open(0)
        assert texts(await house.executor.settle()) == ["door 0"]

    play(scenario)
