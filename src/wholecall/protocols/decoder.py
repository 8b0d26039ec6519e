"""What all decoders share: payloads in, deltas out, open blocks, and a `Fault` for what cannot be
read.
"""

from __future__ import annotations

import json
import reprlib
import string
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import msgspec

from wholecall.arguments.limits import DEFAULT
from wholecall.errors import ProtocolError
from wholecall.events import (
    JSON,
    CallDelta,
    CallSealed,
    Delta,
    Fault,
    FaultKind,
    OfChoice,
    ProviderBlock,
    Reasoning,
    Terminated,
    Text,
    Usage,
)

# The shared part of all protocols: payloads in, deltas out, and a `Fault` for an unreadable
# payload.
#
# Inside a protocol's file an unreadable payload is a `ProtocolError`, raised where it is found.
# `guard` turns it into a delta at the border, so that a decoder never raises: a broken chunk is a
# fact about the stream.


Payload: TypeAlias = bytes | str | Mapping[str, Any] | object
"""One chunk: its JSON text, the decoded object, or a client library's object."""
Decoded: TypeAlias = Iterable[Delta | OfChoice[Delta]]

DONE = "[DONE]"
DECLINED = "refusal"
CUSTOM = "custom"
"""The type of a call whose tool takes any text."""
_KEEP_ALIVE = ("", "null", "[]", "ping", "keepalive", "keep-alive", "heartbeat")
_MARKS = {**dict.fromkeys(_KEEP_ALIVE, ""), "[done]": DONE, "done": DONE}
_LONGEST_MARK = 12
"""Characters of a mark, with quotes and blanks in it."""
_TEXT = (bytes, str)  # as a tuple: `bytes | str` is built anew for every chunk
UNREADABLE = (ProtocolError, RecursionError)  # the latter: nested beyond the stack
_PREVIEW = 200
_MOST_TOKENS = 2**53
"""Counts beyond it are not exact where they are added up as floats. Below 0 is -1, for unknown."""
_WORD = f"{string.ascii_letters}{string.digits}-_.~+/="
_Shape = TypeVar("_Shape")


class PayloadDecoder(Protocol):
    """Reads the chunks of one stream. Its state belongs to that stream."""

    def decode(self, payload: Payload) -> Decoded:
        """Turn one chunk into deltas."""

    def read_piece(self, payload: bytes) -> Delta | None:
        """The piece that a chunk is, if it is one and nothing else, and if to decode it leaves
        the decoder as it was: then the next chunk like it need not be decoded
        (`RepeatedChunks`)."""

    def decode_response(self, body: Payload) -> Decoded:
        """Turn a whole, not streamed answer into the same deltas."""


# ── At the border ───────────────────────────────────────────────────────────────────


def guard(deltas: Decoded) -> Decoded:
    """End in a `Fault` where something cannot be read, never in an exception."""
    decoded: list[Delta | OfChoice[Delta]] = []
    try:
        for delta in deltas:
            decoded.append(delta)  # noqa: PERF402  # what came before the fault is kept
    except UNREADABLE as error:
        decoded.append(explain(error))
    return decoded


def explain(error: Exception) -> Fault:
    """Return the fault for a payload that cannot be read."""
    return Fault(FaultKind.PROTOCOL, str(error))


def terminate(deltas: Decoded) -> Decoded:
    """A whole answer is over when it has been read: it ends with exactly one `Terminated`."""
    for delta in deltas:
        if not isinstance(delta, Terminated):
            yield delta
    yield Terminated()


def read_mark(payload: Payload) -> str | None:
    """Return a payload that is not an object: `[DONE]`, or nothing at all (a keep-alive).

    Servers write it in lower case, with blanks, in quotes.
    """
    if not isinstance(payload, _TEXT):
        return None
    mark = payload.strip()
    if len(mark) > _LONGEST_MARK:
        return None
    text = mark if isinstance(mark, str) else mark.decode("utf-8", "replace")
    return _MARKS.get("".join(text.strip('"').split()).lower())


def is_done(text: str) -> bool:
    """Return True if a line ends the stream, in any case."""
    return read_mark(text) == DONE


# ── Reading ─────────────────────────────────────────────────────────────────────────


def read(payload: Payload, shape: msgspec.json.Decoder[_Shape]) -> _Shape:
    """Check a chunk once. What does not fit is an error that names the place."""
    if isinstance(payload, _TEXT):
        try:
            return shape.decode(payload)
        except ValueError:
            payload = _parse_leniently(payload)
    return fit(payload, shape.type)


def fit(value: Any, shape: type[_Shape]) -> _Shape:
    """Check a part of a chunk whose shape depends on what it says it is."""
    try:
        return msgspec.convert(value, shape)
    except ValueError:
        return _look_into(value, shape)


def _look_into(value: Any, shape: type[_Shape]) -> _Shape:
    """Read a client library's object, or a dict that holds some, by its attributes."""
    try:
        return msgspec.convert(value, shape, from_attributes=True)
    except ValueError as error:
        raise ProtocolError(f"cannot be read: {error}: {_preview(value)}") from None


def read_json(payload: Payload) -> Any:
    """A payload as plain JSON values, in whatever form it came."""
    if not isinstance(payload, _TEXT):
        return plain(payload)
    try:
        return msgspec.json.decode(payload)
    except ValueError:
        return _parse_leniently(payload)


def _parse_leniently(text: bytes | str) -> Any:
    """Accept what msgspec refuses and servers send.

    A BOM, invalid UTF-8, a raw control character, an escaped lone surrogate (JavaScript cuts text
    between the two), NaN.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    try:
        return json.loads(text.removeprefix("\ufeff"), strict=False)
    except ValueError as error:
        raise ProtocolError(f"is no JSON: {error}: {_preview(text)}") from None


def _preview(value: Any) -> str:
    if not isinstance(value, _TEXT):
        return reprlib.repr(value)
    text = value if isinstance(value, str) else value.decode("utf-8", "replace")
    if len(text) <= _PREVIEW:
        return repr(text)
    # Redaction recognises secrets by their form, and would not recognise half of one.
    return repr(text[:_PREVIEW].rstrip(_WORD) + "…")


# ── Parts that have no fixed shape ──────────────────────────────────────────────────


@runtime_checkable
class _Model(Protocol):
    """An object of a client library that is built on pydantic."""

    def model_dump(
        self, *, mode: str, by_alias: bool, exclude_unset: bool, warnings: bool
    ) -> dict[str, Any]:
        """Return the received values as JSON."""


def plain(value: Any) -> Any:
    """A copy of a value as JSON values: a client library's objects become what they stand for."""
    try:
        return msgspec.to_builtins(value, enc_hook=_dump)
    except (ValueError, TypeError) as error:
        raise ProtocolError(f"is no JSON value: {error}: {_preview(value)}") from None


def _dump(value: Any) -> Any:
    if isinstance(value, _Model):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)
    return dict(value) if isinstance(value, Mapping) else vars(value)


def read_arguments(arguments: Any) -> str | Mapping[str, JSON] | None:
    """Text and objects as they are; a list or a number as text, for the assembler to reject."""
    if arguments is None or isinstance(arguments, str | Mapping):
        return arguments
    return json.dumps(plain(arguments))


def decline(text: str) -> tuple[Reasoning, Text]:
    """Return a refusal of OpenAI's models: their clients read the mark before it and do not treat
    it as content; to all others it is text."""
    return Reasoning("", {DECLINED: True}), Text(text)


def read_error(error: Any) -> Fault:
    """An error object inside a stream, in whatever shape: `{"message": …}`, a text, a code."""
    native = plain(error)
    if isinstance(native, Mapping):
        message = native.get("message") or native.get("type") or native.get("code") or native
        return Fault(FaultKind.UPSTREAM_ERROR, str(message), native)
    return Fault(FaultKind.UPSTREAM_ERROR, str(native))


def read_usage(usage: Any, *, input_tokens: str, output_tokens: str) -> Iterator[Usage]:
    """Token counts, under the names that a protocol gives to them."""
    native = plain(usage)
    if isinstance(native, dict):
        given, written = native.get(input_tokens), native.get(output_tokens)
        yield Usage(read_count(given), read_count(written), native)


def read_count(value: Any) -> int | None:
    """A count of tokens. Some servers reckon with floats; what cannot be a count says nothing."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else None


_REASONING = ("completion_tokens_details", "output_tokens_details")


def count_reasoning(native: Mapping[str, Any]) -> int:
    """Return how many of the output tokens are reasoning, where a provider says so; else 0."""
    details = (native.get(name) for name in _REASONING)
    apart = (each.get("reasoning_tokens") for each in details if isinstance(each, Mapping))
    thoughts = native.get("thoughtsTokenCount", native.get("thoughts_token_count"))
    return next((count for said in (*apart, thoughts) if (count := read_count(said))), 0)


def present(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


# Content that a decoder holds until the rest has come: text, and blocks.


class Pieces:
    """Text in pieces, joined once. It may grow as large as the arguments of a call."""

    __slots__ = ("_pieces", "_room", "_what")

    def __init__(self, what: str) -> None:
        self._what = what
        self._pieces: list[str] = []
        self._room = DEFAULT.characters

    def add(self, text: str) -> None:
        """Hold one more piece."""
        self.take_room(len(text))
        self._pieces.append(text)

    def take_room(self, characters: int) -> None:
        """Count what is held elsewhere."""
        self._room -= characters
        if self._room < 0:
            raise ProtocolError(f"{self._what} has more than {DEFAULT.characters} characters")

    def join(self) -> str:
        """All that came so far."""
        return "".join(self._pieces)


class GrowingBlock:
    """A block that the provider itself acts on, being built from its deltas.

    Where blocks are unions, `member` names the one that it is.
    """

    __slots__ = ("_member", "_texts", "native")

    def __init__(self, native: Mapping[str, Any], member: str | None = None) -> None:
        self.native = dict(native)
        self._member = member
        self._texts: dict[str, Pieces] = {}

    def grow(self, field: str, text: str) -> None:
        """Add to the text of a field. `partial_json` is the text of the field `input`."""
        self._pieces(field).add(text)

    def extend(self, field: str, entries: list[Any]) -> None:
        """Add to the list in a field."""
        self._pieces(field).take_room(len(json.dumps(entries, default=repr)))
        begun = self.native.setdefault(field, [])
        if not isinstance(begun, list):
            raise ProtocolError(f"field {field!r} of a provider's block goes on as a list")
        begun.extend(entries)

    def _pieces(self, field: str) -> Pieces:
        if field not in self._texts:
            self._texts[field] = Pieces(f"field {field!r} of a provider's block")
        return self._texts[field]

    def finish(self) -> ProviderBlock:
        """The whole block."""
        for field, pieces in self._texts.items():
            text = pieces.join()
            if text and field == "partial_json":
                self._take_input(text)
            elif text:
                self.native[field] = (self.native.get(field) or "") + text
        return ProviderBlock(self.native if self._member is None else {self._member: self.native})

    def _take_input(self, text: str) -> None:
        try:
            self.native["input"] = json.loads(text)
        except (ValueError, RecursionError):
            self.native["partial_json"] = text


class OpenBlocks:
    """The content blocks of one message, by their index: calls, and the provider's own.

    Text and reasoning are handed on as they come, and need no place here.
    """

    __slots__ = ("_calls", "_growing", "_kind")

    def __init__(self, kind: str) -> None:
        self._kind = kind
        """The protocol's name for a block that is a call."""
        self._calls: set[int] = set()
        self._growing: dict[int, GrowingBlock] = {}

    def open_call(self, index: int) -> None:
        """A call begins."""
        self._make_room()
        self._growing.pop(index, None)
        self._calls.add(index)

    def open_other(self, index: int, block: GrowingBlock) -> None:
        """A block begins that the provider itself acts on."""
        self._make_room()
        self._calls.discard(index)
        self._growing[index] = block

    def open_words(self, index: int) -> None:
        """A block of text or reasoning begins, in a place where another one may have been."""
        self._calls.discard(index)
        self._growing.pop(index, None)

    def growing(self, index: int) -> GrowingBlock | None:
        """The provider's own block at this place."""
        return self._growing.get(index)

    def is_call(self, index: int) -> bool:
        """Return True if a call began there."""
        return index in self._calls

    def add_input(self, index: int, arguments: str | Mapping[str, JSON] | None) -> Iterator[Delta]:
        """A piece of a call's arguments came; where no call began, one has to."""
        known = index in self._calls
        if not known:
            self.open_call(index)
            message = f"input for content block {index}, which is no {self._kind}"
            yield Fault(FaultKind.PROTOCOL, message)
        yield CallDelta(index, arguments, opens=not known)

    def stop(self, index: int) -> Iterator[Delta]:
        """A block is over."""
        if index in self._growing:
            yield self._growing.pop(index).finish()
        elif index in self._calls:
            yield CallSealed(index)

    def _make_room(self) -> None:
        if len(self._calls) + len(self._growing) >= DEFAULT.blocks:
            raise ProtocolError(f"the answer has more than {DEFAULT.blocks} content blocks")
