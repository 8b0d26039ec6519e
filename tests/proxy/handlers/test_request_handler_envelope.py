"""Fields above an answer's content are handed on within one protocol."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wholecall.proxy.handlers.request_handler import UpstreamEnvelope


def peek(protocol: str, chunk: Any) -> UpstreamEnvelope:
    original = UpstreamEnvelope(protocol)
    for first in (chunk, b'data: {"id": "another answer"}\n\n'):
        original.look(first)
    return original


def frame(payload: Any) -> bytes:
    return b"event: any\ndata: " + json.dumps(payload).encode() + b"\n\n"


CHAT = {"id": "a", "object": "chat", "created": 7, "model": "real", "choices": [], "tier": "x"}
RESPONSE = {"id": "r", "created_at": 8.0, "model": "real", "output": [], "metadata": {"a": "b"}}
MESSAGE: dict[str, Any] = {
    "id": "m",
    "model": "real",
    "content": [],
    "role": "assistant",
    "container": None,
}
ROWS: dict[str, tuple[str, Any, tuple[str, int | None, dict[str, Any]]]] = {
    "a chunk": ("openai-chat", frame(CHAT), ("a", 7, {"tier": "x"})),
    "a completion": ("openai-chat", json.dumps(CHAT).encode(), ("a", 7, {"tier": "x"})),
    "a first event": (
        "openai-responses",
        frame({"type": "response.created", "response": RESPONSE}),
        ("r", 8, {"metadata": {"a": "b"}}),
    ),
    "a response": (
        "openai-responses",
        json.dumps(RESPONSE).encode(),
        ("r", 8, {"metadata": {"a": "b"}}),
    ),
    "a message's start": (
        "anthropic",
        frame({"type": "message_start", "message": MESSAGE}),
        ("m", None, {"container": None}),
    ),
}


@pytest.mark.parametrize(("protocol", "chunk", "expected"), ROWS.values(), ids=ROWS)
def test_what_the_upstream_said_of_itself_is_kept(
    protocol: str, chunk: bytes, *, expected: tuple[str, int | None, dict[str, Any]]
) -> None:
    head = peek(protocol, chunk).make_head(protocol, "asked")
    id, created, rest = expected
    assert (head.id, head.model, head.rest) == (id, "real", rest)
    assert created is None or head.created == created


NOTHING: dict[str, Any] = {
    "a cut frame": b'data: {"id": "a", "mod',
    "no object": b"data: [1]\n\n",
    "an object of a client library": {"id": "a"},
    "more levels than there is room for": b'{"id": ' + b"[" * 9999 + b"]" * 9999 + b"}",
    "something else within": frame({"response": 7}),
}


@pytest.mark.parametrize("chunk", NOTHING.values(), ids=NOTHING)
def test_what_cannot_be_read_says_nothing(chunk: Any) -> None:
    head = peek("openai-responses", chunk).make_head("openai-responses", "asked")
    assert head.id.startswith("resp_")
    assert (head.model, head.rest) == ("asked", {})
    assert head.created > 0


def test_another_protocol_gets_a_head_of_its_own() -> None:
    head = peek("openai-chat", frame(CHAT)).make_head("anthropic", "asked")
    assert head.id.startswith("msg_")
    assert (head.model, head.rest) == ("asked", {})


def test_the_error_of_an_answer_that_was_asked_for_again_is_not_handed_on() -> None:
    original = UpstreamEnvelope("openai-chat")
    original.look(b'{"id": "c1", "error": {"message": "overloaded"}, "x": 1}')
    assert original.make_head("openai-chat", "m").rest == {"x": 1}


def test_a_first_chunk_may_be_cut_anywhere() -> None:
    stream = b": keep-alive\n\n" + frame(CHAT)
    for at in range(1, len(stream)):
        original = UpstreamEnvelope("openai-chat")
        pieces = (stream[:at], stream[at:], b'data: {"id": "another answer"}\n\n')
        assert [original.look(piece) for piece in pieces][1:] == [True, True]
        assert original.make_head("openai-chat", "asked").id == "a"


def test_a_payload_without_an_end_is_not_waited_for() -> None:
    original = UpstreamEnvelope("openai-chat")
    assert original.look(b"data: " + b"x" * 70_000)
    assert original.make_head("openai-chat", "asked").id.startswith("chatcmpl-")
