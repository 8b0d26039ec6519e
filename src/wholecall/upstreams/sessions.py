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

from wholecall.upstreams.http1.base import Client
from wholecall.upstreams.http1.pool import OpenSocket, open_socket


class Sessions:
    """Makes sessions when they are needed, and closes them all."""

    def __init__(self, make: Callable[[OpenSocket], Client]) -> None:
        self._make = make
        self._by_loop: dict[asyncio.AbstractEventLoop, _Pool] = {}

    async def current(self) -> Client:
        """The session of the running loop."""
        loop = asyncio.get_running_loop()
        pool = self._by_loop.get(loop)
        if pool is None or pool.session.closed:
            await self._drop_dead()
            pool = self._by_loop.get(loop)  # another task may have been here meanwhile
        if pool is None or pool.session.closed:
            pool = self._by_loop[loop] = await self._open()
        return pool.session

    async def close(self) -> None:
        """Close every connection; each session in its own loop."""
        here = asyncio.get_running_loop()
        await self._drop_dead()
        while self._by_loop:
            loop, pool = self._by_loop.popitem()
            if loop is here:
                await pool.held.aclose()
            else:
                asyncio.run_coroutine_threadsafe(_close(pool), loop)

    async def _open(self) -> _Pool:
        sockets: WeakSet[socket.socket] = WeakSet()

        def remember(address: AddrInfoType) -> socket.socket:
            opened = open_socket(address)
            sockets.add(opened)
            return opened

        session = self._make(remember)
        held = _hold(session)
        await anext(held)
        return _Pool(session, held, sockets)

    async def _drop_dead(self) -> None:
        # Other threads do the same at the same time, each for its own loop.
        for loop in list(self._by_loop):
            pool = self._by_loop.pop(loop, None) if loop.is_closed() else None
            if pool is not None:
                await _bury(pool)


@dataclass(frozen=True, slots=True)
class _Pool:
    session: Client
    held: AsyncGenerator[None]
    """Open as long as the session is. The loop knows it, and closes it at its own end."""
    sockets: WeakSet[socket.socket]
    """All that were opened and may be open still."""


async def _hold(session: Client) -> AsyncGenerator[None]:
    """A generator that has begun is closed by its loop (`shutdown_asyncgens`) at the latest."""
    try:
        yield
    finally:
        await session.close()


async def _close(pool: _Pool) -> None:
    await pool.held.aclose()


async def _bury(pool: _Pool) -> None:
    """The loop is gone and closes nothing more: the session has to know, the sockets have to go."""
    await pool.session.close()
    for left in list(pool.sockets):
        left.close()
