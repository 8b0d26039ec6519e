"""Events as the page reads them: JSON objects with a `kind`.

Whatever may hold a number of more than 53 bits (arguments, values before and after a change,
progress) is sent as text: JavaScript would round it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple, Protocol, TypeAlias

from wholecall.core.conversation import CallResult, Message, PastCall, Request
from wholecall.core.values import (
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
from wholecall.runs.events import (
    ApprovalAnswered,
    ApprovalAsked,
    ToolAbandoned,
    ToolEnded,
    ToolReported,
    ToolStarted,
    TurnRetried,
    TurnStarted,
)

Fields: TypeAlias = dict[str, Any]
"""One event."""

MOST_CHARACTERS = 256 * 1024
"""Of one text. Arguments and results of this size are read by nobody."""
MOST_MESSAGES = 40
"""Of one request that are shown: the last ones."""
_NAME = re.compile(r"[\w.:/@*-]{1,128}")


class Hides(Protocol):
    """Knows secrets."""

    def hide(self, text: str) -> str:
        """A text without secrets."""

    def tail(self, text: str) -> str:
        """The end of a text: a secret may have begun in it that goes on behind it."""

    def finds_in(self, texts: Sequence[str]) -> bool:
        """Whether a secret is in one of many texts, each of whole lines."""


class Plain:
    """Knows none."""

    def hide(self, text: str) -> str:
        """The text as it is."""
        return text

    def tail(self, _: str) -> str:
        """Nothing has begun."""
        return ""

    def finds_in(self, _: Sequence[str]) -> bool:
        """There is none."""
        return False


class Quoting(NamedTuple):
    """What may be told of what was said."""

    bodies: bool
    """Whether texts, arguments and results may be shown at all."""
    hides: Hides
    """Takes secrets out of texts."""

    def quote(self, text: str) -> str:
        """A text, if it may be shown."""
        return self.clean(text) if self.bodies else ""

    def clean(self, text: str) -> str:
        """A text without secrets and without halves of characters, which UTF-8 does not have."""
        left_out = len(text) - MOST_CHARACTERS
        if left_out > 0:
            text = f"{text[:MOST_CHARACTERS]} … and {left_out} more characters"
        if not text.isascii():
            text = text.encode("utf-8", "replace").decode()
        return self.hides.hide(text)

    def name(self, text: str | None) -> str:
        """A name. Models write whole sentences where names should stand."""
        if not text or self.bodies or _is_name(text):
            return self.clean(text or "")
        return f"({len(text)} characters that are no name)"

    def value(self, value: JSON) -> str:
        """A value as JSON text, if it may be shown."""
        return self.quote(json.dumps(value, ensure_ascii=False)) if self.bodies else ""


@lru_cache(maxsize=1024)
def _is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def encode_event(event: object, quoting: Quoting) -> Fields | None:
    """An event for the page; None for those that it does not show."""
    kind = type(event)
    encode = _ENCODERS.get(kind)
    if encode is None:
        return None
    fields = encode(event, quoting)
    if kind in _FULL:
        return fields
    # What is empty says nothing; 0 and False do.
    return {name: value for name, value in fields.items() if value or value == 0}


# ── Calls ───────────────────────────────────────────────────────────────────────────


def _opened(event: Opened, quoting: Quoting) -> Fields:
    name = quoting.name(event.name)
    return {"kind": "opened", "number": event.number, "id": quoting.clean(event.id), "name": name}


def _proved(event: Proved, _: Quoting) -> Fields:
    return {"kind": "proved", "number": event.number, "evidence": _list_evidence(event.evidence)}


def _released(event: Released, quoting: Quoting) -> Fields:
    call = event.call
    told = {
        "kind": "released",
        "number": call.number,
        "id": quoting.clean(call.id),
        "name": quoting.name(call.name),
        "evidence": _list_evidence(call.evidence),
        "characters": len(call.raw),
        "raw": quoting.quote(call.raw),
    }
    if not (call.repairs or call.coercions or call.dropped):
        return told
    return {
        **told,
        "arguments": quoting.value(dict(call.arguments)),
        "repairs": [_repair(repair, quoting) for repair in call.repairs],
        "coercions": [_coercion(coercion, quoting) for coercion in call.coercions],
        "dropped": [quoting.name(name) for name in call.dropped],
    }


def _rejected(event: Rejected, quoting: Quoting) -> Fields:
    return {
        "kind": "rejected",
        "number": event.number,
        "id": quoting.clean(event.id),
        "name": quoting.name(event.name),
        "reason": event.reason.value,
        "detail": quoting.quote(event.detail),
        "characters": len(event.raw),
        "raw": quoting.quote(event.raw),
        "problems": [_problem(problem, quoting) for problem in event.problems],
    }


def _repeated(event: Repeated, _: Quoting) -> Fields:
    return {"kind": "repeated", "number": event.number, "of": event.of}


@cache
def _list_evidence(evidence: Evidence) -> Sequence[str]:
    return [str(one.name) for one in evidence]


def _repair(repair: Repair, quoting: Quoting) -> Fields:
    before, after = quoting.quote(repair.before), quoting.quote(repair.after)
    return {"kind": repair.kind, "before": before, "after": after}


def _coercion(coercion: Coercion, quoting: Quoting) -> Fields:
    before, after = quoting.value(coercion.before), quoting.value(coercion.after)
    return {"path": quoting.name(coercion.path), "before": before, "after": after}


def _problem(problem: Problem, quoting: Quoting) -> Fields:
    return {
        "kind": problem.kind,
        "path": quoting.quote(problem.path),
        "message": quoting.quote(problem.message),
        "received": quoting.quote(problem.received),
        "expected": quoting.quote(problem.expected),
    }


# ── Answers ─────────────────────────────────────────────────────────────────────────


def _usage(event: Usage, _: Quoting) -> Fields:
    return {"kind": "usage", "input": event.input_tokens, "output": event.output_tokens}


def _hint(event: HintGiven, quoting: Quoting) -> Fields:
    return {"kind": "hint", "hint": event.hint.value, "native": quoting.name(event.native)}


def _odd(event: Inconsistent, quoting: Quoting) -> Fields:
    detail = quoting.quote(event.detail)
    return {"kind": "odd", "oddity": event.oddity.value, "detail": detail, "number": event.number}


def _fault(event: Fault, quoting: Quoting) -> Fields:
    return {"kind": "fault", "fault": event.kind.value, "message": quoting.quote(event.message)}


def _ended(event: Ended, quoting: Quoting) -> Fields:
    return {
        "kind": "ended",
        "finish_reason": event.finish_reason,
        "native": quoting.name(event.native),
        "error": event.error,
    }


def _turn(event: TurnStarted, _: Quoting) -> Fields:
    return {"kind": "turn", "turn": event.turn}


def _turn_retried(event: TurnRetried, quoting: Quoting) -> Fields:
    return {"kind": "turn_retried", "turn": event.turn, "why": quoting.clean(event.why)}


# ── Tools ───────────────────────────────────────────────────────────────────────────


def _of_call(kind: str, call: Call, quoting: Quoting) -> Fields:  # noqa: PLR0917 - one short line
    return {"kind": kind, "id": quoting.clean(call.id), "name": quoting.name(call.name)}


def _tool_started(event: ToolStarted, quoting: Quoting) -> Fields:
    return {**_of_call("tool_started", event.call, quoting), "attempt": event.attempt}


def _tool_reported(event: ToolReported, quoting: Quoting) -> Fields:
    progress = quoting.value(event.progress)
    return {"kind": "tool_reported", "id": quoting.clean(event.call_id), "progress": progress}


def _tool_ended(event: ToolEnded, quoting: Quoting) -> Fields:
    return {
        **_of_call("tool_ended", event.call, quoting),
        "status": event.status.value,
        "seconds": round(event.seconds, 6),
        "error": None if event.error is None else type(event.error).__name__,
        "result": quoting.quote(event.result.text),
    }


def _tool_abandoned(event: ToolAbandoned, quoting: Quoting) -> Fields:
    return _of_call("tool_abandoned", event.call, quoting)


def _approval_asked(event: ApprovalAsked, quoting: Quoting) -> Fields:
    return _of_call("approval_asked", event.call, quoting)


def _approval_answered(event: ApprovalAnswered, quoting: Quoting) -> Fields:
    answer = {"approved": event.approved, "why": quoting.quote(event.why)}
    return {**_of_call("approval_answered", event.call, quoting), **answer}


# ── Requests ────────────────────────────────────────────────────────────────────────


def encode_request(request: Request, quoting: Quoting, *, told: int = 0) -> Fields:
    """What the model is asked. Of its messages the first `told` were shown before."""
    fresh = request.messages[told:] if told < len(request.messages) else request.messages
    left_out = max(len(fresh) - MOST_MESSAGES, 0)
    shown = fresh[left_out:] if quoting.bodies else ()
    return {
        "kind": "asked",
        "tools": [quoting.name(tool.name) for tool in request.tools],
        "left_out": told * (fresh is not request.messages) + left_out,
        "messages": [_message(message, quoting) for message in shown],
    }


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


_ENCODERS: Mapping[type, Callable[[Any, Quoting], Fields]] = {
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
    ToolStarted: _tool_started,
    ToolReported: _tool_reported,
    ToolEnded: _tool_ended,
    ToolAbandoned: _tool_abandoned,
    ApprovalAsked: _approval_asked,
    ApprovalAnswered: _approval_answered,
}
_FULL = frozenset({Proved, Repeated, TurnStarted})
"""Those that have no empty field."""
SHOWN = tuple(_ENCODERS)
"""The types of events that the page shows, besides texts that grow."""
