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
"""Events that wait for a reader; then the upstream's answer is read no further, unless somebody
waits for the result."""


class Errand(Protocol):
    """What a run does."""

    async def __call__(self, channel: Channel) -> RunResult:
        """Do it, and tell of it."""

    @property
    def ran(self) -> tuple[Call, ...]:
        """The calls that have begun: what they did is done."""

    def halt(self) -> None:
        """Begin nothing more that could not be taken back, from this moment on."""


class Channel:
    """Events on their way from a run to its reader.

    A tool's reports are dropped rather than kept where the reader is slow: they say how far
    a tool is, and the next one says it again. While somebody waits for the end, nobody is
    waited for: whoever waits may be the reader, and would wait for itself.
    """

    def __init__(self) -> None:
        self._events: deque[RunEvent] = deque()
        self._changed = asyncio.Event()
        self._over = False
        self._awaited = 0
        self.is_read = False

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for the end."""
        return self._awaited > 0

    def put(self, event: RunEvent) -> None:
        """Add an event. Without a reader there is nobody to keep it for."""
        crowded = len(self._events) >= UNREAD and isinstance(event, ToolReported)
        if self.is_read and not crowded:
            self._events.append(event)
            self._changed.set()

    async def room(self) -> None:
        """Wait until the reader has caught up, or somebody waits for the end."""
        while self.is_read and not self.is_awaited and len(self._events) >= UNREAD:
            self._changed.clear()
            await self._changed.wait()

    @contextmanager
    def without_back_pressure(self) -> Iterator[None]:
        """Hold the run back for nobody; unread events are kept."""
        self._awaited += 1
        self._changed.set()
        try:
            yield
        finally:
            self._awaited -= 1

    def leave(self) -> None:
        """Nobody reads any more."""
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
    """Turns until the final answer, under way or about to begin.

    It begins when it is first read or waited for. Iterate over it for the events, or wait
    for `result`, or both. Leaving the `async with` block cancels it; so does leaving the
    iteration early, unless somebody waits for the result. It has one reader at a time, who
    gets the events from then on.
    A run waits for a reader who falls behind by a thousand events, unless somebody waits for
    the result: then it goes on, and keeps what is unread, as it keeps the answers themselves.
    """

    def __init__(self, errand: Errand, *, approvals: Approvals) -> None:
        self._errand = errand
        self._channel = Channel()
        self._task: asyncio.Task[RunResult] | None = None
        self.approvals = approvals
        """Calls that wait for somebody's approval, and where it is given."""

    @property
    def ran(self) -> tuple[Call, ...]:
        """The calls that have begun, in order: what they did is done."""
        return self._errand.ran

    async def result(self) -> RunResult:
        """Wait for the end. A run that fails raises here, and where it is iterated over.

        Whoever stops waiting does not stop the run: `cancel` does, or leaving its block.
        """
        task = self._begin()
        with self._channel.without_back_pressure():
            await _wait_for(task)
        return self._read(task)

    async def cancel(self) -> None:
        """Stop: no further turn, no further tool; those that run are cancelled.

        Whoever reads the run or waits for it gets a `RunCancelled`.
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
            # Even a task that is cancelled before its first step comes by there.
            self._task.add_done_callback(self._end)
        return self._task

    async def _carry_out(self) -> RunResult:
        return await self._errand(self._channel)

    def _read(self, task: asyncio.Task[RunResult]) -> RunResult:
        # As `CancelledError` it would look as if whoever reads or waits had been cancelled.
        if task.cancelled():
            raise RunCancelled("the run was cancelled", ran=self._errand.ran)
        return task.result()

    def _end(self, task: asyncio.Task[RunResult]) -> None:
        self._channel.close()
        if not task.cancelled():
            task.exception()  # whoever only reads the events learns of the failure there


async def _wait_for(task: asyncio.Task[RunResult]) -> None:
    """Wait for its end, and do not end it. One that is over may belong to a loop that is closed."""
    if not task.done():
        await asyncio.wait([task])
