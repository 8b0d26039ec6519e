"""Several chunks in the place of one."""

from __future__ import annotations

from typing import Any

import pytest

from wholecall.events import Released
from wholecall.protocols.decoder import Payload
from wholecall.protocols.fast_path import split_glued
from wholecall.protocols.reader import Reader

A, B = '{"a": 1}', '{"b": "}{"}'
BOTH: list[Any] = [{"a": 1}, {"b": "}{"}]

# what holds, the payload, the chunks in it
ROWS: list[tuple[str, Payload, list[Any] | None]] = [
    ("one behind the other", A + B, BOTH),
    ("as bytes", (A + B).encode(), BOTH),
    ("with blanks between them", f" {A}\n {B} ", BOTH),
    ("with a comma", f"{A},{B}", BOTH),
    ("with the name of the field", f"{A}data: {B}", BOTH),
    ("as a list", f"[{A},\n{B}]", BOTH),
    ("as an empty list", "[]", []),
    ("with the end of the stream", f"{A}[DONE]", [{"a": 1}, "[DONE]"]),
    ("in whatever letters", f"{A} data: [done]", [{"a": 1}, "[DONE]"]),
    ("the name of the field twice", f"data: {A}", [{"a": 1}]),
    ("raw control characters", '{"a": "\n"}{}', [{"a": "\n"}, {}]),
    ("a comment", ": OPENROUTER PROCESSING", []),
    ("one object is one payload", A, None),
    ("the last is cut", A + B[:-1], None),
    ("the first is cut", A[:-1] + B, None),
    ("something stands between them", f"{A}; {B}", None),
    ("something stands behind them", f"{A}{B} oops", None),
    ("no object", f"{A} 1", None),
    ("a list of others", "[1]", None),
    ("words", "upstream timeout", None),
    ("nested beyond the stack", "[" * 100_000, None),
    ("no text", {"a": 1}, None),
]


@pytest.mark.parametrize(("says", "payload", "chunks"), ROWS, ids=[row[0] for row in ROWS])
def test_only_whole_objects_are_several(
    says: str, payload: Payload, *, chunks: list[Any] | None
) -> None:
    assert split_glued(payload) == chunks, says


HEAD = '{"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c", "function": %s}]}}]}'
CALL = HEAD % '{"name": "search", "arguments": "{\\"q\\":"}'
REST = HEAD % '{"arguments": " 1}"}'
END = '{"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}'


@pytest.mark.parametrize(
    ("stream", "calls"),
    [
        (f"data: {CALL}{REST}\n\ndata: {END}[DONE]\n\n", [{"q": 1}]),
        (f"data: {CALL}\n\ndata: {REST}{END}\n\ndata: [DONE]\n\n", [{"q": 1}]),
        (f"data: {CALL}\n\ndata: : wait\n\ndata: {REST}\n\ndata: [done]\n\n", [{"q": 1}]),
        (f"[{CALL},\n{REST},\n{END}]", [{"q": 1}]),
        (f"{CALL}{REST}{END}\n", [{"q": 1}]),
        (f"data: {CALL}\n\ndata: {REST}{END[:-1]}\n\ndata: [DONE]\n\n", []),
        (f"data: {CALL}\n\ndata: {REST}\n\ndata: upstream timeout\n\ndata: [DONE]\n\n", []),
    ],
)
@pytest.mark.parametrize("size", [1, 40, 10_000])
def test_a_stream_of_them_is_read(stream: str, calls: list[dict[str, int]], *, size: int) -> None:
    reader = Reader("openai-chat")
    pieces = (stream[at : at + size].encode() for at in range(0, len(stream), size))
    events = [event for piece in pieces for event in reader.feed(piece)] + reader.end()
    released = [event.call for event in events if isinstance(event, Released)]
    assert [dict(call.arguments) for call in released] == calls
