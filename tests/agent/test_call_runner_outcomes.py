"""One call: what becomes of whatever the tool does or returns."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from agent.one_call import Case, fails_later, says_much
from executor_calls import make_call
from wholecall.agent.budget import RunLimits
from wholecall.agent.call_runner import CallOutcome, ExecutorSettings
from wholecall.agent.run_events import Status
from wholecall.errors import ToolServerFailed
from wholecall.events import Text
from wholecall.messages import Result, ToolSpec
from wholecall.tools.function_tool import ToolRules, make_tool
from wholecall.tools.tool import Failed, Retry, Tool

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
    assert outcome == CallOutcome(Status.DONE, Result((Text("sunny"),)))


def test_a_body_that_returns_plain_values_is_understood() -> None:
    async def body(*_: object) -> str:
        return "sunny"

    tool = Tool(spec=ToolSpec("says"), run=body)  # type: ignore[arg-type]  # it should be a Result
    assert Case(tool).run().result.text == "sunny"


def test_a_tool_of_the_client_cannot_be_run() -> None:
    outcome = Case(Tool(spec=ToolSpec("says"), run=None)).run()
    assert "is a tool of the client" in outcome.result.text


# ── Results ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("rules", "limits", "kept"),
    [
        ({}, RunLimits(result_limit=10), 10),
        ({"result_limit": 5}, RunLimits(result_limit=10), 5),
        ({"result_limit": 0}, RunLimits(), 0),
    ],
)
def test_a_long_result_is_cut(*, rules: ToolRules, limits: RunLimits, kept: int) -> None:
    text = Case(make_tool(says_much, **rules), limits=limits).run().result.text
    assert text.startswith("a" * kept + f"\n[Cut off: these are the first {kept} of 100")


def test_a_result_tells_of_parameters_that_were_dropped() -> None:
    call = replace(make_call("says_much"), dropped=("colour",))
    case = Case(make_tool(says_much), call=call, limits=RunLimits(result_limit=1))
    assert case.run().result.text.endswith(
        '\n\nNote: "says_much" has no parameter "colour"; the call was run without.'
    )


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({}, "Do not send the call again"),
        ({"read_only": True}, "may be sent again"),
        ({"idempotent": True}, "may be sent again"),
    ],
    ids=["side effects", "read-only", "idempotent"],
)
def test_a_tool_says_whether_its_call_may_be_repeated_after_its_server_failed(
    rules: ToolRules, words: str
) -> None:
    def lost() -> None:
        raise ToolServerFailed("it ended", server="s", outcome_unknown=True)

    assert words in Case(make_tool(lost, **rules)).run().result.text
