"""The protocols by name: their decoders, how their streams are framed, and how to detect one."""

from __future__ import annotations

from typing import Any

from wholecall.errors import ProtocolError
from wholecall.events import Oddity
from wholecall.protocols.anthropic import stream as anthropic_messages
from wholecall.protocols.bedrock import stream as bedrock_converse
from wholecall.protocols.decoder import Payload, PayloadDecoder, find_entry, read_json
from wholecall.protocols.gemini import stream as gemini
from wholecall.protocols.ollama import stream as ollama
from wholecall.protocols.openai_chat import stream as openai_chat
from wholecall.protocols.openai_responses import stream as openai_responses
from wholecall.protocols.sse_ndjson import Framing, NdjsonFraming, SseFraming

# Recognise the protocol of a recorded payload.
#
# Each protocol has a field that no other has, or a distinctive word in `type` or `object`. A
# payload without one (a bare error, `[DONE]`) decides nothing.


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


PROTOCOLS: dict[str, type[PayloadDecoder]] = {
    "openai-chat": openai_chat.Decoder,
    "openai-responses": openai_responses.Decoder,
    "anthropic": anthropic_messages.Decoder,
    "ollama": ollama.Decoder,
    "gemini": gemini.Decoder,
    "bedrock-converse": bedrock_converse.Decoder,
}
FRAMINGS: dict[str, type[Framing]] = {
    "openai-chat": SseFraming,
    "openai-responses": SseFraming,
    "anthropic": SseFraming,
    "ollama": NdjsonFraming,
    "gemini": SseFraming,
    # On the wire Bedrock uses AWS's binary event stream, which boto3 takes off; what is
    # recorded of it is one event a line.
    "bedrock-converse": NdjsonFraming,
}
_OBJECTS = frozenset({Oddity.ARGUMENTS_OBJECT})
# Their finish reasons never say that tools were called.
_ENDS_ALIKE = frozenset({Oddity.CALLS_WITH_OTHER_HINT})
_BARE = _OBJECTS | _ENDS_ALIKE | {Oddity.ID_MISSING}
USUAL: dict[str, tuple[frozenset[Oddity], frozenset[Oddity]]] = {
    "openai-responses": (_ENDS_ALIKE, _ENDS_ALIKE),
    "anthropic": (frozenset(), _OBJECTS),
    "ollama": (_BARE, _BARE),
    "gemini": (_BARE, _BARE),
    "bedrock-converse": (frozenset(), _OBJECTS),
}
"""Oddities that the protocol itself prescribes: in a stream, in a whole answer."""
_NEITHER: tuple[frozenset[Oddity], frozenset[Oddity]] = (frozenset(), frozenset())


def usual_for(name: str, *, whole: bool) -> frozenset[Oddity]:
    """Return the oddities that are normal in the protocol of this name."""
    return USUAL.get(name, _NEITHER)[whole]


def decoder_for(name: str) -> PayloadDecoder:
    """A new decoder, for one answer in the protocol of this name."""
    return find_entry(PROTOCOLS, name)()


def framing_for(name: str) -> Framing:
    """A new framing, for one stream in the protocol of this name."""
    return find_entry(FRAMINGS, name)()
