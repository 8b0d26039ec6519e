"""Read the arguments of a call as they came into arguments that a tool may run with, or refuse
them.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Collection, Mapping
from typing import NamedTuple, TypeAlias

from msgspec import structs

from wholecall.arguments.coerce import STRICT, CoercionOptions
from wholecall.arguments.compiled_schema import Compiled, is_deeper, prepare, write_mapping
from wholecall.arguments.describe import cut
from wholecall.arguments.limits import DEFAULT, Limits
from wholecall.arguments.parse import Parsed, Unparsed, excerpt, parse
from wholecall.arguments.repair import is_repairable, repair
from wholecall.arguments.validate import check
from wholecall.events import JSON, Coercion, Problem, Reason, Repair, Value
from wholecall.messages import ToolSpec

_MARK = '<|"|>'


def is_free(text: str) -> bool:
    """Return True if a JSON text certainly holds no mark, plain or escaped, as nearly all texts
    do."""
    return "|>" not in text and "\\u" not in text


def holds_mark(value: JSON) -> bool:
    """Return True if a value holds a mark."""
    return _MARK in value if isinstance(value, str) else any(map(holds_mark, _inside(value)))


def holds_half(value: JSON) -> bool:
    """Return True if a string has a mark at one end only."""
    if isinstance(value, str):
        edge = value.startswith(_MARK) or value.endswith(_MARK)
        return edge and not _is_quoted(value)
    return any(map(holds_half, _inside(value)))


def unquote(value: JSON) -> JSON:
    """Return the value without the marks around whole strings; the value itself if there are
    none."""
    if isinstance(value, str):
        return value[len(_MARK) : -len(_MARK)] if _is_quoted(value) else value
    if isinstance(value, dict):
        return {key: unquote(each) for key, each in value.items()}
    return [unquote(each) for each in value] if isinstance(value, list) else value


def _is_quoted(text: str) -> bool:
    both = len(text) >= 2 * len(_MARK) and text.startswith(_MARK)
    return both and text.endswith(_MARK) and _MARK not in text[len(_MARK) : -len(_MARK)]


def _inside(value: JSON) -> list[JSON]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


# Parameters that stand as markup in the text of another one.
#
# Where a model closes a parameter with the wrong tag, its provider takes what follows for a part of
# the value: the call is valid, and its other parameters are silently missing.
#
#     {"content": "long text</content>
# <parameter name="tags">a, b"}
#
# https://github.com/anthropics/claude-code/issues/44826
#
# And where it fails to read GLM's tags, they end up in names and values (https://github.com/exo-
# explore/exo/pull/2187).
#
# >     {"file<arg_key": "page</arg_key><arg_value>5"}


# One tag is closed, and another opens that names a parameter. Everything is bounded, so that a text
# of nothing but brackets is read once.
_NAMED = re.compile(
    r"""</[^<>]{1,64}>\s{0,16}
    <(?: (?:\w{1,16}:)?parameter (?:\s{1,4}name\s?=\s?["']?|=) ([^"'<>\s=]{1,64})
       | arg_key> ([^<>]{1,64}) </arg_key> )""",
    re.VERBOSE,
)
_LEAKED = re.compile(r"\s{0,16}</antml[: ]parameter>")


_BETWEEN = re.compile(r"</arg_key>\s{0,16}<arg_value>|</arg_value>\s{0,16}\Z")
_IN_NAME = re.compile(r"</?(?:\w{1,16}:)?(?:arg_key|arg_value|parameter)")
_NO_NAMES: tuple[JSON, ...] = (None, "", [], {})


def find_swallowed(arguments: Mapping[str, JSON], names: Collection[str] | None) -> str:
    """Return the parameter whose value holds markup of this call, or nothing.

    `names` are the tool's parameters; None if it takes any.
    """
    for key, value in arguments.items():
        torn = "<" in key and _IN_NAME.search(key)
        held = isinstance(value, str) and "</" in value and _holds(value, arguments, names=names)
        if torn or held:
            return key
    return ""


def _holds(text: str, given: Mapping[str, JSON], *, names: Collection[str] | None) -> bool:
    if _LEAKED.match(text) or _is_torn(text):
        return True
    named = (found[1] or found[2] for found in _NAMED.finditer(text))
    missing = (name for name in named if given.get(name) in _NO_NAMES)
    return any(names is None or name in names for name in missing)


def _is_torn(text: str) -> bool:
    """Return True if a pair of GLM's tags ends in the text but did not begin there."""
    if _BETWEEN.search(text) is None:
        return False
    return any(text.count(f"<{tag}>") < text.count(f"</{tag}>") for tag in ("arg_key", "arg_value"))


# From the raw arguments of a call to arguments that a tool may run with.
#
# The steps in order; each returns a value or refuses with a reason:
#
#     text ──strict parse──▶ value ──is it an object?──▶ unique keys ──schema──▶ Arguments
#              └─ safe repair ─┘       └─ a string that holds one ─┘   └─ unwrapped ─┘
#
# A repair needs a text that is known to be whole, and is tried only after the strict parse failed.
# A value that is not an object is refused. It is never taken for the first parameter, and it counts
# as no parameters only if it is empty and the tool has none (`null` from Cohere, `[]` from servers
# written in PHP).


class Arguments(Value, frozen=True):
    """Arguments that fit their tool, and what was done to make them fit."""

    value: dict[str, JSON]
    repairs: tuple[Repair, ...] = ()
    coercions: tuple[Coercion, ...] = ()
    dropped: tuple[str, ...] = ()
    """Parameters that the tool does not have."""


class RefusedArguments(Value, frozen=True):
    """The reason why no call may run with these arguments."""

    reason: Reason
    detail: str
    """One sentence for people and models, without internals."""
    problems: tuple[Problem, ...] = ()


ArgumentsRead: TypeAlias = Arguments | RefusedArguments
RawArguments: TypeAlias = str | Mapping[str, JSON] | Parsed | Unparsed
"""Arguments as they came; a text perhaps parsed already."""


def read_arguments(
    raw: RawArguments,
    spec: ToolSpec | None,
    *,
    whole: bool,
    limits: Limits = DEFAULT,
    options: CoercionOptions = STRICT,
) -> ArgumentsRead:
    """Read the arguments of one call. `raw` is never changed.

    Blank text is read as `{}`; whether that is proof of anything, the caller knows.
    Without a `spec`, any object fits.
    """
    parsed = _read_value(raw, whole=whole, limits=limits)
    if isinstance(parsed, RefusedArguments):
        restored = _restore_head(raw, spec, limits=limits) if whole else None
        if restored is None:
            return parsed
        parsed = restored
    if isinstance(parsed.value, str) and whole:
        parsed = _decode_twice(parsed, parsed.value, limits=limits)
    if parsed.value in _EMPTY and whole and spec is not None and _takes_nothing(spec):
        emptied = Repair("empty_arguments", excerpt(json.dumps(parsed.value)), "{}")
        parsed = Parsed({}, changes=(*parsed.changes, emptied))
    if not isinstance(parsed.value, dict):
        return _refuse_type(parsed.value)
    if parsed.duplicates:
        return _refuse_duplicates(parsed.duplicates)
    plain = _unquote(Arguments(parsed.value, parsed.changes), raw)
    if spec is None or isinstance(plain, RefusedArguments):
        return plain
    return _Fitting(spec, limits, options, _names_of(spec)).fit(plain.value, plain.repairs)


_EMPTY: tuple[JSON, ...] = (None, [], "")
_NOTHING: tuple[JSON, ...] = (*_EMPTY, {})


def _names_of(spec: ToolSpec) -> frozenset[str]:
    """Return the parameters that a tool describes."""
    compiled = prepare(spec.parameters)
    return frozenset(compiled.names) if isinstance(compiled, Compiled) else frozenset()


def _takes_nothing(spec: ToolSpec) -> bool:
    """Return True if the tool declares that it has no parameters, so that none can be missing."""
    compiled = prepare(spec.parameters)
    silent = "properties" not in spec.parameters or spec.parameters.get("additionalProperties")
    return isinstance(compiled, Compiled) and not compiled.names and not silent


# ── From text to value ──────────────────────────────────────────────────────────────


def _read_value(raw: RawArguments, *, whole: bool, limits: Limits) -> Parsed | RefusedArguments:
    if isinstance(raw, Parsed):
        return raw
    if isinstance(raw, Unparsed):
        return _refuse(raw)
    if isinstance(raw, Mapping):
        return _read_mapping(raw, limits)
    return _read_text(raw, whole=whole, limits=limits) if raw.strip() else Parsed({})


def _read_mapping(raw: Mapping[str, JSON], limits: Limits) -> Parsed | RefusedArguments:
    """Write it out and read it back: a copy, for which every rule of a text holds."""
    if is_deeper(raw, limits.depth):
        return RefusedArguments(
            Reason.LIMIT, f"the arguments are nested more than {limits.depth} deep"
        )
    try:
        text = json.dumps(raw, default=write_mapping, ensure_ascii=False)
    except ValueError:  # an integer that Python refuses to write
        return RefusedArguments(Reason.BAD_JSON, "the arguments hold a number with too many digits")
    except TypeError as error:  # bytes, a date: some client's objects
        return RefusedArguments(
            Reason.BAD_JSON, f"the arguments hold what JSON cannot hold: {error}"
        )
    return _read_text(text, whole=False, limits=limits)


def _read_text(text: str, *, whole: bool, limits: Limits) -> Parsed | RefusedArguments:
    if len(text) > limits.characters:
        detail = f"the arguments have more than {limits.characters} characters"
        return RefusedArguments(Reason.LIMIT, detail)
    parsed = parse(text, limits=limits)
    if isinstance(parsed, Parsed):
        return parsed
    if whole and parsed.reason is Reason.BAD_JSON:
        return _repair(text, limits) or _refuse(parsed)
    return _refuse(parsed)


def _repair(text: str, limits: Limits) -> Parsed | RefusedArguments | None:
    repaired = repair(text)
    if repaired is None:
        return None
    parsed = parse(repaired.text, limits=limits)
    if isinstance(parsed, Unparsed):
        return _refuse(parsed)
    return structs.replace(parsed, changes=(*repaired.repairs, *parsed.changes))


_HEADS = ("{", '{"')


def _restore_head(raw: object, spec: ToolSpec | None, *, limits: Limits) -> Parsed | None:
    """The object of a text whose first piece was lost on the way, as gateways lose it.

    More than the piece may have been lost with it, so every parameter of the tool has to be there:
    https://github.com/vllm-project/vllm/issues/35266
    """
    if not isinstance(raw, str) or raw.lstrip().startswith("{") or not is_repairable(raw):
        return None
    names = frozenset() if spec is None else _names_of(spec)
    for head in _HEADS:
        parsed = parse(head + raw, limits=limits)
        if isinstance(parsed, Parsed) and isinstance(parsed.value, dict):
            change = Repair("restore_head", "", head)
            fits = bool(names) and parsed.value.keys() == names
            return structs.replace(parsed, changes=(change, *parsed.changes)) if fits else None
    return None


def _decode_twice(parsed: Parsed, text: str, *, limits: Limits) -> Parsed:
    """The object that a string holds as text; the string itself if it holds none."""
    inner = _read_text(text, whole=True, limits=limits)
    if not isinstance(inner, Parsed) or not isinstance(inner.value, dict):
        return parsed
    decoded = Repair("double_decode", excerpt(json.dumps(text)), excerpt(text))
    return structs.replace(inner, changes=(*parsed.changes, decoded, *inner.changes))


def _unquote(arguments: Arguments, raw: object) -> ArgumentsRead:
    """Take the marks of a model's own format away that stand around strings."""
    value = arguments.value
    if (isinstance(raw, str) and is_free(raw)) or not holds_mark(value):
        return arguments
    if holds_half(value):
        return _HALF_QUOTED
    unquoted = {key: unquote(each) for key, each in value.items()}
    if unquoted == value:  # a mark inside a text is part of the text
        return arguments
    before, after = excerpt(json.dumps(value)), excerpt(json.dumps(unquoted))
    return Arguments(unquoted, (*arguments.repairs, Repair("unquote_strings", before, after)))


# ── From object to fitting arguments ────────────────────────────────────────────────

# The names under which models hand over all parameters as one; `properties` is that of the
# schema that they were shown.
_WRAPPERS = frozenset(
    {"arguments", "parameters", "input", "args", "params", "kwargs", "tool_input", "properties"}
)


# Under these an envelope repeats the name of the tool.
_LABELS = frozenset({"name", "tool", "function", "tool_name", "function_name"})


class _Fitting(NamedTuple):
    """Makes objects fit one tool."""

    spec: ToolSpec
    limits: Limits
    options: CoercionOptions
    names: frozenset[str]
    """The parameters that the tool describes."""

    def fit(self, value: dict[str, JSON], repairs: tuple[Repair, ...]) -> ArgumentsRead:
        mistaken = self._find_mistake(value)
        if mistaken is not None:
            return mistaken
        checked = check(value, self.spec, options=self.options)
        if checked.problems or checked.dropped or self._has_unknown(value):
            unwrapped = self._unwrap(value)
            if unwrapped is not None:
                return structs.replace(unwrapped, repairs=(*repairs, *unwrapped.repairs))
            if not checked.problems and self._has_two_readings(value):
                return _TWO_READINGS
        if checked.problems:
            return _refuse_problems(checked.problems)
        # A name that holds tags was dropped, as that of no parameter.
        swallowed = find_swallowed({**value, **checked.value}, self.names or self._any_name())
        if swallowed:
            return _refuse_swallowed(swallowed)
        return Arguments(checked.value, repairs, checked.coercions, checked.dropped)

    def _find_mistake(self, value: dict[str, JSON]) -> RefusedArguments | None:
        """Find mistakes that need no schema check."""
        if self._is_definition(value):
            return _DEFINITION
        names = self.names
        nameless = value.get("") not in _NOTHING and bool(names) and "" not in names
        return _NAMELESS if nameless else None

    def _is_definition(self, value: dict[str, JSON]) -> bool:
        """Return True if this is the tool's own schema, which models send that echo their
        prompt."""
        described, names = value.get("properties"), self.names
        echoes = isinstance(described, dict) and described.keys() == names
        return echoes and value.get("type") == "object" and "properties" not in names

    def _any_name(self) -> frozenset[str] | None:
        """None if the tool describes no parameter and says that it takes any."""
        return None if self.spec.parameters.get("additionalProperties") is True else frozenset()

    def _has_unknown(self, value: dict[str, JSON]) -> bool:
        """Return True if parameters were kept that would otherwise be dropped."""
        return self.options.keep_unknown and bool(check(value, self.spec).dropped)

    def _unwrap(self, value: dict[str, JSON]) -> Arguments | None:
        """Take the object inside for the arguments, if it fits; what is around it does not."""
        inner = self._open_wrapper(value)
        if inner is None or not isinstance(inner.value, dict) or inner.duplicates:
            return None
        strict = dataclasses.replace(self.options, keep_unknown=False)
        checked = check(inner.value, self.spec, options=strict)
        # An object of which nothing is left was not meant for this tool.
        if checked.problems or (inner.value and not checked.value):
            return None
        before, after = excerpt(json.dumps(value)), excerpt(json.dumps(inner.value))
        unwrapped = Repair("unwrap_arguments", before, after)
        repairs = (unwrapped, *inner.changes)
        return Arguments(checked.value, repairs, checked.coercions, checked.dropped)

    def _open_wrapper(self, value: dict[str, JSON]) -> Parsed | None:
        """Return the content of the only parameter, if the tool has no parameter of this name."""
        names = value.keys() - self._labels(value)
        if len(names) != 1 or not names <= _WRAPPERS or not names.isdisjoint(self.names):
            return None
        return self._read_wrapper(value[names.pop()])

    def _labels(self, value: dict[str, JSON]) -> set[str]:
        """Return the keys under which an envelope repeats the tool's name."""
        return {label for label in _LABELS & value.keys() if value[label] == self.spec.name}

    def _read_wrapper(self, inner: JSON) -> Parsed | None:
        if not isinstance(inner, str):
            return Parsed(inner)
        parsed = _read_text(inner, whole=True, limits=self.limits)
        return parsed if isinstance(parsed, Parsed) else None

    def _has_two_readings(self, value: dict[str, JSON]) -> bool:
        """Return True if parameters are inside an envelope and, with other values, beside it; or if
        one beside it may be its label (https://github.com/ollama/ollama/issues/11805)."""
        known = self.names
        read = (self._read_wrapper(value[name]) for name in value.keys() & _WRAPPERS - known)
        inside = [each.value for each in read if each and isinstance(each.value, dict)]
        if inside and not known.isdisjoint(self._labels(value)):
            return True
        members = (member for each in inside for member in each.items() if member[0] in known)
        return any(name not in value or value[name] != item for name, item in members)


# ── Refusals ────────────────────────────────────────────────────────────────────────

_TYPES = {
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    list: "an array",
    type(None): "null",
}


_TWO_READINGS = RefusedArguments(
    Reason.AMBIGUOUS, "parameters stand in an object of their own and others beside it"
)
_HALF_QUOTED = RefusedArguments(
    Reason.BAD_MARKUP, "a string begins or ends with a quoting mark that has no other half"
)
_NAMELESS = RefusedArguments(Reason.BAD_MARKUP, "a parameter has no name")
_DEFINITION = RefusedArguments(
    Reason.SCHEMA, "the arguments are the definition of the tool, and no values for its parameters"
)


def _refuse(unparsed: Unparsed) -> RefusedArguments:
    return RefusedArguments(unparsed.reason, unparsed.detail)


def _refuse_swallowed(name: str) -> RefusedArguments:
    detail = f"the parameter {cut(name)!r} holds tags of this call: other parameters are missing"
    return RefusedArguments(Reason.BAD_MARKUP, detail)


def _refuse_type(value: JSON) -> RefusedArguments:
    detail = f"the arguments must be one JSON object, not {_TYPES[type(value)]}"
    return RefusedArguments(Reason.NOT_OBJECT, detail)


_PATHS = 8
"""Paths that the detail names."""


def _refuse_duplicates(paths: tuple[str, ...]) -> RefusedArguments:
    problems = tuple(
        Problem(
            path=path,
            kind="duplicate_key",
            message="the key is given more than once",
            received="the same key again",
            expected="each key once",
        )
        for path in paths
    )
    return RefusedArguments(
        Reason.SCHEMA, f"the arguments give {_name(paths)} more than once", problems
    )


def _name(paths: tuple[str, ...]) -> str:
    """The first of the paths; all of them stand in the problems."""
    more = f" and {len(paths) - _PATHS} others" if len(paths) > _PATHS else ""
    return ", ".join(map(cut, paths[:_PATHS])) + more


def _refuse_problems(problems: tuple[Problem, ...]) -> RefusedArguments:
    first = problems[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    detail = f"the arguments do not fit the schema: {first.message}{more}"
    return RefusedArguments(Reason.SCHEMA, detail, problems)
