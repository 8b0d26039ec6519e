"""The ids of calls, each given once in a conversation.

Providers leave ids out, repeat them, and count them anew in every turn (`list_dir:0`). A
result finds its call by the id, so what leaves the assembler is unique.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable


def make_id() -> str:
    """A call id that no conversation has seen."""
    return f"call_{secrets.token_hex(12)}"


class CallIds:
    """The ids of one conversation. All its turns share one, so that none is given twice."""

    def __init__(self, taken: Iterable[str] = (), *, make: Callable[[], str] = make_id) -> None:
        """`taken` are the ids of earlier turns."""
        self._taken = set(taken)
        self._make = make

    def claim(self, wanted: str | None) -> str:
        """The wanted id if it is free, else a new one. It is taken from now on."""
        while wanted is None or wanted in self._taken:
            wanted = self._make()
        self._taken.add(wanted)
        return wanted
