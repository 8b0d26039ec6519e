"""The budget of a run: what it has spent, and which cap is reached."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from wholecall.core.values import Usage
from wholecall.runs.limits import RunLimits


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


class Ledger:
    """Counts turns, tokens and time."""

    def __init__(self, limits: RunLimits, *, started: float) -> None:
        self._limits = limits
        self._started = started
        self.turns = 0
        self.usage = Usage()

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
