"""The protocols by name: who decodes their payloads and how their streams are cut."""

from __future__ import annotations

from wholecall.core.tables import find_entry
from wholecall.core.values import Oddity
from wholecall.protocols import (
    anthropic_messages,
    bedrock_converse,
    gemini,
    ollama,
    openai_chat,
    openai_responses,
)
from wholecall.protocols.framing import Framing, NdjsonFraming, SseFraming
from wholecall.protocols.wire import Decoder

PROTOCOLS: dict[str, type[Decoder]] = {
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


def decoder_for(name: str) -> Decoder:
    """A new decoder, for one answer in the protocol of this name."""
    return find_entry(PROTOCOLS, name)()


def framing_for(name: str) -> Framing:
    """A new framing, for one stream in the protocol of this name."""
    return find_entry(FRAMINGS, name)()
