"""One attempt: whatever the tool does, there is an outcome in bounded time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable

import pytest

from executing import until
from wholecall.core.conversation import Result
from wholecall.runs.attempt import Attempt, OutOfTime

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


def test_the_user_s_interrupt_is_no_outcome() -> None:
    async def interrupt() -> Result:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(Case().run(interrupt))
