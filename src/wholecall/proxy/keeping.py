"""Messages as JSON, and back again: what is kept over a restart.

Not in a provider's form: that would lose what another provider wants back. Each part is an
object whose `kind` says what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from wholecall.core.conversation import (
    CallResult,
    Media,
    Message,
    Native,
    Part,
    PastCall,
    Result,
    Role,
)
from wholecall.core.values import Reasoning, Text
from wholecall.protocols.wire import plain

_Wire: TypeAlias = Mapping[str, Any]


def write_messages(messages: Iterable[Message]) -> bytes:
    """Messages as JSON. What they were read from is not kept: they are written anew."""
    return msgspec.json.encode(
        [
            {"role": message.role.value, "parts": [_write(part) for part in message.parts]}
            for message in messages
        ]
    )


def read_messages(text: bytes) -> tuple[Message, ...]:
    """Messages as they were before."""
    return tuple(
        Message(Role(wire["role"]), tuple(_read(part) for part in wire["parts"]))
        for wire in msgspec.json.decode(text)
    )


# ── Writing ─────────────────────────────────────────────────────────────────────────


def _write(part: Part) -> dict[str, Any]:
    kind, write = _WRITERS[type(part)]
    return {"kind": kind, **write(part)}


def _write_text(part: Text) -> _Wire:
    return {"text": part.text}


def _write_reasoning(part: Reasoning) -> _Wire:
    return {"text": part.text, "extras": plain(part.extras)}


def _write_media(part: Media) -> _Wire:
    return {
        "of": part.kind,
        "media_type": part.media_type,
        "data": part.data,
        "url": part.url,
        "name": part.name,
    }


def _write_native(part: Native) -> _Wire:
    return {"protocol": part.protocol, "value": plain(part.value)}


def _write_call(part: PastCall) -> _Wire:
    return {
        "id": part.id,
        "name": part.name,
        "arguments": plain(part.arguments),
        "provider_id": part.provider_id,
        "extras": plain(part.extras),
    }


def _write_result(part: CallResult) -> _Wire:
    result = part.result
    return {
        "call_id": part.call_id,
        "name": part.name,
        "failed": result.failed,
        "content": [_write(piece) for piece in result.content],
    }


_WRITERS: dict[type[Part], tuple[str, Callable[[Any], _Wire]]] = {
    Text: ("text", _write_text),
    Reasoning: ("reasoning", _write_reasoning),
    Media: ("media", _write_media),
    Native: ("native", _write_native),
    PastCall: ("call", _write_call),
    CallResult: ("result", _write_result),
}

# ── Reading ─────────────────────────────────────────────────────────────────────────


def _read(wire: _Wire) -> Part:
    return _READERS[wire["kind"]](wire)


def _read_text(wire: _Wire) -> Text:
    return Text(wire["text"])


def _read_reasoning(wire: _Wire) -> Reasoning:
    return Reasoning(wire["text"], wire["extras"])


def _read_media(wire: _Wire) -> Media:
    return Media(
        kind=wire["of"],
        media_type=wire["media_type"],
        data=wire["data"],
        url=wire["url"],
        name=wire["name"],
    )


def _read_native(wire: _Wire) -> Native:
    return Native(wire["protocol"], wire["value"])


def _read_call(wire: _Wire) -> PastCall:
    return PastCall(
        id=wire["id"],
        name=wire["name"],
        arguments=wire["arguments"],
        provider_id=wire["provider_id"],
        extras=wire["extras"],
    )


def _read_result(wire: _Wire) -> CallResult:
    pieces = (_CONTENT[piece["kind"]](piece) for piece in wire["content"])
    result = Result(tuple(pieces), failed=wire["failed"])
    return CallResult(call_id=wire["call_id"], name=wire["name"], result=result)


_CONTENT: dict[str, Callable[[_Wire], Text | Media]] = {"text": _read_text, "media": _read_media}
_READERS: dict[str, Callable[[_Wire], Part]] = {
    **_CONTENT,
    "reasoning": _read_reasoning,
    "native": _read_native,
    "call": _read_call,
    "result": _read_result,
}
