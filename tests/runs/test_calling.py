"""One call: its attempts, its context, and what becomes of whatever the tool does."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable, Generator
from dataclasses import replace

import pytest

from executing import Ear, make_call, until
from wholecall.core.conversation import Result
from wholecall.core.spec import ToolSpec
from wholecall.core.values import Call, Text
from wholecall.runs.around import RunNext
from wholecall.runs.calling import Calling, ExecutorSettings, Outcome
from wholecall.runs.events import Status, ToolReported
from wholecall.runs.limits import RunLimits
from wholecall.runs.threads import Threads
from wholecall.tools.from_function import Rules, make_tool
from wholecall.tools.signals import Failed, Retry
from wholecall.tools.tool import Context, Tool


class Case:
    """A call of one tool, with ears for its events and for its waiting."""

    def __init__(
        self,
        tool: Tool,
        *,
        call: Call | None = None,
        limits: RunLimits | None = None,
        settings: ExecutorSettings | None = None,
    ) -> None:
        self.ear = Ear()
        self.slept: list[float] = []
        self.settings = replace(
            settings or ExecutorSettings(run_id="r", user="ann", grace=0.0), sleep=self._sleep
        )
        self.calling = Calling(
            call or make_call(tool.name),
            tool,
            limits=limits or RunLimits(),
            settings=self.settings,
            emit=self.ear,
        )

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def run(self) -> Outcome:
        return asyncio.run(self.calling.run())


# ── Whatever a tool does ────────────────────────────────────────────────────────────


def fails() -> None:
    raise ValueError("bad")


def exits() -> None:
    sys.exit(3)


def interrupts() -> None:
    raise KeyboardInterrupt


def stops() -> None:
    raise StopIteration


def asks_again() -> None:
    raise Retry("no such city")


def gives_up() -> None:
    raise Failed("closed")


def is_no_json() -> object:
    return object()


async def fails_later() -> None:
    raise ValueError("bad")


async def exits_later() -> None:
    sys.exit(3)


async def stops_later() -> None:
    raise StopIteration


async def cancels_itself() -> None:
    raise asyncio.CancelledError


async def cancels_its_task() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def has_a_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(fails_later())


async def breaks_off() -> AsyncIterator[str]:
    yield "half"
    raise ValueError("bad")


async def returns_a_failure() -> Result:
    return Result((Text("it is closed"),), failed=True)


FAILURES: list[tuple[Callable[[], object], str]] = [
    (fails, "ValueError: bad"),
    (exits, "RuntimeError: SystemExit in a thread"),
    (interrupts, "RuntimeError: KeyboardInterrupt in a thread"),
    (stops, "RuntimeError: coroutine raised StopIteration"),
    (asks_again, "no such city"),
    (gives_up, "closed"),
    (is_no_json, "a value of type 'object' that cannot be written as JSON"),
    (fails_later, "ValueError: bad"),
    (exits_later, "SystemExit: 3"),
    (stops_later, "RuntimeError: coroutine raised StopIteration"),
    (cancels_itself, "it broke off by itself"),
    (cancels_its_task, "it broke off by itself"),
    (has_a_group, "ExceptionGroup: unhandled errors in a TaskGroup"),
    (breaks_off, "ValueError: bad"),
    (returns_a_failure, "it is closed"),
]


@pytest.mark.parametrize(("function", "words"), FAILURES, ids=[row[0].__name__ for row in FAILURES])
def test_whatever_a_tool_does_its_call_fails(function: Callable[[], object], words: str) -> None:
    case = Case(make_tool(function))
    outcome = case.run()
    assert outcome.status is Status.FAILED
    assert outcome.result.failed
    assert words in outcome.result.text
    assert case.ear.words[0] == "c0 started"


def test_an_error_is_kept_for_the_log_and_may_be_hidden_from_the_model() -> None:
    case = Case(make_tool(fails), settings=ExecutorSettings(reveal_errors=False))
    outcome = case.run()
    assert isinstance(outcome.error, ValueError)
    assert "bad" not in outcome.result.text


def test_a_success_is_no_error() -> None:
    outcome = Case(make_tool(lambda: "sunny", name="says")).run()
    assert outcome == Outcome(Status.DONE, Result((Text("sunny"),)))


def test_a_body_that_returns_plain_values_is_understood() -> None:
    async def body(*_: object) -> str:
        return "sunny"

    tool = Tool(spec=ToolSpec("says"), run=body)  # type: ignore[arg-type]  # it should be a Result
    assert Case(tool).run().result.text == "sunny"


def test_a_tool_of_the_client_cannot_be_run() -> None:
    outcome = Case(Tool(spec=ToolSpec("says"), run=None)).run()
    assert "is a tool of the client" in outcome.result.text


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
    case = Case(make_tool(hangs), limits=RunLimits(tool_seconds=0.01))
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


READ: Rules = {"read_only": True, "retries": 2}
SAME: Rules = {"idempotent": True, "retries": 2}
LOST = ConnectionError("lost")

# what holds, the rules, failures, the error, the status, how often it ran
ATTEMPTS: list[tuple[str, Rules, int, Exception, Status, int]] = [
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
    *, rules: Rules, failures: int, error: Exception, status: Status, runs: int
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


# ── Context ─────────────────────────────────────────────────────────────────────────


def test_a_tool_knows_whom_it_serves() -> None:
    def tells(context: Context) -> list[str | None]:
        return [context.call_id, context.run_id, context.user, context.idempotency_key]

    assert Case(make_tool(tells)).run().result.structured == ["c0", "r", "ann", "r:c0"]


def reports(context: Context) -> str:
    context.report({"half": True})
    return "done"


async def reports_on_the_loop(context: Context) -> str:
    return reports(context)


def yields() -> Generator[object, None, str]:
    yield {"half": True}
    return "done"


@pytest.mark.parametrize("function", [reports, reports_on_the_loop, yields])
def test_progress_becomes_an_event(function: Callable[..., object]) -> None:
    case = Case(make_tool(function, name="look"))
    assert case.run().result.text == "done"
    assert case.ear.events[1:] == [ToolReported("c0", {"half": True})]


def test_a_report_after_the_end_of_the_loop_is_not_heard() -> None:
    kept: list[Context] = []

    def keeps(context: Context) -> None:
        kept.append(context)

    case = Case(make_tool(keeps))
    case.run()
    thread = threading.Thread(target=kept[0].report, args=("late",))
    thread.start()
    thread.join(30)
    kept[0].report("later")
    assert case.ear.words == ["c0 started"]
    assert kept[0].is_cancelled()


def test_a_blocking_tool_leaves_the_loop_alone() -> None:
    def tells_its_thread() -> bool:
        return threading.current_thread() is threading.main_thread()

    assert Case(make_tool(tells_its_thread)).run().result.structured is False


# ── Results ─────────────────────────────────────────────────────────────────────────


def says_much() -> str:
    return "a" * 100


@pytest.mark.parametrize(
    ("rules", "limits", "kept"),
    [
        ({}, RunLimits(result_characters=10), 10),
        ({"result_limit": 5}, RunLimits(result_characters=10), 5),
        ({"result_limit": 0}, RunLimits(), 0),
    ],
)
def test_a_long_result_is_cut(*, rules: Rules, limits: RunLimits, kept: int) -> None:
    text = Case(make_tool(says_much, **rules), limits=limits).run().result.text
    assert text.startswith("a" * kept + f"\n[Cut off: these are the first {kept} of 100")


def test_a_result_tells_of_parameters_that_were_dropped() -> None:
    call = replace(make_call("says_much"), dropped=("colour",))
    case = Case(make_tool(says_much), call=call, limits=RunLimits(result_characters=1))
    assert case.run().result.text.endswith(
        '\n\nNote: "says_much" has no parameter "colour"; the call was run without.'
    )


# ── Wrappers and places ─────────────────────────────────────────────────────────────


def test_wrappers_see_the_whole_result_and_may_change_the_arguments() -> None:
    seen: list[int] = []

    def repeats(text: str) -> str:
        return text * 100

    async def around(call: Call, run_next: RunNext) -> Result:
        result = await run_next(replace(call, arguments={"text": "b"}))
        seen.append(len(result.text))
        return result

    case = Case(
        make_tool(repeats, result_limit=3),
        call=make_call("repeats", text="a"),
        settings=ExecutorSettings(around=(around,)),
    )
    assert case.run().result.text.startswith("bbb\n[Cut off")
    assert seen == [100]


async def run_twice(call: Call, run_next: RunNext) -> Result:
    await run_next(call)
    return await run_next(call)


async def hang_around(_call: Call, _run_next: RunNext) -> Result:
    await asyncio.Event().wait()
    return Result()


async def fail_around(_call: Call, _run_next: RunNext) -> Result:
    raise ValueError("bad")


@pytest.mark.parametrize(("rules", "runs"), [({}, 1), ({"idempotent": True}, 2)])
def test_a_wrapper_repeats_only_what_may_be_repeated(rules: Rules, runs: int) -> None:
    ran: list[int] = []

    async def count() -> str:
        ran.append(1)
        return "ok"

    case = Case(make_tool(count, **rules), settings=ExecutorSettings(around=(run_twice,)))
    assert case.run().status is (Status.DONE if runs == 2 else Status.FAILED)
    assert len(ran) == runs


def test_a_wrapper_that_fails_or_hangs_is_the_call_s_failure() -> None:
    tool = make_tool(says_much, timeout=0.01)
    failed = Case(tool, settings=ExecutorSettings(around=(fail_around,))).run()
    assert "ValueError: bad" in failed.result.text
    hung = Case(tool, settings=ExecutorSettings(around=(hang_around,))).run()
    assert hung.status is Status.TIMED_OUT


def test_calls_of_several_runs_wait_for_a_place() -> None:
    inside: list[int] = []
    most: list[int] = []

    async def visits() -> None:
        inside.append(1)
        most.append(len(inside))
        await asyncio.sleep(0)
        inside.pop()

    tool = make_tool(visits, concurrency=2)

    async def scenario() -> None:
        await asyncio.gather(*(Case(tool).calling.run() for _ in range(6)))

    asyncio.run(scenario())
    assert max(most) == 2
    assert len(most) == 6


def test_the_settings_of_a_run_have_an_id_of_their_own() -> None:
    assert ExecutorSettings().run_id != ExecutorSettings().run_id


def test_what_is_done_to_the_arguments_is_not_done_to_the_call() -> None:
    async def spoil(call: Call, run_next: RunNext) -> Result:
        assert isinstance(call.arguments, dict)
        call.arguments["text"] = "b"
        return await run_next(call)

    def repeats(text: str) -> str:
        return text

    call = make_call("repeats", text="a")
    case = Case(make_tool(repeats), call=call, settings=ExecutorSettings(around=(spoil,)))
    assert case.run().result.text == "b"
    assert call.arguments == {"text": "a"}


# ── Halted ──────────────────────────────────────────────────────────────────────────


def test_a_call_that_is_halted_in_its_first_step_does_not_reach_the_tool() -> None:
    def never() -> None:
        raise AssertionError

    case = Case(make_tool(never))
    case.calling.halt()
    outcome = case.run()
    assert "the run was cancelled" in outcome.result.text


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
        case.calling = Calling(call, tool, limits=RunLimits(), settings=settings, emit=case.ear)
    assert case.run().status is Status.FAILED
    assert case.ear.words == ["c0 started"]
