"""Cheaper ways for common payloads: split glued chunks, reuse the shape of the previous one,
coalesce neighbours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any

import msgspec

from wholecall.events import CallDelta, CallPieces, Delta, Fault, OfChoice, Reasoning, Text, Value
from wholecall.protocols.decoder import DONE, Payload, PayloadDecoder

_OBJECTS = json.JSONDecoder(strict=False)  # raw control characters are read here as elsewhere
_BETWEEN = re.compile(r"(?:[\s,\ufeff]|data:)*+")
_DONE = re.compile(re.escape(DONE), re.IGNORECASE)
_COMMENT = ":"
"""A comment that was sent as the data of an event: `data: : OPENROUTER PROCESSING`."""


def split_glued(payload: Payload) -> list[Payload] | None:
    """The objects that a payload holds, and `[DONE]`; None if it is one object, or holds more."""
    if not isinstance(payload, bytes | str):
        return None
    text = payload if isinstance(payload, str) else payload.decode("utf-8", "replace")
    if text.lstrip().startswith(_COMMENT):
        return []
    try:
        found = _split(text)
    except (ValueError, RecursionError):
        return None
    return None if len(found) == 1 and text.lstrip().startswith("{") else found


def _split(text: str) -> list[Payload]:
    """Return all values of a text; raise ValueError for anything else in it."""
    found: list[Payload] = []
    at = _skip(text, 0)
    while at < len(text):
        mark = _DONE.match(text, at)
        if mark is not None:
            found.append(DONE)
            at = mark.end()
        else:
            value, at = _OBJECTS.raw_decode(text, at)
            found += _objects(value)
        at = _skip(text, at)
    return found


def _skip(text: str, at: int) -> int:
    return next(_BETWEEN.finditer(text, at)).end()


def _objects(value: Any) -> list[Any]:
    objects = value if isinstance(value, list) else [value]
    if not all(isinstance(each, dict) for each in objects):
        raise ValueError("no object")
    return objects


# Payloads that differ from the previous one in one text only.
#
# Nearly all chunks of a stream are alike: the same id, the same model, the same place, and another
# piece of text. Once one of them was decoded, the bytes before and after its text are known. A
# payload that has the same bytes in both places, and one JSON string between them, says the same
# about another text: JSON has no other way to read it.
#
# That the text found is the text meant is verified: the payload is decoded once more with another
# text in its place, and must then give that text, and everything else as before.
#
# A stencil is made only from a payload that leaves its decoder unchanged
# (`PayloadDecoder.read_piece`), and is valid until the decoder reads anything else: then the same
# bytes may mean something new.


_MOST_TRIES = 16
"""Stencils that are cut for one stream. Where none lasts, no further ones are worth their cost."""
_PROBE = "\u2702 another text"
_WRITTEN_PROBE = json.dumps(_PROBE).encode()
_STRING = msgspec.json.Decoder(str)
_STRINGS = msgspec.json.Decoder(list[str])


class RepeatedChunks:
    """Reads the payloads of one stream that are like one that its decoder has read."""

    __slots__ = ("_before", "_behind", "_decode", "_read_piece", "_slot", "_tries", "_type")

    def __init__(self, decoder: PayloadDecoder) -> None:
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
        chunks = split_glued(payload)
        if chunks is None:
            return unread
        return [delta for chunk in chunks for delta in self._decode(chunk)]

    def _read(self, payloads: Sequence[Payload], at: int) -> list[str]:
        """The texts of those payloads from here on that fit."""
        before, behind, written = self._before, self._behind, []
        start, end = len(before), -len(behind)
        for payload in payloads[at:] if at else payloads:
            if type(payload) is not bytes or not payload.startswith(before):
                break
            if not payload.endswith(behind):
                break
            written.append(payload[start:end])
        return _read_strings(written)

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
        try:
            written = msgspec.json.encode(text)
        except UnicodeEncodeError:  # half of a character
            return
        if payload.count(written) != 1 or self._read_piece(payload) != delta:
            return
        before, _, behind = payload.partition(written)
        if self._read_piece(before + _WRITTEN_PROBE + behind) == _with_text(delta, _PROBE):
            self._before, self._behind, self._type = before, behind, type(delta)
            self._slot = delta.slot if isinstance(delta, CallDelta) else None


def _read_strings(written: Sequence[bytes]) -> list[str]:
    """Return the texts of JSON strings, up to the first that is empty or is not a string.

    All are decoded at once. Each of them is one string if there are as many strings as pieces: no
    string goes on in the next piece, because none may contain the newline between the two.
    """
    try:
        texts = _STRINGS.decode(b"[" + b",\n".join(written) + b"]")
    except ValueError:
        texts = []
    if len(texts) != len(written):  # more than a string, or one that only the decoder reads
        texts = [*_read_each(written)]
    return texts[: texts.index("")] if "" in texts else texts


def _read_each(written: Iterable[bytes]) -> Iterator[str]:
    with suppress(ValueError):
        yield from map(_STRING.decode, written)


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


# Join neighbours of the same kind that came in one read.
#
# A fast upstream, or a slow client, makes many chunks come in one read of the socket. How a stream
# was cut changes nothing (law 5), so it is cheaper to handle them together: everything after the
# decoder then works once per read, not once per chunk.


def coalesce(deltas: Iterable[Delta | OfChoice[Delta]]) -> list[Delta | OfChoice[Delta]]:
    """Say the same in fewer deltas."""
    joined: list[Delta | OfChoice[Delta]] = []
    for address, group in groupby(deltas, _address):
        neighbours = list(group)
        if address is None or len(neighbours) == 1:
            joined += neighbours
        else:
            joined.append(_as_one(neighbours))
    return joined


def _address(delta: Delta | OfChoice[Delta]) -> Hashable:
    """Return what a delta adds to, if it adds nothing but text."""
    kind = type(delta)
    if kind is Text:
        return Text
    if isinstance(delta, CallDelta):
        return (delta.slot,) if _is_piece(delta) else None
    return Reasoning if isinstance(delta, Reasoning) and not delta.extras else None


def _is_piece(delta: CallDelta) -> bool:
    return (
        type(delta.arguments) is str
        and not delta.name
        and not delta.id
        and not delta.opens
        and not delta.extras
    )


def _as_one(neighbours: list[Any]) -> Delta:
    first = neighbours[0]
    if isinstance(first, CallDelta):
        return CallPieces(first.slot, pieces=tuple(each.arguments for each in neighbours))
    whole = "".join(each.text for each in neighbours)
    return Text(whole) if isinstance(first, Text) else Reasoning(whole)
