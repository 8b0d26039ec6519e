"""One pool of connections for each event loop that asks.

A pool belongs to the loop in which it was made. A program may run one loop after another
(`asyncio.run` for each question) or several in threads, and still keep one upstream. No
connection outlives its loop: a loop that ends as `asyncio.run` ends it closes its own, and
those of a loop that was just closed are closed when the upstream is next used.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from weakref import WeakSet

from aiohappyeyeballs import AddrInfoType

from wholecall.upstreams.http1.pool import OpenSocket, Pool, open_socket

OTHER_LOOP_SECONDS = 5.0
"""Seconds to wait for loops of other threads to close their own. A loop that is busy for longer
closes them later."""


class Pools:
    """Makes pools when they are needed, and closes them all."""

    def __init__(self, make: Callable[[OpenSocket], Pool]) -> None:
        self._make = make
        self._by_loop: dict[asyncio.AbstractEventLoop, _Kept] = {}

    async def current(self) -> Pool:
        """The pool of the running loop."""
        loop = asyncio.get_running_loop()
        kept = self._by_loop.get(loop)
        if kept is None or kept.pool.closed:
            await self._drop_dead()
            kept = self._by_loop.get(loop)  # another task may have been here meanwhile
        if kept is None or kept.pool.closed:
            kept = self._by_loop[loop] = await self._open()
        return kept.pool

    async def close(self) -> None:
        """Close every connection; each pool in its own loop, which is waited for if it runs."""
        here = asyncio.get_running_loop()
        await self._drop_dead()
        elsewhere: list[asyncio.Future[None]] = []
        while self._by_loop:
            loop, kept = self._by_loop.popitem()
            if loop is here:
                await kept.ending.aclose()
                continue
            closing = asyncio.run_coroutine_threadsafe(_close(kept), loop)
            if loop.is_running():
                elsewhere.append(asyncio.wrap_future(closing))
        if elsewhere:
            await asyncio.wait(elsewhere, timeout=OTHER_LOOP_SECONDS)

    async def _open(self) -> _Kept:
        sockets: WeakSet[socket.socket] = WeakSet()

        def remember(address: AddrInfoType) -> socket.socket:
            opened = open_socket(address)
            sockets.add(opened)
            return opened

        pool = self._make(remember)
        ending = _end_with_loop(pool)
        await anext(ending)
        return _Kept(pool, ending, sockets)

    async def _drop_dead(self) -> None:
        # Other threads do the same at the same time, each for its own loop.
        for loop in list(self._by_loop):
            kept = self._by_loop.pop(loop, None) if loop.is_closed() else None
            if kept is not None:
                await _bury(kept)


@dataclass(frozen=True, slots=True)
class _Kept:
    """A pool, and what is needed to close it."""

    pool: Pool
    ending: AsyncGenerator[None]
    """Open as long as the pool is. The loop knows it, and closes it at its own end."""
    sockets: WeakSet[socket.socket]
    """All that were opened and may be open still."""


async def _end_with_loop(pool: Pool) -> AsyncGenerator[None]:
    """A generator that has begun is closed by its loop (`shutdown_asyncgens`) at the latest."""
    try:
        yield
    finally:
        await pool.close()


async def _close(kept: _Kept) -> None:
    await kept.ending.aclose()


async def _bury(kept: _Kept) -> None:
    """The loop is gone and closes nothing more: the pool has to know, the sockets have to go."""
    await kept.pool.close()
    for left in list(kept.sockets):
        left.close()
