"""Texts that come in pieces, without the secrets in them.

A secret may be cut anywhere, so each piece is looked at together with what came before it. What
was shown of a secret before it could be known for one is taken back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

WINDOW = 1024
"""Characters before a piece in which a secret may have begun."""


class Piece(NamedTuple):
    """What is to be shown next."""

    text: str
    whole: bool = False
    """It takes the place of all that was shown before."""


class GrowingText:
    """One text, as far as it has come."""

    __slots__ = ("_hide", "_pieces", "_tail", "has_secrets")

    def __init__(self, hide: Callable[[str], str]) -> None:
        self._hide = hide
        self._pieces: list[str] = []
        self._tail = ""
        self.has_secrets = False

    def add(self, text: str) -> Piece | None:
        """Take a piece. After a secret nothing more is shown until the end."""
        self._pieces.append(text)
        if self.has_secrets:
            return None
        seen = self._tail + text
        self._tail = seen[-WINDOW:]
        self.has_secrets = self._hide(seen) != seen
        return self.end() or Piece(text)

    def end(self) -> Piece | None:
        """The whole text, if it is another than what was shown."""
        if not self.has_secrets:
            return None
        return Piece(self._hide("".join(self._pieces)), whole=True)
