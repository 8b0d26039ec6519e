"""Build a small example of valid arguments from the schema alone.

It has the required parameters and nothing else. For each value the schema's own words come first
(`examples`, `default`, `enum`), then a few plain values of the right type within its limits. The
validator picks: a candidate that does not fit is never shown. If none fits, for instance because of
a regular expression, there is no example.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice, product
from typing import Any

from wholecall.core.compiled import Compiled, Place, Type
from wholecall.core.prepare import prepare
from wholecall.core.translate import Node
from wholecall.core.values import JSON, Problem

_TRIES = 500
"""Places that are built for one example."""
_NESTING = 32
"""Places inside one another."""
_TELLING = 4
"""Places inside one another in which an array has an item although it might be empty."""
_VARIANTS = 8
"""Ways through the alternatives of one place that are tried."""
_OPTIONS = 16
"""Options of an `enum` that are tried."""
_ITEMS = 16
"""Items of an array, and values of one kind, that are made up."""
_LETTERS = 200
"""Characters of a text that is made up."""
_FAR = 1000
"""Bound for a number without bounds."""

_FORMATS = {
    "date-time": "2026-01-31T12:00:00Z",
    "date": "2026-01-31",
    "time": "12:00:00Z",
    "duration": "PT1H",
    "email": "name@example.com",
    "idn-email": "name@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/",
    "url": "https://example.com/",
    "uri-reference": "/path",
    "uuid": "123e4567-e89b-42d3-a456-426614174000",
    "json-pointer": "/a",
    "regex": ".*",
}
_TEXTS = ("text", "a", "A", "1", "12", "0", "abc-1", "#aabbcc", "A1", "1.0.0", "/path", "a/b")


def build_example(parameters: Mapping[str, Any]) -> dict[str, JSON] | None:
    """The smallest arguments that fit a schema and can be made up; None if none were found."""
    compiled = prepare(parameters)
    if isinstance(compiled, Problem):
        return None
    fitting = _Builder(compiled).fitting([compiled.root], 0)
    return next((value for value in fitting if isinstance(value, dict)), None)


class _Builder:
    """Builds one example. After `_TRIES` places it gives up."""

    def __init__(self, compiled: Compiled) -> None:
        self._compiled = compiled
        self._tries = _TRIES

    def fitting(self, places: Sequence[Place], nesting: int) -> Iterator[JSON]:
        """Values that fit all of these schemas, each once, the likeliest first."""
        seen: set[str] = set()
        for value in chain.from_iterable(self._candidates(place, nesting) for place in places):
            fits = all(self._compiled.fits(place, value) for place in places)
            if fits and repr(value) not in seen:
                seen.add(repr(value))
                yield value

    def _candidates(self, place: Place, nesting: int) -> Iterator[JSON]:
        variants = list(islice(self._variants(place, nesting), _VARIANTS))
        for part in chain.from_iterable(variants):
            yield from _own_words(part.node)
        types = self._compiled.types(place)
        for kind, make in _MAKERS.items():
            for parts in variants if kind in types else ():
                yield from make(self, parts, nesting + 1)

    def _variants(self, place: Place, nesting: int) -> Iterator[list[Place]]:
        """The schemas that speak about one value, for each way through the alternatives."""
        self._tries -= 1
        if self._tries < 0 or nesting > _NESTING:
            return
        demands = [[demand] for demand in self._compiled.demanding(place)]
        alternatives = [place.every(word) for word in ("anyOf", "oneOf") if word in place.node]
        ways = [self._ways(choices, nesting + 1) for choices in (*demands, *alternatives)]
        for way in product(*ways):
            yield [place, *chain.from_iterable(way)]

    def _ways(self, choices: list[Place], nesting: int) -> list[list[Place]]:
        variants = chain.from_iterable(self._variants(choice, nesting) for choice in choices)
        return list(islice(variants, _VARIANTS))

    # ── A maker for each type ───────────────────────────────────────────────────────

    def objects(self, parts: Sequence[Place], nesting: int) -> Iterator[JSON]:
        """The required members; optional ones only if `minProperties` asks for more."""
        required = dict.fromkeys(_gather(parts, "required"))
        members = {name: self._member(parts, name, nesting=nesting) for name in required}
        if not all(members.values()):
            return
        built = {name: values[0] for name, values in members.items()}
        for name in _gather(parts, "properties"):
            if len(built) < _highest(parts, "minProperties", default=0) and name not in built:
                built.update((name, value) for value in self._member(parts, name, nesting=nesting))
        yield built

    def _member(self, parts: Sequence[Place], name: str, *, nesting: int) -> list[JSON]:
        """One value for a member, or none."""
        describing = [part for part in parts if name in part.node.get("properties", {})]
        if not describing:
            return [_TEXTS[0]]
        places = [part.inside("properties", name) for part in describing]
        return list(islice(self.fitting(places, nesting), 1))

    def arrays(self, parts: Sequence[Place], nesting: int) -> Iterator[JSON]:
        """As few items as are allowed, but one if possible: it shows what an item is."""
        head: list[JSON] = []
        for place in chain.from_iterable(part.every("prefixItems") for part in parts):
            head += islice(self.fitting([place], nesting), 1)
        places = [
            part.inside(word)
            for part in parts
            for word in ("items", "contains")
            if word in part.node
        ]
        least = 1 if nesting <= _TELLING else 0
        wanted = min(_ITEMS, max(least, _highest(parts, "minItems", default=0) - len(head)))
        values = self.fitting(places, nesting) if places else iter(_texts(parts))
        items = list(islice(values, wanted))
        yield head + items + items[:1] * (wanted - len(items))
        yield head
        yield []

    def strings(self, parts: Sequence[Place], _: int) -> Iterator[JSON]:
        yield from _texts(parts)

    def numbers(self, parts: Sequence[Place], _: int) -> Iterator[JSON]:
        """One, then the numbers next to the bounds, then what lies between them."""
        with suppress(OverflowError):  # a bound of hundreds of digits, and a float to reckon with
            yield from self._numbers(parts)

    def _numbers(self, parts: Sequence[Place]) -> Iterator[JSON]:
        step = _highest(parts, "multipleOf", default=1)
        low = max(
            _highest(parts, "minimum", default=-_FAR),
            _highest(parts, "exclusiveMinimum", default=-_FAR),
        )
        high = min(
            _lowest(parts, "maximum", default=_FAR),
            _lowest(parts, "exclusiveMaximum", default=_FAR),
        )
        yield from (1, 0)
        bounds = [(low, step)] if low > -_FAR else []
        bounds += [(high, -step)] if high < _FAR else []
        for start, stride in (*bounds, (0, step)):
            yield from (start // step * step + stride * number for number in range(_ITEMS))
        yield (low + high) / 2

    def booleans(self, _parts: Sequence[Place], _: int) -> Iterator[JSON]:
        yield from (True, False)

    def nulls(self, _parts: Sequence[Place], _: int) -> Iterator[JSON]:
        yield None


# In this order: what holds nothing first, so that an example ends where its schema recurs.
_MAKERS: dict[Type, Callable[[_Builder, Sequence[Place], int], Iterator[JSON]]] = {
    "string": _Builder.strings,
    "number": _Builder.numbers,
    "integer": _Builder.numbers,
    "boolean": _Builder.booleans,
    "null": _Builder.nulls,
    "array": _Builder.arrays,
    "object": _Builder.objects,
}


# ── What a schema says itself ───────────────────────────────────────────────────────


def _own_words(node: Node) -> Iterator[JSON]:
    yield from node.get("examples", ())
    yield from (node[word] for word in ("example", "const", "default") if word in node)
    yield from node.get("enum", ())[:_OPTIONS]


def _texts(parts: Sequence[Place]) -> Iterator[str]:
    """Texts of the right format or of no format, as long as they must be."""
    formats = [part.node["format"] for part in parts if "format" in part.node]
    samples = [_FORMATS[word] for word in formats if word in _FORMATS]
    least, most = (
        _highest(parts, "minLength", default=0),
        _lowest(parts, "maxLength", default=_LETTERS),
    )
    if least > _LETTERS:
        return
    numbered = (f"{_TEXTS[0]} {number}" for number in range(2, _ITEMS))
    for text in chain(samples, _TEXTS, numbered):
        yield (text + text[-1] * (least - len(text)))[:most]


def _gather(parts: Sequence[Place], keyword: str) -> list[str]:
    return [name for part in parts for name in part.node.get(keyword, ())]


def _highest(parts: Sequence[Place], keyword: str, *, default: int) -> Any:
    return max((part.node[keyword] for part in parts if keyword in part.node), default=default)


def _lowest(parts: Sequence[Place], keyword: str, *, default: int) -> Any:
    return min((part.node[keyword] for part in parts if keyword in part.node), default=default)
