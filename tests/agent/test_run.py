"""A run in its user's hands: events, result, cancellation."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from executor_calls import make_call
from wholecall.agent.approvals import Approvals
from wholecall.agent.budget import Stop
from wholecall.agent.run import UNREAD, EventChannel, Run, RunResult
from wholecall.agent.run_events import ToolReported
from wholecall.errors import RunCancelled, RunFailed
from wholecall.events import Text

RESULT = RunResult(text="done", stop=Stop.ANSWER)


class Plain:
    """A function as the work of a run."""

    def __init__(self, function: Callable[[EventChannel], Awaitable[RunResult]]) -> None:
        self._function = function
        self.halted = False
        self.ran = (make_call("write"),)

    async def __call__(self, channel: EventChannel) -> RunResult:
        return await self._function(channel)

    def halt(self) -> None:
        self.halted = True


def run_of(function: Callable[[EventChannel], Awaitable[RunResult]]) -> Run:
    return Run(Plain(function), approvals=Approvals())


def test_a_cancelled_run_is_halted_at_once() -> None:
    async def test() -> None:
        work = Plain(Endless())
        run = Run(work, approvals=Approvals())
        await run.cancel()
        assert work.halted

    drive(test())


def drive(test: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await test
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"tasks are left over: {left}"

    asyncio.run(bounded())


async def say_three(channel: EventChannel) -> RunResult:
    for word in ("one", "two", "three"):
        channel.put(Text(word))
        await channel.room()
        await asyncio.sleep(0)
    return RESULT


def test_events_come_in_order_and_then_the_result() -> None:
    async def test() -> None:
        run = run_of(say_three)
        assert [event async for event in run] == [Text("one"), Text("two"), Text("three")]
        assert await run.result() is RESULT
        assert await run.result() is RESULT

    drive(test())


def test_the_result_can_be_had_without_reading_events() -> None:
    async def test() -> None:
        assert await run_of(say_three).result() is RESULT

    drive(test())


def test_a_result_can_be_had_again_in_another_loop() -> None:
    run = run_of(say_three)
    assert asyncio.run(run.result()) is RESULT
    assert asyncio.run(run.result()) is RESULT
    asyncio.run(run.cancel())


def test_a_failure_is_raised_to_whoever_reads_and_whoever_waits() -> None:
    async def fail(channel: EventChannel) -> RunResult:
        channel.put(Text("one"))
        raise RunFailed("no")

    async def test() -> None:
        run = run_of(fail)
        events = aiter(run)
        assert await anext(events) == Text("one")
        with pytest.raises(RunFailed, match="no"):
            await anext(events)
        with pytest.raises(RunFailed, match="no"):
            await run.result()

    drive(test())


class Endless:
    """Talks until it is cancelled."""

    def __init__(self) -> None:
        self.said = 0
        self.was_cancelled = False

    async def __call__(self, channel: EventChannel) -> RunResult:
        try:
            while True:
                channel.put(Text("again"))
                self.said += 1
                await channel.room()
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise


def test_leaving_the_iteration_cancels_the_run() -> None:
    async def test() -> None:
        work = Endless()
        events = aiter(run_of(work))
        assert await anext(events) == Text("again")
        await events.aclose()
        assert work.was_cancelled

    drive(test())


def test_whoever_leaves_the_iteration_and_waits_for_the_result_gets_it() -> None:
    async def test() -> None:
        run = run_of(say_three)
        async for event in run:
            assert event == Text("one")
            break
        assert await run.result() is RESULT
        assert [event async for event in run] == []

    drive(test())


def test_a_run_has_one_reader_at_a_time() -> None:
    async def test() -> None:
        run = run_of(say_three)
        events = aiter(run)
        assert await anext(events) == Text("one")
        with pytest.raises(RuntimeError, match="being read already"):
            await anext(aiter(run))
        assert [event async for event in events] == [Text("two"), Text("three")]

    drive(test())


def test_a_reader_who_cancels_the_run_is_told_so_and_not_cancelled() -> None:
    async def read_and_cancel() -> None:
        run = run_of(Endless())
        async for _ in run:
            await run.cancel()

    async def test() -> None:
        with pytest.raises(RunCancelled):
            await read_and_cancel()
        task = asyncio.current_task()
        assert task is not None
        assert not task.cancelling()

    drive(test())


def test_leaving_the_block_cancels_the_run_and_an_idle_one_is_left_alone() -> None:
    async def test() -> None:
        work = Endless()
        async with run_of(work) as run:
            waiting = asyncio.create_task(run.result())
            while not work.said:
                await asyncio.sleep(0)
        assert work.was_cancelled
        with pytest.raises(RunCancelled) as caught:
            await waiting
        # What it had begun is told; and nobody takes it for a cancellation of their own task.
        assert caught.value.ran == (make_call("write"),)
        async with run_of(say_three):
            pass
        async with run_of(say_three) as done:
            await done.result()

    drive(test())


def test_cancelling_whoever_waits_does_not_cancel_the_run() -> None:
    async def test() -> None:
        work = Endless()
        run = run_of(work)
        waiting = asyncio.create_task(run.result())
        while not work.said:
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert not work.was_cancelled
        await run.cancel()
        assert work.was_cancelled

    drive(test())


def test_a_slow_reader_holds_the_run_back() -> None:
    async def test() -> None:
        work = Endless()
        events = aiter(run_of(work))
        await anext(events)
        for _ in range(3 * UNREAD):
            await asyncio.sleep(0)
        assert work.said == UNREAD + 1
        for _ in range(5):
            await anext(events)
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert work.said > UNREAD + 1
        await events.aclose()

    drive(test())


def test_whoever_waits_for_the_result_is_not_waited_for() -> None:
    async def say_much(channel: EventChannel) -> RunResult:
        for number in range(3 * UNREAD):
            channel.put(Text(str(number)))
            await channel.room()
        return RESULT

    async def test() -> None:
        run = run_of(say_much)
        events = aiter(run)
        first = await anext(events)
        assert await run.result() is RESULT
        # Nothing is lost to a reader who comes back.
        seen = [first, *[event async for event in events]]
        assert seen == [Text(str(number)) for number in range(3 * UNREAD)]

    drive(test())


def test_a_run_that_waits_for_its_reader_goes_on_while_the_result_is_waited_for() -> None:
    async def test() -> None:
        work = Endless()
        run = run_of(work)
        events = aiter(run)
        await anext(events)
        while work.said <= UNREAD:
            await asyncio.sleep(0)
        waiting = asyncio.create_task(run.result())
        while work.said <= 2 * UNREAD:
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        # Nobody waits any more, and the reader is behind: the run is held back again.
        for _ in range(5):
            await asyncio.sleep(0)
        said = work.said
        for _ in range(20):
            await asyncio.sleep(0)
        assert work.said == said
        await events.aclose()

    drive(test())


def test_reports_are_dropped_for_a_slow_reader_and_nothing_else_is() -> None:
    async def test() -> None:
        channel = EventChannel()
        channel.put(Text("nobody reads yet"))
        channel.is_read = True
        for _ in range(UNREAD):
            channel.put(Text("kept"))
        channel.put(ToolReported("call_1", 1))
        channel.put(Text("last"))
        channel.close()
        seen = []
        while (event := await channel.get()) is not None:
            seen.append(event)
        assert seen == [Text("kept")] * UNREAD + [Text("last")]

    drive(test())


def test_a_run_that_is_cancelled_before_it_begins_keeps_no_reader_waiting() -> None:
    async def test() -> None:
        run = run_of(say_three)
        await run.cancel()
        reader = asyncio.create_task(read(run))
        done, _ = await asyncio.wait([reader], timeout=10)
        assert done == {reader}
        assert isinstance(reader.exception(), RunCancelled)

    async def read(run: Run) -> list[object]:
        return [event async for event in run]

    drive(test())


# Without an event loop.


def test_a_run_is_read_and_waited_for_without_an_event_loop() -> None:
    run = run_of(say_three)
    assert list(run) == [Text("one"), Text("two"), Text("three")]
    assert run.wait() is RESULT
    assert run.wait() is RESULT


def test_waiting_alone_runs_it() -> None:
    assert run_of(say_three).wait() is RESULT


def test_leaving_a_plain_loop_cancels_the_run() -> None:
    work = Endless()
    run = run_of(work)
    for event in run:
        assert event == Text("again")
        break
    assert work.was_cancelled
    with pytest.raises(RunCancelled):
        run.wait()


def test_a_plain_loop_raises_what_the_run_raised() -> None:
    async def fail(channel: EventChannel) -> RunResult:
        channel.put(Text("one"))
        raise RunFailed("no")

    events = iter(run_of(fail))
    assert next(events) == Text("one")
    with pytest.raises(RunFailed, match="no"):
        next(events)


def test_a_run_that_is_being_read_cannot_be_waited_for() -> None:
    run = run_of(Endless())
    events = iter(run)
    next(events)
    with pytest.raises(RuntimeError, match="after its last event"):
        run.wait()


def test_plain_loops_refuse_to_block_an_event_loop() -> None:
    async def test() -> None:
        with pytest.raises(RuntimeError, match="async for event in run"):
            list(run_of(say_three))
        with pytest.raises(RuntimeError, match=r"await run\.result"):
            run_of(say_three).wait()

    drive(test())
