"""Text that a decoder has to hold until the rest of it came."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from wholecall.core.limits import DEFAULT
from wholecall.core.values import ProviderBlock
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
        self._room -= len(text)
        if self._room < 0:
            raise ProtocolError(f"{self._what} has more than {DEFAULT.characters} characters")
        self._pieces.append(text)

    def join(self) -> str:
        """All that came so far."""
        return "".join(self._pieces)


class GrowingBlock:
    """A block that the provider itself acts on, being built from its deltas."""

    __slots__ = ("_texts", "native")

    def __init__(self, native: Mapping[str, Any]) -> None:
        self.native = dict(native)
        self._texts: dict[str, Pieces] = {}

    def grow(self, field: str, text: str) -> None:
        """Add to the text of a field. `partial_json` is the text of the field `input`."""
        if field not in self._texts:
            self._texts[field] = Pieces(f"field {field!r} of a provider's block")
        self._texts[field].add(text)

    def finish(self) -> ProviderBlock:
        """The whole block."""
        for field, pieces in self._texts.items():
            text = pieces.join()
            if field != "partial_json":
                self.native[field] = (self.native.get(field) or "") + text
            elif text:
                self._take_input(text)
        return ProviderBlock(self.native)

    def _take_input(self, text: str) -> None:
        try:
            self.native["input"] = json.loads(text)
        except (ValueError, RecursionError):
            self.native["partial_json"] = text
