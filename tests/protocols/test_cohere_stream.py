"""Events as Cohere documents them (https://docs.cohere.com/v2/docs/streaming)."""

import json
from typing import Any

import pytest

from protocols.forms import Row, decode, in_every_form
from wholecall.events import (
    CallDelta,
    CallSealed,
    Fault,
    FaultKind,
    Hint,
    HintGiven,
    Reasoning,
    Terminated,
    Text,
    Usage,
)
from wholecall.protocols.cohere import CohereDecoder
from wholecall.stream import assemble, assemble_response


def event(kind: str, index: int | None = None, **message: Any) -> dict[str, Any]:
    place = {} if index is None else {"index": index}
    return {"type": kind, **place, "delta": {"message": message}}


def call(index: int, arguments: str, **head: str) -> dict[str, Any]:
    name = {"name": head["name"]} if head else {}
    whole = {"id": head["id"], "type": "function"} if head else {}
    kind = "tool-call-start" if head else "tool-call-delta"
    return event(kind, index, tool_calls={**whole, "function": {**name, "arguments": arguments}})


START = {
    "type": "message-start",
    "id": "a",
    "delta": {"message": {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": []}},
}
TOKENS = {"input_tokens": 3, "output_tokens": 4}
USAGE = {"billed_units": {"input_tokens": 1, "output_tokens": 2}, "tokens": TOKENS}


def end(reason: str, **fields: Any) -> dict[str, Any]:
    return {"type": "message-end", "delta": {"finish_reason": reason, **fields}}


ROWS = [
    Row("the beginning says nothing", [START], []),
    Row(
        "content is text or thinking",
        [
            event("content-start", 0, content={"type": "thinking", "thinking": ""}),
            event("content-delta", 0, content={"thinking": "hm"}),
            {"type": "content-end", "index": 0},
            event("content-delta", 1, content={"text": "a"}),
        ],
        [Reasoning("hm"), Text("a")],
    ),
    Row(
        "a plan is reasoning", [event("tool-plan-delta", tool_plan="I will")], [Reasoning("I will")]
    ),
    Row("a citation is not text", [event("citation-start", 0, citations={"text": "a"})], []),
    Row(
        "a call comes in pieces",
        [
            call(0, "", id="x", name="f"),
            call(0, '{"a"'),
            call(0, ":1}"),
            {"type": "tool-call-end", "index": 0},
        ],
        [
            CallDelta(0, "", "f", "x", opens=True),
            CallDelta(0, '{"a"'),
            CallDelta(0, ":1}"),
            CallSealed(0),
        ],
    ),
    Row(
        "events without content say nothing of it",
        [
            {"type": "tool-call-start", "index": 1},
            {"type": "tool-call-delta", "index": 1, "delta": {}},
        ],
        [CallDelta(1, opens=True), CallDelta(1)],
    ),
    Row(
        "the end has the reason and the usage",
        [end("TOOL_CALL", usage=USAGE)],
        [Usage(3, 4, TOKENS), HintGiven(Hint.TOOL_CALLS, "TOOL_CALL"), Terminated()],
    ),
    Row("it may say nothing else", [{"type": "message-end"}], [Terminated()]),
    Row(
        "an error at the end is a fault",
        [end("ERROR", error="overloaded")],
        [
            Fault(FaultKind.UPSTREAM_ERROR, "overloaded"),
            HintGiven(Hint.ERROR, "ERROR"),
            Terminated(),
        ],
    ),
    Row("what follows the end says nothing", ["[DONE]"], []),
    Row(
        "a bare error is a fault",
        [{"message": "invalid"}],
        [Fault(FaultKind.UPSTREAM_ERROR, "invalid")],
    ),
    Row("an event without anything says nothing", [{"id": "a"}], []),
]


@pytest.mark.parametrize(("chunks", "deltas"), in_every_form(ROWS))
def test_stream(chunks: list[Any], deltas: list[Any]) -> None:
    assert decode(CohereDecoder(), chunks) == deltas


ANSWER = {
    "id": "a",
    "message": {
        "role": "assistant",
        "tool_plan": "I will",
        "tool_calls": [
            {"id": "x", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
        ],
        "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}],
    },
    "finish_reason": "TOOL_CALL",
    "usage": USAGE,
}
RESPONSES = [
    Row(
        "a whole answer is its message",
        [ANSWER],
        [
            Reasoning("I will"),
            Reasoning("hm"),
            Text("a"),
            CallDelta(0, '{"a": 1}', "f", "x", opens=True),
            CallSealed(0),
            Usage(3, 4, TOKENS),
            HintGiven(Hint.TOOL_CALLS, "TOOL_CALL"),
            Terminated(),
        ],
    ),
    Row(
        "its content may be a text",
        [{"message": {"content": "a"}, "finish_reason": "COMPLETE"}],
        [Text("a"), HintGiven(Hint.STOP, "COMPLETE"), Terminated()],
    ),
    Row(
        "an answer without a message is a fault",
        [{"detail": "not found"}],
        [Fault(FaultKind.PROTOCOL, "the answer has neither a message nor an error"), Terminated()],
    ),
]


@pytest.mark.parametrize(("body", "deltas"), in_every_form(RESPONSES))
def test_response(body: list[Any], deltas: list[Any]) -> None:
    assert list(CohereDecoder().decode_response(body[0])) == deltas


TOOLS = [{"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}]
STREAM = [
    START,
    event("tool-plan-delta", tool_plan="I will"),
    call(0, "", id="x", name="f"),
    *(call(0, piece) for piece in ("{\n", '    "a"', ": 1", "\n}")),
    {"type": "tool-call-end", "index": 0},
    call(1, "", id="y", name="f"),
    call(1, '{"a": 2}'),
    {"type": "tool-call-end", "index": 1},
    end("TOOL_CALL", usage=USAGE),
]


def test_calls_are_read_from_a_stream_and_from_a_whole_answer() -> None:
    streamed = assemble("cohere", STREAM, tools=TOOLS)
    assert [(each.id, each.arguments) for each in streamed.calls] == [
        ("x", {"a": 1}),
        ("y", {"a": 2}),
    ]
    assert (streamed.reasoning, streamed.error) == ("I will", None)
    whole = assemble_response("cohere", ANSWER, tools=TOOLS)
    assert [each.arguments for each in whole.calls] == [{"a": 1}]


@pytest.mark.parametrize("count", range(len(STREAM)))
def test_a_cut_stream_runs_nothing(count: int) -> None:
    lines = [f"data: {json.dumps(each)}" for each in STREAM[:count]]
    outcome = assemble("cohere", [*lines, "!EOF"], tools=TOOLS)
    assert outcome.calls == ()
    assert outcome.error


def test_what_cannot_be_read_is_a_fault() -> None:
    (fault,) = CohereDecoder().decode('{"type": 5}')
    assert isinstance(fault, Fault)
    assert fault.kind is FaultKind.PROTOCOL
