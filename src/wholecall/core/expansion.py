"""Compute the size of a schema with its references expanded, and the cost of checking it.

The validator expands references, and two references per level make 2ⁿ. So everything is counted
before it is compiled: the schemas, the patterns, and the rules for each value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from wholecall.core.compiled import Place, is_in_place
from wholecall.core.patterns import find_tame, measure_pattern
from wholecall.core.translate import Node, Steps, children
from wholecall.core.work import OTHERS, WORK, Cost, Load

EXPANSION = 3000
"""Schemas that a schema has when its references are written out, except those that lead
back."""
CHAIN = 160
"""Schemas inside one another when references are written out. We recurse, too, here and
where values are coerced."""
RULES = WORK // 16
"""Rules that speak about one value, in the units of `work`: fewer than sixteen values could
be judged by more of them."""
UNEVALUATED = 4
"""`unevaluatedProperties` inside one another about the same value. Each goes through all that
is inside it once more: twenty of them took half a minute for one object."""
_AGAIN = 4
PATTERNS = 200
"""Different patterns in one schema. To compile one takes a tenth of a millisecond, and more."""
POSITIONS = 5000
"""Characters and classes of all patterns, with their repetitions written out. To compile one
takes up to ten microseconds."""


def count_cost(root: Place, targets: Mapping[str, Place], *, patterns: Iterable[str]) -> Cost | str:
    """Return the cost of a schema, or the reason why it is too high."""
    patterns = frozenset(patterns)
    excess = _find_excess(patterns)
    if excess:
        return excess
    load, expansion = Load(find_tame(patterns)), _Expansion(targets)
    expansion.count(root, load, way=_Way())
    if expansion.exceeded:
        return expansion.exceeded
    cost = Cost(load, recursive=expansion.recursive)
    if cost.rules > RULES:
        return f"has more than {RULES} rules about one value, options of an enum counted"
    return cost


def _find_excess(patterns: frozenset[str]) -> str:
    if len(patterns) > PATTERNS:
        return f"has more than {PATTERNS} different patterns"
    if sum(measure_pattern(pattern).positions for pattern in patterns) > POSITIONS:
        return (
            f"has patterns of more than {POSITIONS} characters, repetitions written out: "
            "lengths belong into maxLength"
        )
    return ""


def patterns_of(node: Node) -> list[str]:
    """The patterns that one schema itself has."""
    return [*node.get("patternProperties", ()), *([node["pattern"]] if "pattern" in node else ())]


_DEFINITIONS = frozenset({"$defs", "definitions"})
_UNEVALUATED = frozenset({"unevaluatedProperties", "unevaluatedItems"})


class _Way(NamedTuple):
    """The path to a schema when references are expanded."""

    opened: frozenset[str] = frozenset({""})
    """The references that are being written out."""
    chain: int = 0
    """Schemas around it."""
    times: int = 1
    """Evaluations of it for one value."""


class _Expansion:
    """Writes out a schema's references, as far as they do not lead back, and counts.

    The validator remembers its verdict on a value only for references that lead back.
    Everything else it works through again, wherever it is written out.
    """

    def __init__(self, targets: Mapping[str, Place]) -> None:
        self.exceeded = ""
        self.recursive = False
        self._targets = targets
        self._schemas = 0

    def count(self, place: Place, load: Load, *, way: _Way) -> None:
        """Count the rules of a schema, and of those inside it, by the value that they are about."""
        self._schemas += 1
        self.exceeded = self.exceeded or self._judge(way)
        if self.exceeded:
            return
        node = place.node
        load.add(node, way.times)
        deeper = way._replace(chain=way.chain + 1)
        # To know what was not evaluated, the validator goes through all of it once more.
        again = 1 if _UNEVALUATED.isdisjoint(node) else _AGAIN
        in_place = deeper._replace(times=way.times * again)
        self._follow(place, load, way=in_place)
        for steps, child in children(node):
            if isinstance(child, dict) and steps[0] not in _DEFINITIONS:
                if is_in_place(steps):
                    self.count(place.inside(*steps), load, way=in_place)
                else:
                    self.count(place.inside(*steps), load.step(_name_value(steps)), way=deeper)

    def _judge(self, way: _Way) -> str:
        if self._schemas > EXPANSION:
            return f"has more than {EXPANSION} schemas when its references are written out"
        if way.chain > CHAIN:
            return f"leads through more than {CHAIN} schemas inside one another"
        if way.times > _AGAIN**UNEVALUATED:
            return f"has more than {UNEVALUATED} unevaluatedProperties (or Items) about one value"
        return ""

    def _follow(self, place: Place, load: Load, *, way: _Way) -> None:
        target = self._targets.get(place.node.get("$ref", ""))
        if target is None:
            return
        if target.pointer in way.opened:
            self.recursive = True
        else:
            self.count(target, load, way=way._replace(opened=way.opened | {target.pointer}))


def _name_value(steps: Steps) -> str | int:
    """The member that a schema is about; all items, and members without a name, are one."""
    return steps[1] if steps[0] == "properties" else OTHERS
