"""One attempt at running a call: begun, waited for, ended.

The tool gets a task of its own. So its time can end although it does not, its own
cancellation can be told from ours, and what it raises harms nobody else.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from wholecall.core.conversation import Result

ToolCode: TypeAlias = Callable[[], Awaitable[Result]]


class OutOfTime(Exception):
    """The tool did not end in its time."""


class Attempt:
    """Runs a tool's code once, for a bounded time."""

    def __init__(self, *, grace: float, on_abandoned: Callable[[], None]) -> None:
        self._grace = grace
        self._on_abandoned = on_abandoned
        self._over = threading.Event()

    def is_over(self) -> bool:
        """Whether nobody waits for the tool any more. May be asked from any thread."""
        return self._over.is_set()

    async def run(self, code: ToolCode, *, seconds: float) -> Result | BaseException:
        """What the tool gave: a result, what it raised, or `OutOfTime`."""
        task = asyncio.create_task(_guard(code))
        try:
            await asyncio.wait([task], timeout=None if math.isinf(seconds) else seconds)
            if task.done():
                return _read(task)
        finally:
            self._over.set()
            await self._end(task)
        return OutOfTime()

    async def _end(self, task: asyncio.Task[Result | BaseException]) -> None:
        """Cancel a task that goes on, and wait a little for it to give way."""
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


async def _guard(code: ToolCode) -> Result | BaseException:
    try:
        return await code()
    # Here we meet the tool's code: whatever it raises is its outcome. Asyncio would let
    # SystemExit end the whole loop. KeyboardInterrupt is the user's, and does.
    except (Exception, SystemExit) as error:  # noqa: BLE001
        return error


def _read(task: asyncio.Task[Result | BaseException]) -> Result | BaseException:
    # Nobody of ours cancelled it yet: the tool did it.
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
