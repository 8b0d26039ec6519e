"""A run as its user holds it: events to read, a result to wait for, a way to stop it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Protocol, Self

from wholecall.core.values import Call
from wholecall.errors import RunCancelled
from wholecall.runs.approvals import Approvals
from wholecall.runs.events import RunEvent, ToolReported
from wholecall.runs.plan import RunResult

UNREAD = 1_000
"""Events that wait for a reader; beyond it the upstream's answer is not read further, unless the
result is awaited."""


class Errand(Protocol):
    """The work of a run."""

    async def __call__(self, channel: Channel) -> RunResult:
        """Do it, and tell of it."""

    @property
    def ran(self) -> tuple[Call, ...]:
        """The calls that have begun: what they did is done."""

    def halt(self) -> None:
        """Begin nothing more that could not be taken back, from this moment on."""


class Channel:
    """Events on their way from a run to its reader.

    A tool's progress is dropped if the reader is slow: the next report replaces it. While the end
    is awaited, there is no back-pressure: the waiting task may be the reader, and would wait for
    itself.
    """

    def __init__(self) -> None:
        self._events: deque[RunEvent] = deque()
        self._changed = asyncio.Event()
        self._over = False
        self._awaited = 0
        self.is_read = False

    @property
    def is_awaited(self) -> bool:
        """True if the end is awaited."""
        return self._awaited > 0

    def put(self, event: RunEvent) -> None:
        """Add an event. Without a reader it is dropped."""
        crowded = len(self._events) >= UNREAD and isinstance(event, ToolReported)
        if self.is_read and not crowded:
            self._events.append(event)
            self._changed.set()

    async def room(self) -> None:
        """Wait until the reader has caught up, or the end is awaited."""
        while self.is_read and not self.is_awaited and len(self._events) >= UNREAD:
            self._changed.clear()
            await self._changed.wait()

    @contextmanager
    def without_back_pressure(self) -> Iterator[None]:
        """Suspend back-pressure; unread events are kept."""
        self._awaited += 1
        self._changed.set()
        try:
            yield
        finally:
            self._awaited -= 1

    def leave(self) -> None:
        """Stop keeping events: the reader left."""
        self.is_read = False
        self._events.clear()
        self._changed.set()

    def close(self) -> None:
        """No event follows."""
        self._over = True
        self._changed.set()

    async def get(self) -> RunEvent | None:
        """The next event; None after the last."""
        while not self._events:
            if self._over:
                return None
            self._changed.clear()
            await self._changed.wait()
        if len(self._events) == UNREAD:
            self._changed.set()
        return self._events.popleft()


class Run:
    """Turns until the final answer, in progress or about to begin.

    It begins when it is first read or awaited. Iterate over it for the events, or await `result`,
    or both. Leaving the `async with` block cancels it; so does leaving the iteration early, unless
    the result is awaited. It has one reader at a time, who gets the events from then on. A run
    waits for a reader that lags by a thousand events, unless the result is awaited: then it
    continues and keeps the unread events, as it keeps the answers themselves.
    """

    def __init__(self, errand: Errand, *, approvals: Approvals) -> None:
        self._errand = errand
        self._channel = Channel()
        self._task: asyncio.Task[RunResult] | None = None
        self.approvals = approvals
        """Pending approvals, and where they are answered."""

    @property
    def ran(self) -> tuple[Call, ...]:
        """The calls that have begun, in order: what they did is done."""
        return self._errand.ran

    async def result(self) -> RunResult:
        """Wait for the end. A failed run raises here, and in the iteration.

        A caller that stops waiting does not stop the run: `cancel` does, or leaving its block.
        """
        task = self._begin()
        with self._channel.without_back_pressure():
            await _wait_for(task)
        return self._read(task)

    async def cancel(self) -> None:
        """Stop: no further turn, no further tool; running tools are cancelled.

        Readers of the run and callers that await it get a `RunCancelled`.
        """
        task = self._begin()
        self._errand.halt()
        task.cancel()
        await _wait_for(task)

    async def __aiter__(self) -> AsyncIterator[RunEvent]:
        if self._channel.is_read:
            raise RuntimeError("this run is being read already, and its events are told once")
        self._channel.is_read = True
        task = self._begin()
        try:
            while (event := await self._channel.get()) is not None:
                yield event
            self._read(task)
        finally:
            self._channel.leave()
            if not task.done() and not self._channel.is_awaited:
                await self.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None and not self._task.done():
            await self.cancel()

    def _begin(self) -> asyncio.Task[RunResult]:
        if self._task is None:
            self._task = asyncio.create_task(self._carry_out(), name="wholecall run")
            # Even a task that is cancelled before its first step passes here.
            self._task.add_done_callback(self._end)
        return self._task

    async def _carry_out(self) -> RunResult:
        return await self._errand(self._channel)

    def _read(self, task: asyncio.Task[RunResult]) -> RunResult:
        # As `CancelledError` it would look as if the reader's task had been cancelled.
        if task.cancelled():
            raise RunCancelled("the run was cancelled", ran=self._errand.ran)
        return task.result()

    def _end(self, task: asyncio.Task[RunResult]) -> None:
        self._channel.close()
        if not task.cancelled():
            task.exception()  # a task that only reads the events sees the failure there


async def _wait_for(task: asyncio.Task[RunResult]) -> None:
    """Wait for its end, and do not end it. One that is over may belong to a loop that is closed."""
    if not task.done():
        await asyncio.wait([task])
