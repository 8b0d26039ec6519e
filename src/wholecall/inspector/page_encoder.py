"""Events as the page reads them.

Whatever may hold a number of more than 53 bits (arguments, values before and after a change,
progress) is sent as text: JavaScript would round it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeAlias

from wholecall.agent.run_events import (
    ApprovalAnswered,
    ApprovalAsked,
    RunEnded,
    ToolAbandoned,
    ToolEnded,
    ToolEndedLate,
    ToolReported,
    ToolStarted,
    TurnRetried,
    TurnStarted,
)
from wholecall.events import (
    JSON,
    Call,
    Coercion,
    Ended,
    Evidence,
    Fault,
    HintGiven,
    Inconsistent,
    Opened,
    Problem,
    Proved,
    Rejected,
    Released,
    Repair,
    Repeated,
    Usage,
)
from wholecall.inspector import page_events
from wholecall.inspector.page_events import PageEvent
from wholecall.messages import CallResult, Message, PastCall, Request, ToolSpec

Fields: TypeAlias = dict[str, Any]
"""An object of JSON."""

MOST_CHARACTERS = 256 * 1024
"""Per text. Arguments and results beyond this size are not readable."""
MOST_MESSAGES = 40
"""Of one request that are shown: the last ones."""
MOST_NAMES = 1024
"""Names that are cached."""
_TICKS = 1_000_000
"""Per second: times are whole numbers of ticks."""
_NAME = re.compile(r"[\w.:/@*-]{1,128}")


class Hides(Protocol):
    """Knows secrets."""

    def hide(self, text: str) -> str:
        """A text without secrets."""

    def tail(self, text: str) -> str:
        """Return the end of a text: a secret may begin in it and continue after it."""

    def finds_in(self, texts: Sequence[str]) -> bool:
        """Return True if a secret is in one of many texts, each of whole lines."""


class Plain:
    """Knows none."""

    def hide(self, text: str) -> str:
        """The text as it is."""
        return text

    def tail(self, _: str) -> str:
        """Nothing has begun."""
        return ""

    def finds_in(self, _: Sequence[str]) -> bool:
        """Return False: no secrets are known."""
        return False


class Quoting(NamedTuple):
    """The rules for quoting content."""

    bodies: bool
    """True if texts, arguments and results may be shown at all."""
    hides: Hides
    """Takes secrets out of texts."""
    names: dict[str, str] | None = None
    """Redacted names by their original; None: no cache. To be cleared when the secrets change."""

    def quote(self, text: str) -> str:
        """A text, if it may be shown."""
        return self.clean(text) if self.bodies else ""

    def clean(self, text: str) -> str:
        """A text without secrets and without halves of characters, which UTF-8 does not have."""
        if not text:
            return ""
        left_out = len(text) - MOST_CHARACTERS
        if left_out > 0:
            text = f"{text[:MOST_CHARACTERS]} … and {left_out} more characters"
        if not text.isascii():
            text = text.encode("utf-8", "replace").decode()
        return self.hides.hide(text)

    def name(self, text: str | None) -> str:
        """Redact a name. The same few occur again and again."""
        if not text:
            return ""
        if self.names is None:
            return self._check_name(text)
        known = self.names.get(text)
        if known is None:
            if len(self.names) >= MOST_NAMES:
                self.names.clear()
            known = self.names[text] = self._check_name(text)
        return known

    def _check_name(self, text: str) -> str:
        """Models write whole sentences where names should stand."""
        if self.bodies or _NAME.fullmatch(text):
            return self.clean(text)
        return f"({len(text)} characters that are no name)"

    def value(self, value: JSON) -> str:
        """A value as JSON text, if it may be shown."""
        return self.quote(json.dumps(value, ensure_ascii=False)) if self.bodies else ""


Encoders: TypeAlias = Mapping[type, Callable[[Any, Quoting], PageEvent]]
"""The page's form of each type of event."""


def tell_seconds(seconds: float) -> float:
    """A time or duration without digits that say nothing. (`round` takes twice as long.)"""
    return int(seconds * _TICKS + 0.5) / _TICKS


def encode_event(event: object, quoting: Quoting) -> PageEvent | None:
    """An event for the page; None for those that it does not show."""
    encode = ENCODERS.get(type(event))
    return None if encode is None else encode(event, quoting)


# ── Calls ───────────────────────────────────────────────────────────────────────────


def _opened(event: Opened, quoting: Quoting) -> PageEvent:
    return page_events.PageOpened(event.number, quoting.clean(event.id), quoting.name(event.name))


def _proved(event: Proved, _: Quoting) -> PageEvent:
    return page_events.PageProved(event.number, _list_evidence(event.evidence))


def _released(event: Released, quoting: Quoting) -> PageEvent:
    call = event.call
    told = page_events.PageReleased(
        number=call.number,
        id=quoting.clean(call.id),
        name=quoting.name(call.name),
        evidence=_list_evidence(call.evidence),
        characters=len(call.raw),
        raw=quoting.quote(call.raw),
    )
    if call.repairs or call.coercions or call.dropped:
        told.arguments = quoting.value(dict(call.arguments))
        told.repairs = tuple([_repair(repair, quoting) for repair in call.repairs])
        told.coercions = tuple([_coercion(coercion, quoting) for coercion in call.coercions])
        told.dropped = tuple([quoting.name(name) for name in call.dropped])
    return told


def _rejected(event: Rejected, quoting: Quoting) -> PageEvent:
    return page_events.PageRejected(
        number=event.number,
        id=quoting.clean(event.id),
        name=quoting.name(event.name),
        reason=event.reason.value,
        detail=quoting.quote(event.detail),
        characters=len(event.raw),
        raw=quoting.quote(event.raw),
        problems=tuple([_problem(problem, quoting) for problem in event.problems]),
    )


def _repeated(event: Repeated, _: Quoting) -> PageEvent:
    return page_events.PageRepeated(event.number, event.of)


@cache
def _list_evidence(evidence: Evidence) -> Sequence[str]:
    return tuple(str(one.name) for one in evidence)


def _repair(repair: Repair, quoting: Quoting) -> page_events.PageChange:
    before, after = quoting.quote(repair.before), quoting.quote(repair.after)
    return page_events.PageChange(before, after, kind=repair.kind)


def _coercion(coercion: Coercion, quoting: Quoting) -> page_events.PageChange:
    before, after = quoting.value(coercion.before), quoting.value(coercion.after)
    return page_events.PageChange(before, after, path=quoting.name(coercion.path))


def _problem(problem: Problem, quoting: Quoting) -> page_events.PageProblem:
    return page_events.PageProblem(
        problem.kind,
        path=quoting.quote(problem.path),
        message=quoting.quote(problem.message),
        received=quoting.quote(problem.received),
        expected=quoting.quote(problem.expected),
    )


# ── Answers ─────────────────────────────────────────────────────────────────────────


def _usage(event: Usage, _: Quoting) -> PageEvent:
    return page_events.PageUsage(event.input_tokens, event.output_tokens)


def _hint(event: HintGiven, quoting: Quoting) -> PageEvent:
    return page_events.PageHint(event.hint.value, quoting.name(event.native))


def _odd(event: Inconsistent, quoting: Quoting) -> PageEvent:
    return page_events.PageOdd(event.oddity.value, quoting.quote(event.detail), event.number)


def _fault(event: Fault, quoting: Quoting) -> PageEvent:
    return page_events.PageFault(event.kind.value, quoting.quote(event.message))


def _ended(event: Ended, quoting: Quoting) -> PageEvent:
    return page_events.PageEnded(
        event.finish_reason, quoting.name(event.native), event.error or None
    )


def _turn(event: TurnStarted, _: Quoting) -> PageEvent:
    return page_events.PageTurn(event.turn)


def _turn_retried(event: TurnRetried, quoting: Quoting) -> PageEvent:
    return page_events.PageTurnRetried(event.turn, quoting.clean(event.why))


def _run_ended(event: RunEnded, quoting: Quoting) -> PageEvent:
    why = quoting.quote(event.no_answer)
    return page_events.PageRunEnded(event.stop.value, bool(event.no_answer), why)


# ── Tools ───────────────────────────────────────────────────────────────────────────


def _tool_started(event: ToolStarted, quoting: Quoting) -> PageEvent:
    return page_events.PageToolStarted(*_name_call(event.call, quoting), attempt=event.attempt)


def _tool_reported(event: ToolReported, quoting: Quoting) -> PageEvent:
    return page_events.PageToolReported(quoting.clean(event.call_id), quoting.value(event.progress))


def _tool_ended(event: ToolEnded, quoting: Quoting) -> PageEvent:
    return page_events.PageToolEnded(
        *_name_call(event.call, quoting),
        status=event.status.value,
        seconds=tell_seconds(event.seconds),
        error="" if event.error is None else type(event.error).__name__,
        result=quoting.quote(event.result.text),
    )


def _tool_ended_late(event: ToolEndedLate, quoting: Quoting) -> PageEvent:
    return page_events.PageToolEndedLate(
        *_name_call(event.call, quoting),
        status=event.status.value,
        seconds=tell_seconds(event.seconds),
        result=quoting.quote(event.result.text),
    )


def _tool_abandoned(event: ToolAbandoned, quoting: Quoting) -> PageEvent:
    return page_events.PageToolAbandoned(*_name_call(event.call, quoting))


def _approval_asked(event: ApprovalAsked, quoting: Quoting) -> PageEvent:
    return page_events.PageApprovalAsked(*_name_call(event.call, quoting))


def _approval_answered(event: ApprovalAnswered, quoting: Quoting) -> PageEvent:
    named, why = _name_call(event.call, quoting), quoting.quote(event.why)
    return page_events.PageApprovalAnswered(*named, approved=event.approved, why=why)


def _name_call(call: Call, quoting: Quoting) -> tuple[str, str]:
    return quoting.clean(call.id), quoting.name(call.name)


# ── Requests ────────────────────────────────────────────────────────────────────────


def encode_request(request: Request, quoting: Quoting, *, told: int = 0) -> page_events.PageAsked:
    """Encode the request. Its first `told` messages were shown before."""
    names = name_tools(request.tools, quoting)
    asked = encode_offer(names, len(request.messages), told=told)
    if quoting.bodies:
        messages = request.messages[asked.left_out :]
        asked.messages = tuple([_message(message, quoting) for message in messages])
    return asked


def encode_offer(tools: Sequence[str], messages: int, *, told: int = 0) -> page_events.PageAsked:
    """The same without its messages, of which there are so many."""
    before = told if told < messages else 0
    left_out = before + max(messages - before - MOST_MESSAGES, 0)
    return page_events.PageAsked(left_out, tools)


def name_tools(tools: Sequence[ToolSpec], quoting: Quoting) -> Sequence[str]:
    """The names of tools that a model is offered."""
    return tuple([quoting.name(tool.name) for tool in tools])


def _message(message: Message, quoting: Quoting) -> Fields:
    told: Fields = {"role": message.role.value, "text": quoting.quote(message.text)}
    calls = [_past_call(part, quoting) for part in message.parts if isinstance(part, PastCall)]
    results = [_result(part, quoting) for part in message.parts if isinstance(part, CallResult)]
    return {
        **told,
        **({"calls": calls} if calls else {}),
        **({"results": results} if results else {}),
    }


def _past_call(call: PastCall, quoting: Quoting) -> Fields:
    return {"name": quoting.name(call.name), "arguments": quoting.value(dict(call.arguments))}


def _result(result: CallResult, quoting: Quoting) -> Fields:
    told = quoting.quote(result.result.text)
    return {"name": quoting.name(result.name), "failed": result.result.failed, "text": told}


ENCODERS: Encoders = {
    Opened: _opened,
    Proved: _proved,
    Released: _released,
    Rejected: _rejected,
    Repeated: _repeated,
    Usage: _usage,
    HintGiven: _hint,
    Inconsistent: _odd,
    Fault: _fault,
    Ended: _ended,
    TurnStarted: _turn,
    TurnRetried: _turn_retried,
    RunEnded: _run_ended,
    ToolStarted: _tool_started,
    ToolReported: _tool_reported,
    ToolEnded: _tool_ended,
    ToolEndedLate: _tool_ended_late,
    ToolAbandoned: _tool_abandoned,
    ApprovalAsked: _approval_asked,
    ApprovalAnswered: _approval_answered,
}
"""For the events that the page shows, except growing texts."""
