"""Restore a run from its rows.

The loop's state after a turn is small data, so a run is restored, and nothing is replayed:

1. The messages of the finished turns; budget, guard and choice from the last `turn` row.
2. An `answer` without its `turn`: its calls start again. Each finds its result (it is recalled), an
   intent (`on_crash` decides), or nothing (it begins).
3. No answer, but intents: calls had begun while the answer was read. The answer is what had been
   read and these calls; the model continues from there.
4. Nothing begun: the turn is requested again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from wholecall.events import Call, Outcome, Text
from wholecall.journal.journal_rows import (
    AnswerRow,
    AskRow,
    DecisionRow,
    EndRow,
    IntentRow,
    ResultRow,
    TurnRow,
    decode_row,
    read_call,
    read_messages,
    read_outcome,
    read_parts,
    read_result,
)
from wholecall.messages import Message, Part, PastCall, Result, Role
from wholecall.protocols.history import past_call

_KINDS: Mapping[str, type] = {
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
    found: dict[str, list[tuple[str, Any]]] = {kind: [] for kind in _KINDS}
    for row in rows:
        restored.rows += 1
        kind, _, name = row.key.partition(" ")
        if kind in _KINDS:
            found[kind].append((name, decode_row(_KINDS[kind], row.body)))
        elif kind in ASKING:
            restored.asked[row.key] = decode_row(AskRow, row.body)
    restored.end = found["end"][0][1] if found["end"] else None
    restored.decisions, restored.approvals = dict(found["decision"]), dict(found["approval"])
    restored.results = {name: _read_recalled(row) for name, row in found["result"]}
    _take_turns(restored, [row for _, row in sorted(found["turn"], key=_number)])
    intents = sorted(found["intent"], key=_number)
    _take_intents(restored, [row for _, row in intents])
    number = restored.turns + 1
    answer = dict(found["answer"]).get(str(number))
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


def _take_turns(restored: Restored, turns: Sequence[TurnRow]) -> None:
    restored.messages = tuple(msg for turn in turns for msg in read_messages(turn.messages))
    restored.state = turns[-1] if turns else None
    ended = (id for turn in turns for id in turn.ended)
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
