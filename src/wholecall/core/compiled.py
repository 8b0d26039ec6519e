"""A tool's schema, made ready once: compiled, measured, and open at every place in it.

The verdict is always the validator's (jsonschema-rs). It looks at Python's values
without copying them, its regular expressions run in linear time, and it remembers what
it found out about a schema that contains itself. Coercion and explanation ask it about
single places inside the schema, too, so that nothing is judged twice by two rules.

Of the validator's answers only `is_valid` is used. The one that lists errors builds
them all, alternatives of alternatives included, before it hands over the first: 18
levels of a recursive `oneOf` took 90 seconds and 10 GB.

What could make even `is_valid` slow is refused before it is compiled: see `prepare`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NoReturn, TypeAlias

import jsonschema_rs

from wholecall.core.translate import Node, Steps, children, quote
from wholecall.core.values import JSON
from wholecall.core.work import Cost

PATTERN_BYTES = 256 * 1024
"""Of one compiled pattern. Linear time is as many steps a character as the pattern has
states; at 10 MB, the engine's own limit, 100 kB of text took 10 seconds."""
_FEW = 8
"""Items that are asked about one by one."""
_CACHED = 1024
"""Patterns for names of members that are kept."""

# ── Types ───────────────────────────────────────────────────────────────────────────

Type: TypeAlias = str
"""A JSON type as schemas name it. Every integer is a number, too."""
LISTED: Type = "listed string"
"""A string that is one of those which the schema lists, as against any string."""
ANY_TYPE = frozenset({"null", "boolean", "integer", "number", "string", "array", "object", LISTED})

_INCLUDED = {"number": frozenset({"number", "integer"}), "string": frozenset({"string", LISTED})}
_TYPE_OF: dict[type, Type] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def type_of(value: JSON) -> Type:
    """The JSON type of a value; of `5.0` it is number."""
    kind = type(value)
    return _TYPE_OF.get(kind) or next(_TYPE_OF[base] for base in kind.__mro__ if base in _TYPE_OF)


def demands_integer(node: Node) -> bool:
    """Return True if a schema allows integers and no other numbers."""
    types = _own_types(node)
    return "integer" in types and "number" not in types


def _own_types(node: Node) -> frozenset[Type]:
    """The types that a schema itself allows, its references and alternatives aside."""
    types = ANY_TYPE
    if "type" in node:
        named = node["type"] if isinstance(node["type"], list) else [node["type"]]
        types &= frozenset().union(*(_INCLUDED.get(word, {word}) for word in named))
    for options in (node.get("enum"), [node["const"]] if "const" in node else None):
        if options is not None:
            types &= frozenset().union(*map(_option_types, options))
    return types


def _option_types(option: JSON) -> frozenset[Type]:
    if isinstance(option, str):
        return frozenset({LISTED})
    if isinstance(option, float) and option.is_integer():
        return _INCLUDED["number"]
    return frozenset({type_of(option)})


# ── Places in a schema ──────────────────────────────────────────────────────────────


class Place:
    """A schema inside a tool's schema, and the JSON pointer by which the validator knows it."""

    __slots__ = ("_alone", "_inside", "node", "pointer", "speaks_alone")

    def __init__(self, pointer: str, node: Node) -> None:
        self.pointer = pointer
        self.node = node
        self.speaks_alone = _MORE_IN_PLACE.isdisjoint(node)
        """True if no other schema, inside it or elsewhere, applies to the same value."""
        self._inside: dict[Steps, Place] = {}
        self._alone: dict[str, jsonschema_rs.Validator] = {}

    def inside(self, *steps: str | int) -> Place:
        """Go down: a keyword and, where it holds several schemas, a name or an index."""
        place = self._inside.get(steps)
        if place is None:
            node: Any = self.node
            for step in steps:
                node = node[step]
            place = Place(self.pointer + "".join(map(_escape, steps)), node)
            self._inside[steps] = place
        return place

    def every(self, keyword: str) -> list[Place]:
        """The schemas that a keyword lists."""
        return [self.inside(keyword, index) for index in range(len(self.node.get(keyword, ())))]

    def fits_alone(self, keyword: str, value: JSON) -> bool:
        """Return True if a value fits one of the keywords here, which must hold no schemas."""
        validator = self._alone.get(keyword)
        if validator is None:
            validator = self._alone[keyword] = _compile({keyword: self.node[keyword]})
        return _accepts(validator, value)


_IN_PLACE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"})
_MORE_IN_PLACE = _IN_PLACE | {"$ref"}


def is_in_place(steps: Steps) -> bool:
    """Return True if the schema at the end of these steps applies to the same value."""
    return steps[0] in _IN_PLACE


def _escape(step: str | int) -> str:
    return "/" + str(step).replace("~", "~0").replace("/", "~1")


class Compiled:
    """One schema, ready to judge values, as a whole and place by place."""

    __slots__ = (
        "_arrays",
        "_registry",
        "_targets",
        "_types",
        "_validators",
        "cost",
        "drops",
        "integers",
        "names",
        "root",
    )

    def __init__(
        self, root: Place, targets: Mapping[str, Place], *, cost: Cost, integers: bool
    ) -> None:
        self.root = root
        self.integers = integers
        """True if a number must be an integer somewhere."""
        self.cost = cost
        self._targets = targets
        self._registry = jsonschema_rs.Registry([(_URI, root.node)], retriever=_refuse_remote)
        self._validators = {"": _compile(root.node)}
        self._arrays: dict[str, jsonschema_rs.Validator] = {}
        """Of arrays whose items are described by a place."""
        self._types: dict[str, frozenset[Type]] = {}
        speaking = [place.node for place in self.speaking(self.root)]
        self.names = frozenset().union(*(node.get("properties", {}) for node in speaking))
        """The parameters that the schema names, in whatever alternative."""
        self.drops = bool(self.names) and not any(map(_rules_on_others, speaking))
        """True if the schema neither allows nor forbids parameters that it does not name."""

    @property
    def required(self) -> tuple[str, ...]:
        """The parameters that must be given, whatever alternative is chosen."""
        places: dict[str, Place] = {}
        waiting = [self.root]
        while waiting:
            place = waiting.pop()
            if place.pointer not in places:
                places[place.pointer] = place
                waiting += self.demanding(place)
        names = (name for place in places.values() for name in place.node.get("required", ()))
        return tuple(dict.fromkeys(names))

    def fits(self, place: Place, value: JSON) -> bool:
        """Return True if a value fits the schema at a place."""
        validator = self._validators.get(place.pointer)
        if validator is None:
            validator = _compile(self._refer(place), self._registry)
            self._validators[place.pointer] = validator
        return _accepts(validator, value)

    def misfits(self, place: Place, items: list[JSON], *, start: int = 0) -> Iterator[int]:
        """Return the indices of the items that do not fit, by bisection: a million good items cost
        one check."""
        spans = [(start, len(items))]
        while spans:
            begin, end = spans.pop()
            if begin >= end or self._all_fit(place, items[begin:end]):
                continue
            if end - begin <= _FEW:
                yield from (at for at in range(begin, end) if not self.fits(place, items[at]))
            else:
                middle = (begin + end) // 2
                spans += [(middle, end), (begin, middle)]

    def _all_fit(self, place: Place, items: list[JSON]) -> bool:
        validator = self._arrays.get(place.pointer)
        if validator is None:
            each = {"items": self._refer(place)}
            validator = self._arrays[place.pointer] = _compile(each, self._registry)
        return _accepts(validator, items)

    def _refer(self, place: Place) -> Node:
        return {"$ref": f"{_URI}#{quote(place.pointer)}"}

    def target(self, place: Place) -> Place | None:
        """Return the place to which the `$ref` of a place points, if it is a pointer."""
        return self._targets.get(place.node.get("$ref", ""))

    def follow(self, node: Node) -> Node:
        """The schema that a reference leads to; any other as it is."""
        target = self._targets.get(node.get("$ref", ""))
        return node if target is None else target.node

    def demanding(self, place: Place) -> Iterator[Place]:
        """The other schemas that a value here must fit: the reference's target and `allOf`."""
        target = self.target(place)
        if target is not None:
            yield target
        yield from place.every("allOf")

    def speaking(self, place: Place) -> Iterator[Place]:
        """Every schema that may have a say about a value here, each once."""
        seen: set[str] = set()
        waiting = [place]
        while waiting:
            place = waiting.pop()
            if place.pointer in seen:
                continue
            seen.add(place.pointer)
            yield place
            target = self.target(place)
            inside = [
                place.inside(*steps) for steps, _ in children(place.node) if is_in_place(steps)
            ]
            waiting += [*inside, *([target] if target else [])]

    def types(self, place: Place) -> frozenset[Type]:
        """The types that a value may have here, by all that is said about it."""
        known = self._types.get(place.pointer)
        if known is None:
            self._types[place.pointer] = ANY_TYPE  # a reference that leads back adds nothing
            known = self._types[place.pointer] = self._find_types(place)
        return known

    def allows_type(self, place: Place, value: JSON) -> bool:
        """Return True if some value of this type may fit here."""
        kinds = _INCLUDED["string"] if isinstance(value, str) else {type_of(value)}
        return not self.types(place).isdisjoint(kinds)

    def _find_types(self, place: Place) -> frozenset[Type]:
        types = _own_types(place.node)
        for other in self.demanding(place):
            types &= self.types(other)
        for keyword in ("anyOf", "oneOf"):
            if keyword in place.node:
                branches = place.every(keyword)
                types &= frozenset().union(*(self.types(branch) for branch in branches))
        return types


_ON_OTHERS = ("additionalProperties", "unevaluatedProperties", "patternProperties")


def _rules_on_others(node: Node) -> bool:
    return any(keyword in node for keyword in _ON_OTHERS)


# ── The validator ───────────────────────────────────────────────────────────────────

_URI = "urn:wholecall:tool"
_PATTERNS = jsonschema_rs.RegexOptions(size_limit=PATTERN_BYTES)


def _refuse_remote(uri: str) -> NoReturn:
    raise ValueError(f"{uri} is not part of the schema")


def _compile(
    schema: Node, registry: jsonschema_rs.Registry | None = None
) -> jsonschema_rs.Validator:
    """Compile a schema of Draft 2020-12. Nothing is ever fetched.

    `format` is a remark and not a rule, as the draft has it: tools read more than
    RFC 3339, and a call that its tool would understand must not be lost.
    """
    return jsonschema_rs.Draft202012Validator(
        schema,
        registry=registry,
        retriever=_refuse_remote,
        pattern_options=_PATTERNS,
        validate_formats=False,
    )


def _accepts(validator: jsonschema_rs.Validator, value: JSON) -> bool:
    """Return True if a value fits. A value that the validator cannot read (a lone surrogate) does
    not."""
    try:
        return validator.is_valid(value)
    except ValueError:
        return False


def matches(pattern: str, text: str) -> bool:
    """Return True if a text has a match of a pattern, in linear time."""
    return _accepts(_compile_pattern(pattern), text)


@lru_cache(maxsize=_CACHED)
def _compile_pattern(pattern: str) -> jsonschema_rs.Validator:
    return _compile({"pattern": pattern})
