"""The deadline of a graceful shutdown, and the cleanup of what a reload took out of service."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, TypeAlias


class ShutdownDeadline:
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


# Close what a reload removed: connections, local models, MCP servers.
#
# Requests from before the reload may need it until their answer is over; so may work that continues
# after an answer. It is closed when the last of them is done, not when the proxy ends: an operator
# who reloads every day would accumulate processes.


_LOG = logging.getLogger(__name__)
Close: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


class ReloadCleanup:
    """Tracks current users, and closes resources after them."""

    def __init__(self) -> None:
        self._users: set[Hashable] = set()
        self._waiting: list[tuple[set[Hashable], Close]] = []
        """Resources to close, and their possible users."""
        self._closing: set[asyncio.Task[None]] = set()

    def begin(self, user: Hashable) -> None:
        """Register a user of the current resources."""
        self._users.add(user)

    def end(self, user: Hashable) -> None:
        """It is done."""
        self._users.discard(user)
        if self._waiting:
            self._look_through(user)

    def retire(self, close: Close) -> None:
        """Close a resource as soon as no current user can need it any more."""
        if self._users:
            self._waiting.append((set(self._users), close))
        else:
            self._start(close)

    async def close(self) -> None:
        """Close the rest, even if it is in use."""
        for _, close in self._waiting:
            self._start(close)
        self._waiting.clear()
        closed = await asyncio.gather(*self._closing, return_exceptions=True)
        for failure in filter(None, closed):
            raise failure

    def _look_through(self, user: Hashable) -> None:
        for users, close in self._waiting:
            users.discard(user)
            if not users:
                self._start(close)
        self._waiting = [(users, close) for users, close in self._waiting if users]

    def _start(self, close: Close) -> None:
        task = asyncio.create_task(close())
        self._closing.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._closing.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            _LOG.error("what is served no more could not be closed", exc_info=error)
