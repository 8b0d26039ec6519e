"""One attempt: whatever the tool does, there is an outcome in bounded time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from executor_calls import until
from wholecall.agent.call_runner import Attempt, OutOfTime, time_steps
from wholecall.messages import Result

DONE = Result()


class Case:
    """An attempt, and how often it was reported as abandoned."""

    def __init__(self, *, grace: float = 0.0) -> None:
        self.abandoned = 0
        self.attempt = Attempt(grace=grace, on_abandoned=self._abandon)

    def _abandon(self) -> None:
        self.abandoned += 1

    async def run(
        self, work: Callable[[], Awaitable[Result]], *, seconds: float = 30
    ) -> Result | BaseException:
        outcome = await self.attempt.run(work, seconds=seconds)
        assert self.attempt.is_over()
        return outcome


class Fatal(BaseException):
    def __bool__(self) -> bool:
        """Whether an error is there is not the same as whether it is true."""
        return False


async def succeed() -> Result:
    return DONE


async def fail() -> Result:
    raise ValueError("no")


async def exit_all() -> Result:
    raise SystemExit(3)


async def interrupt() -> Result:
    raise KeyboardInterrupt


async def be_fatal() -> Result:
    raise Fatal


async def cancel_itself() -> Result:
    raise asyncio.CancelledError


async def hang() -> Result:
    await asyncio.Event().wait()
    return DONE


async def give_way_slowly() -> Result:
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0)
    return DONE


async def answer_when_cancelled() -> Result:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return DONE
    return DONE


@pytest.mark.parametrize(
    ("work", "kind"),
    [
        (succeed, Result),
        (fail, ValueError),
        (exit_all, SystemExit),
        (interrupt, KeyboardInterrupt),
        (be_fatal, Fatal),
        (cancel_itself, asyncio.CancelledError),
    ],
)
@pytest.mark.parametrize("seconds", [30, math.inf])
def test_what_the_tool_does_is_its_outcome(
    *, work: Callable[[], Awaitable[Result]], kind: type, seconds: float
) -> None:
    case = Case()
    assert isinstance(asyncio.run(case.run(work, seconds=seconds)), kind)
    assert case.abandoned == 0


@pytest.mark.parametrize("work", [hang, give_way_slowly, answer_when_cancelled])
def test_what_is_over_time_is_ended(work: Callable[[], Awaitable[Result]]) -> None:
    async def scenario() -> None:
        case = Case(grace=30)
        assert isinstance(await case.run(work, seconds=0), OutOfTime)
        assert case.abandoned == 0
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("error", [None, ValueError("later")])
def test_what_swallows_its_cancellation_is_abandoned(error: Exception | None) -> None:
    async def scenario() -> None:
        let_go = asyncio.Event()

        async def swallow() -> Result:
            while not let_go.is_set():
                try:
                    await let_go.wait()
                except asyncio.CancelledError:
                    continue
            if error is not None:
                raise error
            return DONE

        case = Case(grace=0.0)
        assert isinstance(await case.run(swallow, seconds=0), OutOfTime)
        assert case.abandoned == 1
        let_go.set()
        await until(lambda: len(asyncio.all_tasks()) == 1)

    asyncio.run(scenario())


def test_what_is_abandoned_and_then_gives_way_is_forgotten() -> None:
    async def scenario() -> None:
        case = Case(grace=0.0)
        again = asyncio.Event()

        async def swallow_once() -> Result:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await again.wait()
                raise
            return DONE

        await case.run(swallow_once, seconds=0)
        assert case.abandoned == 1
        again.set()
        await until(lambda: len(asyncio.all_tasks()) == 1)

    asyncio.run(scenario())


def test_who_is_cancelled_ends_the_tool_first() -> None:
    async def scenario() -> None:
        case = Case(grace=30)
        running = asyncio.create_task(case.run(give_way_slowly))
        await until(lambda: len(asyncio.all_tasks()) == 3)
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
        assert case.attempt.is_over()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(scenario())


def test_who_is_cancelled_twice_waits_no_longer() -> None:
    async def scenario() -> None:
        let_go = asyncio.Event()

        async def swallow() -> Result:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await let_go.wait()
            return DONE

        case = Case(grace=30)
        running = asyncio.create_task(case.run(swallow))
        await until(lambda: len(asyncio.all_tasks()) == 3)
        running.cancel()
        await until(case.attempt.is_over)
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])
        assert case.abandoned == 1
        let_go.set()
        await until(lambda: len(asyncio.all_tasks()) == 1)

    asyncio.run(scenario())


# ── A loop that is held up ──────────────────────────────────────────────────────────


class SkippingLoop(asyncio.SelectorEventLoop):
    """A loop whose clock a test sets forward, as a tool that blocks would."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


def run_with_clock(scenario: Callable[[SkippingLoop], Awaitable[None]]) -> None:
    loop = SkippingLoop()

    async def go() -> None:
        await scenario(loop)

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(go())


def test_what_ended_while_another_blocked_the_loop_counts() -> None:
    async def scenario(loop: SkippingLoop) -> None:
        came = asyncio.Event()

        async def take_some_steps() -> Result:
            await came.wait()
            for _ in range(10):
                await asyncio.sleep(0)
            return DONE

        case = Case()
        running = asyncio.create_task(case.run(take_some_steps, seconds=30))
        await until(lambda: len(asyncio.all_tasks()) == 3)
        came.set()
        loop.ahead += 100
        assert await running is DONE

    run_with_clock(scenario)


def test_what_hangs_is_ended_although_the_loop_was_held_up() -> None:
    async def scenario(loop: SkippingLoop) -> None:
        case = Case(grace=30)
        running = asyncio.create_task(case.run(hang, seconds=0.01))
        await until(lambda: len(asyncio.all_tasks()) == 3)
        loop.ahead += 100
        assert isinstance(await running, OutOfTime)

    run_with_clock(scenario)


def test_a_loop_that_is_always_held_up_gives_no_time_without_end() -> None:
    async def scenario(loop: SkippingLoop) -> None:
        case = Case(grace=30)
        running = asyncio.create_task(case.run(hang, seconds=1))
        while not running.done():
            loop.ahead += 10
            await asyncio.sleep(0)
        assert isinstance(running.result(), OutOfTime)
        assert loop.ahead < 10 * 1000

    run_with_clock(scenario)


# ── After its time ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("outcome", [DONE, ValueError("later"), KeyboardInterrupt(), None])
def test_what_comes_after_its_time_is_kept(outcome: Result | BaseException | None) -> None:
    async def scenario() -> None:
        let_go = asyncio.Event()
        late: list[Result | BaseException] = []

        async def swallow() -> Result:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await let_go.wait()
                if outcome is None:
                    raise
                if isinstance(outcome, BaseException):
                    raise outcome from None
            return DONE

        attempt = Attempt(grace=0.0, on_abandoned=lambda: None, on_late=late.append)
        assert isinstance(await attempt.run(swallow, seconds=0), OutOfTime)
        let_go.set()
        await until(lambda: len(asyncio.all_tasks()) == 1)
        await asyncio.sleep(0)
        assert late == ([] if outcome is None else [outcome])

    asyncio.run(scenario())


# ── Steps ───────────────────────────────────────────────────────────────────────────


async def steps_of(work: Coroutine[Any, Any, Any], ticks: list[float]) -> tuple[Any, list[float]]:
    """What the work gives, timed by a clock with these ticks; how long its steps took."""
    noted: list[float] = []
    clock = iter(ticks)
    return await time_steps(work, noted.append, clock=lambda: next(clock)), noted


def test_each_step_is_timed_and_the_waiting_is_not() -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return "done"

    given = asyncio.run(steps_of(work(), [0, 1, 10, 12, 20, 23]))
    assert given == ("done", [1, 2, 3])


def test_what_is_timed_can_be_cancelled_and_may_go_on() -> None:
    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return "went on"

    async def scenario() -> None:
        task = asyncio.create_task(steps_of(stubborn(), list(range(6))))
        await asyncio.sleep(0)
        task.cancel()
        assert await task == ("went on", [1, 1, 1])

    asyncio.run(scenario())


def test_what_is_raised_comes_through() -> None:
    async def fail_later() -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        asyncio.run(steps_of(fail_later(), list(range(4))))
