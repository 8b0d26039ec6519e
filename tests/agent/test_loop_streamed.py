"""What happens while an answer still streams: early start, overlap, time, cancellation.

Nothing here looks at a clock: a stream that must not end before a tool has started waits
for that tool, and would wait for ever if the tool did not start.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest

from scripted import LiveUpstream, ending, growing, opening, says
from wholecall.agent.api import run
from wholecall.agent.budget import RunLimits, Stop
from wholecall.agent.run import Run
from wholecall.agent.run_events import RunEvent, ToolEnded, ToolStarted, TurnStarted
from wholecall.errors import RunFailed
from wholecall.events import Ended, Released
from wholecall.protocols.reader import Chunk
from wholecall.tools.function_tool import FunctionTool, tool


def drive(test: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await test
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"tasks are left over: {left}"

    asyncio.run(bounded())


async def answer_only() -> AsyncIterator[Chunk]:
    for chunk in says("Done.").chunks:
        yield chunk


class Doors:
    """Tools that say when they are inside, and wait to be let out."""

    def __init__(self, *, wait: bool = False) -> None:
        self.inside: list[int] = []
        self.entered = asyncio.Condition()
        self.open = asyncio.Event()
        if not wait:
            self.open.set()

    async def enter(self, door: int) -> str:
        async with self.entered:
            self.inside.append(door)
            self.entered.notify_all()
        await self.open.wait()
        return f"went through {door}"

    async def wait_for(self, number: int) -> None:
        async with self.entered:
            await self.entered.wait_for(lambda: len(self.inside) >= number)

    def reading(self) -> FunctionTool[..., Any]:
        @tool(read_only=True)
        async def peek(door: int) -> str:
            """Look through a door."""
            return await self.enter(door)

        return peek

    def acting(self) -> FunctionTool[..., Any]:
        @tool
        async def push(door: int) -> str:
            """Push a door open."""
            return await self.enter(door)

        return push


async def collect(started: Run) -> list[RunEvent]:
    return [event async for event in started]


def place(events: list[RunEvent], kind: type) -> int:
    return next(at for at, event in enumerate(events) if isinstance(event, kind))


def test_a_read_only_tool_starts_before_the_stream_ends() -> None:
    async def test() -> None:
        doors = Doors()

        async def stream() -> AsyncIterator[Chunk]:
            yield opening(0, "peek", arguments='{"door": 1}')
            await doors.wait_for(1)  # the tool runs before anything more comes
            for chunk in ending("tool_calls"):
                yield chunk

        upstream = LiveUpstream(stream, answer_only)
        events = await collect(run("m", "Go", tools=[doors.reading()], upstream=upstream))
        assert place(events, ToolStarted) < place(events, Ended)

    drive(test())


def test_a_tool_with_side_effects_waits_for_the_end_of_the_turn() -> None:
    async def test() -> None:
        doors = Doors()
        upstream = LiveUpstream(one_call("push"), answer_only)
        events = await collect(run("m", "Go", tools=[doors.acting()], upstream=upstream))
        assert place(events, Ended) < place(events, ToolStarted)
        assert place(events, Released) < place(events, ToolStarted)

    drive(test())


def one_call(name: str) -> Any:
    async def stream() -> AsyncIterator[Chunk]:
        yield opening(0, name, arguments='{"door": 1}')
        for chunk in ending("tool_calls"):
            yield chunk

    return stream


def test_three_calls_overlap_and_the_stream_is_read_on() -> None:
    async def test() -> None:
        doors = Doors(wait=True)

        async def stream() -> AsyncIterator[Chunk]:
            for number in range(3):
                yield opening(number, "peek", arguments='{"door": ')
                yield growing(number, f"{number}}}")
                await doors.wait_for(number + 1)  # all before are still inside
            for chunk in ending("tool_calls"):
                yield chunk
            doors.open.set()  # only now, with the stream read to its end, does any of them leave

        upstream = LiveUpstream(stream, answer_only)
        events = await collect(run("m", "Go", tools=[doors.reading()], upstream=upstream))
        starts = [at for at, event in enumerate(events) if isinstance(event, ToolStarted)]
        assert len(starts) == 3
        assert max(starts) < place(events, ToolEnded)

    drive(test())


# ── Time ────────────────────────────────────────────────────────────────────────────


async def silence() -> AsyncIterator[Chunk]:
    await asyncio.Event().wait()
    yield ""


def test_when_the_time_is_over_while_the_model_speaks_it_gets_one_last_word() -> None:
    async def test() -> None:
        doors = Doors()
        upstream = LiveUpstream(silence, answer_only)
        started = run(
            "m",
            "Go",
            tools=[doors.reading()],
            upstream=upstream,
            limits=RunLimits(seconds=0.05),
        )
        result = await started.result()
        assert (result.text, result.stop) == ("Done.", Stop.SECONDS)
        assert upstream.open == 0

    drive(test())


def test_when_the_time_is_over_while_a_tool_runs_it_is_told_so() -> None:
    async def test() -> None:
        doors = Doors(wait=True)
        upstream = LiveUpstream(one_call("push"), answer_only)
        started = run(
            "m", "Go", tools=[doors.acting()], upstream=upstream, limits=RunLimits(seconds=0.05)
        )
        result = await started.result()
        assert (result.text, result.stop) == ("Done.", Stop.SECONDS)
        assert [ended.call.name for ended in result.ended] == ["push"]

    drive(test())


def test_when_the_time_is_over_after_an_early_start_the_error_says_what_ran() -> None:
    async def test() -> None:
        doors = Doors()

        async def stream() -> AsyncIterator[Chunk]:
            yield opening(0, "peek", arguments='{"door": 1}')
            await asyncio.Event().wait()

        upstream = LiveUpstream(stream)
        started = run(
            "m", "Go", tools=[doors.reading()], upstream=upstream, limits=RunLimits(seconds=0.05)
        )
        with pytest.raises(RunFailed, match="time of the run") as failed:
            await started.result()
        assert [call.name for call in failed.value.ran] == ["peek"]

    drive(test())


# ── Cancellation ────────────────────────────────────────────────────────────────────

MOST_STEPS = 400


@pytest.mark.parametrize("name", ["peek", "push"])
def test_cancelled_at_any_step_a_run_leaves_nothing_behind(name: str) -> None:
    """Cancel after n steps of the event loop, for every n until the run is over by itself."""

    async def test() -> None:
        for steps in range(MOST_STEPS):
            if await cancel_after(steps, name):
                break
        else:
            pytest.fail("the run did not come to its end")
        assert steps > 5

    drive(test())


async def cancel_after(steps: int, name: str) -> bool:
    doors = Doors()

    async def stream() -> AsyncIterator[Chunk]:
        yield opening(0, name, arguments='{"door"')
        await asyncio.sleep(0)
        yield growing(0, ": 1}")
        await asyncio.sleep(0)
        for chunk in ending("tool_calls"):
            yield chunk

    upstream = LiveUpstream(stream, answer_only)
    events: list[RunEvent] = []
    tools = [doors.reading(), doors.acting()]
    started = run("m", "Go", tools=tools, upstream=upstream, taps=[events.append])
    result = asyncio.create_task(started.result())
    for _ in range(steps):
        await asyncio.sleep(0)
    was_over = result.done()
    begun = count(events, ToolStarted)
    await started.cancel()
    await asyncio.wait([result])
    assert upstream.open == 0
    assert len(doors.inside) <= count(events, ToolStarted) == begun, "a tool began too late"
    ends = [event.call.id for event in events if isinstance(event, ToolEnded)]
    assert len(ends) == len(set(ends)) >= begun
    return was_over


def count(events: list[RunEvent], kind: type) -> int:
    return sum(isinstance(event, kind) for event in events)


def test_a_cancelled_run_asks_no_further_turn() -> None:
    async def test() -> None:
        doors = Doors(wait=True)
        upstream = LiveUpstream(one_call("push"), answer_only)
        events: list[RunEvent] = []
        started = run("m", "Go", tools=[doors.acting()], upstream=upstream, taps=[events.append])
        async with started:
            waiting = asyncio.create_task(started.result())
            await doors.wait_for(1)
        await asyncio.wait([waiting])
        assert len(upstream.requests) == 1
        assert count(events, TurnStarted) == 1

    drive(test())
