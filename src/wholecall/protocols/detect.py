"""Recognise the protocol of a recorded payload.

Each protocol has a field that no other has, or a distinctive word in `type` or `object`. A payload
without one (a bare error, `[DONE]`) decides nothing.
"""

from __future__ import annotations

from typing import Any

from wholecall.errors import ProtocolError
from wholecall.protocols.wire import Payload, read_json

# How `type` (of events) or `object` (of answers) begins.
_KINDS: tuple[tuple[str, str], ...] = (
    ("chat.completion", "openai-chat"),
    ("response", "openai-responses"),
    ("content_block_", "anthropic"),
    ("message", "anthropic"),
)
# Fields that are found together.
_FIELDS: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"choices"}), "openai-chat"),
    (frozenset({"candidates"}), "gemini"),
    (frozenset({"promptFeedback"}), "gemini"),
    (frozenset({"message", "done"}), "ollama"),
    (frozenset({"messageStart"}), "bedrock-converse"),
    (frozenset({"contentBlockStart"}), "bedrock-converse"),
    (frozenset({"contentBlockDelta"}), "bedrock-converse"),
    (frozenset({"contentBlockStop"}), "bedrock-converse"),
    (frozenset({"messageStop"}), "bedrock-converse"),
    (frozenset({"output", "stopReason"}), "bedrock-converse"),
)
# With one of these every event of a stream begins, and with none of them JSON or HTML.
_EVENT_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")
LONGEST_FIELD = max(map(len, _EVENT_FIELDS))
BLANKS = b"\xef\xbb\xbf \t\r\n"
"""Bytes that may precede the first of them."""
_WHOLE_KINDS = frozenset({"chat.completion", "response", "message"})


def detect(payload: Payload) -> str | None:
    """Name the protocol of a chunk or of a whole answer; None if it could be any."""
    fields = _read_fields(payload)
    kind = _kind(fields)
    for beginning, protocol in _KINDS:
        if kind.startswith(beginning):
            return protocol
    for names, protocol in _FIELDS:
        if names <= fields.keys():
            return protocol
    return None


def is_whole(payload: Payload) -> bool:
    """Return True for an answer that was not streamed, not a chunk of a stream.

    If both have one shape (Gemini, Ollama) it counts as a chunk, which itself says whether it is
    the last one.
    """
    fields = _read_fields(payload)
    if _kind(fields) in _WHOLE_KINDS or "output" in fields:
        return True
    choices = fields.get("choices")
    return isinstance(choices, list) and any(
        isinstance(choice, dict) and "message" in choice for choice in choices
    )


def begins_events(body: bytes) -> bool:
    """Return True if a body is a stream of server-sent events, whatever its content type."""
    return body.lstrip(BLANKS).startswith(_EVENT_FIELDS)


def _read_fields(payload: Payload) -> dict[str, Any]:
    try:
        value = read_json(payload)
    except ProtocolError:
        return {}
    return value if isinstance(value, dict) else {}


def _kind(fields: dict[str, Any]) -> str:
    return str(fields.get("type") or fields.get("object") or "")
