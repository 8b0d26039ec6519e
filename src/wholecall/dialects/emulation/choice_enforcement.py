"""The choice enforced: what an answer may not call is not released.

Upstreams promise to keep a choice, and not all of them do; a model that is prompted
promises nothing. So released calls go through a gate. What it refuses becomes a rejection
with words for the model, and the turn's end says what was really delivered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from wholecall.events import (
    Call,
    Delta,
    Ended,
    Event,
    Hint,
    Opened,
    Outcome,
    Reason,
    Rejected,
    Released,
    Repeated,
)
from wholecall.messages import Choice, Mode, obeyed
from wholecall.protocols.reader import TurnAssembler

MOST_TIMES_ASKED = 2
"""Retries for an answer that obeys the choice, or that has the required form. A model that refuses
twice does not obey the third time."""


class ChoiceRefusal(NamedTuple):
    """The reason why a whole call must not run."""

    reason: Reason
    detail: str


PLANNED = ChoiceRefusal(
    Reason.BAD_MARKUP, "the call stood inside of reasoning, which is no place to call from"
)
_SILENCE = ChoiceRefusal(Reason.UNKNOWN_TOOL, "no tool may be called in this answer")
_ONE_AT_A_TIME = ChoiceRefusal(
    Reason.LIMIT, "only one call may stand in an answer, and this was not the first"
)


class ChoiceGate:
    """Lets the calls of one answer pass, or refuses them."""

    def __init__(self, choice: Choice) -> None:
        self._choice = choice
        self._open: set[int] = set()
        self._refused: dict[int, ChoiceRefusal] = {}
        self._count = 0

    @property
    def passed(self) -> bool:
        """True if a call has been let through."""
        return self._count > 0

    def refuse(self, number: int, refusal: ChoiceRefusal) -> None:
        """Let this call not pass, if it ever comes to be released."""
        self._refused.setdefault(number, refusal)

    def judge(self, event: Event) -> Event:
        """Return the event as the client may see it."""
        judge = _JUDGES.get(type(event))
        return event if judge is None else judge(self, event)

    def _opened(self, event: Opened) -> Event:
        self._open.add(event.number)
        return event

    def _settled(self, event: Rejected | Repeated) -> Event:
        self._open.discard(event.number)
        return event

    def _released(self, event: Released) -> Event:
        call = event.call
        self._open.discard(call.number)
        refusal = self._refused.get(call.number) or self._breach(call)
        if refusal is not None:
            return reject(call, refusal)
        self._count += 1
        return event

    def _breach(self, call: Call) -> ChoiceRefusal | None:
        choice = self._choice
        if choice.mode is Mode.NONE:
            return _SILENCE
        allowed = (*choice.names, *(special.name for special in choice.specials))
        if allowed and call.name not in allowed:
            return ChoiceRefusal(Reason.UNKNOWN_TOOL, f"only {_list(allowed)} may be called here")
        # A call that is still being built comes before this one, and counts as the first.
        first = not self.passed and not any(number < call.number for number in self._open)
        return None if choice.parallel or first else _ONE_AT_A_TIME

    def _ended(self, event: Ended) -> Event:
        """No call passed: then none was delivered, whatever the assembler released."""
        if event.finish_reason != "tool_calls" or self.passed:
            return event
        reason = "length" if event.hint is Hint.LENGTH else "stop"
        return msgspec.structs.replace(event, finish_reason=reason)


_JUDGES: dict[type[Event], Callable[[ChoiceGate, Any], Event]] = {
    Opened: ChoiceGate._opened,
    Rejected: ChoiceGate._settled,
    Repeated: ChoiceGate._settled,
    Released: ChoiceGate._released,
    Ended: ChoiceGate._ended,
}
JUDGED = frozenset(_JUDGES)
"""The events that a gate may change, or learns from. Others pass."""


class EnforcingAssembler:
    """An assembler whose calls pass a gate."""

    def __init__(self, choice: Choice, assembler: TurnAssembler) -> None:
        self._gate = ChoiceGate(choice)
        self._assembler = assembler

    def feed(self, delta: Delta) -> list[Event]:
        """Process one delta; return the events that it caused."""
        return [self._gate.judge(event) for event in self._assembler.feed(delta)]

    def end(self) -> list[Event]:
        """Settle every draft."""
        return [self._gate.judge(event) for event in self._assembler.end()]


def ask_again(choice: Choice, outcome: Outcome) -> str | None:
    """Return the request to a model whose answer violated the choice; None if the answer can be
    used.

    If a call may run, or the model learns about its mistake from a result, the run continues
    anyway. The model is asked again if it had to call and did not, and if it made only forbidden
    calls. At most `MOST_TIMES_ASKED` times: a run respects that, and so should callers of this
    function.
    """
    if outcome.calls or outcome.error is not None:
        return None
    if choice.mode is Mode.NONE and outcome.text.strip():
        return None
    breach = obeyed(choice, outcome.rejected)
    return None if breach is None else breach.message


def _list(names: Iterable[str]) -> str:
    return " or ".join(repr(name) for name in names if name) or "the upstream's own tools"


def reject(call: Call, refusal: ChoiceRefusal) -> Rejected:
    """Reject a call that must not run."""
    return Rejected(
        reason=refusal.reason,
        detail=refusal.detail,
        name=call.name,
        id=call.id,
        raw=call.raw,
        number=call.number,
        provider_id=call.provider_id,
        extras=call.extras,
    )
