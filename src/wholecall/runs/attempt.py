"""One attempt at running a call: begun, awaited, ended.

The tool gets a task of its own. So it can time out although it does not end, its own cancellation
can be told from ours, and its exceptions harm nothing else.
"""

from __future__ import annotations

import asyncio
import math
import threading
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from typing import Any, TypeAlias, TypeVar

from wholecall.core.conversation import Result

T = TypeVar("T")
ToolCode: TypeAlias = Callable[[], Awaitable[Result]]
HELD_UP = 0.1
"""Seconds by which a clock that is this late was held up: something else blocked the loop."""
MOST_EXTENSIONS = 8
"""How often a tool is given back time that others took from it."""


class OutOfTime(Exception):
    """The tool did not end in its time."""


class Attempt:
    """Runs a tool's code once, for a bounded time."""

    def __init__(
        self,
        *,
        grace: float,
        on_abandoned: Callable[[], None],
        on_late: Callable[[Result | BaseException], None] = lambda _: None,
    ) -> None:
        """`on_late` is told what the tool gave after its time was over."""
        self._grace = grace
        self._on_abandoned = on_abandoned
        self._on_late = on_late
        self._over = threading.Event()

    def is_over(self) -> bool:
        """True if no one waits for the tool any more. Safe in any thread."""
        return self._over.is_set()

    async def run(self, code: ToolCode, *, seconds: float) -> Result | BaseException:
        """Return what the tool gave: a result, what it raised, or `OutOfTime`."""
        task = asyncio.create_task(_guard(code))
        try:
            await _wait_for(task, seconds)
            if task.done():
                return _read(task)
        finally:
            self._over.set()
            await self._end(task)
        task.add_done_callback(self._take_late)
        return OutOfTime()

    async def _end(self, task: asyncio.Task[Result | BaseException]) -> None:
        """Cancel a running task, and wait a little for its end."""
        if task.done():
            return
        task.cancel()
        try:
            await asyncio.wait([task], timeout=self._grace)
        finally:
            if not task.done():
                _ABANDONED.add(task)
                task.add_done_callback(_forget)
                self._on_abandoned()

    def _take_late(self, task: asyncio.Task[Result | BaseException]) -> None:
        given = _read(task)
        if not isinstance(given, asyncio.CancelledError):
            self._on_late(given)


async def _wait_for(task: asyncio.Task[Result | BaseException], seconds: float) -> None:
    """Wait for a task for some time, in which it had the chance to go on.

    While another tool blocks the event loop, this one cannot take the steps to its end. Its time
    is over then without its doing, so it gets back what the clock is late by.
    """
    if math.isinf(seconds):
        await asyncio.wait([task])
        return
    loop, left = asyncio.get_running_loop(), seconds
    for _ in range(1 + MOST_EXTENSIONS):
        due = loop.time() + left
        await asyncio.wait([task], timeout=left)
        late = loop.time() - due
        if task.done() or late < HELD_UP:
            return
        left = min(late, seconds)


async def _guard(code: ToolCode) -> Result | BaseException:
    try:
        return await code()
    # Here we meet the tool's code: whatever it raises is its outcome. Asyncio would let
    # SystemExit and KeyboardInterrupt end the whole loop, and the server with it. The user's own
    # Ctrl-C is not raised here: `asyncio.run`, `ask_sync` and the server take the signal.
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001
        return error


@types.coroutine
def time_steps(
    work: Coroutine[Any, Any, T], note: Callable[[float], None], *, clock: Callable[[], float]
) -> Generator[Any, Any, T]:
    """Await `work`, and note how long each of its steps keeps the event loop."""
    advance: Callable[[], Any] = partial(work.send, None)
    while True:
        began = clock()
        try:
            awaited = advance()
        except StopIteration as done:
            given: T = done.value
            return given
        finally:
            note(clock() - began)
        try:
            advance = partial(work.send, (yield awaited))
        # It is thrown into the work, as if nobody stood between.
        except BaseException as error:  # noqa: BLE001
            advance = partial(work.throw, error)


def _read(task: asyncio.Task[Result | BaseException]) -> Result | BaseException:
    # We did not cancel it yet: the tool did.
    if task.cancelled():
        return asyncio.CancelledError()
    error = task.exception()
    return task.result() if error is None else error


# The event loop itself holds tasks only weakly.
_ABANDONED: set[asyncio.Task[Result | BaseException]] = set()


def _forget(task: asyncio.Task[Result | BaseException]) -> None:
    _ABANDONED.discard(task)
    if not task.cancelled():
        task.exception()
