"""The retry policy: when an upstream is asked again, and how long to wait.

Only an attempt without a single byte of an answer is repeated: after the first byte the model has
begun to answer, and a client may have read it.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from wholecall.errors import UpstreamError

# Time-out, conflict (a lock that was not free), too many requests.
_REPEATABLE = frozenset({408, 409, 429})
SERVER_FAULTS = 500  # and above: 529 is Anthropic's "overloaded"
_MILLISECONDS = 1000.0
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """An attempt that brought no answer."""

    error: UpstreamError
    repeatable: bool
    """True if another attempt may succeed."""
    cause: BaseException | None = None
    at_once: bool = False
    """True if there is nothing to wait for: the upstream never got the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The number of retries, and the pauses before them."""

    retries: int = 2
    """Attempts after the first."""
    first_delay: float = 0.5
    """Seconds before the second attempt; each further one waits twice as long."""
    longest_delay: float = 8.0
    """Seconds, where the upstream does not say itself how long to wait."""
    longest_asked: float = 60.0
    """The longest `Retry-After` that is respected. An upstream that demands more is asked again
    earlier: no one waits an hour for an answer."""
    jitter: Callable[[], float] = random.random  # noqa: S311 - it spreads delays, it keeps no secret
    """From 0 to 1: how much of the random half of a delay is waited."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def delay(self, attempt: int, failure: FailedAttempt) -> float | None:
        """Seconds to wait after this attempt (the first is 0); None: do not ask again."""
        if attempt >= self.retries or not failure.repeatable:
            return None
        if failure.at_once:
            return 0.0
        asked = failure.error.retry_after
        if asked is not None:
            return min(asked, self.longest_asked)
        # Half of the delay is certain and half is random, so that clients that failed
        # together do not come back together.
        delay = min(self.first_delay * 2.0**attempt, self.longest_delay)
        return delay * (1 + self.jitter()) / 2


async def ask(
    attempt: Callable[[], Awaitable[_Answer | FailedAttempt]], retry: RetryPolicy
) -> _Answer:
    """Attempt until an answer begins, or raise why none does."""
    number = 0
    while True:
        begun = await attempt()
        if not isinstance(begun, FailedAttempt):
            return begun
        delay = retry.delay(number, begun)
        if delay is None:
            begun.error.attempts = number + 1
            try:
                raise begun.error from begun.cause
            finally:
                del begun  # the error would hold this frame, and this frame the error
        await retry.sleep(delay)
        number += 1


def is_repeatable(status: int, headers: Mapping[str, str]) -> bool:
    """Return True if an answer may follow a refusal. The upstream's own word decides."""
    match headers.get("x-should-retry"):
        case "true":
            return True
        case "false":
            return False
    return status in _REPEATABLE or status >= SERVER_FAULTS


def read_retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds that the upstream asks to wait: a number of them, or a date."""
    milliseconds = _read_number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / _MILLISECONDS
    text = headers.get("retry-after", "")
    seconds = _read_number(text)
    return _until(text, now) if seconds is None else seconds


def _read_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return max(number, 0.0) if math.isfinite(number) else None


def _until(date: str, now: datetime | None) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, OverflowError):  # no date, or a year of thirty digits
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max((moment - (now or datetime.now(UTC))).total_seconds(), 0.0)
