"""Cancel the executor at every step that there is: nothing leaks, nothing begins afterwards.

A run of three turns' worth of calls is played on a real event loop and cancelled after 1, 2,
3, … iterations of the loop, until it ends by itself before the cancellation comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from executor_calls import Ear, make_call
from wholecall.agent.approvals import Approvals
from wholecall.agent.budget import RunLimits
from wholecall.agent.call_runner import ExecutorSettings
from wholecall.agent.executor import Executor
from wholecall.agent.run_events import Status, ToolAbandoned, ToolEnded, ToolStarted
from wholecall.agent.tool_middleware import RunNext
from wholecall.events import Call
from wholecall.messages import CallResult, Result
from wholecall.tools.function_tool import tool
from wholecall.tools.toolbox import Toolbox

MANY = 300
"""More iterations than any of the scenarios has."""


async def step(times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


@tool(read_only=True, retries=1)
async def look(fails: bool = False) -> str:
    await step(2)
    if fails:
        raise ConnectionError
    return "looked"


@tool
async def write() -> str:
    await step(3)
    return "written"


@tool(barrier=True)
async def alone() -> str:
    await step(1)
    return "alone"


@tool(approve=True)
async def pay() -> str:
    await step(1)
    return "paid"


@tool(concurrency=1)
async def single() -> AsyncIterator[str]:
    yield "half"
    await step(1)
    yield "whole"


@tool
async def lingers() -> str:
    """Takes its time to give way."""
    try:
        await step(4)
    except asyncio.CancelledError:
        await step(2)
        raise
    return "lingered"


CALLS = [
    ("look", {}),
    ("single", {}),
    ("pay", {}),
    ("single", {}),
    ("alone", {}),
    ("look", {"fails": True}),
    ("lingers", {}),
    ("write", {}),
]


async def approve(_call: Call) -> bool:
    await step(2)
    return True


async def wrapper(call: Call, run_next: RunNext) -> Result:
    await step(1)
    return await run_next(call)


async def no_wait(_seconds: float) -> None:
    await step(1)


@dataclass
class Played:
    """What a cancelled run left behind."""

    ear: Ear = field(default_factory=Ear)
    results: tuple[CallResult, ...] = ()
    begun_before: int = 0
    """Calls that had begun when the cancellation came."""
    cancelled: bool = False


async def play(iterations: int, *, keep_unsafe: bool) -> Played:
    played = Played()
    executor = Executor(
        Toolbox([look, write, alone, pay, single, lingers]),
        emit=played.ear,
        limits=RunLimits(concurrency=3),
        settings=ExecutorSettings(
            approvals=Approvals(approve), around=(wrapper,), grace=30, sleep=no_wait
        ),
    )

    async def run() -> None:
        try:
            for number, (name, arguments) in enumerate(CALLS):
                executor.start(make_call(name, number, **arguments))
                await step(1)
            played.results = await executor.settle()
        except asyncio.CancelledError:
            played.begun_before = len(executor.ran)
            await executor.cancel(keep_unsafe=keep_unsafe)
            played.results = await executor.settle()
            raise

    running = asyncio.create_task(run())
    await step(iterations)
    running.cancel()
    await asyncio.wait([running])
    played.cancelled = running.cancelled()
    assert len(executor.ran) == played.begun_before or not played.cancelled
    await step(3)  # an approver that was cancelled ends by itself
    assert len(asyncio.all_tasks()) == 1, "no task is left behind"
    return played


@pytest.mark.parametrize("keep_unsafe", [False, True])
def test_a_cancellation_at_any_step_leaves_nothing_behind(keep_unsafe: bool) -> None:
    cancelled_at = 0
    played = Played()
    for iterations in range(MANY):
        played = asyncio.run(play(iterations, keep_unsafe=keep_unsafe))
        if not played.cancelled:
            break
        cancelled_at += 1
        check(played, keep_unsafe=keep_unsafe)
    assert 30 < cancelled_at < MANY, "every step was tried, and there is an end to them"
    assert [result.call_id for result in played.results] == [f"c{n}" for n in range(len(CALLS))]
    assert [result.result.failed for result in played.results] == [
        *(False, False, False, False, False, True, False, False)
    ]


UNSAFE = frozenset({"write", "alone", "pay", "single", "lingers"})


def check(played: Played, *, keep_unsafe: bool) -> None:
    events = played.ear.events
    ended = [event for event in events if isinstance(event, ToolEnded)]
    begun = {event.call.id for event in events if isinstance(event, ToolStarted)}
    ids = [event.call.id for event in ended]
    assert len(ids) == len(set(ids)), "no call ends twice"
    assert begun <= set(ids), "every call that began has a result"
    assert sorted(ids) == [result.call_id for result in played.results]
    assert not played.ear.count(ToolAbandoned)
    for event in ended:
        expected = _allowed(event.call.id in begun, keep_unsafe and event.call.name in UNSAFE)
        assert event.status in expected, (event.call.id, event.status)


def _allowed(began: bool, kept: bool) -> set[Status]:
    if not began:
        return {Status.SKIPPED}
    finished = {Status.DONE, Status.FAILED}
    return finished if kept else finished | {Status.CANCELLED}


def test_no_tool_s_code_begins_after_the_run_was_halted() -> None:
    """`ToolStarted` comes a step before the tool's own code: one more place to stop at."""
    late: list[int] = []

    async def begin(iterations: int) -> None:
        halted = False

        @tool
        async def work() -> None:
            if halted:
                late.append(iterations)

        executor = Executor(Toolbox([work]), emit=Ear())
        executor.start(make_call("work"))
        await step(iterations)
        halted = True
        executor.halt()
        await executor.settle()

    async def all_of_them() -> None:
        for iterations in range(12):
            await begin(iterations)

    asyncio.run(all_of_them())
    assert late == []
