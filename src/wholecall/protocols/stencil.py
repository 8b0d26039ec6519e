"""Payloads that differ from the previous one in one text only.

Nearly all chunks of a stream are alike: the same id, the same model, the same place, and another
piece of text. Once one of them was decoded, the bytes before and after its text are known. A
payload that has the same bytes in both places, and one JSON string between them, says the same
about another text: JSON has no other way to read it.

That the text found is the text meant is verified: the payload is decoded once more with another
text in its place, and must then give that text, and everything else as before.

A stencil is made only from a payload that leaves its decoder unchanged (`Decoder.read_piece`), and
is valid until the decoder reads anything else: then the same bytes may mean something new.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from wholecall.core.values import (
    CallDelta,
    CallPieces,
    Delta,
    Fault,
    OfChoice,
    Reasoning,
    Text,
    Value,
)
from wholecall.protocols.several import split_payload
from wholecall.protocols.wire import Decoder, Payload

_MOST_TRIES = 16
"""Stencils that are cut for one stream. Where none lasts, no further ones are worth their cost."""
_PROBE = "\u2702 another text"
_WRITTEN_PROBE = json.dumps(_PROBE).encode()
_STRING = msgspec.json.Decoder(str)


class Stencil:
    """Reads the payloads of one stream that are like one that its decoder has read."""

    __slots__ = ("_before", "_behind", "_decode", "_read_piece", "_slot", "_tries", "_type")

    def __init__(self, decoder: Decoder) -> None:
        self._decode = decoder.decode
        self._read_piece = decoder.read_piece
        self._before = b""
        self._behind = b""
        self._type: type[Value] | None = None
        self._slot: int | str | None = None
        self._tries = _MOST_TRIES

    def decode(self, payloads: Sequence[Payload]) -> list[Delta | OfChoice[Delta]]:
        """Turn payloads into the deltas that the decoder makes of them, pieces of one text
        that follow each other taken together."""
        deltas: list[Delta | OfChoice[Delta]] = []
        at = 0
        while at < len(payloads):
            texts = self._read(payloads, at) if self._type is not None else []
            if texts:
                deltas.append(self._make(texts))
                at += len(texts)
                continue
            found = list(self._decode(payloads[at]))
            if len(found) == 1 and isinstance(found[0], Fault):
                found = self._decode_several(payloads[at], unread=found)
            deltas += found
            self._type = None
            if len(found) == 1 and self._tries:
                self._cut(payloads[at], found[0])
            at += 1
        return deltas

    def _decode_several(
        self, payload: Payload, *, unread: list[Delta | OfChoice[Delta]]
    ) -> list[Delta | OfChoice[Delta]]:
        """Decode chunks that came as one payload; return the payload's own deltas if there is only
        one."""
        chunks = split_payload(payload)
        if chunks is None:
            return unread
        return [delta for chunk in chunks for delta in self._decode(chunk)]

    def _read(self, payloads: Sequence[Payload], at: int) -> list[str]:
        """The texts of those payloads from here on that fit."""
        before, behind, texts = self._before, self._behind, []
        start, end = len(before), len(behind)
        for index in range(at, len(payloads)):
            payload = payloads[index]
            if type(payload) is not bytes or not payload.startswith(before):
                break
            if not payload.endswith(behind):
                break
            try:
                text = _STRING.decode(payload[start : len(payload) - end])
            except ValueError:  # more than a string, or one that only the decoder knows to read
                break
            if not text:
                break
            texts.append(text)
        return texts

    def _make(self, texts: list[str]) -> Delta:
        if self._type is not CallDelta:
            whole = "".join(texts)
            return Text(whole) if self._type is Text else Reasoning(whole)
        if len(texts) == 1:
            return CallDelta(self._slot, texts[0])
        return CallPieces(self._slot, pieces=tuple(texts))

    # ── Cutting one ─────────────────────────────────────────────────────────────────

    def _cut(self, payload: Payload, delta: Delta | OfChoice[Delta]) -> None:
        text = _find_text(delta)
        if text is None or type(payload) is not bytes:
            return
        self._tries -= 1
        # A lone surrogate is not a character and is never found.
        written = json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")
        if payload.count(written) != 1 or self._read_piece(payload) != delta:
            return
        before, _, behind = payload.partition(written)
        if self._read_piece(before + _WRITTEN_PROBE + behind) == _with_text(delta, _PROBE):
            self._before, self._behind, self._type = before, behind, type(delta)
            self._slot = delta.slot if isinstance(delta, CallDelta) else None


def _find_text(delta: Delta | OfChoice[Delta]) -> str | None:
    """The text of a delta that has nothing else, but for the place it belongs to."""
    match delta:
        case CallDelta(arguments=str(text), name=None, id=None, opens=False, extras=None):
            return text
        case Text(text=text):
            return text
        case Reasoning(text=text) if not delta.extras:
            return text
    return None


def _with_text(delta: Delta | OfChoice[Delta], text: str) -> Delta:
    """The same with another text."""
    if isinstance(delta, CallDelta):
        return CallDelta(delta.slot, text)
    return Text(text) if isinstance(delta, Text) else Reasoning(text)
