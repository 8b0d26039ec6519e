"""Ids of calls that are unique over a conversation and that its reader accepts.

Ids are given from the first message on and never looked up in later ones. So a history that
grows keeps the ids of its beginning, and the upstream's prompt cache stays warm.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from itertools import count

from wholecall.core.history.target import IdRule

_NAMELESS = "call_0"
_DIGITS = "0123456789"
# Digits at the end are a counter only if they are few; a longer run is part of a random id.
_LONGEST_COUNTER = 9
_DIGEST = 32


@dataclass(slots=True)
class Ids:
    """The ids of one conversation."""

    rule: IdRule
    _taken: set[str] = field(default_factory=set)
    _next: dict[str, int] = field(default_factory=dict)
    """The next free number for each stem: every number is tried once."""

    def claim(self, id: str) -> str:
        """Return the id for this call: its own if it is accepted and free."""
        wanted = _fit(id or _NAMELESS, self.rule)
        if wanted in self._taken:
            wanted = self._renumber(wanted)
        self._taken.add(wanted)
        return wanted

    def reserve(self, id: str) -> None:
        """Keep an id for a call that is not in this history."""
        self._taken.add(id)

    def _renumber(self, id: str) -> str:
        """Count on where an id ends in a number, as `list_dir:0` does in every turn of Kimi's."""
        stem = id.rstrip(_DIGITS)
        digits = id[len(stem) :]
        number = 2
        if digits and len(digits) <= _LONGEST_COUNTER:
            number = int(digits) + 1
        else:
            stem = f"{id}_"
        tried = count(max(number, self._next.get(stem, 0)))
        free = next(n for n in tried if _fit(f"{stem}{n}", self.rule) not in self._taken)
        self._next[stem] = free + 1
        return _fit(f"{stem}{free}", self.rule)


def _fit(id: str, rule: IdRule) -> str:
    """An id that the rule accepts, the same for the same id."""
    if rule.accepts(id):
        return id
    if rule.characters is not None and "_" in rule.characters:
        readable = "".join(letter if letter in rule.characters else "_" for letter in id)
        if rule.accepts(readable):
            return readable
    longest = rule.longest or max(rule.shortest, _DIGEST)
    return hashlib.sha256(id.encode(errors="surrogatepass")).hexdigest()[:longest]
