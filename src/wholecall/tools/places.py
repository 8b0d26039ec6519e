"""Limit the concurrent calls of one tool, in the whole process.

A tool outlives its runs and may be used by several event loops, each in a thread of its own
(`ask_sync`). `asyncio.Semaphore` belongs to one loop, so it cannot be used.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import NamedTuple


class _Waiter(NamedTuple):
    loop: asyncio.AbstractEventLoop
    arrived: asyncio.Future[None]


class Places:
    """Lets at most `limit` in at a time; the others wait in the order of their coming."""

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"a tool needs room for one call at least, not {limit!r}")
        self._lock = threading.Lock()
        self._free = limit
        self._waiting: deque[_Waiter] = deque()

    async def __aenter__(self) -> None:
        loop = asyncio.get_running_loop()
        waiter = _Waiter(loop, loop.create_future())
        with self._lock:
            if self._free:
                self._free -= 1
                return
            self._waiting.append(waiter)
        try:
            await waiter.arrived
        except asyncio.CancelledError:
            self._give_up(waiter)
            raise

    async def __aexit__(self, *_: object) -> None:
        self._pass_on()

    def _give_up(self, waiter: _Waiter) -> None:
        with self._lock:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
                return
        # It was called in at the same moment: the place is taken, and goes to the next.
        self._pass_on()

    def _pass_on(self) -> None:
        with self._lock:
            while self._waiting:
                waiter = self._waiting.popleft()
                if _call_in(waiter):
                    return
            self._free += 1


def _call_in(waiter: _Waiter) -> bool:
    """Return True if the waiter was still there to be woken."""
    try:
        waiter.loop.call_soon_threadsafe(_arrive, waiter.arrived)
    except RuntimeError:  # its loop was closed
        return False
    return True


def _arrive(arrived: asyncio.Future[None]) -> None:
    if not arrived.done():
        arrived.set_result(None)
