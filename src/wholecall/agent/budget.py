"""Limits of a run, what it has spent, and the guard that refuses repeated or excessive calls."""

from __future__ import annotations

import enum
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from wholecall.arguments.feedback import SkipReason
from wholecall.events import Call, Usage
from wholecall.journal.journal_rows import GuardState
from wholecall.messages import PastCall
from wholecall.upstreams.base import traits_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """The defaults suit a question with a handful of tools."""

    turns: int = 10
    """Answers of the model; then a last one is requested without tools."""
    calls: int = 200
    """Calls of the whole run."""
    seconds: float | None = None
    """Wall time of the whole run."""
    tokens: int | None = None
    """Input and output tokens of all turns together, as the upstream counts them."""
    concurrency: int = 16
    """Calls that run at the same time."""
    tool_timeout: float = 30.0
    """Seconds of one attempt at a call, unless its tool says otherwise."""
    attempts: int = 3
    """Failed or rejected calls of one tool in a row; then it is withdrawn."""
    warn_identical: int = 3
    """Identical calls (name and arguments) after which the model is warned."""
    stop_identical: int = 5
    """The same call this often: it is not run, and the tools are withdrawn."""
    result_limit: int = 262_144
    """Characters of one result, unless its tool says otherwise; the rest is cut off, and the
    result says so."""
    turn_retries: int = 2
    """Retries of a dropped or empty answer before any of its tools ran."""
    output_tokens: int = 32_768
    """The largest `max_tokens` for a call that the output limit cut off."""
    lost_threads: int = 32
    """Threads of timed-out tools that do not end; beyond it no further one is begun."""

    def __post_init__(self) -> None:
        for name in ("turns", "concurrency", "attempts", "warn_identical", "stop_identical"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}: it must be 1 at least")
        for name in ("calls", "result_limit", "turn_retries", "lost_threads"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}={getattr(self, name)}: it must be 0 at least")
        # Written so that NaN, which is neither more nor less than anything, is refused as well.
        for name in ("seconds", "tokens"):
            limit = getattr(self, name)
            if limit is not None and not limit >= 0:
                raise ValueError(f"{name}={limit}: it must be 0 at least, or None")
        if not self.tool_timeout > 0:
            raise ValueError(f"tool_timeout={self.tool_timeout}: no tool can run in no time")


def default_limits(model: str) -> RunLimits:
    """Return the default limits of a run of this model."""
    times = traits_of(model).identical
    return RunLimits() if times is None else RunLimits(warn_identical=times, stop_identical=times)


# The budget of a run: what it has spent, and which cap is reached.


class Stop(enum.Enum):
    """The reason why a run ended."""

    ANSWER = "answer"
    """The model gave its final answer."""
    TOOL = "tool"
    """A tool that ends the run gave the answer."""
    CONDITION = "condition"
    """One of the caller's stop conditions held."""
    CLIENT_CALLS = "client_calls"
    """The model called tools that only the caller can run."""
    CONTENT_FILTER = "content_filter"
    LENGTH = "length"
    """The final answer was cut off by the output limit."""
    TURNS = "turns"
    CALLS = "calls"
    SECONDS = "seconds"
    TOKENS = "tokens"
    IDENTICAL = "identical"
    """The model repeated the same call too often."""


class Budget:
    """Counts turns, tokens and time."""

    def __init__(self, limits: RunLimits, *, started: float) -> None:
        self._limits = limits
        self._started = started
        self.turns = 0
        self.usage = Usage()

    def seconds_spent(self, now: float) -> float:
        """The time of the run so far."""
        return now - self._started

    @property
    def deadline(self) -> float | None:
        """The end of the run's time, on the loop's clock."""
        seconds = self._limits.seconds
        return None if seconds is None else self._started + seconds

    def spend(self, usage: Usage | None) -> None:
        """Add what an answer cost. A retried one cost something, too."""
        if usage is not None:
            self.usage = add_usage(self.usage, usage)

    def reached(self, now: float) -> Stop | None:
        """The cap that is reached, if one is."""
        limits = self._limits
        spent = (self.usage.input_tokens or 0) + (self.usage.output_tokens or 0)
        if self.turns >= limits.turns:
            return Stop.TURNS
        if limits.tokens is not None and spent >= limits.tokens:
            return Stop.TOKENS
        if self.deadline is not None and now >= self.deadline:
            return Stop.SECONDS
        return None


def add_usage(one: Usage, other: Usage) -> Usage:
    """Return the sum of two usages; the provider's further figures are summed by their names."""
    return Usage(
        _add(one.input_tokens, other.input_tokens),
        _add(one.output_tokens, other.output_tokens),
        _add_natives(one.native, other.native),
    )


def _add(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return one if other is None else other
    return one + other


def _add_natives(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    total = dict(one)
    for key, value in other.items():
        before = total.get(key)
        if isinstance(value, Mapping):
            total[key] = _add_natives(before if isinstance(before, Mapping) else {}, value)
        elif _is_count(value) and _is_count(before):
            total[key] = before + value
        else:
            total[key] = value
    return total


def _is_count(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# Decide whether a released call may run: the caps, identical calls, failing tools.
#
# A call that may not run is not dropped: it gets a result that says why, so that the model can do
# something else.


class NotRun(NamedTuple):
    """The reason why a call may not run."""

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

    def save(self) -> GuardState:
        """Return the counts, for the journal."""
        return GuardState(self.calls, self.stuck, dict(self._identical), dict(self._failures))

    def load(self, state: GuardState) -> None:
        """Take the counts of a restored run."""
        self.calls, self.stuck = state.calls, state.stuck
        self._identical, self._failures = Counter(state.identical), Counter(state.failures)

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
        times = self._identical[call_key(call)]
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
        key = call_key(call)
        self._identical[key] += 1
        if self._identical[key] < limits.stop_identical:
            return None
        self.stuck = True
        why = f"it was made {self._identical[key]} times with the same arguments"
        return NotRun(SkipReason.IDENTICAL, why)


def call_key(call: Call | PastCall) -> str:
    """Equal for calls that differ only in the order of their keys."""
    return f"{call.name} {json.dumps(call.arguments, sort_keys=True)}"
