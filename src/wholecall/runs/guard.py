"""Decide whether a released call may run: the caps, identical calls, failing tools.

A call that may not run is not dropped: it gets a result that says why, so that the model can do
something else.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import NamedTuple

from wholecall.core.conversation import PastCall
from wholecall.core.feedback import SkipReason
from wholecall.core.values import Call
from wholecall.runs.limits import RunLimits


class NotRun(NamedTuple):
    """Why a call may not run."""

    reason: SkipReason
    why: str
    """In words for the model."""


class Guard:
    """Counts over the whole run, and judges each call before it starts."""

    def __init__(self, limits: RunLimits) -> None:
        self._limits = limits
        self._identical: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self.calls = 0
        """Let through so far."""
        self.stuck = False
        """True if the model repeats itself: it should get no further tools."""

    @property
    def withdrawn(self) -> frozenset[str]:
        """Tools that failed too often in a row."""
        limit = self._limits.attempts
        return frozenset(name for name, failures in self._failures.items() if failures >= limit)

    def refuse(self, call: Call | PastCall) -> NotRun | None:
        """Return why a call may not run; None: it may, and is counted."""
        refused = self._beyond(call)
        if refused is None:
            self.calls += 1
        return refused

    def warning(self, call: Call | PastCall) -> str:
        """Return the warning about a repetition for a call's result; empty without one."""
        times = self._identical[_key(call)]
        if times < self._limits.warn_identical:
            return ""
        return (
            f"Note: this is call number {times} of {call.name!r} with the same arguments. "
            "Use the result that you have, or change the call."
        )

    def succeeded(self, name: str) -> None:
        """A call of this tool gave an output."""
        self._failures.pop(name, None)

    def failed(self, name: str) -> None:
        """A call of this tool was rejected or failed."""
        self._failures[name] += 1

    def describe_withdrawn(self, name: str) -> NotRun:
        """Say that a tool is withdrawn."""
        times = self._limits.attempts
        why = f"{name!r} failed {times} times in a row and is withdrawn"
        return NotRun(SkipReason.WITHDRAWN, why)

    def _beyond(self, call: Call | PastCall) -> NotRun | None:
        limits = self._limits
        if self.calls >= limits.calls:
            why = f"the limit of {limits.calls} calls is reached"
            return NotRun(SkipReason.CAPPED, why)
        if call.name in self.withdrawn:
            return self.describe_withdrawn(call.name)
        key = _key(call)
        self._identical[key] += 1
        if self._identical[key] < limits.stop_identical:
            return None
        self.stuck = True
        why = f"it was made {self._identical[key]} times with the same arguments"
        return NotRun(SkipReason.IDENTICAL, why)


def _key(call: Call | PastCall) -> str:
    """Equal for calls that differ only in the order of their keys."""
    return f"{call.name} {json.dumps(call.arguments, sort_keys=True)}"
