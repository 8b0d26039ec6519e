"""The message that tells a model how to correct its call, with an example built from the schema."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice, product
from typing import Any, NamedTuple

from wholecall.arguments.compiled_schema import Compiled, SchemaPlace, Type, prepare
from wholecall.arguments.describe import cut, show, show_names, suggest
from wholecall.arguments.normalize_schema import Node
from wholecall.arguments.parse import Parsed, Unparsed, parse
from wholecall.events import JSON, OUTPUT_LIMIT, Call, Problem, Reason, Rejected
from wholecall.messages import Offer, ToolSpec

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

    def fitting(self, places: Sequence[SchemaPlace], nesting: int) -> Iterator[JSON]:
        """Values that fit all of these schemas, each once, the likeliest first."""
        seen: set[str] = set()
        for value in chain.from_iterable(self._candidates(place, nesting) for place in places):
            fits = all(self._compiled.fits(place, value) for place in places)
            if fits and repr(value) not in seen:
                seen.add(repr(value))
                yield value

    def _candidates(self, place: SchemaPlace, nesting: int) -> Iterator[JSON]:
        variants = list(islice(self._variants(place, nesting), _VARIANTS))
        for part in chain.from_iterable(variants):
            yield from _own_words(part.node)
        types = self._compiled.types(place)
        for kind, make in _EXAMPLE_MAKERS.items():
            for parts in variants if kind in types else ():
                yield from make(self, parts, nesting + 1)

    def _variants(self, place: SchemaPlace, nesting: int) -> Iterator[list[SchemaPlace]]:
        """The schemas that speak about one value, for each way through the alternatives."""
        self._tries -= 1
        if self._tries < 0 or nesting > _NESTING:
            return
        demands = [[demand] for demand in self._compiled.demanding(place)]
        alternatives = [place.every(word) for word in ("anyOf", "oneOf") if word in place.node]
        ways = [self._ways(choices, nesting + 1) for choices in (*demands, *alternatives)]
        for way in product(*ways):
            yield [place, *chain.from_iterable(way)]

    def _ways(self, choices: list[SchemaPlace], nesting: int) -> list[list[SchemaPlace]]:
        variants = chain.from_iterable(self._variants(choice, nesting) for choice in choices)
        return list(islice(variants, _VARIANTS))

    # ── A maker for each type ───────────────────────────────────────────────────────

    def objects(self, parts: Sequence[SchemaPlace], nesting: int) -> Iterator[JSON]:
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

    def _member(self, parts: Sequence[SchemaPlace], name: str, *, nesting: int) -> list[JSON]:
        """One value for a member, or none."""
        describing = [part for part in parts if name in part.node.get("properties", {})]
        if not describing:
            return [_TEXTS[0]]
        places = [part.inside("properties", name) for part in describing]
        return list(islice(self.fitting(places, nesting), 1))

    def arrays(self, parts: Sequence[SchemaPlace], nesting: int) -> Iterator[JSON]:
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

    def strings(self, parts: Sequence[SchemaPlace], _: int) -> Iterator[JSON]:
        yield from _texts(parts)

    def numbers(self, parts: Sequence[SchemaPlace], _: int) -> Iterator[JSON]:
        """One, then the numbers next to the bounds, then what lies between them."""
        with suppress(OverflowError):  # a bound of hundreds of digits, and a float to reckon with
            yield from self._numbers(parts)

    def _numbers(self, parts: Sequence[SchemaPlace]) -> Iterator[JSON]:
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

    def booleans(self, _parts: Sequence[SchemaPlace], _: int) -> Iterator[JSON]:
        yield from (True, False)

    def nulls(self, _parts: Sequence[SchemaPlace], _: int) -> Iterator[JSON]:
        yield None


# In this order: what holds nothing first, so that an example ends where its schema recurs.
_EXAMPLE_MAKERS: dict[Type, Callable[[_Builder, Sequence[SchemaPlace], int], Iterator[JSON]]] = {
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


def _texts(parts: Sequence[SchemaPlace]) -> Iterator[str]:
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


def _gather(parts: Sequence[SchemaPlace], keyword: str) -> list[str]:
    return [name for part in parts for name in part.node.get(keyword, ())]


def _highest(parts: Sequence[SchemaPlace], keyword: str, *, default: int) -> Any:
    return max((part.node[keyword] for part in parts if keyword in part.node), default=default)


def _lowest(parts: Sequence[SchemaPlace], keyword: str, *, default: int) -> Any:
    return min((part.node[keyword] for part in parts if keyword in part.node), default=default)


# Feedback: tell the model what to correct in its next call.
#
# The text alone must be enough to correct the call: the tool, the path, what was received, what is
# expected, and a valid example. It says nothing about how the problem was found, and it is the same
# for native and emulated calls.
#
# Feedback about a truncated call says that it was cut off. "Missing field" would make the model
# send the same long call again, to be cut off at the same place.


_REREAD = 64 * 1024
"""Characters of arguments that are parsed again, to name the received parameters and the wrong
place. Of longer arguments the detail names the place."""
_EXAMPLE = 2000
"""Characters of the longest example that is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """The problem with a call, for programs; `text` is the same for the model."""

    type: str
    """`schema`, `truncated`, `unknown_tool`, … : a `Reason`, or how running the tool ended."""
    message: str
    tool: str | None = None
    parameter: str | None = None
    """The path of the first problem."""
    required: tuple[str, ...] = ()
    received_keys: tuple[str, ...] = ()
    example: Mapping[str, JSON] | None = None
    hint: str = ""

    @property
    def text(self) -> str:
        """All of it in a few lines."""
        lines = [self.message]
        if self.required:
            lines.append(f"Required parameters: {show_names(self.required)}.")
        if self.received_keys:
            lines.append(f"Received parameters: {show_names(self.received_keys)}.")
        if self.example is not None:
            lines.append(f"An example that fits: {json.dumps(self.example, ensure_ascii=False)}")
        return "\n".join([*lines, self.hint]).strip()


def feedback(
    rejection: Rejected | Sequence[Problem], spec: ToolSpec | None, *, offer: Offer | None = None
) -> str:
    """The text that tells a model what to correct: the content of the call's result.

    ```python
    import wholecall

    days = {"type": "integer", "minimum": 1}
    spec = wholecall.ToolSpec("forecast", {"properties": {"days": days}, "required": ["days"]})
    text = '<tool_call>{"name": "forecast", "arguments": {"days": "a few"}}</tool_call>'
    for rejected in wholecall.parse_text("hermes", text, tools=[spec]).rejected:
        print(wholecall.feedback(rejected, spec))
    ```

    ```text
    Your call of "forecast" was not run, because its arguments do not fit:
    - $.days must be an integer, at least 1; received "a few"
    Required parameters: "days".
    Received parameters: "days".
    An example that fits: {"days": 1}
    Correct this and send the whole call.
    ```
    """
    return make_feedback(rejection, spec, offer=offer).text


def make_feedback(
    rejection: Rejected | Sequence[Problem], spec: ToolSpec | None, *, offer: Offer | None = None
) -> Feedback:
    """Say what was wrong with a call of the tool `spec`, where `offer` could be called."""
    if not isinstance(rejection, Rejected):
        problems = tuple(rejection)
        rejection = Rejected(reason=Reason.SCHEMA, detail="", problems=problems)
    return _MAKERS[rejection.reason](_Subject(rejection, spec, offer))


class _Subject(NamedTuple):
    """The subject of the feedback."""

    rejection: Rejected
    spec: ToolSpec | None
    offer: Offer | None

    @property
    def tool(self) -> str | None:
        return self.spec.name if self.spec is not None else self.rejection.name

    @property
    def call(self) -> str:
        return f"call of {show(self.tool)}" if self.tool else "call"

    @property
    def detail(self) -> str:
        return f": {cut(self.rejection.detail)}" if self.rejection.detail else ""


# ── Rejected calls ──────────────────────────────────────────────────────────────────


class _Words(NamedTuple):
    """A sentence with `{call}` and `{detail}`, and what to do."""

    message: str
    hint: str


_NOT_ALL = "What came through may be right, but it is not all. Send the whole call again"
_CUT_BY_THE_LIMIT = _Words(
    "Your {call} was not run, because it was cut off by the output limit{detail}.",
    f"{_NOT_ALL} with less in it, or do the work in parts with several smaller calls.",
)

_NOT_NOW = "Call only what may be called now, or answer in words."

_PLAIN: dict[Reason, _Words] = {
    Reason.TRUNCATED: _Words(
        "Your {call} was not run, because it arrived incomplete{detail}.", f"{_NOT_ALL}."
    ),
    Reason.STREAM_DROPPED: _Words(
        "Your {call} was not run, because the connection broke before it was complete{detail}.",
        "Send the whole call again. If it was long, send less at once, or do the work in parts.",
    ),
    Reason.BAD_MARKUP: _Words(
        "Your {call} was not run, because it is not written in the form of a call{detail}.",
        "Write the call again, exactly in the form that you were shown.",
    ),
    Reason.DEGENERATE: _Words(
        "Your {call} was not run, because its text went on without meaning{detail}.",
        "Send the call again, short and whole.",
    ),
    Reason.AMBIGUOUS: _Words(
        "Your {call} was not run, because it can be read in more than one way{detail}.",
        "Send each call once, with one JSON object as its arguments.",
    ),
    Reason.WRITTEN_AS_TEXT: _Words(
        "Your {call} was not run, because you wrote it as text{detail}.",
        "Make the call through the tool interface. If you meant to quote it, answer in words.",
    ),
    Reason.MALFORMED_BY_PROVIDER: _Words(
        "Your {call} was not run, because it was malformed{detail}.",
        "Send the call again, simpler if you can.",
    ),
    Reason.CONTENT_FILTER: _Words(
        "Your {call} was not run, because a content filter stopped the answer{detail}.",
        "Do not send the same again. Go on in another way, or say that it cannot be done.",
    ),
    Reason.LIMIT: _Words(
        "Your {call} was not run, because it goes beyond a limit{detail}.",
        "Send less: fewer calls, or smaller and flatter arguments, in parts if need be.",
    ),
}


def _make_plain(subject: _Subject) -> Feedback:
    reason, detail = subject.rejection.reason, subject.rejection.detail
    words = _PLAIN[reason]
    if reason is Reason.TRUNCATED and OUTPUT_LIMIT in detail:
        words = _CUT_BY_THE_LIMIT
    return Feedback(
        type=reason.value,
        message=words.message.format(call=subject.call, detail=subject.detail),
        tool=subject.tool,
        hint=words.hint,
    )


def _make_of_arguments(subject: _Subject, message: str, *, hint: str) -> Feedback:
    """With all that shows what the arguments should be."""
    problems = subject.rejection.problems
    return Feedback(
        type=subject.rejection.reason.value,
        message=message,
        tool=subject.tool,
        parameter=problems[0].path if problems else None,
        required=_required(subject.spec),
        received_keys=_received_keys(subject.rejection),
        example=_example(subject.spec),
        hint=hint,
    )


def _make_bad_json(subject: _Subject) -> Feedback:
    unparsed = _reparse(subject.rejection)
    detail = subject.detail
    if isinstance(unparsed, Unparsed):
        found = f"{show(unparsed.found)} stands" if unparsed.found else "the text ends"
        detail = f": {unparsed.message} at character {unparsed.position + 1}, where {found}"
    message = f"Your {subject.call} was not run, because its arguments are not valid JSON{detail}."
    hint = "Send the call again with its arguments as one whole JSON object."
    return _make_of_arguments(subject, message, hint=hint)


def _make_not_object(subject: _Subject) -> Feedback:
    message = (
        f"Your {subject.call} was not run, because its arguments must be one JSON object "
        f"with the parameters by name; received {show(_parsed(subject.rejection))}."
    )
    hint = "Send the call again with one JSON object, each parameter under its name."
    return _make_of_arguments(subject, message, hint=hint)


def _make_schema(subject: _Subject) -> Feedback:
    problems = subject.rejection.problems
    message = f"Your {subject.call} was not run, because its arguments do not fit{subject.detail}."
    if problems:
        message = f"Your {subject.call} was not run, because its arguments do not fit:"
    lines = [message, *(f"- {_line(problem)}" for problem in problems)]
    hopeless = any(problem.kind == "definition" for problem in problems)
    hint = "Do not call this tool again." if hopeless else "Correct this and send the whole call."
    return _make_of_arguments(subject, "\n".join(lines), hint=hint)


def _line(problem: Problem) -> str:
    if problem.path in problem.message:
        return problem.message
    return f"{problem.path}: {problem.message}; expected {problem.expected}"


def _make_unknown_tool(subject: _Subject) -> Feedback:
    name = subject.rejection.name or ""
    if subject.offer is not None and name in subject.offer:  # the choice of tools forbade it
        message = f"Your {subject.call} was not run{subject.detail}."
        return Feedback(type="unknown_tool", message=message, tool=name, hint=_NOT_NOW)
    near = suggest(name, subject.offer or ())
    suggestion = f" Did you mean {show(near)}?" if near else ""
    message = f"There is no tool {show(name)}, so nothing was run.{suggestion}"
    return Feedback(
        type="unknown_tool", message=message, tool=name, hint=_name_tools(subject.offer)
    )


def _make_no_name(subject: _Subject) -> Feedback:
    message = "Your call was not run, because it does not say which tool to call."
    hint = _name_tools(subject.offer)
    if subject.offer:
        hint = f"Send the call again with a name. {hint}"
    return Feedback(type="no_name", message=message, hint=hint)


def _name_tools(offer: Offer | None) -> str:
    if offer is None:  # the caller did not say which tools are offered
        return "Call only tools that you were given, by their names."
    if not offer:
        return "There are no tools to call. Answer without one."
    return f"The tools are: {', '.join(map(show, sorted(offer)))}."


_MAKERS: dict[Reason, Callable[[_Subject], Feedback]] = {
    **dict.fromkeys(_PLAIN, _make_plain),
    Reason.BAD_JSON: _make_bad_json,
    Reason.NOT_OBJECT: _make_not_object,
    Reason.SCHEMA: _make_schema,
    Reason.UNKNOWN_TOOL: _make_unknown_tool,
    Reason.NO_NAME: _make_no_name,
}


def _required(spec: ToolSpec | None) -> tuple[str, ...]:
    compiled = prepare(spec.parameters) if spec is not None else None
    return compiled.required if isinstance(compiled, Compiled) else ()


def _received_keys(rejection: Rejected) -> tuple[str, ...]:
    received = _parsed(rejection)
    return tuple(received) if isinstance(received, Mapping) else ()


def _parsed(rejection: Rejected) -> JSON:
    parsed = _reparse(rejection)
    return parsed.value if isinstance(parsed, Parsed) else rejection.raw


def _reparse(rejection: Rejected) -> Parsed | Unparsed | None:
    return parse(rejection.raw) if len(rejection.raw) <= _REREAD else None


def _example(spec: ToolSpec | None) -> Mapping[str, JSON] | None:
    example = build_example(spec.parameters) if spec is not None else None
    return example if len(json.dumps(example)) <= _EXAMPLE else None


# ── Calls that were released ────────────────────────────────────────────────────────


def tool_failed(name: str, message: str) -> Feedback:
    """Say that the tool ran and failed."""
    return Feedback(
        type="tool_failed",
        message=f"The tool {show(name)} failed: {message.strip() or 'it gave no reason'}",
        tool=name,
        hint="Correct the call if it was the cause; else go on without its result.",
    )


def timed_out(name: str, seconds: float) -> Feedback:
    """Return feedback that the tool did not end within its time limit."""
    return Feedback(
        type="timed_out",
        message=(
            f"The tool {show(name)} did not finish within {seconds:g} seconds and was stopped.\n"
            "What it had done by then is unknown."
        ),
        tool=name,
        hint="Ask for less in one call, or go on without its result.",
    )


class SkipReason(enum.Enum):
    """The reason why a call with nothing wrong in it was not run."""

    IDENTICAL = "identical"
    """The same call was made too often."""
    WITHDRAWN = "withdrawn"
    """Its tool failed too often."""
    CAPPED = "capped"
    """The run has reached a limit."""
    STOPPED = "stopped"
    """The run was stopped from outside."""
    HANGING = "hanging"
    """Too many earlier calls hang."""
    UNAVAILABLE = "unavailable"
    """Its tool cannot be run here."""
    DENIED = "denied"
    """It was not approved."""


_UNKNOWN = "say what you could not find out"
ANSWER_FROM_RESULTS = f"Answer from the results that you have, and {_UNKNOWN}."
# A hint must not request a call that would be skipped again: small models obey.
_SKIP_HINTS: dict[SkipReason, str] = {
    SkipReason.IDENTICAL: (f"The same call would give the same result. {ANSWER_FROM_RESULTS}"),
    SkipReason.WITHDRAWN: (
        "This tool cannot be used any more. "
        f"Answer from the results of other calls, and {_UNKNOWN}."
    ),
    SkipReason.CAPPED: (
        f"No further tool can be called. Answer now from the results that you have, and {_UNKNOWN}."
    ),
    SkipReason.STOPPED: "Send it again if it is still needed.",
    SkipReason.HANGING: f"Go on with other tools or without its result, and {_UNKNOWN}.",
    SkipReason.UNAVAILABLE: f"Go on without this tool, and {_UNKNOWN}.",
    SkipReason.DENIED: (
        "Do not send the call again. Go on without its result, or say what is missing."
    ),
}


def skipped(name: str, why: str, *, reason: SkipReason = SkipReason.STOPPED) -> Feedback:
    """Return feedback that the call was not run although nothing was wrong with it."""
    return Feedback(
        type="skipped",
        message=f"The call of {show(name)} was not run: {why.strip().rstrip('.')}.",
        tool=name,
        hint=_SKIP_HINTS[reason],
    )


def dropped_note(call: Call) -> str:
    """Return the note on dropped parameters for a result; empty if none were dropped."""
    if not call.dropped:
        return ""
    names = show_names(call.dropped)
    return f"Note: {show(call.name)} has no parameter {names}; the call was run without."
