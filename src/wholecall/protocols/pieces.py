"""Content that a decoder holds until the rest has come: text, and blocks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from wholecall.core.limits import DEFAULT
from wholecall.core.values import (
    JSON,
    CallDelta,
    CallSealed,
    Delta,
    Fault,
    FaultKind,
    ProviderBlock,
)
from wholecall.errors import ProtocolError


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
