"""`wholecall serve` with a pulse: how long may any other request have waited for the loop?

    WHOLECALL_CONFIG=FILE python -m proxies.pulsed PORT FILE

SIGUSR1 writes the longest wait since the last SIGUSR1 to FILE: the processor time that this process
used between two beats of its event loop. Other processes on the machine do not count in it.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import uvicorn

from wholecall.proxy import server
from wholecall.proxy.app import Proxy
from wholecall.proxy.server import lifespan, listen, make_server_config, make_worker_app

BEAT = 0.001
"""Seconds between two beats."""


class Pulse:
    """Beats in the event loop, and keeps its longest pause."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._last = time.process_time()
        self._loop_last = time.thread_time()
        self._longest = 0.0
        self._longest_step = 0.0
        self._loop = asyncio.get_running_loop()

    def beat(self) -> None:
        """Compare with the last beat, and beat again."""
        now, step = time.process_time(), time.thread_time()
        self._longest = max(self._longest, now - self._last)
        self._longest_step = max(self._longest_step, step - self._loop_last)
        self._last, self._loop_last = now, step
        self._loop.call_later(BEAT, self.beat)

    def write(self) -> None:
        """Write the longest pause down, and forget it."""
        fresh = self._out.with_suffix(".new")
        fresh.write_text(json.dumps({"process": self._longest, "loop": self._longest_step}))
        fresh.rename(self._out)
        self._longest = self._longest_step = 0.0


@asynccontextmanager
async def _live(proxy: Proxy) -> AsyncIterator[None]:
    async with lifespan(proxy):
        pulse = Pulse(Path(sys.argv[2]))
        pulse.beat()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, pulse.write)
        yield


def main() -> None:
    vars(server).update(lifespan=_live)
    proxy = make_worker_app()
    with listen(replace(proxy.config.listen, port=int(sys.argv[1]))) as bound:
        uvicorn.Server(make_server_config(proxy.config, proxy)).run(sockets=[bound])


if __name__ == "__main__":
    main()
