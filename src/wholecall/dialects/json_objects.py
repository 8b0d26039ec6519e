"""The state of a call object while it is read."""

from __future__ import annotations

import re
from collections.abc import Callable

_TAIL = 64
_NO_PROOF = re.compile(r"""\}["']?\s*+\}\s*+\Z""")
"""Before the brace that closes the arguments is another one: that of a nested object, which may be
the missing one, or one inside a string."""


class AllButLast:
    """Hands arguments on, but for their last character: the brace that closes them.

    The first is never kept: a call without any arguments would look like one with none.
    """

    __slots__ = ("_begun", "_grow", "_kept")

    def __init__(self, grow: Callable[[str], None]) -> None:
        self._grow = grow
        self._kept = ""
        self._begun = False

    def put(self, piece: str) -> None:
        """Take a piece of the arguments."""
        body = self._kept + piece
        end = len(body) - (self._begun or len(body) > 1)
        self._kept = body[end:]
        self._begun = True
        if end:
            self._grow(body[:end])

    def release(self) -> None:
        """Hand on what was kept."""
        self._grow(self._kept)
        self._kept = ""


class CallObject:
    """The state of one call object so far."""

    __slots__ = ("behind", "beside", "early", "id", "keys", "last", "name", "opened", "span")

    def __init__(self) -> None:
        self.name: str | None = None
        self.id: str | None = None
        self.early: list[str] | None = None
        """Arguments that came before the name."""
        self.beside: list[str] = []
        """Parameters that stand where the name does, as members of an object."""
        self.behind = False
        """True if anything else follows the arguments."""
        self.keys: set[str] = set()
        self.opened = False
        self.last: AllButLast | None = None
        self.span = (0, 0)
        """The position of the arguments in the text."""

    def end(self) -> None:
        """The object that holds name and arguments is closed: nothing of them is cut off."""
        if self.last is not None:
            self.last.release()
            self.last = None


def may_lack_brace(arguments: str) -> bool:
    """Return True if a missing brace may be missing in these arguments."""
    return _NO_PROOF.search(arguments.rstrip()[-_TAIL:]) is not None
