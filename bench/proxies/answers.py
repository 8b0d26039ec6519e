"""The answers that travel through the gateways, and the requests that ask for them."""

from __future__ import annotations

import json
from typing import Any

DELTAS = 200
"""Of a stream that comes as fast as it is read."""
PIECE = 16
"""Characters of a delta."""
TOOL = {
    "type": "function",
    "function": {
        "name": "write_file",
        "description": "Write a text into a file.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
            "required": ["path", "content"],
        },
    },
}
_HEAD = {
    "id": "chatcmpl-1",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "bench",
    "system_fingerprint": "fp_1",
}


def spoken(deltas: int) -> str:
    """What the model says in so many deltas."""
    words = "The quick brown fox jumps over the lazy dog. "
    return (words * (deltas * PIECE // len(words) + 1))[: deltas * PIECE]


def arguments(deltas: int) -> str:
    """Arguments of the call, in so many deltas."""
    empty = '{"path":"notes.txt","content":""}'
    return empty[:-2] + spoken(deltas)[len(empty) :] + empty[-2:]


def _frame(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return b"data: " + json.dumps({**_HEAD, "choices": [choice]}).encode() + b"\n\n"


def _cut(text: str) -> list[str]:
    return [text[at : at + PIECE] for at in range(0, len(text), PIECE)]


def text_frames(deltas: int) -> list[bytes]:
    """A stream of text."""
    frames = [_frame({"role": "assistant", "content": ""})]
    frames += (_frame({"content": piece}) for piece in _cut(spoken(deltas)))
    return [*frames, _frame({}, "stop"), b"data: [DONE]\n\n"]


def call_frames(deltas: int) -> list[bytes]:
    """A stream with one call."""
    function = {"name": "write_file", "arguments": ""}
    opening = {"index": 0, "id": "call_1", "type": "function", "function": function}
    frames = [_frame({"role": "assistant", "content": None, "tool_calls": [opening]})]
    for piece in _cut(arguments(deltas)):
        call = {"index": 0, "function": {"arguments": piece}}
        frames.append(_frame({"tool_calls": [call]}))
    return [*frames, _frame({}, "tool_calls"), b"data: [DONE]\n\n"]


def whole_body() -> bytes:
    """An answer of 1 KB in one piece."""
    message = {"role": "assistant", "content": spoken(40), "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    usage = {"prompt_tokens": 12, "completion_tokens": 160, "total_tokens": 172}
    body = {**_HEAD, "object": "chat.completion", "choices": [choice], "usage": usage}
    return json.dumps(body).encode()


def request_body(kind: str) -> bytes:
    """A request for an answer of this kind. The upstream knows it by its first message."""
    content = f"{kind}: " + spoken(50)
    body: dict[str, Any] = {"model": "bench", "messages": [{"role": "user", "content": content}]}
    if kind != "whole":
        body["stream"] = True
    if kind in WITH_TOOLS:
        body["tools"] = [TOOL]
    return json.dumps(body).encode()


WITH_TOOLS = ("call", "text", "slow-call")
KINDS = {
    "whole": "1 KB in one piece",
    "call": "a tool call",
    "text": "text, a tool offered",
    "plain": "text, no tools",
}
"""What is asked for at full speed."""
