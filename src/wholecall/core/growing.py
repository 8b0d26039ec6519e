"""A text that grows by pieces and is shown as it grows.

A piece costs about fifty bytes in addition to its characters, and many have four. So pieces that
were shown are joined to blocks: a long call takes the memory of its text, and appending stays
linear, because no block is touched again.
"""

from __future__ import annotations

_LOOSE = 256
"""Pieces that are not in a block."""


class GrowingText:
    """All pieces so far."""

    __slots__ = ("_blocks", "_pieces", "_shown")

    def __init__(self) -> None:
        self._blocks: list[str] = []
        self._pieces: list[str] = []
        self._shown = 0
        """The number of pieces that were shown; the blocks were shown as well."""

    def __bool__(self) -> bool:
        return bool(self._pieces or self._blocks)

    @property
    def is_joined(self) -> bool:
        """True if it has more than one piece."""
        return len(self._pieces) > 1 or bool(self._blocks)

    @property
    def last(self) -> str:
        """The piece that was added last."""
        return self._pieces[-1]

    @last.setter
    def last(self, text: str) -> None:
        self._pieces[-1] = text

    def append(self, text: str) -> None:
        """Add a piece."""
        pieces = self._pieces
        if len(pieces) >= _LOOSE and self._shown == len(pieces):
            self._blocks.append("".join(pieces))
            pieces.clear()
            self._shown = 0
        pieces.append(text)

    def clear(self) -> None:
        """Begin anew. Nothing of it was shown."""
        self._pieces.clear()

    def join(self) -> str:
        """All of it."""
        return "".join((*self._blocks, *self._pieces))

    def fresh(self) -> str:
        """Return the text that was not shown yet."""
        pieces = self._pieces
        shown, self._shown = self._shown, len(pieces)
        return pieces[shown] if self._shown - shown == 1 else "".join(pieces[shown:])
