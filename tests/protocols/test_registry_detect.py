"""A recording's protocol is known by its payloads, and a guess is never forced."""

import json
from typing import Any

import pytest

from wholecall.protocols.registry import NAMES, begins_events, detect, is_full_response

CHUNKS: list[tuple[dict[str, Any], str]] = [
    ({"choices": [{"index": 0, "delta": {}}]}, "openai-chat"),
    ({"choices": [], "usage": {"prompt_tokens": 3}}, "openai-chat"),
    ({"object": "chat.completion.chunk", "error": {"message": "no"}}, "openai-chat"),
    ({"choices": "broken"}, "openai-chat"),
    ({"choices": ["broken"]}, "openai-chat"),
    ({"type": "response.created", "response": {}}, "openai-responses"),
    ({"type": "response.output_item.added", "item": {}}, "openai-responses"),
    ({"type": "message_start", "message": {}}, "anthropic"),
    ({"type": "content_block_delta", "index": 0}, "anthropic"),
    ({"type": "message_stop"}, "anthropic"),
    ({"candidates": [{"content": {}}]}, "gemini"),
    ({"promptFeedback": {"blockReason": "SAFETY"}}, "gemini"),
    ({"message": {"content": ""}, "done": False}, "ollama"),
    ({"messageStart": {"role": "assistant"}}, "bedrock-converse"),
    ({"contentBlockStart": {}}, "bedrock-converse"),
    ({"contentBlockDelta": {}}, "bedrock-converse"),
    ({"contentBlockStop": {}}, "bedrock-converse"),
    ({"messageStop": {"stopReason": "tool_use"}}, "bedrock-converse"),
    ({"chunk": {"bytes": "e30="}}, "bedrock-invoke"),
    ({"bytes": "e30=", "p": "a"}, "bedrock-invoke"),
    ({"type": "tool-call-start", "index": 0}, "cohere"),
    ({"type": "content-delta", "index": 0}, "cohere"),
    ({"type": "message-end"}, "cohere"),
    ({"message": {"content": []}, "finish_reason": "COMPLETE"}, "cohere"),
    ({"event_type": "step.delta", "index": 0}, "gemini-interactions"),
]
WHOLE: list[tuple[dict[str, Any], str]] = [
    ({"object": "chat.completion", "choices": []}, "openai-chat"),
    ({"choices": [{"message": {"content": "hi"}}]}, "openai-chat"),
    ({"object": "response", "output": []}, "openai-responses"),
    ({"type": "message", "content": []}, "anthropic"),
    ({"object": "interaction", "steps": []}, "gemini-interactions"),
    ({"output": {"message": {}}, "stopReason": "tool_use"}, "bedrock-converse"),
]
TELLING_NOTHING = [
    {},
    {"error": {"message": "overloaded"}},
    {"type": "error", "error": {}},
    {"type": "ping"},
    {"type": 7},
    {"message": "no `done` beside it"},
    [{"choices": []}],
    "[DONE]",
    "",
    b"\xff\x00 no JSON",
    None,
    7,
]


@pytest.mark.parametrize(("payload", "protocol"), CHUNKS + WHOLE)
def test_a_payload_names_its_protocol_decoded_or_not(
    payload: dict[str, Any], protocol: str
) -> None:
    assert detect(payload) == protocol
    assert detect(json.dumps(payload)) == protocol
    assert detect(json.dumps(payload).encode()) == protocol


@pytest.mark.parametrize("payload", TELLING_NOTHING)
def test_a_payload_that_could_be_anybodys_names_none(payload: object) -> None:
    assert detect(payload) is None
    assert not is_full_response(payload)


@pytest.mark.parametrize(("payload", "protocol"), CHUNKS)
def test_a_chunk_is_no_whole_answer(payload: dict[str, Any], protocol: str) -> None:
    assert not is_full_response(payload), protocol


@pytest.mark.parametrize(("payload", "protocol"), WHOLE)
def test_a_whole_answer_is_known_as_one(payload: dict[str, Any], protocol: str) -> None:
    assert is_full_response(payload), protocol


def test_every_registered_protocol_can_be_detected() -> None:
    assert {protocol for _, protocol in CHUNKS} == set(NAMES)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"data: {}", True),
        (b"\xef\xbb\xbf\r\n event: message_start\n", True),
        (b": hello\n\n", True),
        (b"retry: 3\n", True),
        (b"id: 1\n", True),
        (b'{"data": 1}', False),
        (b"[1]", False),
        (b"<html>data:", False),
        (b"database is locked", False),
        (b"", False),
    ],
)
def test_events_are_known_by_how_they_begin(body: bytes, expected: bool) -> None:
    assert begins_events(body) is expected


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 100_000])
def test_what_is_nested_beyond_the_stack_is_no_answer(body: bytes) -> None:
    assert not is_full_response(body)
    assert detect(body) is None
