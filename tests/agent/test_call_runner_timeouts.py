"""The time of a call: timeouts, attempts, the halt."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest

from agent.one_call import Case, fails_later
from executor_calls import make_call, until
from wholecall.agent.budget import RunLimits
from wholecall.agent.call_runner import CallRunner, ExecutorSettings, Threads
from wholecall.agent.run_events import Status
from wholecall.tools.function_tool import ToolRules, make_tool
from wholecall.tools.tool import Context, Failed, Retry

# ── Time ────────────────────────────────────────────────────────────────────────────


async def hangs() -> None:
    await asyncio.Event().wait()


def test_a_tool_that_hangs_is_ended() -> None:
    case = Case(make_tool(hangs, timeout=0.01))
    outcome = case.run()
    assert outcome.status is Status.TIMED_OUT
    assert "did not finish within 0.01 seconds" in outcome.result.text
    assert case.ear.words == ["c0 started"]


def test_the_run_says_how_long_unless_the_tool_does() -> None:
    case = Case(make_tool(hangs), limits=RunLimits(tool_timeout=0.01))
    assert "within 0.01 seconds" in case.run().result.text


def test_a_thread_that_hangs_is_let_go_and_reported() -> None:
    hang, seen = threading.Event(), threading.Event()
    threads = Threads()

    def hangs_in_a_thread(context: Context) -> None:
        hang.wait(30)
        if context.is_cancelled():
            seen.set()
        context.report("too late")

    tool = make_tool(hangs_in_a_thread, timeout=0.01)
    limits = RunLimits(lost_threads=1)
    case = Case(tool, settings=ExecutorSettings(threads=threads), limits=limits)
    assert case.run().status is Status.TIMED_OUT
    assert case.ear.words == ["c0 started", "c0 abandoned"]
    assert threads.lost == 1

    refused = Case(tool, settings=ExecutorSettings(threads=threads), limits=limits)
    outcome = refused.run()
    assert outcome.status is Status.SKIPPED
    assert "too many earlier calls hang" in outcome.result.text
    assert refused.ear.words == []

    hang.set()
    assert seen.wait(30)
    asyncio.run(until(lambda: threads.lost == 0))
    assert case.ear.words == ["c0 started", "c0 abandoned"], "a late report is not heard"


def test_lost_threads_do_not_stop_tools_that_need_none() -> None:
    case = Case(make_tool(fails_later), limits=RunLimits(lost_threads=0))
    assert case.run().status is Status.FAILED


def test_a_task_that_goes_on_is_abandoned_and_reported() -> None:
    async def scenario() -> list[str]:
        let_go = asyncio.Event()

        async def swallows(context: Context) -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                context.report("too late")
                await let_go.wait()

        case = Case(make_tool(swallows, timeout=0.01))
        outcome = await case.calling.run()
        assert outcome.status is Status.TIMED_OUT
        let_go.set()
        await until(lambda: len(asyncio.all_tasks()) == 1)
        return case.ear.words

    assert asyncio.run(scenario()) == ["c0 started", "c0 abandoned"]


# ── Attempts ────────────────────────────────────────────────────────────────────────


class Flaky:
    """Fails as often as it is told to, then succeeds."""

    def __init__(self, failures: int, error: Exception) -> None:
        self.left = failures
        self.error = error
        self.keys: list[str] = []

    async def __call__(self, context: Context) -> str:
        self.keys.append(context.idempotency_key)
        if self.left:
            self.left -= 1
            raise self.error
        return "sunny"


READ: ToolRules = {"read_only": True, "retries": 2}


SAME: ToolRules = {"idempotent": True, "retries": 2}


LOST = ConnectionError("lost")


# what holds, the rules, failures, the error, the status, how often it ran
ATTEMPTS: list[tuple[str, ToolRules, int, Exception, Status, int]] = [
    ("what reads is tried again", READ, 2, LOST, Status.DONE, 3),
    ("… so often and not more", READ, 3, LOST, Status.FAILED, 3),
    ("what does the same twice is, too", SAME, 1, LOST, Status.DONE, 2),
    ("what works is not", READ, 0, LOST, Status.DONE, 1),
    ("without retries nothing is", {"read_only": True}, 1, LOST, Status.FAILED, 1),
    ("what changes things is not", {}, 1, LOST, Status.FAILED, 1),
    ("Retry is the model's to try", READ, 1, Retry("x"), Status.FAILED, 1),
    ("Failed is final", READ, 1, Failed("x"), Status.FAILED, 1),
]


@pytest.mark.parametrize(
    ("rules", "failures", "error", "status", "runs"),
    [row[1:] for row in ATTEMPTS],
    ids=[row[0] for row in ATTEMPTS],
)
def test_only_harmless_calls_are_tried_again(
    *, rules: ToolRules, failures: int, error: Exception, status: Status, runs: int
) -> None:
    flaky = Flaky(failures, error)
    case = Case(make_tool(flaky, name="look", **rules))
    assert case.run().status is status
    assert flaky.keys == ["r:c0"] * runs
    assert case.ear.words == ["c0 started", "c0 started (2)", "c0 started (3)"][:runs]
    assert len(case.slept) == runs - 1
    assert case.slept == sorted(case.slept), "each wait is longer than the one before"


def test_what_timed_out_is_tried_again() -> None:
    case = Case(make_tool(hangs, read_only=True, retries=1, timeout=0.01))
    assert case.run().status is Status.TIMED_OUT
    assert case.ear.words == ["c0 started", "c0 started (2)"]


def test_a_wait_is_never_long() -> None:
    case = Case(make_tool(fails_later, read_only=True, retries=12))
    case.run()
    assert len(case.slept) == 12
    assert all(0 < seconds <= 2 for seconds in case.slept)


# ── Halted ──────────────────────────────────────────────────────────────────────────


def test_a_call_that_is_halted_in_its_first_step_does_not_reach_the_tool() -> None:
    def never() -> None:
        raise AssertionError

    case = Case(make_tool(never))
    case.calling.halt()
    outcome = case.run()
    assert "the run was stopped" in outcome.result.text


@pytest.mark.parametrize("when", ["while it runs", "while it waits"])
def test_a_call_that_is_halted_is_not_tried_again(when: str) -> None:
    def breaks() -> None:
        if when == "while it runs":
            case.calling.halt()
        raise ConnectionError

    async def wait(_seconds: float) -> None:
        case.calling.halt()

    case = Case(make_tool(breaks, read_only=True, retries=3))
    if when == "while it waits":
        settings = replace(case.settings, sleep=wait)
        tool, call = make_tool(breaks, read_only=True, retries=3), make_call("breaks")
        case.calling = CallRunner(call, tool, limits=RunLimits(), settings=settings, emit=case.ear)
    assert case.run().status is Status.FAILED
    assert case.ear.words == ["c0 started"]
