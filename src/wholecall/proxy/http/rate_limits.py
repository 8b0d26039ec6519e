"""Rate limits: requests a minute, and concurrent requests, for each key.

A token bucket fills at a steady rate and holds a minute's worth: a key may use them all at once and
then has to wait, and no minute sees more than twice as many. The figures are per process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from wholecall.proxy.http.api_keys import Key

_MINUTE = 60.0


@dataclass(slots=True)
class _Bucket:
    """The remaining requests of a key, and the time of the count."""

    left: float
    at: float


class RateLimits:
    """Counts for every key."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}
        self._running: dict[str, int] = {}
        self.running = 0
        """Requests to models that are under way."""

    def take(self, key: Key) -> float:
        """Count a request. 0: it may pass; otherwise the seconds after which one may."""
        if key.rpm is None:
            return 0.0
        now = self._clock()
        rate = key.rpm / _MINUTE
        bucket = self._buckets.setdefault(key.id, _Bucket(key.rpm, now))
        bucket.left = min(bucket.left + (now - bucket.at) * rate, key.rpm)
        bucket.at = now
        if bucket.left < 1:
            return (1 - bucket.left) / rate
        bucket.left -= 1
        return 0.0

    def begin(self, key: Key) -> bool:
        """Count a request to a model that begins; False: the key has no place for it."""
        running = self._running.get(key.id, 0)
        if key.concurrent is not None and running >= key.concurrent:
            return False
        self._running[key.id] = running + 1
        self.running += 1
        return True

    def end(self, key: Key) -> None:
        """It is over."""
        self.running -= 1
        self._running[key.id] -= 1
        if not self._running[key.id]:
            del self._running[key.id]
