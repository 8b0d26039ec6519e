"""Estimate the cost of a regular expression from its text.

The validator's engine never backtracks. It builds its automaton while it reads, and an automaton
with few states costs two nanoseconds a character. But a pattern can make it remember much:
`a[ab]{50}c` must know, at each place, which of the last 50 characters were an `a`, and that is 2⁵⁰
states. Each is then built anew, at one to ten microseconds.

The positions (a character, a class) after the first part that may match in more than one way may
have to be remembered: all of them, in a pattern without `^`. Few such positions make few states,
and a pattern with few states is tame.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

STATES = 2**14
"""States of all tame patterns of a schema. They are built once, in some ten milliseconds. Honest
patterns rarely have more than eight positions after their first loop: 256 states."""
_COUNTED = 20
_CACHED = 1024
_UNICODE_CLASS = 64
"""`\\p{L}` counts as so many positions: it has hundreds of ranges."""

_TOKEN = re.compile(
    r"(?P<group>\((?:\?(?:[:=!]|<[=!]|P?<\w*>|[a-zA-Z-]*:?))?)"
    r"|(?P<end>\))"
    r"|(?P<either>\|)"
    r"|(?P<edge>[\^$]|\\[bB])"
    r"|(?P<loop>[*+?])"
    r"|\{(?P<least>[0-9]{1,6}+)(?P<range>,(?P<most>[0-9]{0,6}+))?\}"
    r"|(?P<unicode>\\[pP])"
    r"|\\.|\[(?:[^\]\\]|\\.)*+\]?|.",
    re.DOTALL,
)


class Pattern(NamedTuple):
    """The size of a pattern."""

    positions: int
    """Characters and classes, with their repetitions written out."""
    loose: int
    """The number of positions that may have to be remembered."""

    @property
    def states(self) -> int:
        """The most states that can be needed, if they are not too many to be counted."""
        return 1 << min(self.loose, _COUNTED)


@lru_cache(maxsize=_CACHED)
def measure_pattern(pattern: str) -> Pattern:
    """Measure a pattern. It need not be valid: then it is refused elsewhere."""
    return _Ruler(anchored=pattern.startswith("^")).measure(pattern)


def find_tame(patterns: Iterable[str]) -> frozenset[str]:
    """The patterns for which a character costs next to nothing, whatever the text."""
    by_states = sorted(set(patterns), key=lambda each: (measure_pattern(each).states, each))
    total = accumulate(measure_pattern(pattern).states for pattern in by_states)
    return frozenset(
        pattern for pattern, states in zip(by_states, total, strict=True) if states <= STATES
    )


class _Ruler:
    """Reads a pattern once, from left to right."""

    def __init__(self, *, anchored: bool) -> None:
        self._positions = 0
        self._last = (0, False)
        """The start of the item before a quantifier, and whether it is a group."""
        self._groups: list[int] = []
        self._loose_from: int | None = None if anchored else 0

    def measure(self, pattern: str) -> Pattern:
        for token in _TOKEN.finditer(pattern):
            self._read(token)
        loose_from = self._positions if self._loose_from is None else self._loose_from
        return Pattern(self._positions, self._positions - loose_from)

    def _read(self, token: re.Match[str]) -> None:
        kind = token.lastgroup
        if kind in ("least", "range", "most"):
            self._repeat(token)
        elif kind == "loop":
            self._loosen()
        elif kind == "group":
            self._groups.append(self._positions)
        elif kind == "end":
            self._last = (self._groups.pop() if self._groups else 0, True)
        elif kind == "either":
            self._loosen_from(self._groups[-1] if self._groups else 0)
        elif kind != "edge":
            self._last = (self._positions, False)
            self._positions += _UNICODE_CLASS if kind == "unicode" else 1

    def _repeat(self, token: re.Match[str]) -> None:
        begin, _ = self._last
        times = int(token["most"] or token["least"])
        self._positions += (self._positions - begin) * max(times - 1, 0)
        if token["range"]:
            self._loosen()

    def _loosen(self) -> None:
        """The item before may match in more than one way; one character alone is itself known."""
        begin, is_group = self._last
        self._loosen_from(begin if is_group else self._positions)

    def _loosen_from(self, begin: int) -> None:
        known = self._positions if self._loose_from is None else self._loose_from
        self._loose_from = min(begin, known)
