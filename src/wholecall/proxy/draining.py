"""The time that is left when the server ends: one for all that waits."""

from __future__ import annotations

import time
from collections.abc import Callable


class Draining:
    """Counts from the beginning of the shutdown; answers and the work after them share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began: float | None = None

    def begin(self) -> None:
        """Nothing new is let in from now on."""
        if self._began is None:
            self._began = self._clock()

    def left_of(self, seconds: float) -> float:
        """Return the rest of so many seconds."""
        self.begin()
        spent = self._clock() - (self._began or 0.0)
        return max(0.0, seconds - spent)
