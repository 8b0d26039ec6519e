"""The samples of "finish_reason Analysis for Tool Call Completion".

Each docstring names the section. The four test cases of section 6 are rows of `RESPONSES` in
tests/test_stream_recorded.py, for bodies in every form; the whole table of finish reasons and calls
is
`STATES` in tests/test_stream.py.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from wholecall import Outcome, ToolCallBuffer, assemble, assemble_response
from wholecall.assembly.finish_reasons import read_hint
from wholecall.events import Hint
from wholecall.stream import should_execute_tool_calls

SEARCH = {
    "id": "call_abc123",
    "type": "function",
    "function": {"name": "search", "arguments": '{"query": "python async"}'},
}
CUT = {"id": "call_1", "function": {"name": "search", "arguments": '{"q": "test", "lim'}}


def response(finish_reason: str | None, tool_calls: list[Any] | None) -> dict[str, Any]:
    """The structure of a whole response, as section 1 writes it down."""
    message = {"role": "assistant", "content": "...", "tool_calls": tool_calls}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1234567890,
        "model": "claude-sonnet-4.5",
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4},
    }


def odd(outcome: Outcome) -> set[str]:
    return {note.oddity.value for note in outcome.inconsistencies}


def test_the_finish_reason_of_a_whole_response() -> None:
    """1, Non-Streaming Response Structure: it is read from the choice, and told as it came."""
    outcome = assemble_response("openai-chat", response("tool_calls", [SEARCH]))
    assert (outcome.finish_reason, outcome.native_finish_reason) == ("tool_calls", "tool_calls")
    assert (outcome.text, outcome.usage and outcome.usage.input_tokens) == ("...", 3)


def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1234567890,
        "model": "claude-sonnet-4.5",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
    }


def test_the_finish_reason_of_a_stream() -> None:
    """1, Streaming Response Structure: None up to the last chunk; usage may come behind it."""
    usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}
    stream = [
        chunk({"content": "..."}),
        chunk({"tool_calls": [{"index": 0, **SEARCH}]}),
        chunk({}, "tool_calls"),
        usage,
        "data: [DONE]",
    ]
    outcome = assemble("openai-chat", stream)
    assert [dict(call.arguments) for call in outcome.calls] == [{"query": "python async"}]
    assert (outcome.text, outcome.native_finish_reason) == ("...", "tool_calls")
    assert outcome.usage is not None
    assert outcome.usage.output_tokens == 4


@pytest.mark.parametrize(
    ("word", "hint", "runs"),
    [
        ("stop", Hint.STOP, True),
        ("tool_calls", Hint.TOOL_CALLS, True),
        ("length", Hint.LENGTH, True),
        ("content_filter", Hint.CONTENT_FILTER, False),
        ("error", Hint.ERROR, False),
        ("tool_call", Hint.TOOL_CALLS, True),
    ],
)
def test_valid_values(word: str, hint: Hint, *, runs: bool) -> None:
    """2, Valid finish_reason Values, and GPT-4o's: after which of them a whole call runs."""
    assert read_hint(word) is hint
    assert should_execute_tool_calls(response(word, [SEARCH])) is runs


def test_a_mocked_answer_in_words() -> None:
    """2, Code Evidence: a text with `stop` is a final answer."""
    outcome = assemble_response("openai-chat", response("stop", None))
    assert (outcome.calls, outcome.text, outcome.finish_reason) == ((), "...", "stop")
    assert odd(outcome) == set()


def test_the_reason_is_the_response_s_and_the_check_is_the_call_s() -> None:
    """3, Response Level vs Per-Tool-Call Level: one reason, and each call judged by itself."""
    outcome = assemble_response("openai-chat", response("length", [SEARCH, CUT]))
    assert [call.id for call in outcome.calls] == ["call_abc123"]
    assert [rejected.reason.value for rejected in outcome.rejected] == ["truncated"]


# section, the finish reason, the calls, what is odd, whether calls are executed
INDICATORS: list[tuple[str, str | None, list[Any] | None, set[str], bool]] = [
    ("4 A: calls with stop", "stop", [SEARCH], {"calls_with_other_hint"}, True),
    ("4 A: calls with tool_calls", "tool_calls", [SEARCH], set(), True),
    ("4 B: tool_calls without", "tool_calls", None, {"tool_calls_without_calls"}, False),
    ("4 B: tool_calls, none", "tool_calls", [], {"tool_calls_without_calls"}, False),
    ("4 B: length, whole", "length", [SEARCH], {"calls_at_length"}, True),
    ("4 B: length, cut", "length", [CUT], set(), False),
    ("5 Phase 1: no reason", None, [SEARCH], {"hint_missing"}, True),
]


@pytest.mark.parametrize("row", INDICATORS, ids=[row[0] for row in INDICATORS])
def test_inconsistencies_are_told_and_gate_nothing(row: tuple[Any, ...]) -> None:
    """4, Options A and B; 5, Phase 1: what the samples log is an event, and no condition."""
    _, finish_reason, tool_calls, strange, executes = row
    body = response(finish_reason, tool_calls)
    outcome = assemble_response("openai-chat", body)
    assert odd(outcome) & {*strange, "calls_with_other_hint", "tool_calls_without_calls"} == strange
    assert bool(outcome.calls) is executes
    assert should_execute_tool_calls(body) is executes


# section, the finish reason, the calls, whether the buffer says that they are ready
STATES: list[tuple[str, str | None, list[Any], bool]] = [
    ("4 C: length with a cut call", "length", [SEARCH, CUT], False),
    ("4 C: length with whole calls only", "length", [SEARCH], True),
    ("4 C: tool_calls and an empty buffer", "tool_calls", [], False),
    ("4 C: whole calls", "tool_calls", [SEARCH], True),
    ("4 C: no calls, and none promised", "stop", [], True),
    ("6: stop with calls", "stop", [SEARCH], True),
]


@pytest.mark.parametrize(
    ("finish_reason", "calls", "ready"), [row[1:] for row in STATES], ids=[row[0] for row in STATES]
)
def test_validate_completion_state(
    finish_reason: str | None, calls: list[Any], *, ready: bool
) -> None:
    """4, Option C; 5, Phase 2: the buffer made with the reason of a client's response object."""
    choice = SimpleNamespace(finish_reason=finish_reason)
    buffer = ToolCallBuffer(finish_reason=choice.finish_reason)
    for call in calls:
        function = call["function"]
        buffer.add_tool_call(call["id"], function["name"], arguments=function["arguments"])
    assert buffer.validate_completion_state() is ready
    assert buffer.is_complete("call_1") is False


@pytest.mark.parametrize("tool_calls", [None, []])
def test_not_to_do(tool_calls: list[Any] | None) -> None:
    """7, What NOT to Do: `tool_calls` as the reason promises no calls, nor does it crash."""
    assert not should_execute_tool_calls(response("tool_calls", tool_calls))
    assert not should_execute_tool_calls({"choices": []})
