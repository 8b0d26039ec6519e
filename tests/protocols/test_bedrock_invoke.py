"""Anthropic's events, as Bedrock's InvokeModelWithResponseStream carries them."""

import base64
import json
import struct
from typing import Any
from zlib import crc32

import pytest

from protocols.forms import Row, decode, in_every_form
from wholecall.errors import ProtocolError
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
from wholecall.messages import Message, Request, Role
from wholecall.protocols.bedrock_invoke import InvokeDecoder, InvokeFraming
from wholecall.protocols.registry import encode_request
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


# ── Binary messages ─────────────────────────────────────────────────────────────────


def header(name: str, value: bytes, *, kind: int = 7) -> bytes:
    measured = struct.pack("!H", len(value)) if kind in (6, 7) else b""
    return bytes([len(name)]) + name.encode() + bytes([kind]) + measured + value


def message(payload: bytes, headers: bytes = b"") -> bytes:
    sizes = struct.pack("!II", 16 + len(headers) + len(payload), len(headers))
    body = sizes + struct.pack("!I", crc32(sizes)) + headers + payload
    return body + struct.pack("!I", crc32(body))


def headers_of(**texts: str) -> bytes:
    return b"".join(
        header(f":{name.replace('_', '-')}", text.encode()) for name, text in texts.items()
    )


EVERY_KIND = b"".join(
    header(f"h{kind}", bytes(size), kind=kind)
    for kind, size in {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 6: 3, 8: 8, 9: 16}.items()
)
CHUNK = headers_of(event_type="chunk", message_type="event") + EVERY_KIND
WIRE = b"".join(message(json.dumps({"bytes": encoded(each)}).encode(), CHUNK) for each in EVENTS)


def framed(stream: bytes, size: int) -> list[Any]:
    framing = InvokeFraming()
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    payloads = [payload for piece in pieces for payload in framing.feed(piece)]
    return decode(InvokeDecoder(), [*payloads, *framing.end()])


@pytest.mark.parametrize("size", [1, 3, 7, 100, len(WIRE)])
def test_binary_messages_wherever_they_are_cut(size: int) -> None:
    assert framed(WIRE, size) == DELTAS


@pytest.mark.parametrize("size", [1, 1000])
def test_recorded_lines(size: int) -> None:
    lines = "".join(json.dumps(wrapped(each)) + "\n" for each in EVENTS)
    assert framed(lines.encode(), size) == DELTAS


def test_an_empty_stream_has_no_events() -> None:
    framing = InvokeFraming()
    assert [*framing.feed(b""), *framing.feed(""), *framing.end()] == []


@pytest.mark.parametrize("end", range(1, 40))
def test_a_message_that_was_cut_is_dropped(end: int) -> None:
    assert framed(WIRE[:-end], 1000) == DELTAS[:-1]


@pytest.mark.parametrize(
    ("stream", "says"),
    [
        (
            message(
                b'{"message": "slow down"}',
                headers_of(message_type="exception", exception_type="throttlingException"),
            ),
            "slow down",
        ),
        (message(b"", headers_of(message_type="error", error_message="oh")), "oh"),
        (message(b"", headers_of(message_type="error", error_code="No")), "NoException"),
    ],
)
def test_an_exception_is_a_fault(stream: bytes, says: str) -> None:
    (fault,) = framed(stream, 10)
    assert isinstance(fault, Fault)
    assert (fault.kind, fault.message) == (FaultKind.UPSTREAM_ERROR, says)


def damaged(at: int) -> bytes:
    return WIRE[:at] + bytes([WIRE[at] ^ 1]) + WIRE[at + 1 :]


HUGE = struct.pack("!II", 0x00FFFFFF, 0)


@pytest.mark.parametrize(
    "stream",
    [
        damaged(5),
        damaged(30),
        HUGE + struct.pack("!I", crc32(HUGE)) + bytes(9),
        message(b"", b"\x05ab"),
        message(b"", b"\x01a\x63"),
        message(b"", b"\x01a\x07\x00"),
    ],
)
def test_a_damaged_stream_is_an_error(stream: bytes) -> None:
    with pytest.raises(ProtocolError):
        InvokeFraming().feed(stream)


def test_text_is_not_a_part_of_a_binary_stream() -> None:
    framing = InvokeFraming()
    framing.feed(WIRE[:20])
    with pytest.raises(ProtocolError, match="text"):
        framing.feed("{}")


# ── Requests ────────────────────────────────────────────────────────────────────────


def test_a_request_is_the_inner_protocols_without_model_and_stream() -> None:
    asked = Request(
        model="us.anthropic.claude-sonnet-4-5-v1:0",
        messages=(Message(Role.USER, (Text("hi"),)),),
        stream=True,
        max_tokens=5,
    )
    assert encode_request("bedrock-invoke", asked) == {
        "anthropic_version": "bedrock-2023-05-31",
        "max_tokens": 5,
        "messages": [{"role": "user", "content": "hi"}],
    }
