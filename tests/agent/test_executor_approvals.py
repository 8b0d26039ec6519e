"""Calls that wait for an approval, and those that wait for them."""

from __future__ import annotations

import threading

import pytest

from agent.doors import House, play, texts
from executor_calls import until
from wholecall.agent.approvals import Approvals
from wholecall.agent.budget import RunLimits
from wholecall.agent.call_runner import ExecutorSettings
from wholecall.agent.run_events import Status


@pytest.mark.parametrize("approved", [True, False])
def test_a_call_waits_for_its_approval_and_nobody_waits_with_it(approved: bool) -> None:
    approvals = Approvals()

    async def scenario(house: House) -> None:
        house.start("pay", "look")
        await house.inside(1)
        assert [call.id for call in approvals.pending] == ["c0"]
        answering = threading.Thread(
            target=approvals.answer, args=("c0", approved), kwargs={"why": "because"}
        )
        answering.start()
        house.doors.open(0, 1)
        paid, looked = texts(await house.executor.settle())
        assert looked == "door 1"
        assert paid == "door 0" if approved else "not approved: because" in paid

    house = play(
        scenario, settings=ExecutorSettings(approvals=approvals), limits=RunLimits(concurrency=1)
    )
    assert house.ear.ended["c0"] is (Status.DONE if approved else Status.DENIED)
    assert house.ear.words[0] == "c0 asked"


def test_a_barrier_waits_for_a_call_that_waits_for_approval() -> None:
    approvals = Approvals()

    async def scenario(house: House) -> None:
        house.start("pay", "alone")
        await until(lambda: approvals.pending)
        await house.inside()
        approvals.answer("c0", True)
        await house.inside(0)
        house.doors.open(0)
        await house.inside(1)
        house.doors.open(1)
        await house.executor.settle()

    play(scenario, settings=ExecutorSettings(approvals=approvals))
