"""Estimate what validating a value costs before it is validated: patterns, sizes, weights."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import accumulate, islice
from typing import Any, NamedTuple, TypeVar

from wholecall.arguments.limits import DEFAULT
from wholecall.arguments.normalize_schema import Node
from wholecall.events import JSON

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


# The size of arguments, counted before they are checked.


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
            elif kind not in _CONSTANT_SIZES:
                inside.append(child)
        return inside

    def _count_float(self, number: float) -> None:
        if not -_SHORT < number < _SHORT:
            self.numbers += HUGE
            return
        self.numbers += 1
        self.whole_floats = self.whole_floats or number.is_integer()


# Asked by identity, which is three times faster than isinstance, and this is the hot path.
_CONSTANT_SIZES = frozenset({bool, type(None)})


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


# The work of checking values against a schema, counted before anything is checked.
#
# The tool's definition says how many rules apply to a value, the call says how many values there
# are, and the work is the product. It is counted in *rules*: evaluating one rule for one value
# takes the validator about 20 nanoseconds. Some rules take longer and count as several; the figures
# are measured and rounded up.
#
# The cost of a schema is a tree in the shape of the values that it describes: a `Load` for each
# value, by the name of the member; items, and members without a name of their own, share one.


WORK = 600_000
"""Rules for one call: 12 milliseconds. A table of ten thousand rows needs a third of it;
beyond are schemas with a thousand alternatives for arrays with a thousand items."""
_STEP = 200
"""Rules that could be evaluated while we decide, in Python, what to check next."""
OTHERS = 0
"""The step to items, and to members without a name of their own."""
_PER = 1024
"""Characters for which a load's `text` is the work."""
_LEADS_BACK = 16
"""The validator keeps books where a schema contains itself."""


class Load:
    """The work for one value, and for the values inside it."""

    __slots__ = ("_tame", "inside", "numbers", "rules", "text")

    def __init__(self, tame: frozenset[str] = frozenset()) -> None:
        """`tame` are the patterns for which a character costs next to nothing."""
        self._tame = tame
        self.rules = 0
        """For any value."""
        self.numbers = 0
        """Extra rules for a number that is not a short integer."""
        self.text = 0
        """More, for a text of `_PER` characters."""
        self.inside: dict[str | int, Load] = {}

    def step(self, name: str | int) -> Load:
        """The load of a value inside."""
        load = self.inside.get(name)
        if load is None:
            load = self.inside[name] = Load(self._tame)
        return load

    def add(self, node: Node, times: int) -> None:
        """Add the rules of one schema, which are evaluated so many times."""
        self.rules += times
        for keyword, weigh in _WEIGHERS.items():
            if keyword in node:
                rules, numbers = weigh(node[keyword])
                self.rules += rules * times
                self.numbers += numbers * times
        if "pattern" in node:
            self._add_pattern(node["pattern"], times)
        for pattern in node.get("patternProperties", ()):
            self.step(OTHERS)._add_pattern(pattern, times)

    def _add_pattern(self, pattern: str, times: int) -> None:
        self.rules += _PATTERN * times
        self.text += _weigh_text(measure_pattern(pattern), tame=pattern in self._tame) * times

    def walk(self) -> Iterator[Load]:
        """This load and all inside it."""
        waiting = [self]
        while waiting:
            load = waiting.pop()
            yield load
            waiting += load.inside.values()


# ── What a rule weighs ──────────────────────────────────────────────────────────────

_SHORT = 2**63
"""Integers below are compared in no time, others digit by digit."""
_PATTERN = 2
_PLAIN = 100
_TAME = _PER
_WILD = 60
"""Rules a character, where the engine builds a state for each anew; and more, for each
position of the pattern."""
_WILD_POSITION = 3
_FEW = 2
"""Loose positions of a pattern that is as plain as a search for one character."""
_FINE = 1e-9
"""By a finer step than this numbers are divided digit by digit."""


def _weigh_text(pattern: Pattern, *, tame: bool) -> int:
    """Return the cost of a pattern for a text of `_PER` characters."""
    if not tame:
        return _PER * (_WILD + pattern.positions * _WILD_POSITION)
    return _PLAIN if pattern.loose <= _FEW else _TAME


def _weigh_option(option: JSON) -> tuple[int, int]:
    """The rules for any value, and those for a number that is not a short integer."""
    if isinstance(option, (dict, list)):
        return 12, 0
    if isinstance(option, bool) or not isinstance(option, (int, float)):
        return 0, 0
    if isinstance(option, int) and -_SHORT < option < _SHORT:
        return 0, 16
    return 64 if isinstance(option, float) else 256, 0


def _weigh_options(options: list[JSON]) -> tuple[int, int]:
    weights = [_weigh_option(option) for option in options]
    return sum(rules for rules, _ in weights), sum(numbers for _, numbers in weights)


def _weigh_constant(constant: JSON) -> tuple[int, int]:
    weight = _weigh_option(constant)
    return (8, 8) if weight[1] else weight


_WEIGHERS: dict[str, Callable[[Any], tuple[int, int]]] = {
    "enum": _weigh_options,
    "const": _weigh_constant,
    **dict.fromkeys(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        lambda bound: (_weigh_option(bound)[0], 4),
    ),
    "multipleOf": lambda divisor: (0, 64 if divisor > _FINE else 64 * HUGE),
    **dict.fromkeys(
        ("required", "dependentRequired", "dependentSchemas"), lambda named: (len(named), 0)
    ),
    "uniqueItems": lambda _: (12, 0),
}


# ── What arguments cost ─────────────────────────────────────────────────────────────


class Cost:
    """The cost of checking against one schema."""

    __slots__ = ("_load", "numbers", "recursive", "rules", "text")

    def __init__(self, load: Load, *, recursive: bool) -> None:
        self._load = load
        self.recursive = recursive
        """The schema contains itself: each level may lead through all of it."""
        heaviest: Callable[[Iterable[int]], int] = sum if recursive else max
        times = _LEADS_BACK if recursive else 1
        self.rules = times * heaviest(part.rules for part in load.walk())
        """The most for one value."""
        self.numbers = heaviest(part.numbers for part in load.walk())
        self.text = heaviest(part.text for part in load.walk())

    def exceeds(self, value: dict[str, JSON], size: Size) -> bool:
        """Return True if checking these arguments would take too long."""
        most = size.values * self.rules + size.numbers * self.numbers
        most += size.characters * self.text // _PER
        # As if each value were the heaviest. If that is too much, they are counted one by one.
        return most > WORK and (self.recursive or _count(self._load, value) > WORK)


class _Sum:
    """Several loads as one: a member has its own, and that of members without a name."""

    __slots__ = ("_inside", "_loads", "_names", "numbers", "rules", "text")

    def __init__(self, loads: list[Load]) -> None:
        self.rules = sum(load.rules for load in loads)
        self.numbers = sum(load.numbers for load in loads)
        self.text = sum(load.text for load in loads)
        self._loads = loads
        self._names = frozenset[str | int]().union(*(load.inside for load in loads))
        self._inside: dict[str | int, _Sum | None] = {}

    def step(self, name: str | int) -> _Sum | None:
        """The sum for a value inside; None if nothing speaks about it."""
        if name not in self._names:
            name = OTHERS
        if name not in self._inside:
            steps = {name, OTHERS}
            inside = [load.inside[s] for load in self._loads for s in steps if s in load.inside]
            self._inside[name] = _Sum(inside) if inside else None
        return self._inside[name]


def _count(load: Load, value: dict[str, JSON]) -> int:
    """The work for these arguments; it is not counted further than `WORK`."""
    work = load.rules
    waiting: list[tuple[dict[str, JSON] | list[JSON], _Sum]] = [(value, _Sum([load]))]
    while waiting and work <= WORK:
        parent, around = waiting.pop()
        named = isinstance(parent, dict)
        for name, child in parent.items() if isinstance(parent, dict) else enumerate(parent):
            inside = around.step(name if named else OTHERS)
            if inside is not None:
                work += _weigh(child, inside, name=str(name) if named else "")
                waiting += [(child, inside)] if isinstance(child, (dict, list)) else []
    return work


def _weigh(value: JSON, load: _Sum, *, name: str) -> int:
    """The work for one value and its name, without what is inside it."""
    text = len(name) + (len(value) if isinstance(value, str) else 0)
    work = load.rules + text * load.text // _PER
    if isinstance(value, (int, float)) and not -_SHORT < value < _SHORT:
        return work + HUGE * load.numbers
    return work + load.numbers if isinstance(value, float) else work


# ── What may be checked again ───────────────────────────────────────────────────────


Step = TypeVar("Step")


class Allowance:
    """The remaining work that may be spent on coercing arguments, or on explaining what is wrong.

    It knows the cost of each part, so one is made per call and granted anew for each purpose.
    """

    def __init__(self, cost: Cost) -> None:
        self._left = 0
        self._cost = cost
        free = {str: not cost.text, float: not cost.numbers}
        self._small = _CONSTANTS.union(kind for kind, is_free in free.items() if is_free)
        """The types of values that cost no more than others."""
        self._prices: dict[int, tuple[JSON, int]] = {}

    @property
    def is_exhausted(self) -> bool:
        """True if more was requested than granted."""
        return self._left < 0

    def grant(self, rules: int, value: JSON) -> Allowance:
        """Allow this much work, in addition to checking a whole value twice.

        Twice, because the problem is mostly in one large member of the arguments.
        """
        self._left = rules + 2 * min(self._price(value), WORK)
        return self

    def take(self, value: JSON) -> bool:
        """Judge a value, at the price of all that is inside it; False if too much was done."""
        self._left -= _STEP + self._price(value)
        return self._left >= 0

    def affords(self, steps: Iterable[Step]) -> list[Step]:
        """The steps, if there is enough left to do them all; none, and nothing is left, if not."""
        most = max(self._left, 0) // _STEP
        taken = list(islice(steps, most + 1))
        if len(taken) <= most:
            return taken
        self._left = -1
        return []

    def take_steps(self, steps: int) -> bool:
        """Do so many small things."""
        self._left -= _STEP * steps
        return self._left >= 0

    def _price(self, value: JSON) -> int:
        if isinstance(value, (dict, list)):
            known = self._prices.get(id(value))
            if known is None:
                # The value is kept, too: else another one could come to have its id.
                known = self._prices[id(value)] = (value, self._sum_up(value))
            return known[1]
        if isinstance(value, str):
            return self._cost.rules + len(value) * self._cost.text // _PER
        return self._cost.rules + (self._cost.numbers if isinstance(value, float) else 0)

    def _sum_up(self, parent: dict[str, JSON] | list[JSON]) -> int:
        children: Any = parent.values() if isinstance(parent, dict) else parent
        # Most values are small, and there are many: no call for each of them.
        others = [child for child in children if type(child) not in self._small]
        small = len(parent) - len(others)
        return (1 + small) * self._cost.rules + sum(map(self._price, others))


_CONSTANTS = frozenset({int, bool, type(None)})
