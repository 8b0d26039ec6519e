"""Tools report what happened: siblings that block, results that come late, interrupts."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable

import pytest

from executor_calls import Ear, make_call, until
from scripted import calls, says
from wholecall.agent.api import ask, ask_sync
from wholecall.agent.budget import RunLimits
from wholecall.agent.call_runner import ExecutorSettings, tell_late
from wholecall.agent.executor import Executor
from wholecall.agent.run_events import RunEvent, Status, ToolEnded, ToolEndedLate
from wholecall.agent.tool_middleware import RunNext
from wholecall.events import Call, Text
from wholecall.messages import Message, Result, Role
from wholecall.tools.function_tool import make_tool, tool
from wholecall.tools.tool import Failed
from wholecall.tools.toolbox import Toolbox
from wholecall.upstreams.replay import ReplayUpstream

# ── Siblings that block ─────────────────────────────────────────────────────────────


class SkippingLoop(asyncio.SelectorEventLoop):
    """A loop whose clock a tool that blocks sets forward."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


async def steps(came: asyncio.Event) -> str:
    await came.wait()
    for _ in range(10):
        await asyncio.sleep(0)
    return "ended"


def test_a_tool_that_ended_while_a_sibling_blocked_is_done() -> None:
    loop, came, ended = SkippingLoop(), asyncio.Event(), threading.Event()

    async def waits() -> str:
        return await steps(came)

    def threaded() -> str:
        ended.set()
        return "ended"

    async def blocks() -> str:
        assert ended.wait(30), "it blocks until the thread is done"
        came.set()
        loop.ahead += 100
        return "blocked"

    async def go() -> dict[str, Status]:
        ear = Ear()
        tools = [make_tool(waits), make_tool(threaded), make_tool(blocks)]
        async with Executor(Toolbox(tools), emit=ear) as executor:
            for number, each in enumerate(tools):
                executor.start(make_call(each.name, number))
            await executor.settle()
        return ear.ended

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        ended_as = runner.run(go())
    assert ended_as == dict.fromkeys(("c0", "c1", "c2"), Status.DONE)


def test_a_tool_has_its_time_after_a_sibling_has_blocked() -> None:
    loop = SkippingLoop()

    async def blocks() -> str:
        loop.ahead += 1.2
        return "blocked"

    async def works() -> str:
        for _ in range(60):
            loop.ahead += 0.01
            await asyncio.sleep(0)
        return "worked"

    async def go() -> dict[str, Status]:
        ear = Ear()
        tools, limits = [make_tool(blocks), make_tool(works)], RunLimits(tool_timeout=1.0)
        async with Executor(Toolbox(tools), emit=ear, limits=limits) as executor:
            for number, each in enumerate(tools):
                executor.start(make_call(each.name, number))
            await executor.settle()
        return ear.ended

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        ended_as = runner.run(go())
    assert ended_as == dict.fromkeys(("c0", "c1"), Status.DONE)


class Clock:
    """A clock that only a test sets forward."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("took", "blocked"),
    [([0.0, 0.0], 0.0), ([0.05, 0.05], 0.0), ([2.5, 0.0], 2.5), ([2.0, 0.5], 2.5)],
    ids=["at once", "in short steps", "in one long step", "in two long steps"],
)
def test_a_tool_that_blocks_the_loop_is_named_with_its_duration(
    took: list[float], blocked: float
) -> None:
    clock, ear = Clock(), Ear()

    async def works() -> str:
        clock.now += took[0]
        await asyncio.sleep(0)
        clock.now += took[1]
        return "done"

    async def go() -> None:
        settings = ExecutorSettings(clock=clock)
        toolbox = Toolbox([make_tool(works)])
        async with Executor(toolbox, emit=ear, settings=settings) as executor:
            executor.start(make_call("works"))
            await executor.settle()

    asyncio.run(go())
    [end] = [event for event in ear.events if isinstance(event, ToolEnded)]
    assert end.blocked == blocked


# ── Late results ────────────────────────────────────────────────────────────────────


class Slow:
    """A function in a thread that gives its result when the test lets it."""

    def __init__(self, outcome: str | Exception = "the report") -> None:
        self.go_on = threading.Event()
        self._outcome = outcome

    def __call__(self) -> str:
        self.go_on.wait(30)
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


def play_late(slow: Slow, *, limits: RunLimits | None = None) -> Ear:
    """A call that times out, and its thread that comes to its end afterwards."""
    ear = Ear()

    async def go() -> None:
        toolbox = Toolbox([make_tool(slow, name="slow", timeout=0.01)])
        settings = ExecutorSettings(grace=0.0)
        async with Executor(toolbox, emit=ear, limits=limits, settings=settings) as executor:
            executor.start(make_call("slow"))
            await executor.settle()
            slow.go_on.set()
            await until(lambda: ear.count(ToolEndedLate))

    asyncio.run(go())
    return ear


@pytest.mark.parametrize(
    ("outcome", "status", "text"),
    [
        ("the report", "done", "the report"),
        (Failed("no paper"), "failed", 'The tool "slow" failed: no paper'),
    ],
)
def test_what_a_thread_gives_after_its_time_is_reported_once(
    outcome: str | Exception, status: str, *, text: str
) -> None:
    ear = play_late(Slow(outcome))
    words = ["c0 started", "c0 abandoned", "c0 timed_out", f"c0 {status} late"]
    assert ear.words == words
    assert isinstance(ear.events[-1], ToolEndedLate)
    assert ear.events[-1].result.text.startswith(text)
    assert ear.events[-1].seconds > 0


def test_a_late_result_is_cut_as_any_other() -> None:
    ear = play_late(Slow("a" * 100), limits=RunLimits(result_limit=10))
    assert isinstance(ear.events[-1], ToolEndedLate)
    assert "the first 10 of 100 characters" in ear.events[-1].result.text


def test_of_several_attempts_that_timed_out_one_late_result_is_told() -> None:
    async def go() -> list[str]:
        both = [asyncio.Event(), asyncio.Event()]
        begun: list[asyncio.Event] = []

        async def stubborn() -> str:
            mine = both[len(begun)]
            begun.append(mine)
            while not mine.is_set():
                try:
                    await mine.wait()
                except asyncio.CancelledError:
                    continue
            return f"attempt {both.index(mine) + 1}"

        async def wait(_: float) -> None:
            """The first attempt ends while the second is waited for."""
            both[0].set()
            await until(lambda: len(asyncio.all_tasks()) == 2)

        ear = Ear()
        made = make_tool(stubborn, timeout=0.01, read_only=True, retries=1)
        settings = ExecutorSettings(grace=0.0, sleep=wait)
        async with Executor(Toolbox([made]), emit=ear, settings=settings) as executor:
            executor.start(make_call("stubborn"))
            await executor.settle()
            both[1].set()
            await until(lambda: len(asyncio.all_tasks()) == 1)
            await asyncio.sleep(0)
        return [*ear.words[-2:], str(ear.count(ToolEndedLate)), _text_of(ear)]

    assert asyncio.run(go()) == ["c0 timed_out", "c0 done late", "1", "attempt 1"]


def _text_of(ear: Ear) -> str:
    return next(event.result.text for event in ear.events if isinstance(event, ToolEndedLate))


def test_a_call_that_was_tried_again_with_success_has_no_late_result() -> None:
    async def go() -> Ear:
        first, attempts = asyncio.Event(), 0

        async def flaky() -> str:
            nonlocal attempts
            attempts += 1
            if attempts > 1:
                return "second"
            while not first.is_set():
                try:
                    await first.wait()
                except asyncio.CancelledError:
                    continue
            return "first"

        ear = Ear()
        made = make_tool(flaky, timeout=0.01, read_only=True, retries=1)
        settings = ExecutorSettings(grace=0.0)
        async with Executor(Toolbox([made]), emit=ear, settings=settings) as executor:
            executor.start(make_call("flaky"))
            await executor.settle()
            first.set()
            await until(lambda: len(asyncio.all_tasks()) == 1)
            await asyncio.sleep(0)
        return ear

    ear = asyncio.run(go())
    assert ear.ended == {"c0": Status.DONE}
    assert not ear.count(ToolEndedLate)


def told_late(upstream: ReplayUpstream) -> list[int]:
    """How often each request tells of a late result."""
    return [
        sum("has ended since" in message.text for message in request.messages)
        for request in upstream.requests
    ]


def test_the_model_is_told_of_a_late_result_once_with_the_next_request() -> None:
    slow, came = Slow(), asyncio.Event()

    async def release() -> str:
        """Let the other tool end."""
        slow.go_on.set()
        await came.wait()
        return "released"

    def hear(event: RunEvent) -> None:
        if isinstance(event, ToolEndedLate):
            came.set()

    upstream = ReplayUpstream(
        [calls(("slow", {})), calls(("release", {})), calls(("release", {})), says("Done.")]
    )
    tools = [make_tool(slow, name="slow", timeout=0.01), make_tool(release)]
    result = asyncio.run(ask("m", "Go", tools=tools, upstream=upstream, taps=[hear]))

    assert told_late(upstream) == [0, 0, 1, 1], "once, and it stays in the history"
    [note] = [
        message for message in upstream.requests[-1].messages if "has ended since" in message.text
    ]
    assert note.role is Role.USER
    assert note.text.endswith("Its result:\nthe report")
    assert [late.result.text for late in result.late] == ["the report"]
    assert note in result.messages


@pytest.mark.parametrize(
    ("status", "words"), [(Status.DONE, "Its result:\nx"), (Status.FAILED, "It failed:\nx")]
)
def test_a_late_result_names_its_call(status: Status, words: str) -> None:
    told = tell_late(ToolEndedLate(make_call("dig"), status, Result((Text("x"),))))
    text = Message(Role.USER, told).text
    assert text.startswith('Note: the tool "dig", whose call "c0" was reported as timed out')
    assert text.endswith(words)


# ── Interrupts ──────────────────────────────────────────────────────────────────────


async def interrupts() -> None:
    """Interrupt."""
    raise KeyboardInterrupt


def interrupts_in_a_thread() -> None:
    """Interrupt."""
    raise KeyboardInterrupt


async def exits() -> None:
    """Exit."""
    raise SystemExit(3)


@pytest.mark.parametrize("function", [interrupts, interrupts_in_a_thread, exits])
def test_what_would_end_the_program_is_the_failure_of_its_tool(
    function: Callable[[], Awaitable[None] | None],
) -> None:
    upstream = ReplayUpstream([calls((function.__name__, {})), says("Sorry.")])
    try:
        result = ask_sync("m", "Go", tools=[make_tool(function)], upstream=upstream)
    except KeyboardInterrupt:  # it would end the tests, too
        pytest.fail("the tool interrupted the program")
    assert result.text == "Sorry."
    assert [ended.status for ended in result.ended] == [Status.FAILED]


async def press(call: Call, run_next: RunNext) -> Result:
    """The user presses Ctrl-C while a tool is about to run."""
    signal.raise_signal(signal.SIGINT)
    return await run_next(call)


def test_the_user_s_own_interrupt_ends_the_program() -> None:
    began: list[str] = []

    @tool
    async def hangs() -> None:
        began.append("hangs")
        await asyncio.Event().wait()

    upstream = ReplayUpstream([calls(("hangs", {})), says("Never.")])
    with pytest.raises(KeyboardInterrupt):
        ask_sync("m", "Go", tools=[hangs], upstream=upstream, around=[press])
    assert began == ["hangs"], "it was cancelled, and not interrupted in the midst"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert len(upstream.requests) == 1


def test_a_second_interrupt_is_raised_at_once() -> None:
    async def press_twice(call: Call, run_next: RunNext) -> Result:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return await run_next(call)

    @tool
    async def hangs() -> None:
        await asyncio.Event().wait()

    upstream = ReplayUpstream([calls(("hangs", {}))])
    with pytest.raises(KeyboardInterrupt):
        ask_sync("m", "Go", tools=[hangs], upstream=upstream, around=[press_twice])


def test_a_program_that_takes_the_signal_itself_goes_on_doing_so() -> None:
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        upstream = ReplayUpstream([calls(("exits", {})), says("Fine.")])
        tools = [make_tool(exits)]
        result = ask_sync("m", "Go", tools=tools, upstream=upstream, around=[press])
    finally:
        signal.signal(signal.SIGINT, before)
    assert (result.text, pressed) == ("Fine.", [signal.SIGINT])


def test_a_run_that_is_cancelled_by_itself_is_not_interrupted() -> None:
    async def cancel_all(_call: Call, _run_next: RunNext) -> Result:
        for task in asyncio.all_tasks():
            task.cancel()
        return Result()

    upstream = ReplayUpstream([calls(("exits", {}))])
    with pytest.raises(asyncio.CancelledError):
        ask_sync("m", "Go", tools=[make_tool(exits)], upstream=upstream, around=[cancel_all])
