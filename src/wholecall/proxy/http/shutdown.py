"""The deadline of a graceful shutdown, and the work that is waited for before things are closed."""

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

    def begin(self) -> bool:
        """Let nothing new in from now on. Return False if the shutdown had begun already."""
        if self._began is not None:
            return False
        self._began = self._clock()
        return True

    @property
    def begun(self) -> bool:
        """True if the server ends."""
        return self._began is not None

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
ENDING_SECONDS = 5.0
"""Seconds at shutdown for cancelled answers to send their error, and for tools that must not be
cancelled to finish."""
Close: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


class WorkInProgress:
    """Tracks requests and the work that continues after them, and closes resources after both."""

    def __init__(self) -> None:
        self.deadline = ShutdownDeadline()
        """The time that is left when the server ends."""
        self._users: set[Hashable] = set()
        self._waiting: list[tuple[set[Hashable], Close]] = []
        """Resources to close, and their possible users."""
        self._closing: set[asyncio.Task[None]] = set()
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        """Return the number of requests and of tasks that are under way."""
        return len(self._users)

    def begin(self, user: Hashable) -> None:
        """Register a user of the current resources."""
        self._users.add(user)

    def end(self, user: Hashable) -> None:
        """It is done."""
        self._users.discard(user)
        if self._waiting:
            self._close_after(user)

    def retire(self, close: Close) -> None:
        """Close a resource as soon as no current user can need it any more."""
        if self._users:
            self._waiting.append((set(self._users), close))
        else:
            self._start(close)

    def hold(self, task: asyncio.Task[Any]) -> None:
        """Keep a reference to a task that continues although its request may be over."""
        self._tasks.add(task)
        self.begin(task)
        task.add_done_callback(self._forget)

    async def settle(self, seconds: float) -> None:
        """Wait for work that continues after its request; then cancel it.

        Cancelled work is awaited for a moment as well: it still uses what is closed next.
        """
        late: set[asyncio.Task[Any]] = set(self._tasks)
        if late:
            _, late = await asyncio.wait(late, timeout=seconds)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=ENDING_SECONDS)

    async def close(self) -> None:
        """Close the rest, even if it is in use."""
        for _, close in self._waiting:
            self._start(close)
        self._waiting.clear()
        closed = await asyncio.gather(*self._closing, return_exceptions=True)
        for failure in filter(None, closed):
            raise failure

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        self.end(task)
        if not task.cancelled():
            task.exception()

    def _close_after(self, user: Hashable) -> None:
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
            _LOG.error("closing a resource that is no longer served failed", exc_info=error)
