"""Endings and verdicts: what becomes of a draft when its turn is over.

A turn ends in one of six ways. The finish reason of the upstream is a *hint*: where it forbids, it
is believed, and where it permits, it is checked. A content filter, an error or a malformed call
stops everything that has not run. `tool_calls` alone starts nothing, because servers send it for
calls that they cut off.

| what came                   | good end   | output limit               | any other end |
|-----------------------------|------------|----------------------------|---------------|
| an object closed by a brace | runs       | runs: the brace is a proof | rejected      |
| an object, not as text      | runs       | runs if the answer went on | rejected      |
| nothing, or `{}`            | runs as {} | rejected, but see below    | rejected      |
| an open object              | rejected   | rejected: it was cut       | rejected      |
| another syntax, whole       | repaired   | rejected: it may be cut    | rejected      |
| two different objects       | rejected   | rejected                   | rejected      |

The rows, from the top:

- A closed object is whole whatever happened after it, so the output limit does not touch it. But a
  turn that was dropped or filtered is not an answer, and nothing of it runs that has not run yet.
- A provider that sends objects has parsed them, and what a lenient parser made of a cut text looks
  whole. Only what follows such an object shows that it is.
- Empty arguments are the most dangerous: `{}` is valid for every tool without required parameters,
  and it is what several gateways make of arguments that were cut off. At the output limit they
  count only if their protocol sealed the call and the answer went on after it, or if they are part
  of a text, in which nothing can follow `{}`. An upstream that is known to hide cut calls has to
  prove more (`hides_truncation`).
- Repairs invent no content, but they need a text that is known to be whole. That is a good end.

A tool may start before the end of the turn if its policy (`Start`) accepts less evidence. Then the
ending is not known yet, and only the brace counts. What arrives for that call later is compared at
the end.

The output limit also counts as reached if the answer has exactly as many output tokens as the
request allowed, whatever its finish reason says: some servers close a cut call themselves.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from wholecall.arguments.argument_reader import (
    Arguments,
    ArgumentsRead,
    RawArguments,
    RefusedArguments,
    read_arguments,
)
from wholecall.arguments.coerce import STRICT, CoercionOptions
from wholecall.arguments.compiled_schema import Compiled, prepare
from wholecall.arguments.describe import cut
from wholecall.arguments.limits import DEFAULT, Limits
from wholecall.arguments.parse import Parsed, parse
from wholecall.arguments.repair import may_drop
from wholecall.assembly.call_builder import NO_TAIL, Draft, TextForm
from wholecall.assembly.finish_reasons import worse
from wholecall.assembly.json_scanner import Tail
from wholecall.events import (
    JSON,
    OUTPUT_LIMIT,
    Call,
    Ended,
    Event,
    Evidence,
    Fault,
    FaultKind,
    Hint,
    HintGiven,
    Inconsistent,
    Oddity,
    Reason,
    Rejected,
    Repair,
    Start,
    Value,
)
from wholecall.messages import Offer, ToolSpec


class Ending(enum.Enum):
    """The way in which a turn ended."""

    GOOD = "good"
    LENGTH = "length"
    DROPPED = "dropped"
    FAILED = "failed"
    FILTERED = "filtered"
    MALFORMED = "malformed"


_ENDING_OF_HINT: dict[Hint | None, Ending] = {
    Hint.LENGTH: Ending.LENGTH,
    Hint.CONTENT_FILTER: Ending.FILTERED,
    Hint.MALFORMED: Ending.MALFORMED,
    Hint.ERROR: Ending.FAILED,
}


def ending_of(hint: Hint | None) -> Ending:
    """Return the ending of a turn that gave this hint and came to its end."""
    return _ENDING_OF_HINT.get(hint, Ending.GOOD)


_NOTHING_RUNS: dict[Ending, RefusedArguments] = {
    Ending.DROPPED: RefusedArguments(
        Reason.STREAM_DROPPED, "the connection ended before the answer was complete"
    ),
    Ending.FAILED: RefusedArguments(
        Reason.STREAM_DROPPED, "the upstream failed before the answer ended"
    ),
    Ending.FILTERED: RefusedArguments(
        Reason.CONTENT_FILTER, "the provider's content filter ended the answer"
    ),
    Ending.MALFORMED: RefusedArguments(
        Reason.MALFORMED_BY_PROVIDER, "the provider itself called this call malformed"
    ),
}
# What a stray end of JSON looks like. Anything else may be a part of the arguments.
_CLOSERS = "}] \t\r\n"
_SYNTAX = frozenset({Reason.BAD_JSON, Reason.TRUNCATED})
_NO_NAME = RefusedArguments(Reason.NO_NAME, "the call has no tool name")
_CUT_BEFORE_BEGIN = RefusedArguments(
    Reason.TRUNCATED, "the answer was cut off before the arguments of this call began"
)
_LIMIT_BEFORE_BEGIN = RefusedArguments(
    Reason.TRUNCATED, f"the answer was {OUTPUT_LIMIT} before the arguments of this call began"
)
_CUT_OFF = RefusedArguments(
    Reason.TRUNCATED, f"the answer was {OUTPUT_LIMIT} inside this call's arguments"
)
_CUT_BEFORE_END = RefusedArguments(
    Reason.TRUNCATED, f"the answer was {OUTPUT_LIMIT} before the end of this call"
)
_AMBIGUOUS = RefusedArguments(
    Reason.AMBIGUOUS, "two different objects were sent as the arguments of one call"
)
_GOES_ON = RefusedArguments(
    Reason.BAD_JSON, "the arguments go on after the brace that closed their object"
)
_EMPTY_HIDES_A_CUT = RefusedArguments(
    Reason.TRUNCATED, "empty arguments are no proof here: this upstream hides cut-off calls"
)


class Judge(Value, frozen=True):
    """Knows the tools on offer and the limits; judges drafts."""

    offer: Offer | None = None
    limits: Limits = DEFAULT
    hides_truncation: bool = False
    """The upstream is known to send `{}` for arguments that were cut off (LiteLLM)."""
    coercion: CoercionOptions = STRICT

    def may_start(self, draft: Draft) -> bool:
        """Return True if the tool's policy lets the call start before the turn has ended."""
        spec = (self.offer or {}).get(offered_name(draft.name, self.offer))
        if spec is None or spec.start is Start.CONFIRMED:
            return False
        if draft.is_contested or draft.boundary.guessed:
            return False
        needed = Evidence.CLOSED
        if spec.start is Start.SEALED:
            needed |= Evidence.SEALED
        return needed in draft.evidence

    def wraps(self, draft: Draft) -> bool:
        """Return True if the draft is OpenAI's wrapper around calls, and in no other wrapper."""
        return draft.relations.wrapper is None and is_wrapper(draft.name, self.offer)

    def list_uses(self, whole: Call) -> list[tuple[str, JSON]]:
        """Return name and arguments of the calls in a whole wrapper."""
        uses = read_uses(whole.arguments)
        return [(offered_name(name, self.offer), arguments) for name, arguments in uses]

    def judge(self, draft: Draft, ending: Ending | None = None) -> Call | Rejected:
        """Judge a draft once and for all. `ending` is None while the turn is running."""
        name = offered_name(draft.name, self.offer)
        wraps = self.wraps(draft)
        spec = WRAPPER if wraps else (self.offer or {}).get(name)
        read = self._read(draft, spec, ending=ending)
        if isinstance(read, RefusedArguments):
            foreign = wraps and read.reason is Reason.SCHEMA
            return _reject(draft, _unknown(draft.name) if foreign else read)
        if ending is Ending.GOOD:
            draft.gain(Evidence.CONFIRMED)
        elif ending is Ending.LENGTH:
            draft.gain(Evidence.CLOSED)  # nothing else is read there
        wrapper = draft.relations.wrapper
        return Call(
            id=draft.id,
            name=name,
            arguments=read.value,
            raw=draft.arguments.raw,
            evidence=draft.evidence,
            number=draft.number,
            provider_id=draft.provider_id,
            extras=draft.extras,
            repairs=read.repairs if wrapper is None else wrapper.repairs + read.repairs,
            coercions=read.coercions,
            dropped=read.dropped,
        )

    def _read(self, draft: Draft, spec: ToolSpec | None, *, ending: Ending | None) -> ArgumentsRead:
        refused = _refuse_at_once(draft, ending)
        if refused is not None:
            return refused
        if draft.arguments.is_empty:
            return self._read_empty(draft, spec, ending=ending)
        read_it = self._read_object if draft.arguments.is_object else self._read_text
        read = read_it(draft, spec, ending=ending)
        # A cut call may have a cut name: that it was cut is the better reason.
        cut = isinstance(read, RefusedArguments) and read.reason is Reason.TRUNCATED
        if self.offer is not None and spec is None and not cut:
            return _unknown(draft.name)
        return read

    def _read_empty(
        self, draft: Draft, spec: ToolSpec | None, *, ending: Ending | None
    ) -> ArgumentsRead:
        unsealed = draft.boundary.seals and Evidence.SEALED not in draft.evidence
        if unsealed or not (ending is Ending.GOOD or _is_proven_empty(draft, ending)):
            return _LIMIT_BEFORE_BEGIN if ending is Ending.LENGTH else _CUT_BEFORE_BEGIN
        if draft.arguments.tail().differs:
            return _AMBIGUOUS
        if self.offer is not None and spec is None:
            return _unknown(draft.name)
        if self.hides_truncation and not _empty_is_proof(spec):
            return _EMPTY_HIDES_A_CUT
        return self._read_arguments({}, spec, whole=True)

    def _read_object(
        self, draft: Draft, spec: ToolSpec | None, *, ending: Ending | None
    ) -> ArgumentsRead:
        # An object has no brace that would be a proof: what was cut inside is whole JSON to
        # the eye, also where a client library had parsed as far as the text went. That the
        # answer went on after it is one.
        arguments = draft.arguments
        if ending is Ending.LENGTH and draft.relations.is_last and arguments.parsed is None:
            return _CUT_OFF
        merged = arguments.object()
        written = arguments.parsed.value if arguments.parsed is not None else None
        if merged is None or (arguments.text.strip() and written != merged):
            return _AMBIGUOUS
        return self._read_arguments(merged, spec, whole=True)

    def _read_text(
        self, draft: Draft, spec: ToolSpec | None, *, ending: Ending | None
    ) -> ArgumentsRead:
        # A call that starts on its closing brace knows nothing of what may follow, even if
        # that came in the same chunk: the assembler looks at it when the turn is over.
        over = ending is not None or Evidence.SEALED in draft.evidence
        arguments = draft.arguments
        tail = arguments.tail() if over else NO_TAIL
        refused = None if tail is NO_TAIL else _refuse_tail(tail, ending)
        if refused is not None:
            return refused
        if tail.repeats:
            draft.oddities.note(Oddity.ARGUMENTS_REPEATED)
        whole = ending is Ending.GOOD or arguments.parsed is not None
        text = arguments.parsed or arguments.flaw or arguments.text
        read = self._read_arguments(text, spec, whole=whole)
        if isinstance(read, RefusedArguments):
            if read.reason not in _SYNTAX:
                return read
            return self._read_snapshot(draft, spec, ending=ending) or _blame_the_limit(read, ending)
        if tail.rest:
            draft.oddities.note(Oddity.TEXT_AFTER_OBJECT)
            dropped = Repair("drop_trailing", cut(tail.rest), "")
            return msgspec.structs.replace(read, repairs=(*read.repairs, dropped))
        return read

    def _read_snapshot(
        self, draft: Draft, spec: ToolSpec | None, *, ending: Ending | None
    ) -> Arguments | None:
        """Read pieces that each repeat everything before them.

        Joined they are not JSON, or the join is what was meant; so this is tried second.
        """
        snapshot = draft.snapshot()
        if snapshot is None or ending is not Ending.GOOD:
            return None
        read = self._read_arguments(snapshot, spec, whole=False)
        if isinstance(read, RefusedArguments):
            return None
        draft.oddities.note(Oddity.ARGUMENTS_CUMULATIVE)
        return read

    def _read_arguments(
        self, raw: RawArguments, spec: ToolSpec | None, *, whole: bool
    ) -> ArgumentsRead:
        return read_arguments(raw, spec, whole=whole, limits=self.limits, options=self.coercion)


_NAMESPACES = ("functions.", "functions:", "default_api.", "default_api:")
"""Prefixes that models were trained to write before a tool's name: gpt-oss and Kimi, Gemini."""


_HEADER = re.compile(r"(?:.*\bto=)?(?P<name>[^\s<]+?)(?::\d+)?\s*(?:<\|.*)?", re.DOTALL)
"""Remains of a header that servers leave around a name: `to=functions.search <|constrain|>json` and
`search<|channel|>commentary` from gpt-oss, `functions.search:0` from Kimi."""


def offered_name(name: str, offered: Collection[str] | None) -> str:
    """Return the offered name that is meant: this one, or the one after a namespace or in a
    header."""
    name = name.strip()
    if offered is None or name in offered:
        return name
    headed = _HEADER.fullmatch(name)
    for spelled in (name, headed["name"]) if headed else (name,):
        for namespace in ("", *_NAMESPACES):
            bare = spelled.removeprefix(namespace)
            if bare in offered:
                return bare
    return name


# OpenAI's wrapper, which models write although no tool has its name: one call that holds several.
#
# >     {"tool_uses": [{"recipient_name": "functions.search", "parameters": {"query": "x"}}]}
#
# It is read when the turn is over. If it is whole, the calls in it take its place, and each of them
# is judged like any other. No wrapper holds another one.

_USES = "tool_uses"
_LIST = {"type": "array", "minItems": 1}
WRAPPER = ToolSpec("multi_tool_use.parallel", {"properties": {_USES: _LIST}, "required": [_USES]})
_WRAPPERS = frozenset({WRAPPER.name, "multi_tool_use_parallel", "parallel"})

# The keys of a call that is written as an object.
_USUAL = ("name", "tool_name", "tool", "function_name", "function", "tool_call", "action")
NAMES = frozenset((*_USUAL, "recipient_name"))
_GIVEN = ("arguments", "parameters", "args", "input", "params", "tool_input", "action_input")
ARGUMENTS = frozenset(_GIVEN)
IDS = frozenset({"id", "tool_call_id", "call_id"})
OTHERS = frozenset({"type", "index"})


def is_wrapper(name: str, offered: Collection[str] | None) -> bool:
    """Return True for the name of OpenAI's wrapper, unless a tool has it."""
    if offered is None or "parallel" not in name:
        return False
    return offered_name(name, offered) not in offered and offered_name(name, _WRAPPERS) in _WRAPPERS


def read_uses(arguments: Mapping[str, JSON]) -> Iterator[tuple[str, JSON]]:
    """Yield name and arguments of each call in a wrapper; what is not a call has no name."""
    uses = arguments.get(_USES)
    for element in uses if isinstance(uses, list | tuple) else ():
        yield _read_use(element) or ("", element)


def _read_use(use: JSON) -> tuple[str, JSON] | None:
    if isinstance(use, str):  # it may be encoded twice
        parsed = parse(use)
        use = parsed.value if isinstance(parsed, Parsed) and not parsed.duplicates else None
    if not isinstance(use, Mapping):
        return None
    inner = use.get("function")
    if isinstance(inner, Mapping):
        outer = {key: value for key, value in use.items() if key != "function"}
        use = {} if outer.keys() & inner.keys() else {**outer, **inner}
    names = [use[key] for key in use if key in NAMES]
    arguments = [use[key] for key in use if key in ARGUMENTS] or [{}]
    others = use.keys() - NAMES - ARGUMENTS - IDS - OTHERS
    if len(names) != 1 or len(arguments) != 1 or others or not isinstance(names[0], str):
        return None
    return names[0], arguments[0]


def _refuse_at_once(draft: Draft, ending: Ending | None) -> RefusedArguments | None:
    """Refuse without reading the arguments: because of the draft, its name or the end of the
    turn."""
    nameless = not draft.name.strip()
    if draft.early_end is not None:
        return RefusedArguments(*draft.early_end)
    if ending in _NOTHING_RUNS:
        # In a stream that broke its own rules, a call without a name is the broken rule.
        return _NO_NAME if nameless and ending is Ending.FAILED else _NOTHING_RUNS[ending]
    if nameless:
        return _blame_the_limit(_NO_NAME, ending)
    if draft.boundary.guessed and ending is Ending.LENGTH:
        return _CUT_BEFORE_END
    return _AMBIGUOUS if draft.is_contested else None


def _refuse_tail(tail: Tail, ending: Ending | None) -> RefusedArguments | None:
    """Refuse an object that is not all that was meant."""
    if tail.differs:
        return _AMBIGUOUS
    if ending is Ending.LENGTH and tail.rest.strip(_CLOSERS):
        return _CUT_OFF
    if not tail.rest or may_drop(tail.rest):
        return None
    return _blame_the_limit(_GOES_ON, ending)


def _is_proven_empty(draft: Draft, ending: Ending | None) -> bool:
    """Return whether no arguments were meant, although the output limit ended the answer.

    In a text nothing can follow `{}`. Elsewhere it may be a placeholder, or what is left of a
    cut call, unless its protocol sealed it and the answer went on after it.
    """
    if draft.boundary.written:
        return ending is Ending.LENGTH and draft.arguments.form is TextForm.EMPTY
    sealed_inside = draft.boundary.seals and not draft.relations.is_last
    return ending is Ending.LENGTH and sealed_inside


def _unknown(name: str) -> RefusedArguments:
    return RefusedArguments(Reason.UNKNOWN_TOOL, f"there is no tool {name!r}")


def _empty_is_proof(spec: ToolSpec | None) -> bool:
    """Return True if a tool has no parameters, or does no harm without them."""
    if spec is None:
        return False
    compiled = prepare(spec.parameters)
    named = not isinstance(compiled, Compiled) or bool(compiled.names)
    return not named or spec.start is Start.CLOSED


def _blame_the_limit(read: RefusedArguments, ending: Ending | None) -> RefusedArguments:
    """Whatever is wrong with a text that the output limit ended, the limit is why."""
    return _CUT_OFF if ending is Ending.LENGTH else read


def _reject(draft: Draft, refused: RefusedArguments) -> Rejected:
    return Rejected(
        reason=refused.reason,
        detail=refused.detail,
        name=draft.name or None,
        id=draft.id,
        raw=draft.arguments.raw,
        number=draft.number,
        provider_id=draft.provider_id,
        extras=draft.extras,
        problems=refused.problems,
    )


_FAULTS: dict[Ending, Fault] = {
    Ending.DROPPED: Fault(
        FaultKind.STREAM_DROPPED, "the stream ended without a finish reason and without its end"
    ),
    Ending.FAILED: Fault(FaultKind.UPSTREAM_ERROR, "the upstream ended the answer with an error"),
    Ending.MALFORMED: Fault(
        FaultKind.MALFORMED_FUNCTION_CALL, "the provider says that it made a malformed call"
    ),
}
_SOUND = (Ending.GOOD, Ending.LENGTH)
_FINISH_REASON: dict[Ending, str | None] = {
    Ending.GOOD: "stop",
    Ending.LENGTH: "length",
    Ending.DROPPED: None,
    Ending.FAILED: None,
    Ending.MALFORMED: None,
    Ending.FILTERED: "content_filter",
}


OVERRUN = Inconsistent(Oddity.AFTER_END, "more came after the answer's own end")
"""Reported once."""


@dataclass(slots=True)
class EndSigns:
    """The signs of the end that the stream gave."""

    hint: Hint | None = None
    native: str | None = None
    limited: bool = False
    """The answer has as many output tokens as the request allowed."""
    terminated: bool = False
    overrun: bool = False
    """Something came after the end."""
    fault: Fault | None = None
    _changed: bool = False

    def take_hint(self, given: HintGiven) -> None:
        """Of several hints the worst is kept."""
        worst = worse(self.hint, given.hint)
        self._changed = self._changed or self.hint not in (None, given.hint)
        if worst is not self.hint:
            self.hint, self.native = worst, given.native

    @property
    def is_sound(self) -> bool:
        """True if nothing so far forbids all calls of the turn."""
        return self.fault is None and ending_of(self.hint) in _SOUND

    def ending(self) -> Ending:
        """Return the ending, now that nothing more can come.

        A hint followed by the end of the stream counts as an end: many servers never send their
        terminator, and no part of a call follows the hint.
        """
        if self.fault is not None:
            return Ending.FAILED
        if self.hint is None and not self.terminated:
            return Ending.DROPPED
        return ending_of(worse(self.hint, Hint.LENGTH) if self.limited else self.hint)

    def faults(self, ending: Ending) -> list[Event]:
        """The fault that the ending means, if it was not reported yet."""
        if self.fault is not None or ending not in _FAULTS:
            return []
        self.fault = _FAULTS[ending]
        return [self.fault]

    def conclude(self, ending: Ending, verdicts: Iterable[Call | Rejected]) -> list[Event]:
        """Report the oddities of the end, and the end itself."""
        settled = tuple(verdicts)
        events: list[Event] = [
            Inconsistent(oddity, f"finish reason {self.native!r}")
            for oddity in self._oddities(ending, settled)
        ]
        error = self.fault.kind.value if self.fault is not None else None
        reason = _finish_reason(ending, settled)
        return [*events, Ended(reason, self.hint, self.native, error)]

    def _oddities(self, ending: Ending, verdicts: tuple[Call | Rejected, ...]) -> Iterator[Oddity]:
        if _has_call(verdicts) and self.hint not in (Hint.TOOL_CALLS, None):
            at_length = ending is Ending.LENGTH
            yield Oddity.CALLS_AT_LENGTH if at_length else Oddity.CALLS_WITH_OTHER_HINT
        if self.limited and ending is Ending.LENGTH and self.hint is not Hint.LENGTH:
            yield Oddity.LIMIT_REACHED
        if self.hint is Hint.TOOL_CALLS and not verdicts:
            yield Oddity.TOOL_CALLS_WITHOUT_CALLS
        if self.hint is Hint.UNKNOWN:
            yield Oddity.HINT_UNKNOWN
        if self._changed:
            yield Oddity.HINT_CHANGED
        if self.hint is None and self.terminated:
            yield Oddity.HINT_MISSING
        if self.hint is not None and not self.terminated:
            yield Oddity.NO_TERMINATOR


def _finish_reason(ending: Ending, verdicts: tuple[Call | Rejected, ...]) -> str | None:
    """Return what was really delivered, whatever the upstream's hint says."""
    if ending in _SOUND and _has_call(verdicts):
        return "tool_calls"
    if ending is Ending.GOOD and any(map(_was_cut, verdicts)):
        return "length"
    return _FINISH_REASON[ending]


def _has_call(verdicts: tuple[Call | Rejected, ...]) -> bool:
    return Call in map(type, verdicts)


def _was_cut(verdict: Call | Rejected) -> bool:
    return isinstance(verdict, Rejected) and verdict.reason is Reason.TRUNCATED
