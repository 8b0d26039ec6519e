"""Anthropic's events, as Bedrock's InvokeModelWithResponseStream carries them."""

import base64
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
    Terminated,
    Text,
)
from wholecall.protocols.bedrock_invoke import InvokeDecoder
from wholecall.stream import assemble, assemble_response

USE = {"type": "tool_use", "id": "x", "name": "f", "input": {}}
EVENTS: list[dict[str, Any]] = [
    {"type": "content_block_start", "index": 0, "content_block": USE},
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": '{"a": 1}'},
    },
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
    {"type": "message_stop", "amazon-bedrock-invocationMetrics": {"inputTokenCount": 1}},
]


def encoded(event: Any) -> str:
    return base64.b64encode(json.dumps(event).encode()).decode()


def wrapped(event: Any) -> dict[str, Any]:
    return {"chunk": {"bytes": encoded(event)}}


DELTAS = [
    CallDelta(0, None, "f", "x", opens=True),
    CallDelta(0, '{"a": 1}'),
    CallSealed(0),
    HintGiven(Hint.TOOL_CALLS, "tool_use"),
    Terminated(),
]
ROWS = [
    Row("each event carries another one", [wrapped(each) for each in EVENTS], DELTAS),
    Row("as the wire has it", [{"bytes": encoded(each), "p": "ab"} for each in EVENTS], DELTAS),
    Row("one that was unwrapped before", EVENTS, DELTAS),
    Row(
        "an exception is a fault",
        [{"throttlingException": {"message": "slow down"}}],
        [Fault(FaultKind.UPSTREAM_ERROR, "slow down", {"message": "slow down"})],
    ),
    Row(
        "one without words is named",
        [{"modelTimeoutException": None}],
        [Fault(FaultKind.UPSTREAM_ERROR, "modelTimeoutException")],
    ),
    Row("a blank payload says nothing", [""], []),
]


@pytest.mark.parametrize(("chunks", "deltas"), in_every_form(ROWS))
def test_stream(chunks: list[Any], deltas: list[Any]) -> None:
    assert decode(InvokeDecoder(), chunks) == deltas


def test_the_bytes_that_boto3_hands_over() -> None:
    chunks = [{"chunk": {"bytes": json.dumps(each).encode()}} for each in EVENTS]
    assert decode(InvokeDecoder(), chunks) == DELTAS


@pytest.mark.parametrize("payload", ['{"chunk": {"bytes": "?"}}', "[1]", "7", '{"chunk": 5}'])
def test_what_cannot_be_read_is_a_fault_or_says_nothing(payload: str) -> None:
    deltas = list(InvokeDecoder().decode(payload))
    assert all(isinstance(each, Fault) and each.kind is FaultKind.PROTOCOL for each in deltas)


TOOLS = [{"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}]


def test_calls_are_read_from_a_stream_and_from_a_whole_answer() -> None:
    streamed = assemble("bedrock-invoke", [wrapped(each) for each in EVENTS], tools=TOOLS)
    assert [each.arguments for each in streamed.calls] == [{"a": 1}]
    body = {"content": [{**USE, "input": {"a": 1}}], "stop_reason": "tool_use"}
    whole = assemble_response("bedrock-invoke", body, tools=TOOLS)
    assert [each.arguments for each in whole.calls] == [{"a": 1}]


@pytest.mark.parametrize("count", range(len(EVENTS) - 1))
def test_a_cut_stream_runs_nothing(count: int) -> None:
    cut = [wrapped(each) for each in EVENTS[:count]]
    outcome = assemble("bedrock-invoke", [*cut, "!EOF"], tools=TOOLS)
    assert outcome.calls == ()
    assert outcome.error


def test_a_whole_answer_is_the_inner_protocols() -> None:
    body = {"content": [{"type": "text", "text": "a"}], "stop_reason": "end_turn"}
    assert list(InvokeDecoder().decode_response(body)) == [
        Text("a"),
        HintGiven(Hint.STOP, "end_turn"),
        Terminated(),
    ]
