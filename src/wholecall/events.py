"""The values that travel through Wholecall: deltas in, events out.

A *delta* is what a protocol decodes a chunk to. An *event* is what the assembler
reports. Text, reasoning, usage and faults are the same value on both sides.

The unfinished thing has its own type: a draft is private to the assembler, and a
`Call` cannot be built from partial arguments.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

JSON: TypeAlias = "str | int | float | bool | Sequence[JSON] | Mapping[str, JSON] | None"
Slot: TypeAlias = int | str
"""The place by which a protocol addresses a call in one stream."""


class Value(msgspec.Struct, frozen=True, tag=True):
    """Base of values created for every chunk: immutable like a frozen dataclass, at a ninth of its
    cost. Its JSON names its class, in the field `type`."""


class Evidence(enum.Flag):
    """Evidence that a call is whole."""

    NONE = 0
    CLOSED = enum.auto()
    """The root object is closed and not empty: no proper prefix of other JSON looks like it.
    At the output limit also: a mark closed it, or it came as an object and the answer went on."""
    SEALED = enum.auto()
    """The protocol says that this call is over, or another call began after it was closed."""
    CONFIRMED = enum.auto()
    """The turn ended well."""


class Start(enum.Enum):
    """The evidence that a tool needs before a call of it may start."""

    CLOSED = "closed"
    SEALED = "sealed"
    CONFIRMED = "confirmed"


class Reason(enum.Enum):
    """The reason why a draft ended without becoming a call."""

    TRUNCATED = "truncated"
    STREAM_DROPPED = "stream_dropped"
    BAD_JSON = "bad_json"
    NOT_OBJECT = "not_object"
    SCHEMA = "schema"
    UNKNOWN_TOOL = "unknown_tool"
    NO_NAME = "no_name"
    BAD_MARKUP = "bad_markup"
    DEGENERATE = "degenerate"
    AMBIGUOUS = "ambiguous"
    WRITTEN_AS_TEXT = "written_as_text"
    MALFORMED_BY_PROVIDER = "malformed_by_provider"
    CONTENT_FILTER = "content_filter"
    LIMIT = "limit"


OUTPUT_LIMIT = "cut off by the output limit"
"""Part of the detail of every call that the output limit cut, and of no other call."""


class Hint(enum.Enum):
    """The upstream's finish reason. Alone it never proves a call whole."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    PAUSE = "pause"
    UNKNOWN = "unknown"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"
    MALFORMED = "malformed"
    ERROR = "error"


class FaultKind(enum.Enum):
    """The kind of failure of the stream itself."""

    STREAM_DROPPED = "stream_dropped"
    UPSTREAM_ERROR = "upstream_error"
    PROTOCOL = "protocol"
    MALFORMED_FUNCTION_CALL = "malformed_function_call"


class Oddity(enum.Enum):
    """An irregularity of a stream that could still be read."""

    CALLS_WITH_OTHER_HINT = "calls_with_other_hint"
    TOOL_CALLS_WITHOUT_CALLS = "tool_calls_without_calls"
    CALLS_AT_LENGTH = "calls_at_length"
    HINT_MISSING = "hint_missing"
    HINT_UNKNOWN = "hint_unknown"
    HINT_CHANGED = "hint_changed"
    NO_TERMINATOR = "no_terminator"
    SLOT_MISSING = "slot_missing"
    SLOT_REUSED = "slot_reused"
    ID_MISSING = "id_missing"
    ID_REUSED = "id_reused"
    ID_CHANGED = "id_changed"
    NAME_REPEATED = "name_repeated"
    NAME_SPLIT = "name_split"
    ARGUMENTS_REPEATED = "arguments_repeated"
    ARGUMENTS_CUMULATIVE = "arguments_cumulative"
    ARGUMENTS_PLACEHOLDER = "arguments_placeholder"
    ARGUMENTS_OBJECT = "arguments_object"
    TEXT_AFTER_OBJECT = "text_after_object"
    TEXT_AFTER_RELEASE = "text_after_release"
    AFTER_END = "after_end"
    LIMIT_REACHED = "limit_reached"
    """The output tokens equal the request's limit, and the finish reason says something else."""
    CALL_AS_TEXT = "call_as_text"
    CALL_QUOTED = "call_quoted"
    MARKUP_UNREAD = "markup_unread"
    """Marks of a format stay in the text, and no call was read after them."""


# ── What happened to the arguments ──────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Repair:
    """A recorded change that made raw arguments valid."""

    kind: str
    """The kind of repair: `trailing_comma`, `strip_fence`, …"""
    before: str
    after: str
    safe: bool = True
    """An unsafe repair invents what is missing. It serves previews and never reaches a `Call`."""


@dataclass(frozen=True, slots=True)
class Coercion:
    """A recorded change of one value to the type that its schema asks for."""

    path: str
    before: JSON
    after: JSON


@dataclass(frozen=True, slots=True)
class Problem:
    """One way in which arguments break the schema."""

    path: str
    """A JSON path: `$.days[0]`."""
    kind: str
    """The schema keyword that failed: `required`, `type`, `enum`, `duplicate_key`, …"""
    message: str
    received: str
    """The received value as JSON, cut to 200 characters."""
    expected: str


# ── Calls and rejections ────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A complete request to run one tool. It cannot be built from partial arguments."""

    id: str
    """Unique over the conversation."""
    name: str
    arguments: Mapping[str, Any]
    """JSON values that fit the tool's schema."""
    raw: str
    """The text of the arguments before parsing."""
    evidence: Evidence
    number: int = 0
    """Its place among the calls of the turn, from 0."""
    provider_id: str | None = None
    """The id as the provider sent it."""
    extras: Mapping[str, Any] = field(default_factory=dict)
    """Fields that the provider wants back with the call, such as thought signatures."""
    repairs: tuple[Repair, ...] = ()
    coercions: tuple[Coercion, ...] = ()
    dropped: tuple[str, ...] = ()
    """Parameters that the tool does not have. The result tells the model."""

    def __post_init__(self) -> None:
        if not isinstance(self.arguments, Mapping):
            raise TypeError(f"arguments of {self.name!r} are no object: {self.arguments!r}")
        whole = Evidence.CLOSED in self.evidence or Evidence.CONFIRMED in self.evidence
        if not whole:
            raise ValueError(f"call of {self.name!r} is not proven whole: {self.evidence!r}")
        if not all(repair.safe for repair in self.repairs):
            raise ValueError(f"call of {self.name!r} rests on an unsafe repair")


def copy_call(call: Call) -> Call:
    """Return the same call with a copy of its arguments, for readers that must not change what
    runs."""
    return replace(call, arguments=_copy_json(call.arguments))


def _copy_json(value: Any) -> Any:
    """Copy the objects and lists of a value; all else in it cannot be changed."""
    if isinstance(value, dict):
        return {name: _copy_json(each) for name, each in value.items()}
    return [_copy_json(each) for each in value] if isinstance(value, list) else value


class Rejected(Value, frozen=True, kw_only=True):
    """A draft that ended without becoming a call, and why."""

    reason: Reason
    detail: str
    """One sentence for people and models, without internals."""
    name: str | None = None
    id: str = ""
    raw: str = ""
    number: int = 0
    provider_id: str | None = None
    extras: Mapping[str, Any] = msgspec.field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


# ── Deltas ──────────────────────────────────────────────────────────────────────────


class CallDelta(Value, frozen=True):
    """A piece of a call."""

    slot: Slot | None = None
    arguments: str | Mapping[str, JSON] | None = None
    """A piece of the text, or an object where the provider sends objects."""
    name: str | None = None
    id: str | None = None
    opens: bool = False
    """The protocol itself says that a new call begins here."""
    extras: Mapping[str, Any] | None = None
    guessed: bool = False
    """Only the end of a text shows that this is a call, or that nothing of it is missing."""


class CallPieces(CallDelta, frozen=True):
    """Consecutive pieces of one call, with nothing but arguments in them.

    Equivalent to a `CallDelta` for each, at a fraction of the cost.
    """

    pieces: tuple[str, ...] = ()


class CallSealed(Value, frozen=True):
    """The protocol says that the call in this slot is over."""

    slot: Slot | None = None
    arguments: str | None = None
    """The whole text of the arguments, where the protocol sends it once more at the end."""
    flaw: str = ""
    """Why it cannot become a call, in words: the markup around its arguments is broken."""
    reason: Reason = Reason.BAD_MARKUP
    """The reason, if there is a flaw."""
    written: bool = False
    """The call is part of a text: how the text was cut into pieces says nothing about its
    arguments."""


class Followed(Value, frozen=True):
    """The answer went on after its last call: with words, or with a block of the provider's."""


class HintGiven(Value, frozen=True):
    """The upstream's finish reason, in our word and in its own."""

    hint: Hint
    native: str


class LimitReached(HintGiven, frozen=True):
    """The answer has as many output tokens as the request allowed.

    So it was cut off, whatever its finish reason says: some servers close a cut call and
    report `tool_calls`.
    """

    hint: Hint = Hint.LENGTH
    native: str = ""


class Terminated(Value, frozen=True):
    """The protocol's own end of the turn: `[DONE]`, `message_stop`, `response.completed`.

    Nothing after it belongs to the answer.
    """

    closes: bool = True
    """False for a protocol without such an end: there the finish reason takes its place, and some
    servers send one with every chunk."""


class Text(Value, frozen=True):
    """A piece of the answer."""

    text: str


class Reasoning(Value, frozen=True):
    """A piece of the model's reasoning, or what the provider wants back with it.

    Without text, its extras may also belong to the text before it: citations, log probabilities.
    """

    text: str
    extras: Mapping[str, Any] = msgspec.field(default_factory=dict)


class ProviderBlock(Value, frozen=True):
    """A part of the answer that the provider itself acted on (a server tool and its result).

    It is never a call for us to run; it is kept because the provider wants it back.
    """

    native: Mapping[str, Any]


class Usage(Value, frozen=True):
    """Tokens spent so far in this turn, with the provider's own figures."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    native: Mapping[str, Any] = msgspec.field(default_factory=dict)


class Fault(Value, frozen=True):
    """The stream itself failed. Nothing that is not yet released will be."""

    kind: FaultKind
    message: str
    native: Mapping[str, Any] = msgspec.field(default_factory=dict)


Delta: TypeAlias = (
    CallDelta
    | CallPieces
    | CallSealed
    | Followed
    | HintGiven
    | Terminated
    | Text
    | Reasoning
    | ProviderBlock
    | Usage
    | Fault
)


# ── Events ──────────────────────────────────────────────────────────────────────────


class Opened(Value, frozen=True):
    """A call is being built; its name is known."""

    number: int
    id: str
    name: str


class Grew(Value, frozen=True):
    """The arguments of a call grew by this text."""

    number: int
    text: str


class Proved(Value, frozen=True):
    """A call gained evidence. `evidence` is all that it has now."""

    number: int
    evidence: Evidence


class Released(Value, frozen=True):
    """A call may run now. Each call is released once."""

    call: Call


class Repeated(Value, frozen=True):
    """A draft turned out to be the same call sent again, and was dropped."""

    number: int
    of: int


class Inconsistent(Value, frozen=True):
    """Something about the stream was strange although it could be read."""

    oddity: Oddity
    detail: str = ""
    number: int | None = None


class Ended(Value, frozen=True):
    """The turn is over."""

    finish_reason: str | None
    """The finish reason for what was really delivered, in OpenAI's words; None if the stream was
    cut."""
    hint: Hint | None
    native: str | None
    """The upstream's own finish reason."""
    error: str | None


_Part = TypeVar("_Part")


class OfChoice(Value, Generic[_Part], frozen=True):
    """A delta or an event of another choice than the first (`n` > 1)."""

    choice: int
    value: _Part


Event: TypeAlias = (
    Opened
    | Grew
    | Proved
    | Released
    | Rejected
    | Repeated
    | Text
    | Reasoning
    | ProviderBlock
    | Usage
    | HintGiven
    | Inconsistent
    | Fault
    | Ended
    | OfChoice[Any]
)


# ── The outcome of a turn ────────────────────────────────────────────────────────────


FIGURES = 256
"""Names of figures that are kept over the chunks of one answer. Providers have a dozen; with more,
those of the last chunk are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a turn. `calls` is exactly what may be executed, in call order."""

    calls: tuple[Call, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    text: str = ""
    reasoning: str = ""
    finish_reason: str | None = None
    """The finish reason for what was really delivered: `tool_calls`, `stop`, `length`,
    `content_filter`."""
    native_finish_reason: str | None = None
    """The upstream's own word."""
    error: str | None = None
    """None, or in one word what went wrong with the stream."""
    usage: Usage | None = None
    inconsistencies: tuple[Inconsistent, ...] = ()
    reasoning_extras: tuple[Mapping[str, Any], ...] = ()
    """Signatures and encrypted reasoning that the provider wants back."""
    provider_blocks: tuple[Mapping[str, Any], ...] = ()
    choices: Mapping[int, Outcome] = field(default_factory=dict)
    """The other choices of an answer with `n` > 1, by their index."""


def collect(events: Iterable[Event]) -> Outcome:
    """Fold the events of one turn."""
    fold = _Fold()
    for event in events:
        fold.add(event)
    return fold.outcome()


def merge_usage(before: Usage | None, usage: Usage) -> Usage:
    """Later figures win; what they leave out is kept (Anthropic sends the input first)."""
    if before is None:
        return usage
    native = {**before.native, **usage.native}
    return Usage(
        before.input_tokens if usage.input_tokens is None else usage.input_tokens,
        before.output_tokens if usage.output_tokens is None else usage.output_tokens,
        native if len(native) <= FIGURES else usage.native,
    )


class _Fold:
    def __init__(self) -> None:
        self._calls: list[Call] = []
        self._rejected: list[Rejected] = []
        self._texts: list[str] = []
        self._reasoning: list[Reasoning] = []
        self._blocks: list[Mapping[str, Any]] = []
        self._odd: list[Inconsistent] = []
        self._usage: Usage | None = None
        self._ended = Ended(None, None, None, None)
        self._choices: dict[int, _Fold] = {}

    def add(self, event: Event) -> None:
        take = _TAKE.get(type(event))
        if take is not None:
            take(self, event)

    def outcome(self) -> Outcome:
        return Outcome(
            calls=tuple(sorted(self._calls, key=lambda call: call.number)),
            rejected=tuple(sorted(self._rejected, key=lambda rejected: rejected.number)),
            text="".join(self._texts),
            reasoning="".join(piece.text for piece in self._reasoning),
            finish_reason=self._ended.finish_reason,
            native_finish_reason=self._ended.native,
            error=self._ended.error,
            usage=self._usage,
            inconsistencies=tuple(self._odd),
            reasoning_extras=tuple(piece.extras for piece in self._reasoning if piece.extras),
            provider_blocks=tuple(self._blocks),
            choices={index: fold.outcome() for index, fold in self._choices.items()},
        )

    def _take_usage(self, usage: Usage) -> None:
        self._usage = merge_usage(self._usage, usage)

    def _take_ended(self, ended: Ended) -> None:
        self._ended = ended

    def _take_choice(self, of_choice: OfChoice[Event]) -> None:
        self._choices.setdefault(of_choice.choice, _Fold()).add(of_choice.value)


_TAKE: dict[type[Event], Callable[[_Fold, Any], None]] = {
    Released: lambda fold, event: fold._calls.append(event.call),
    Rejected: lambda fold, event: fold._rejected.append(event),
    Text: lambda fold, event: fold._texts.append(event.text),
    Reasoning: lambda fold, event: fold._reasoning.append(event),
    ProviderBlock: lambda fold, event: fold._blocks.append(event.native),
    Usage: _Fold._take_usage,
    Inconsistent: lambda fold, event: fold._odd.append(event),
    Ended: _Fold._take_ended,
    OfChoice: _Fold._take_choice,
}
