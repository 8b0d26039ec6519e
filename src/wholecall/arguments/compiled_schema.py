"""Compile a tool's schema once, measured and open at every place in it, or say why it is
refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from functools import lru_cache, reduce
from itertools import islice
from typing import Any, Generic, NamedTuple, NoReturn, TypeAlias, TypeVar

import jsonschema_rs
import msgspec

from wholecall.arguments.describe import cut, show
from wholecall.arguments.normalize_schema import Node, Steps, children, infer_type, quote, translate
from wholecall.arguments.parse import join_path
from wholecall.arguments.schema_cost import OTHERS, WORK, Cost, Load, find_tame, measure_pattern
from wholecall.events import JSON, Problem

_Made = TypeVar("_Made")
_From = TypeVar("_From", bound=Sized)
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


class SchemaPlace:
    """A schema inside a tool's schema, and the JSON pointer by which the validator knows it."""

    __slots__ = ("_alone", "_inside", "node", "pointer", "speaks_alone")

    def __init__(self, pointer: str, node: Node) -> None:
        self.pointer = pointer
        self.node = node
        self.speaks_alone = _MORE_IN_PLACE.isdisjoint(node)
        """True if no other schema, inside it or elsewhere, applies to the same value."""
        self._inside: dict[Steps, SchemaPlace] = {}
        self._alone: dict[str, jsonschema_rs.Validator] = {}

    def inside(self, *steps: str | int) -> SchemaPlace:
        """Go down: a keyword and, where it holds several schemas, a name or an index."""
        place = self._inside.get(steps)
        if place is None:
            node: Any = self.node
            for step in steps:
                node = node[step]
            place = SchemaPlace(self.pointer + "".join(map(_escape, steps)), node)
            self._inside[steps] = place
        return place

    def every(self, keyword: str) -> list[SchemaPlace]:
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

    def __init__(
        self, root: SchemaPlace, targets: Mapping[str, SchemaPlace], *, cost: Cost, integers: bool
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
        places: dict[str, SchemaPlace] = {}
        waiting = [self.root]
        while waiting:
            place = waiting.pop()
            if place.pointer not in places:
                places[place.pointer] = place
                waiting += self.demanding(place)
        names = (name for place in places.values() for name in place.node.get("required", ()))
        return tuple(dict.fromkeys(names))

    def fits(self, place: SchemaPlace, value: JSON) -> bool:
        """Return True if a value fits the schema at a place."""
        validator = self._validators.get(place.pointer)
        if validator is None:
            validator = _compile(self._refer(place), self._registry)
            self._validators[place.pointer] = validator
        return _accepts(validator, value)

    def misfits(self, place: SchemaPlace, items: list[JSON], *, start: int = 0) -> Iterator[int]:
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

    def _all_fit(self, place: SchemaPlace, items: list[JSON]) -> bool:
        validator = self._arrays.get(place.pointer)
        if validator is None:
            each = {"items": self._refer(place)}
            validator = self._arrays[place.pointer] = _compile(each, self._registry)
        return _accepts(validator, items)

    def _refer(self, place: SchemaPlace) -> Node:
        return {"$ref": f"{_URI}#{quote(place.pointer)}"}

    def target(self, place: SchemaPlace) -> SchemaPlace | None:
        """Return the place to which the `$ref` of a place points, if it is a pointer."""
        return self._targets.get(place.node.get("$ref", ""))

    def follow(self, node: Node) -> Node:
        """The schema that a reference leads to; any other as it is."""
        target = self._targets.get(node.get("$ref", ""))
        return node if target is None else target.node

    def demanding(self, place: SchemaPlace) -> Iterator[SchemaPlace]:
        """The other schemas that a value here must fit: the reference's target and `allOf`."""
        target = self.target(place)
        if target is not None:
            yield target
        yield from place.every("allOf")

    def speaking(self, place: SchemaPlace) -> Iterator[SchemaPlace]:
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

    def types(self, place: SchemaPlace) -> frozenset[Type]:
        """The types that a value may have here, by all that is said about it."""
        known = self._types.get(place.pointer)
        if known is None:
            self._types[place.pointer] = ANY_TYPE  # a reference that leads back adds nothing
            known = self._types[place.pointer] = self._find_types(place)
        return known

    def allows_type(self, place: SchemaPlace, value: JSON) -> bool:
        """Return True if some value of this type may fit here."""
        kinds = _INCLUDED["string"] if isinstance(value, str) else {type_of(value)}
        return not self.types(place).isdisjoint(kinds)

    def _find_types(self, place: SchemaPlace) -> frozenset[Type]:
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
_PATTERN_OPTIONS = jsonschema_rs.RegexOptions(size_limit=PATTERN_BYTES)


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
        pattern_options=_PATTERN_OPTIONS,
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


# Compute the size of a schema with its references expanded, and the cost of checking it.
#
# The validator expands references, and two references per level make 2ⁿ. So everything is counted
# before it is compiled: the schemas, the patterns, and the rules for each value.


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


def count_cost(
    root: SchemaPlace, targets: Mapping[str, SchemaPlace], *, patterns: Iterable[str]
) -> Cost | str:
    """Return the cost of a schema, or the reason why it is too high."""
    patterns = frozenset(patterns)
    excess = _find_expansion(patterns)
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


def _find_expansion(patterns: frozenset[str]) -> str:
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

    def __init__(self, targets: Mapping[str, SchemaPlace]) -> None:
        self.exceeded = ""
        self.recursive = False
        self._targets = targets
        self._schemas = 0

    def count(self, place: SchemaPlace, load: Load, *, way: _Way) -> None:
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

    def _follow(self, place: SchemaPlace, load: Load, *, way: _Way) -> None:
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


# Compile a tool definition's schema, or say why it cannot be compiled.
#
# The author of the tools may not be the one who pays for the CPU: at a gateway, clients send
# schemas and models send values. So before a schema is compiled, everything that multiplies is
# counted: its bytes, its nesting, and its size after the validator has expanded its references
# (`expansion`).


SCHEMA_BYTES = 64 * 1024
"""Of one tool's schema as JSON. Providers refuse far smaller ones."""
SCHEMA_DEPTH = 128
"""Nesting of one schema. The compiler recurses."""
CONTAINERS = 3000
"""Objects and arrays in one schema. Each is visited a dozen times before it is compiled; a tool
with hundreds of parameters has a third of them."""
CACHED_BYTES = 8 * 1024 * 1024
"""Bytes of the schemas that are kept compiled, as JSON. Compiled they take about nine times as
much. It is twice what the tools of one request may have in the proxy, so that a set of tools never
drives its own members out."""


def prepare(parameters: Mapping[str, Any]) -> Compiled | Problem:
    """Make a tool's schema ready. A problem's path leads to the culprit in the schema.

    The cache goes by the schema's text. To write the text takes microseconds; to go by
    identity would take none, and miss that the caller has changed the dictionary.
    """
    try:
        text = _ENCODER.encode(parameters)
    except (TypeError, ValueError, RecursionError) as error:
        return _refuse((), "json", message=f"cannot be written as JSON: {error}")
    if len(text) > SCHEMA_BYTES:
        return _refuse(
            (), "limit", message=f"has {len(text)} bytes; at most {SCHEMA_BYTES} are allowed"
        )
    return _PREPARED.find(text, _prepare)


def write_mapping(value: Any) -> dict[str, Any]:
    """Tell an encoder how to write what it does not know: a mapping of another make."""
    # Nothing else is taken for an object: of a set of pairs, `dict` would make one.
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


_ENCODER = msgspec.json.Encoder(enc_hook=write_mapping)


class SizedCache(Generic[_From, _Made]):
    """Keeps what was made of something; what was not used for long goes first.

    Bounded by bytes: a cache of so many entries is too small for many tools, and too large for
    large ones. It has two generations: a new one begins when the present one is full, and what is
    used again moves to it.
    """

    def __init__(
        self, *, weigh: Callable[[_From], int] = len, most_bytes: int = CACHED_BYTES
    ) -> None:
        """`weigh` returns the bytes of what is made, or an estimate of them."""
        self._weigh = weigh
        self._most = most_bytes // 2
        self._bytes = 0
        self._young: dict[_From, _Made] = {}
        self._old: dict[_From, _Made] = {}

    def find(self, source: _From, make: Callable[[_From], _Made]) -> _Made:
        """Return what is made of this."""
        found = self._young.get(source)
        if found is None:
            found = self._old.get(source)
            if found is None:
                found = make(source)
            self._keep(source, found)
        return found

    def has(self, source: _From) -> bool:
        """Return True if this was made and is kept."""
        return source in self._young or source in self._old

    def _keep(self, source: _From, made: _Made) -> None:
        weight = self._weigh(source)
        self._bytes += weight
        if self._bytes > self._most:
            self._old, self._young, self._bytes = self._young, {}, weight
        self._young[source] = made


def _prepare(text: bytes) -> Compiled | Problem:
    schema = json.loads(text)
    excess = _find_excess(schema)
    if excess:
        return _refuse((), "limit", message=excess)
    schema = infer_type(translate(schema))
    try:
        jsonschema_rs.meta.validate(schema)
    except jsonschema_rs.ValidationError as error:
        return _refuse_invalid(error)
    # From here on, every value at a schema's place is one.
    root = SchemaPlace("", schema)
    places = list(_walk(root))
    targets = _find_targets(places)
    if isinstance(targets, Problem):
        return targets
    patterns = [pattern for _, place in places for pattern in patterns_of(place.node)]
    cost = count_cost(root, targets, patterns=patterns)
    if isinstance(cost, str):
        return _refuse((), "limit", message=cost)
    try:
        integers = any(demands_integer(place.node) for _, place in places)
        return Compiled(root, targets, cost=cost, integers=integers)
    except ValueError as error:
        return _refuse_uncompiled(error)


_PREPARED: SizedCache[bytes, Compiled | Problem] = SizedCache()


def _find_excess(schema: Any) -> str:
    count = 0
    for depth, level in enumerate(_walk_levels(schema)):
        count += len(level)
        if depth == SCHEMA_DEPTH:
            return f"is nested more than {SCHEMA_DEPTH} deep"
        if count > CONTAINERS:
            return f"has more than {CONTAINERS} objects and arrays"
    return ""


def is_deeper(value: Any, depth: int) -> bool:
    """Return True if a value has more levels. Works level by level, since recursion fails on deep
    values."""
    return next(islice(_walk_levels(value), depth, None), None) is not None


def _walk_levels(value: Any) -> Iterator[list[Any]]:
    """Yield the objects and arrays of a value, level by level."""
    level = [value]
    while level:
        yield level
        level = [child for parent in level for child in _containers_in(parent)]


def _containers_in(parent: Any) -> list[Any]:
    inside = parent.values() if isinstance(parent, (dict, Mapping)) else parent
    return [
        child
        for child in inside
        if type(child) not in _SCALARS and isinstance(child, (dict, list, tuple, Mapping))
    ]


# To ask what else is a mapping takes ten times longer.
_SCALARS = frozenset({str, int, float, bool, type(None)})


# ── References ──────────────────────────────────────────────────────────────────────

_DYNAMIC = ("$dynamicRef", "$recursiveRef")


def _find_targets(places: list[tuple[Steps, SchemaPlace]]) -> dict[str, SchemaPlace] | Problem:
    """Every reference in the schema, and the place inside it to which it leads.

    There must be one for each: what is not seen here is not counted below.
    """
    known = {f"#{place.pointer}": place for _, place in places}
    known |= {f"#{place.node['$anchor']}": place for _, place in places if "$anchor" in place.node}
    targets: dict[str, SchemaPlace] = {}
    for steps, place in places:
        if dynamic := next((word for word in _DYNAMIC if word in place.node), None):
            return _refuse((*steps, dynamic), dynamic, message=f"uses {dynamic}; use $ref")
        if "$ref" not in place.node:
            continue
        reference = place.node["$ref"]
        if _unquote(reference) not in known:
            return _refuse_reference((*steps, "$ref"), reference)
        targets[reference] = known[_unquote(reference)]
    return targets


def _walk(root: SchemaPlace) -> Iterator[tuple[Steps, SchemaPlace]]:
    """Yield every place that holds a schema."""
    waiting: list[tuple[Steps, SchemaPlace]] = [((), root)]
    while waiting:
        above, place = waiting.pop()
        yield above, place
        for steps, child in children(place.node):
            if isinstance(child, dict):
                waiting.append(((*above, *steps), place.inside(*steps)))


def _unquote(reference: str) -> str:
    head, *rest = reference.encode("utf-8", "replace").split(b"%")
    return b"".join([head, *map(_read_escape, rest)]).decode("utf-8", "replace")


def _read_escape(piece: bytes) -> bytes:
    try:
        return bytes([int(piece[:2], 16)]) + piece[2:]
    except ValueError:
        return b"%" + piece


def _refuse_reference(steps: Steps, reference: str) -> Problem:
    if reference.startswith("#"):
        return _refuse(
            steps, "$ref", message=f"refers to {show(reference)}, where no schema stands"
        )
    message = (
        f"refers to {show(reference)}; nothing outside the schema is fetched, "
        "so put the definition under $defs and refer to it as #/$defs/…"
    )
    return _refuse(steps, "$ref", message=message)


# ── Refusals ────────────────────────────────────────────────────────────────────────


def _refuse(steps: Iterable[str | int], kind: str, *, message: str, received: str = "") -> Problem:
    path = reduce(join_path, steps, "$")
    return Problem(path, kind, f"the schema {message}", received, "a JSON Schema of Draft 2020-12")


def _refuse_invalid(error: jsonschema_rs.ValidationError) -> Problem:
    """Describe what the draft's own schema says against a schema."""
    path = error.instance_path
    received = show(error.instance)
    return _refuse(
        path, error.kind.name, message=f"is not valid: {cut(error.message)}", received=received
    )


_PATTERNS = (
    "cannot be compiled: {message}. A pattern must be a regular expression of linear time, without "
    "look-around and backreferences, and lengths belong into minLength and maxLength"
)


def _refuse_uncompiled(error: ValueError) -> Problem:
    """After the draft's own schema has agreed, only a pattern can be wrong."""
    path = error.instance_path if isinstance(error, jsonschema_rs.ValidationError) else ()
    message = str(error).partition("\n")[0]
    return _refuse(path, "pattern", message=_PATTERNS.format(message=cut(message)))
