"""What is around a call: its context, its wrappers, its place among others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any, cast

import pytest

from agent.one_call import Case, says_much
from executor_calls import make_call
from wholecall.agent.call_runner import ExecutorSettings
from wholecall.agent.run_events import Status, ToolReported
from wholecall.agent.tool_middleware import RunNext
from wholecall.events import Call
from wholecall.messages import Result
from wholecall.tools.function_tool import ToolRules, make_tool
from wholecall.tools.tool import Context

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


def test_only_what_can_be_told_is_reported() -> None:
    async def reports_nonsense(context: Context) -> str:
        for value in (object(), None, "x" * 20_000, 1):
            context.report(cast("Any", value))
        return "done"

    case = Case(make_tool(reports_nonsense))
    assert case.run().status is Status.DONE
    assert case.ear.events[1:] == [ToolReported("c0", 1)]


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
def test_a_wrapper_repeats_only_what_may_be_repeated(rules: ToolRules, runs: int) -> None:
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
