"""A run as its client sees it: one answer.

The server's tools, their calls and results stay here. The model's text is shown as it comes, that
of turns in between as well: it is unknown whether a turn is the last before it is over, and text
that waits for that is not a stream. The client's own calls, the sum of the usage and the one finish
reason come at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from wholecall.core.values import (
    JSON,
    Call,
    Ended,
    ProviderBlock,
    Reasoning,
    Released,
    Text,
    Usage,
)
from wholecall.errors import RunFailed
from wholecall.proxy.answering import Answering
from wholecall.runs.events import (
    ApprovalAsked,
    RunEnded,
    RunEvent,
    ToolEnded,
    ToolReported,
    ToolStarted,
    TurnRetried,
    TurnStarted,
)
from wholecall.runs.ledger import Stop
from wholecall.runs.plan import RunResult
from wholecall.runs.telling import CAPS

_STOPPED = "length"
"""The finish reason of a run that a limit stopped without an answer. No protocol has a word of its
own for that; every client knows by this one that the answer is not all there is."""


class View:
    """Shows a run to one client."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering
        self._ended: Ended | None = None
        self._shown = False
        """True if the client has seen a part of this turn."""
        self._turns = 0
        self.ran = False
        """True if a tool has begun: its effects remain."""

    def take(self, event: RunEvent) -> None:
        """Show what may be shown."""
        step = _STEPS.get(type(event))
        if step is not None:
            step(self, event)
        describe = _PROGRESS.get(type(event))
        if describe is not None:
            self._answering.report(describe(event))

    def conclude(self, result: RunResult, calls: tuple[Call, ...]) -> None:
        """The run is over; `calls` are those that the client has to run."""
        if result.stop is Stop.TOOL:
            self._answering.begin_turn(void=False)
            self._answering.put(Text(result.text))
        for number, call in enumerate(calls):
            self._answering.put(Released(_renumber(call, number)))
        if self._turns > 1:
            self._answering.put(result.usage)
        if self._ended is not None:
            self._answering.put(_name_stop(self._ended, result))

    # ── Events ──────────────────────────────────────────────────────────────────────

    def _start_turn(self, _: TurnStarted) -> None:
        if self._turns:
            self._answering.begin_turn(void=False)
        self._turns += 1
        self._shown = False

    def _retry(self, event: TurnRetried) -> None:
        if self._shown:
            raise RunFailed(f"{event.why}, and a part of it was already sent")

    def _show(self, event: Text | Reasoning | ProviderBlock) -> None:
        self._shown = True
        self._answering.put(event)

    def _take_usage(self, usage: Usage) -> None:
        """Report only the sum of later turns, at the end."""
        if self._turns == 1:
            self._answering.put(usage)

    def _take_end(self, event: Ended) -> None:
        self._ended = event

    def _take_start(self, _: ToolStarted) -> None:
        self.ran = True


def _name_stop(ended: Ended, result: RunResult) -> Ended:
    """Say in the finish reason that a limit stopped the run, and which."""
    if result.stop not in CAPS:
        return ended
    reason = _STOPPED if result.no_answer else ended.finish_reason
    return msgspec.structs.replace(ended, finish_reason=reason, native=result.stop.value)


def _renumber(call: Call, number: int) -> Call:
    return call if call.number == number else replace(call, number=number)


_STEPS: dict[type[RunEvent], Callable[[View, Any], None]] = {
    TurnStarted: View._start_turn,
    TurnRetried: View._retry,
    Text: View._show,
    Reasoning: View._show,
    ProviderBlock: View._show,
    Usage: View._take_usage,
    Ended: View._take_end,
    ToolStarted: View._take_start,
}

# ── Progress ────────────────────────────────────────────────────────────────────────


def _describe_turn(event: TurnStarted) -> JSON:
    return {"type": "turn_started", "turn": event.turn}


def describe_retry(event: TurnRetried) -> JSON:
    """Describe a retried answer."""
    return {"type": "turn_retried", "turn": event.turn, "why": event.why}


def _describe_start(event: ToolStarted) -> JSON:
    call = event.call
    return {"type": "tool_started", "id": call.id, "name": call.name, "attempt": event.attempt}


def _describe_report(event: ToolReported) -> JSON:
    return {"type": "tool_reported", "id": event.call_id, "progress": event.progress}


def _describe_end(event: ToolEnded) -> JSON:
    return {
        "type": "tool_ended",
        "id": event.call.id,
        "name": event.call.name,
        "status": event.status.value,
        "seconds": round(event.seconds, 3),
    }


def _describe_approval(event: ApprovalAsked) -> JSON:
    return {"type": "approval_asked", "id": event.call.id, "name": event.call.name}


def _describe_run_end(event: RunEnded) -> JSON:
    return {"type": "run_ended", "stop": event.stop.value, "answered": not event.no_answer}


_PROGRESS: dict[type[RunEvent], Callable[[Any], JSON]] = {
    TurnStarted: _describe_turn,
    TurnRetried: describe_retry,
    ToolStarted: _describe_start,
    ToolReported: _describe_report,
    ToolEnded: _describe_end,
    ApprovalAsked: _describe_approval,
    RunEnded: _describe_run_end,
}
