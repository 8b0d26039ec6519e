"""One pool of connections for each event loop that asks.

A pool belongs to the loop in which it was made. A program may run one loop after another
(`asyncio.run` for each question) or several in threads, and still keep one upstream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aiohttp


class Sessions:
    """Makes sessions when they are needed, and closes them all."""

    def __init__(self, make: Callable[[], aiohttp.ClientSession]) -> None:
        self._make = make
        self._by_loop: dict[asyncio.AbstractEventLoop, aiohttp.ClientSession] = {}

    async def current(self) -> aiohttp.ClientSession:
        """The session of the running loop."""
        loop = asyncio.get_running_loop()
        session = self._by_loop.get(loop)
        if session is None:
            await self._drop_dead()
            session = self._by_loop[loop] = self._make()
        return session

    async def close(self) -> None:
        """Close every connection; each session in its own loop."""
        here = asyncio.get_running_loop()
        await self._drop_dead()
        while self._by_loop:
            loop, session = self._by_loop.popitem()
            if loop is here:
                await session.close()
            else:
                asyncio.run_coroutine_threadsafe(session.close(), loop)

    async def _drop_dead(self) -> None:
        """A loop that was closed took its connections with it; the session only has to know."""
        # Other threads do the same at the same time, each for its own loop.
        for loop in list(self._by_loop):
            session = self._by_loop.pop(loop, None) if loop.is_closed() else None
            if session is not None:
                await session.close()
