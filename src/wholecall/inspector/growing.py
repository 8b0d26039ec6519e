"""Texts that arrive in pieces, without the secrets in them.

A secret may be cut anywhere, so each piece is checked together with what came before it. A part of
a secret that was shown before it could be recognised is taken back.
"""

from __future__ import annotations

from typing import NamedTuple

from wholecall.inspector.encoding import Hides


class Piece(NamedTuple):
    """The next piece to show."""

    text: str
    whole: bool = False
    """It takes the place of all that was shown before."""


class GrowingText:
    """One text, as far as it has come."""

    __slots__ = ("_hides", "_pieces", "_tail", "has_secrets")

    def __init__(self, hides: Hides) -> None:
        self._hides = hides
        self._pieces: list[str] = []
        self._tail = ""
        self.has_secrets = False

    def add(self, text: str) -> Piece | None:
        """Take a piece. After a secret nothing more is shown until the end."""
        self._pieces.append(text)
        if self.has_secrets:
            return None
        seen = self._tail + text
        self._tail = self._hides.tail(seen)
        self.has_secrets = self._hides.hide(seen) != seen
        return self.end() if self.has_secrets else Piece(text)

    def end(self) -> Piece:
        """The whole text; it takes the place of what was shown if that is another."""
        text = "".join(self._pieces)
        return Piece(self._hides.hide(text), whole=True) if self.has_secrets else Piece(text)
