"""The size of arguments, counted before they are checked."""

from __future__ import annotations

from typing import Any, NamedTuple

from wholecall.core.limits import DEFAULT
from wholecall.core.values import JSON

_SHORT = 2**63
"""Integers below are compared in no time, others digit by digit."""
HUGE = 64
"""A number of hundreds of digits counts as so many."""


class Size(NamedTuple):
    """The counts that make arguments expensive to check."""

    values: int
    """Members and items, at whatever depth."""
    containers: int
    """Objects and arrays, the arguments themselves included."""
    characters: int
    """Of all texts and names."""
    numbers: int
    """Numbers other than short integers. Comparing one takes a microsecond."""
    whole_floats: bool
    """There is a float that an integer may have been meant with."""
    deep: bool
    """They are nested deeper than the limit."""

    @property
    def limit(self) -> str:
        """The limit that is passed, in words; empty if none is."""
        if self.deep:
            return f"{DEFAULT.depth} levels of nesting"
        if self.values > DEFAULT.values:
            return f"{DEFAULT.values} values"
        if self.containers > DEFAULT.containers:
            return f"{DEFAULT.containers} objects and arrays"
        return ""


class _Count:
    """Counts values level by level: recursion breaks on values that are too deep."""

    def __init__(self) -> None:
        self.values = 0
        self.characters = 0
        self.numbers = 0
        self.whole_floats = False

    def count(self, parent: dict[str, Any] | list[Any]) -> list[Any]:
        """Count what is directly inside; return the objects and arrays among it."""
        inside: list[Any] = []
        self.values += len(parent)
        if self.values > DEFAULT.values:
            return inside  # it is known to be too much
        children: Any = parent
        if isinstance(parent, dict):
            self.characters += sum(map(len, parent))
            children = parent.values()
        for child in children:
            kind = type(child)
            if kind is str:
                self.characters += len(child)
            elif kind is int:
                self.numbers += 0 if -_SHORT < child < _SHORT else HUGE
            elif kind is float:
                self._count_float(child)
            elif kind not in _CONSTANTS:
                inside.append(child)
        return inside

    def _count_float(self, number: float) -> None:
        if not -_SHORT < number < _SHORT:
            self.numbers += HUGE
            return
        self.numbers += 1
        self.whole_floats = self.whole_floats or number.is_integer()


# Asked by identity, which is three times faster than isinstance, and this is the hot path.
_CONSTANTS = frozenset({bool, type(None)})


def measure(value: dict[str, JSON]) -> Size:
    """Measure arguments, as far as they are within the limits."""
    count = _Count()
    level: list[Any] = [value]
    levels = containers = 0
    while level and levels < DEFAULT.depth and containers <= DEFAULT.containers:
        levels, containers = levels + 1, containers + len(level)
        level = [child for parent in level for child in count.count(parent)]
    return Size(
        count.values,
        containers,
        count.characters,
        count.numbers,
        count.whole_floats,
        deep=bool(level) and levels == DEFAULT.depth,
    )
