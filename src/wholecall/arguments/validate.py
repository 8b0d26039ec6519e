"""Validate arguments against a tool's schema and report every problem with its JSON path."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple, TypeAlias, cast

from wholecall.arguments.coerce import STRICT, CoercionOptions, coerce
from wholecall.arguments.compiled_schema import Compiled, SchemaPlace, matches, prepare
from wholecall.arguments.describe import (
    LIMITS,
    describe,
    find_misspelt,
    list_some,
    show,
    show_names,
    suggest,
)
from wholecall.arguments.normalize_schema import Node
from wholecall.arguments.parse import join_path
from wholecall.arguments.schema_cost import Allowance, Size, measure
from wholecall.errors import InadmissibleTools
from wholecall.events import JSON, Coercion, Problem
from wholecall.messages import ToolSpec, read_tool

PROBLEMS = 32
"""Problems of one call that are reported."""
EXPLAINING = 500_000
"""Schema rules that may be evaluated to find them, in the units of `work`."""


_GUESSES = 8
"""Names for which the one is sought that was meant. Each search takes milliseconds."""


class Look(NamedTuple):
    """A schema, a value that does not fit it, and the path of the value."""

    place: SchemaPlace
    value: JSON
    path: str
    optional: bool = False
    """A member that may be left out."""

    @property
    def node(self) -> Node:
        return self.place.node

    @property
    def members(self) -> Mapping[str, JSON]:
        """Of an object; other values have none."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def items(self) -> list[JSON]:
        """Of an array; other values have none."""
        return self.value if isinstance(self.value, list) else []


Found: TypeAlias = Iterator[Problem | Look]


def explain(
    compiled: Compiled,
    value: dict[str, JSON],
    *,
    allowance: Allowance,
    unknown: Collection[str] = (),
) -> tuple[Problem, ...]:
    """Explain why arguments do not fit.

    `unknown` are received names that are not parameters: one may be a misspelt required one.
    """
    problems: dict[Problem, None] = {}
    seen: set[tuple[str, str]] = set()
    explanation = _Explanation(compiled, allowance.grant(EXPLAINING, value), unknown=unknown)
    waiting = [Look(compiled.root, value, "$")]
    while waiting and len(problems) < PROBLEMS and not allowance.is_exhausted:
        look = waiting.pop()
        if (look.place.pointer, look.path) in seen:
            continue
        seen.add((look.place.pointer, look.path))
        found = list(islice(explanation.look(look), PROBLEMS)) or [_report_unexplained(look)]
        problems |= {item: None for item in found if isinstance(item, Problem)}
        waiting += [item for item in reversed(found) if isinstance(item, Look)]
    return tuple(problems)[:PROBLEMS] or (_report_unexplained(waiting[-1]),)


class _Explanation:
    """Looks at one place at a time. Each method is a row of `_LOOKS`."""

    def __init__(
        self, compiled: Compiled, allowance: Allowance, *, unknown: Collection[str]
    ) -> None:
        self._allowance = allowance
        self._compiled = compiled
        self._unknown = unknown
        self._guesses = _GUESSES

    def look(self, look: Look) -> Found:
        """Return the problems here. A wrong type or option makes every other rule moot."""
        for keyword in _FIRST:
            if keyword in look.node and not look.place.fits_alone(keyword, look.value):
                # Some models write null for everything that they have no value for.
                left_out = " (or leave it out)" if look.optional and look.value is None else ""
                yield _report(look, keyword, expected=self._describe(look.node) + left_out)
                return
        for keyword, argument in look.node.items():
            if keyword in _LOOKS:
                yield from _LOOKS[keyword](self, look)
            elif keyword in LIMITS and not look.place.fits_alone(keyword, look.value):
                yield _report(look, keyword, expected=LIMITS[keyword](argument))

    def _fits(self, place: SchemaPlace, value: JSON) -> bool:
        """Beyond the work limit a value counts as fitting, and nothing is reported about it."""
        return not self._allowance.take(value) or self._compiled.fits(place, value)

    def _enter(
        self, place: SchemaPlace, value: JSON, *, path: str, optional: bool = False
    ) -> Found:
        if not self._fits(place, value):
            yield Look(place, value, path, optional)

    # ── Objects ─────────────────────────────────────────────────────────────────────

    def required(self, look: Look) -> Found:
        for name in look.node["required"]:
            yield from self._demand(look, name)

    def dependent_required(self, look: Look) -> Found:
        for name, needed in look.node["dependentRequired"].items():
            for other in needed if name in look.members else ():
                yield from self._demand(look, other)

    def _demand(self, look: Look, name: str) -> Found:
        if not isinstance(look.value, dict) or name in look.value:
            return
        path = join_path(look.path, name)
        expected = self._describe(look.node.get("properties", {}).get(name, {}))
        strangers = set(look.members) - self._names(look.place)
        near = self._guess(name, strangers.union(self._unknown if look.path == "$" else ()))
        hint = f" ({show(near)} was received, and is no parameter)" if near else ""
        message = f"{path} is missing{hint}: it must be {expected}"
        yield Problem(path, "required", message, "nothing", expected)

    def _guess(self, name: str, known: Collection[str]) -> str | None:
        """The name that was probably meant, for the first few that are wrong."""
        self._guesses -= 1
        return suggest(name, known) if self._guesses >= 0 else None

    def _names(self, place: SchemaPlace) -> frozenset[str]:
        speaking = self._compiled.speaking(place)
        return frozenset().union(*(part.node.get("properties", {}) for part in speaking))

    def properties(self, look: Look) -> Found:
        for name in look.node["properties"]:
            if name in look.members:
                yield from self._enter_member(look, name, "properties", name)

    def pattern_properties(self, look: Look) -> Found:
        for pattern in look.node["patternProperties"]:
            for name in look.members:
                if not self._allowance.take_steps(1):
                    return
                if matches(pattern, name):
                    yield from self._enter_member(look, name, "patternProperties", pattern)

    def additional_properties(self, look: Look) -> Found:
        for name in look.members:
            if _is_described(look.node, name):
                continue
            if look.node["additionalProperties"] is False:
                yield self._reject_name(look, name, kind="additionalProperties")
            else:
                yield from self._enter_member(look, name, "additionalProperties")

    def unevaluated_properties(self, look: Look) -> Found:
        """Report the names that no part of the schema has; of others only the validator knows."""
        if look.node["unevaluatedProperties"] is False:
            for name in sorted(look.members.keys() - self._names(look.place)):
                yield self._reject_name(look, name, kind="unevaluatedProperties")

    def _enter_member(self, look: Look, name: str, *steps: str) -> Found:
        path = join_path(look.path, name)
        optional = name not in look.node.get("required", ())
        place = look.place.inside(*steps)
        yield from self._enter(place, look.members[name], path=path, optional=optional)

    def _reject_name(self, look: Look, name: str, *, kind: str) -> Problem:
        path = join_path(look.path, name)
        known = self._names(look.place)
        near = self._guess(name, known - look.members.keys())
        hint = f"; did you mean {show(near)}?" if near else ""
        expected = f"only {show_names(sorted(known))}" if known else "nothing"
        message = f"{path} is not allowed here{hint}"
        return Problem(path, kind, message, show(look.members[name]), expected)

    def property_names(self, look: Look) -> Found:
        place = look.place.inside("propertyNames")
        expected = self._describe(place.node)
        for name in look.members:
            if not self._fits(place, name):
                path = join_path(look.path, name)
                message = f"{path} has a name that is not allowed: it must be {expected}"
                yield Problem(path, "propertyNames", message, show(name), expected)

    def dependent_schemas(self, look: Look) -> Found:
        for name in look.node["dependentSchemas"]:
            if name in look.members:
                place = look.place.inside("dependentSchemas", name)
                yield from self._enter(place, look.value, path=look.path)

    # ── Arrays ──────────────────────────────────────────────────────────────────────

    def prefix_items(self, look: Look) -> Found:
        places = look.place.every("prefixItems")
        for index, (place, item) in enumerate(zip(places, look.items, strict=False)):
            yield from self._enter(place, item, path=join_path(look.path, index))

    def each_item(self, look: Look) -> Found:
        place = look.place.inside("items")
        described = len(look.node.get("prefixItems", ()))
        for index in self._compiled.misfits(place, look.items, start=described):
            yield Look(place, look.items[index], join_path(look.path, index))

    def contains(self, look: Look) -> Found:
        place = look.place.inside("contains")
        count = sum(self._fits(place, item) for item in look.items)
        least, most = look.node.get("minContains", 1), look.node.get("maxContains", count)
        if isinstance(look.value, list) and not least <= count <= most:
            limits = f"at least {least}" + (f" and at most {most}" if most != count else "")
            expected = f"an array in which {limits} items are {self._describe(place.node)}"
            yield _report(look, "contains", expected=expected)

    # ── In place ────────────────────────────────────────────────────────────────────

    def demands(self, look: Look) -> Found:
        for place in self._compiled.demanding(look.place):
            yield from self._enter(place, look.value, path=look.path, optional=look.optional)

    def any_of(self, look: Look) -> Found:
        yield from self._choose(look, "anyOf")

    def one_of(self, look: Look) -> Found:
        yield from self._choose(look, "oneOf")

    def _choose(self, look: Look, keyword: str) -> Found:
        """Look into the alternative that was meant, if it is clear which; else name all."""
        branches = look.place.every(keyword)
        fitting = sum(self._fits(branch, look.value) for branch in branches)
        if fitting > 1 and keyword == "oneOf":
            yield _report(
                look, keyword, expected=f"one alternative only; this fits {fitting} of them"
            )
        if fitting:
            return
        meant = [branch for branch in branches if self._may_mean(branch, look)]
        if len(meant) == 1:
            yield Look(meant[0], look.value, look.path, look.optional)
        else:
            words = [self._describe(branch.node) for branch in meant or branches]
            yield _report(look, keyword, expected=list_some(words, " or "))

    def _may_mean(self, branch: SchemaPlace, look: Look) -> bool:
        """Return True if the type agrees, and each tag: a member with only a few possible
        values."""
        if not self._compiled.allows_type(branch, look.value):
            return False
        tags = [
            (part.inside("properties", name), look.members[name])
            for part in (branch, *self._compiled.demanding(branch))
            for name, child in part.node.get("properties", {}).items()
            if name in look.members and not _TAGS.isdisjoint(child)
        ]
        return all(self._fits(place, value) for place, value in tags)

    def _describe(self, node: Node) -> str:
        return describe(node, self._compiled.follow)

    def negation(self, look: Look) -> Found:
        place = look.place.inside("not")
        if self._fits(place, look.value):
            words = f"anything but {self._describe(place.node)}" if place.node else "left out"
            yield _report(look, "not", expected=words)

    def condition(self, look: Look) -> Found:
        fits = self._fits(look.place.inside("if"), look.value)
        branch = "then" if fits else "else"
        if branch in look.node:
            yield from self._enter(look.place.inside(branch), look.value, path=look.path)


# The keywords that hold schemas.
_LOOKS: dict[str, Callable[[_Explanation, Look], Found]] = {
    "required": _Explanation.required,
    "dependentRequired": _Explanation.dependent_required,
    "properties": _Explanation.properties,
    "patternProperties": _Explanation.pattern_properties,
    "additionalProperties": _Explanation.additional_properties,
    "unevaluatedProperties": _Explanation.unevaluated_properties,
    "propertyNames": _Explanation.property_names,
    "dependentSchemas": _Explanation.dependent_schemas,
    "prefixItems": _Explanation.prefix_items,
    "items": _Explanation.each_item,
    "contains": _Explanation.contains,
    "$ref": _Explanation.demands,
    "allOf": _Explanation.demands,
    "anyOf": _Explanation.any_of,
    "oneOf": _Explanation.one_of,
    "not": _Explanation.negation,
    "if": _Explanation.condition,
}

# The keywords that are asked first.
_FIRST = ("type", "const", "enum")
# The keywords that make a member the tag of its object.
_TAGS = frozenset({"const", "enum"})


def _is_described(node: Node, name: str) -> bool:
    if name in node.get("properties", {}):
        return True
    return any(matches(pattern, name) for pattern in node.get("patternProperties", ()))


def _report(look: Look, kind: str, *, expected: str) -> Problem:
    received = show(look.value)
    message = f"{look.path} must be {expected}; received {received}"
    return Problem(look.path, kind, message, received, expected)


def _report_unexplained(look: Look) -> Problem:
    return _report(look, "schema", expected="something that fits the schema of this tool")


# Check arguments against a tool's schema, and tool definitions before they are offered.
#
# `check` is the last step before a call may run:
#
#     value ──size──▶ unknown names dropped ──fits?──▶ coerced ──fits?──▶ problems
#
# Parameters that a schema does not know are problems if it forbids them, are kept if it allows
# them, and are dropped if it says nothing; the result tells the model so. There is one exception: a
# name that can only be a misspelling of a parameter that is not given. Dropping `dryRun` for a tool
# that has `dry_run` would run something else than was requested.
#
# `admit` checks tool definitions before they are offered.


UNKNOWN = 1000
"""Parameters that a tool does not have, of one call. Each is compared with those that it has."""
_REFUSE_UNKNOWN = Problem(
    "$",
    "limit",
    f"more than {UNKNOWN} parameters were received that this tool does not have",
    "more",
    "only parameters of this tool",
)
TOOLS = 1024
"""Tools that one request may offer. Most providers refuse more than 128."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Arguments after the check. Without problems they fit."""

    value: dict[str, JSON]
    """Coerced, and without what was dropped. What was given to `check` is not changed."""
    coercions: tuple[Coercion, ...] = ()
    dropped: tuple[str, ...] = ()
    """The names of parameters that the tool does not have."""
    problems: tuple[Problem, ...] = ()


def check(value: dict[str, JSON], spec: ToolSpec, *, options: CoercionOptions = STRICT) -> Checked:
    """Check arguments against the schema of their tool."""
    compiled = prepare(spec.parameters)
    if isinstance(compiled, Problem):
        # Unchecked arguments never run. The model cannot correct it, so the message says so.
        return Checked(value, problems=(_blame_schema(spec, compiled),))
    size = measure(value)
    if size.limit or compiled.cost.exceeds(value, size):
        return Checked(value, problems=(_refuse_size(size),))
    known, unknown = _drop_unknown(compiled, value)
    kept, dropped = (value, ()) if options.keep_unknown else (known, unknown)
    if len(dropped) > UNKNOWN:
        return Checked(value, problems=(_REFUSE_UNKNOWN,))
    fits = compiled.fits(compiled.root, kept)
    coercions: tuple[Coercion, ...] = ()
    if fits and not unknown and not size.whole_floats:
        return Checked(kept)
    allowance = Allowance(compiled.cost)
    if not fits or (size.whole_floats and compiled.integers):
        kept, coercions = _coerce(compiled, kept, allowance=allowance, size=size, options=options)
        fits = compiled.fits(compiled.root, kept)
    problems = () if fits else explain(compiled, kept, allowance=allowance, unknown=dropped)
    if unknown:
        missing = {problem.path for problem in problems}
        misspelt = _report_misspelt(compiled, value, unknown=unknown, missing=missing)
        problems += tuple(islice(misspelt, PROBLEMS - len(problems)))
        if not kept and not problems:
            # Of arguments of which nothing is left, none was meant for this tool.
            problems = tuple(
                _report_unknown(compiled, value, name=name) for name in dropped[:PROBLEMS]
            )
    return Checked(kept, coercions, dropped, problems)


def _blame_schema(spec: ToolSpec, problem: Problem) -> Problem:
    message = (
        f"tool {spec.name!r} cannot be called, because its definition is broken "
        f"({problem.path}: {problem.message})"
    )
    return Problem("$", "definition", message, "", "another tool")


def _coerce(
    compiled: Compiled,
    value: dict[str, JSON],
    *,
    allowance: Allowance,
    size: Size,
    options: CoercionOptions,
) -> tuple[dict[str, JSON], tuple[Coercion, ...]]:
    read = coerce(
        compiled, value, allowance=allowance, whole_floats=size.whole_floats, options=options
    )
    if not read.coercions:
        return value, ()
    # What a text holds may be deep, inside an object that is deep; and so may it be large.
    if not isinstance(read.value, dict) or _is_oversize(compiled, read.value):
        return value, ()
    return read.value, read.coercions


# ── Size ────────────────────────────────────────────────────────────────────────────


def _is_oversize(compiled: Compiled, value: dict[str, JSON]) -> bool:
    size = measure(value)
    return bool(size.limit) or compiled.cost.exceeds(value, size)


def _refuse_size(size: Size) -> Problem:
    """Refuse arguments that would take too long to check."""
    if size.limit:
        expected = f"at most {size.limit}"
        message = f"the arguments must have {expected}: send them in parts, or flatter"
        return Problem("$", "limit", message, "more", expected)
    expected = "fewer or smaller values"
    message = (
        "the arguments are too large to be checked against the schema of this tool: "
        f"send {expected}, in parts if need be"
    )
    return Problem("$", "limit", message, f"{size.values} values", expected)


# ── Unknown parameters ──────────────────────────────────────────────────────────────


def _drop_unknown(
    compiled: Compiled, value: dict[str, JSON]
) -> tuple[dict[str, JSON], tuple[str, ...]]:
    if not compiled.drops or value.keys() <= compiled.names:
        return value, ()
    kept = {name: member for name, member in value.items() if name in compiled.names}
    return kept, tuple(name for name in value if name not in kept)


def _report_misspelt(
    compiled: Compiled, value: dict[str, JSON], *, unknown: Iterable[str], missing: Collection[str]
) -> Iterator[Problem]:
    """Unknown names that are near to a parameter which is neither given nor reported missing."""
    absent = {name for name in compiled.names - value.keys() if join_path("$", name) not in missing}
    for name, meant in find_misspelt(unknown, absent).items():
        yield _report_unknown(compiled, value, name=name, hint=f"; did you mean {show(meant)}?")


def _report_unknown(
    compiled: Compiled, value: dict[str, JSON], *, name: str, hint: str = ""
) -> Problem:
    path = join_path("$", name)
    expected = f"only {show_names(sorted(compiled.names))}"
    message = f"{path} is no parameter of this tool{hint}"
    return Problem(path, "unknown_parameter", message, show(value[name]), expected)


# ── Admission ───────────────────────────────────────────────────────────────────────

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_NAME_IN_WORDS = "1 to 128 letters, digits, underscores, dots and hyphens"


def admit(tools: Iterable[ToolSpec | Mapping[str, Any]]) -> tuple[Problem, ...]:
    """Say what keeps tools from being offered; nothing if they may be.

    Each problem's path leads into the list of tools, and its message names the tool.
    """
    problems: list[Problem] = []
    names: set[str] = set()
    for index, tool in enumerate(tools):
        if index == TOOLS:
            expected = f"at most {TOOLS} tools"
            return (*problems, Problem("$", "limit", f"offer {expected}", "more", expected))
        path = f"$[{index}]"
        try:
            specs = read_tool(tool, path)
        except InadmissibleTools as refused:
            # `errors.py` imports nothing from this package and cannot do it itself.
            problems += cast("tuple[Problem, ...]", refused.problems)
            continue
        for spec in specs:
            problems += _judge_tool(spec, path, names=names)
            names.add(spec.name)
    return tuple(problems)


def require_admissible(tools: Iterable[ToolSpec | Mapping[str, Any]]) -> None:
    """Raise `InadmissibleTools`, with all problems, if these tools may not be offered."""
    problems = admit(tools)
    if problems:
        raise InadmissibleTools("; ".join(problem.message for problem in problems), problems)


def _judge_tool(spec: ToolSpec, path: str, *, names: Collection[str]) -> Iterator[Problem]:
    if not _NAME.fullmatch(spec.name):
        name = show(spec.name)
        message = f"tool {name} must have another name: {_NAME_IN_WORDS}"
        yield Problem(f"{path}.name", "name", message, name, _NAME_IN_WORDS)
    if spec.name in names:
        name = show(spec.name)
        message = f"tool {name} is offered twice: give each tool a name of its own"
        yield Problem(f"{path}.name", "duplicate_name", message, name, "names that differ")
    compiled = prepare(spec.parameters)
    where = f"{path}.parameters"
    if isinstance(compiled, Problem):
        message = f"tool {show(spec.name)}: {compiled.message} (at {compiled.path} of its schema)"
        yield replace(compiled, path=where + compiled.path.removeprefix("$"), message=message)
    elif "object" not in compiled.types(compiled.root):
        message = (
            f"tool {show(spec.name)}: the schema must describe an object with the parameters in it"
        )
        yield Problem(f"{where}.type", "type", message, "", "an object")
