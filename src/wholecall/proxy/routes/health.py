"""Check whether the upstreams can be reached."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Mapping

from yarl import URL

from wholecall.proxy.handlers.request_plan import ModelRoute
from wholecall.upstreams.http import find_proxy

FRESH_SECONDS = 10.0
"""Seconds for which a result is cached."""
_CONNECT_SECONDS = 3.0


class Readiness:
    """Knocks at the upstreams: a connection that opens is enough."""

    def __init__(
        self,
        environ: Mapping[str, str] = os.environ,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._environ = environ
        self._clock = clock
        self._asking = asyncio.Lock()
        self._asked_at = float("-inf")
        self._reached: Mapping[str, bool] = {}

    async def check(self, models: Iterable[ModelRoute]) -> Mapping[str, bool]:
        """For each model, whether its upstream can be reached."""
        async with self._asking:  # who comes meanwhile waits for the same answer
            return await self._check(models)

    async def _check(self, models: Iterable[ModelRoute]) -> Mapping[str, bool]:
        if self._clock() - self._asked_at >= FRESH_SECONDS:
            places = {route.name: route.place for route in models if route.place}
            unique = sorted(set(places.values()))
            opened = await asyncio.gather(*(self._knock(URL(place)) for place in unique))
            reached = dict(zip(unique, opened, strict=True))
            self._reached = {name: reached[place] for name, place in places.items()}
            self._asked_at = self._clock()
        return self._reached

    async def _knock(self, url: URL) -> bool:
        target = find_proxy(url, self._environ) or url
        place = URL(str(target))
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                _, writer = await asyncio.open_connection(place.host, place.port)
        except OSError:
            return False
        writer.close()
        return True
