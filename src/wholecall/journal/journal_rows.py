"""The rows of a run, and the values in them as JSON.

| key                    | when it is written                                             |
|------------------------|----------------------------------------------------------------|
| `intent <turn> <call>` | before a tool begins; the second time it is `<turn>.2`         |
| `result <call>`        | a call has its result                                          |
| `late <call>`          | a result that came after another one had counted               |
| `answer <turn>`        | the answer of a turn was accepted                              |
| `turn <turn>`          | the turn is over: the state of the loop                        |
| `ask <call>`           | a person has to say what became of a call                      |
| `decision <call>`      | the decision; the first one counts                             |
| `approval_ask <call>`  | a person has to approve a call before it begins                |
| `approval <call>`      | the decision; the first one counts                             |
| … `<call>?<number>`    | the same of what a tool asks the user while it runs            |
| `release <epoch>`      | an operator let a run that waited go on                        |
| `end`                  | the run is over, with its result or its error                  |
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec

from wholecall.errors import WholecallError
from wholecall.events import (
    Call,
    Coercion,
    Evidence,
    Outcome,
    Reasoning,
    Rejected,
    Repair,
    Text,
    Usage,
)
from wholecall.messages import (
    CallResult,
    Choice,
    Media,
    Message,
    Native,
    Part,
    PastCall,
    Result,
    Role,
)
from wholecall.protocols.decoder import plain
from wholecall.protocols.history import past_call

VERSION = 1
"""Of the rows. A row of another version makes its run `broken`; the others go on."""
_ENCODER = msgspec.json.Encoder()
_Row = TypeVar("_Row")
_Structured = list[Any]
WrittenCall: TypeAlias = Any
"""A call, and what `read_call` reads after it was written."""


OUTCOMES = ("done", "not_done", "rerun")
"""What a person may say of a call that had begun before a crash."""
APPROVALS = ("approve", "deny")
ANSWERS = ("accept", "decline")
"""What the user may say to what a tool asks."""
CANCEL = "cancel"
"""There was no answer."""


class BrokenRow(WholecallError, ValueError):
    """A row of a run is damaged, or of a version that is not known here."""


class PlanRow(msgspec.Struct):
    """The model, the messages and the options of a run."""

    model: str
    messages: _Structured
    options: dict[str, Any] = {}
    version: int = VERSION


class IntentRow(msgspec.Struct):
    """A tool is about to begin."""

    call: WrittenCall
    attempt: int = 1
    parts: _Structured = []
    """The answer as far as it was read: the call may begin before the answer ends."""
    version: int = VERSION


class ResultRow(msgspec.Struct):
    """The result of a call."""

    call: WrittenCall
    status: str
    result: _Structured
    seconds: float = 0.0
    version: int = VERSION


class AnswerRow(msgspec.Struct):
    """An accepted answer of the model."""

    messages: _Structured
    """Those since the last turn; the last one is the answer."""
    calls: Sequence[WrittenCall] = ()
    rejected: tuple[Rejected, ...] = ()
    text: str = ""
    finish_reason: str | None = None
    native_finish_reason: str | None = None
    version: int = VERSION


class GuardState(msgspec.Struct):
    """The counts of the guard."""

    calls: int = 0
    stuck: bool = False
    identical: dict[str, int] = {}
    failures: dict[str, int] = {}


class TurnRow(msgspec.Struct, kw_only=True):
    """The state of the loop after a turn."""

    messages: _Structured
    """Those that the turn added after its answer."""
    ended: list[str]
    """The ids of the calls that got their results in this turn."""
    turns: int
    usage: Usage
    guard: GuardState
    choice: Choice
    max_tokens: int | None
    texts: list[str]
    reminders: int
    seconds: float
    is_whole: bool = True
    """False if the messages follow those of the `answer` row."""
    version: int = VERSION


class EndRow(msgspec.Struct):
    """The end of a run."""

    stop: str = ""
    no_answer: str = ""
    error: str = ""
    """The reason of a run that failed."""
    text: str = ""
    """What the model said last, if the run failed."""
    pending: Sequence[WrittenCall] = ()
    version: int = VERSION


class AskRow(msgspec.Struct):
    """A person has to decide about a call."""

    call: WrittenCall
    until: float = 0.0
    """When no decision is awaited any more, in seconds since 1970; 0: it is awaited for ever."""
    request_id: str = ""
    """Of the request that began the run."""
    elicitation: dict[str, Any] | None = None
    """What the tool of the call asks the user."""
    version: int = VERSION


class DecisionRow(msgspec.Struct):
    """A person's decision about a call."""

    decision: str
    """One of `OUTCOMES`; of an approval one of `APPROVALS`; of an elicitation one of `ANSWERS`."""
    why: str = ""
    content: dict[str, Any] | None = None
    """The form, as the user filled it in."""
    version: int = VERSION


def encode_row(row: object) -> bytes:
    """Write a row and all values in it. Integers keep their digits, and lone surrogates survive."""
    try:
        return _ENCODER.encode(row)  # a tenth of the other way's time
    except (ValueError, TypeError):
        return json.dumps(plain(row), separators=(",", ":")).encode()


def decode_row(kind: type[_Row], body: bytes) -> _Row:
    """Read a row; `BrokenRow` if that is not possible."""
    try:
        fields = json.loads(body)
        version = fields["version"]
        row = msgspec.convert(fields, kind) if version == VERSION else None
    except (ValueError, TypeError, LookupError, msgspec.MsgspecError) as error:
        raise BrokenRow(f"a {kind.__name__} cannot be read: {error}") from error
    if row is None:
        raise BrokenRow(f"a {kind.__name__} has the version {version!r}, not {VERSION}")
    return row


# ── Calls ───────────────────────────────────────────────────────────────────────────


def read_call(body: Mapping[str, Any]) -> Call:
    """Read a call that a row holds; `BrokenRow` if it is something else."""
    try:
        changed = {
            "evidence": Evidence(body["evidence"]),
            "repairs": tuple(Repair(**each) for each in body["repairs"]),
            "coercions": tuple(Coercion(**each) for each in body["coercions"]),
            "dropped": tuple(body["dropped"]),
        }
        return Call(**{**body, **changed})
    except (ValueError, TypeError, LookupError) as error:
        raise BrokenRow(f"a call cannot be read: {error}") from error


def read_outcome(row: AnswerRow) -> Outcome:
    """Return the outcome of a turn, as far as the loop needs it."""
    return Outcome(
        calls=tuple(map(read_call, row.calls)),
        rejected=row.rejected,
        text=row.text,
        finish_reason=row.finish_reason,
        native_finish_reason=row.native_finish_reason,
    )


# ── Messages ────────────────────────────────────────────────────────────────────────

_KINDS: Mapping[str, Callable[..., Part]] = {
    kind.__name__: kind for kind in (Text, Reasoning, Media, Native, PastCall)
}


def write_messages(messages: Iterable[Message], *, native: bool = False) -> _Structured:
    """Return messages as values for `encode_row`. `native` keeps what they were read from, too."""
    return [_write_message(message, native=native) for message in messages]


def _write_message(message: Message, *, native: bool) -> _Structured:
    origin = message.native if native else None
    parts = write_parts(message.parts)
    return [message.role.value, parts, None if origin is None else _write(origin)]


def read_messages(rows: Iterable[Any]) -> tuple[Message, ...]:
    """Read what `write_messages` wrote; `BrokenRow` if it is something else."""
    try:
        return tuple(_read_message(*row) for row in rows)
    except (ValueError, TypeError, LookupError) as error:
        raise BrokenRow(f"a message cannot be read: {error}") from error


def _read_message(role: str, parts: _Structured, native: Any = None) -> Message:  # noqa: PLR0917 - the fields of a row
    origin = None if native is None else _read(*native)
    if isinstance(origin, Native) and isinstance(origin.value, list):
        origin = Native(origin.protocol, tuple(origin.value))
    return Message(Role(role), read_parts(parts), origin)


def write_parts(parts: Iterable[Part]) -> _Structured:
    """Return the parts of a message as values for `encode_row`."""
    return [_write(part) for part in parts]


def read_parts(parts: Iterable[Any]) -> tuple[Part, ...]:
    """Read what `write_parts` wrote."""
    return tuple(_read(*part) for part in parts)


def write_result(result: Result) -> _Structured:
    """Return a result as values for `encode_row`."""
    return [result.failed, [_write(piece) for piece in result.content], result.structured]


def read_result(body: Iterable[Any]) -> Result:
    """Read what `write_result` wrote; `BrokenRow` if it is something else."""
    try:
        failed, pieces, *structured = body  # older ones have no value
        content = tuple(_read(*piece) for piece in pieces)
    except (ValueError, TypeError, LookupError) as error:
        raise BrokenRow(f"a result cannot be read: {error}") from error
    return Result(content, failed, *structured)


def _write(part: Part) -> _Structured:
    if isinstance(part, CallResult):
        return ["CallResult", [part.call_id, part.name, *write_result(part.result)]]
    return [type(part).__name__, part]


def _read(kind: str, fields: Any) -> Any:
    if kind != "CallResult":
        fields.pop("type", None)  # the mark of some, which says the same
        return _KINDS[kind](**fields)
    call_id, name, *result = fields
    return CallResult(call_id=call_id, name=name, result=read_result(result))


# ── Restore a run ─────────────────────────────────────────────────────────────────────
#
# The loop's state after a turn is small data, so a run is restored, and nothing is replayed:
#
# 1. The messages of the finished turns; budget, guard and choice from the last `turn` row.
# 2. An `answer` without its `turn`: its calls start again. Each finds its result (it is recalled),
#    an intent (`on_crash` decides), or nothing (it begins).
# 3. No answer, but intents: calls had begun while the answer was read. The answer is what had been
#    read and these calls; the model continues from there.
# 4. Nothing begun: the turn is requested again.


_ROW_TYPES: Mapping[str, type] = {
    "intent": IntentRow,
    "result": ResultRow,
    "answer": AnswerRow,
    "turn": TurnRow,
    "decision": DecisionRow,
    "approval": DecisionRow,
    "end": EndRow,
}

ASKING: Mapping[str, str] = {"ask": "decision", "approval_ask": "approval"}
"""The rows in which a person is asked, each with the row of the decision."""


class Row(NamedTuple):
    """A row as a store holds it."""

    key: str
    body: bytes
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class RecalledCall:
    """A call whose result is in the journal."""

    call: Call
    status: str
    result: Result
    seconds: float


@dataclass(frozen=True, slots=True)
class OpenAnswer:
    """An answer whose turn is not over."""

    outcome: Outcome
    messages: tuple[Message, ...]
    """Those since the last turn; the last one is the answer."""


@dataclass(slots=True)
class Restored:
    """A run as its rows tell it."""

    rows: int = 0
    messages: tuple[Message, ...] = ()
    state: TurnRow | None = None
    ended: tuple[RecalledCall, ...] = ()
    """The calls of the finished turns."""
    open_answer: OpenAnswer | None = None
    is_answered: bool = False
    """True if the open answer is in a row of its own."""
    intents: dict[str, Call] = field(default_factory=dict)
    """The calls that have begun, by their ids."""
    attempts: dict[str, int] = field(default_factory=dict)
    results: dict[str, RecalledCall] = field(default_factory=dict)
    asked: dict[str, AskRow] = field(default_factory=dict)
    """What people were asked, by the keys of the rows."""
    decisions: dict[str, DecisionRow] = field(default_factory=dict)
    approvals: dict[str, DecisionRow] = field(default_factory=dict)
    """The decisions about calls that had to be approved."""
    end: EndRow | None = None

    @property
    def turns(self) -> int:
        """The number of finished turns."""
        return 0 if self.state is None else self.state.turns

    @property
    def ids(self) -> set[str]:
        """The ids that calls of this run have, none of which may be given again."""
        parts = (part for message in self.messages for part in message.parts)
        past = {part.id for part in parts if isinstance(part, PastCall)}
        answer = self.open_answer
        asked = () if answer is None else answer.outcome.calls
        return past | self.intents.keys() | self.results.keys() | {call.id for call in asked}


def restore(rows: Iterable[Row]) -> Restored:
    """Read the rows of a run; `BrokenRow` if one of them cannot be read."""
    restored = Restored()
    found: dict[str, list[tuple[str, Any]]] = {kind: [] for kind in _ROW_TYPES}
    for row in rows:
        restored.rows += 1
        kind, _, name = row.key.partition(" ")
        if kind in _ROW_TYPES:
            found[kind].append((name, decode_row(_ROW_TYPES[kind], row.body)))
        elif kind in ASKING:
            restored.asked[row.key] = decode_row(AskRow, row.body)
    restored.end = found["end"][0][1] if found["end"] else None
    restored.decisions, restored.approvals = dict(found["decision"]), dict(found["approval"])
    restored.results = {name: _read_recalled(row) for name, row in found["result"]}
    answers = dict(found["answer"])
    _take_turns(restored, sorted(found["turn"], key=_number), answers=answers)
    intents = sorted(found["intent"], key=_number)
    _take_intents(restored, [row for _, row in intents])
    number = restored.turns + 1
    answer = answers.get(str(number))
    begun = [row for name, row in intents if _number((name, row)) == number]
    if answer is not None:
        restored.open_answer = OpenAnswer(read_outcome(answer), read_messages(answer.messages))
        restored.is_answered = True
    elif begun:
        restored.open_answer = _answer_from(begun)
    return restored


def _number(named: tuple[str, object]) -> int:
    """Return the turn that a row belongs to."""
    return int(named[0].split(" ")[0].split(".")[0])


def _take_turns(
    restored: Restored, turns: Sequence[tuple[str, TurnRow]], *, answers: Mapping[str, AnswerRow]
) -> None:
    written: list[Any] = []
    for name, turn in turns:
        if not turn.is_whole and name not in answers:
            raise BrokenRow(f"the turn {name} has no answer")
        written += [] if turn.is_whole else answers[name].messages
        written += turn.messages
    restored.messages = read_messages(written)
    restored.state = turns[-1][1] if turns else None
    ended = (id for _, turn in turns for id in turn.ended)
    restored.ended = tuple(restored.results[id] for id in ended if id in restored.results)


def _take_intents(restored: Restored, intents: Sequence[IntentRow]) -> None:
    for intent in intents:
        call = read_call(intent.call)
        restored.intents[call.id] = call
        restored.attempts[call.id] = max(intent.attempt, restored.attempts.get(call.id, 0))


def _read_recalled(row: ResultRow) -> RecalledCall:
    return RecalledCall(read_call(row.call), row.status, read_result(row.result), row.seconds)


def _answer_from(intents: Sequence[IntentRow]) -> OpenAnswer:
    """Make an answer of what had begun when it was cut: the rest of it was never read."""
    begun = {call.id: call for call in (read_call(intent.call) for intent in intents)}
    longest = max(intents, key=lambda intent: len(intent.parts))
    read: tuple[Part, ...] = read_parts(longest.parts)
    parts = [part for part in read if not isinstance(part, PastCall) or part.id in begun]
    there = {part.id for part in parts if isinstance(part, PastCall)}
    calls = sorted(begun.values(), key=lambda call: call.number)
    parts += [past_call(call) for call in calls if call.id not in there]
    text = "".join(part.text for part in parts if isinstance(part, Text))
    outcome = Outcome(calls=tuple(calls), text=text, finish_reason="tool_calls")
    return OpenAnswer(outcome, (Message(Role.ASSISTANT, tuple(parts)),))
