"""Keep one model served: start its process when it is needed, and again when it ended.

A process that ended is started again by the next question. One that keeps ending early is left
alone for a while, longer each time, and questions in the meantime are answered with the reason.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from wholecall.upstreams.local.fitness import unfit
from wholecall.upstreams.local.process import ModelProcess

STEADY_SECONDS = 60.0
"""A process that ran for so long was sound; its end is not held against the next one."""
LONGEST_DELAY = 60.0
"""Seconds for which a model is left alone."""


def back_off(failures: int) -> float:
    """Seconds to leave a model alone after so many early ends: 0, 1, 2, 4, …"""
    return 0.0 if failures <= 1 else min(2.0 ** (failures - 2), LONGEST_DELAY)


class Keeper:
    """The process of one model. It may be asked in any event loop and any thread."""

    def __init__(
        self,
        launch: Callable[[], ModelProcess],
        *,
        start_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._launch = launch
        self._start_seconds = start_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._running: tuple[ModelProcess, Future[str]] | None = None
        self._stops = 0
        """The number of stops: a question from before a stop starts nothing any more."""
        self._began = 0.0
        self._failures = 0
        self._not_before = 0.0
        self._why = ""

    @property
    def is_loaded(self) -> bool:
        """True if the model is served at the moment. Never waits."""
        running = self._running
        return running is not None and running[1].done() and running[0].is_running

    async def find_address(self) -> str:
        """Return the model's address, as soon as it is served. A caller that stops waiting does not
        stop the loading."""
        found = self._find_running()
        if found is None:
            # To start a process, and to hear the last words of one that ended, takes its time.
            found = await asyncio.to_thread(self._ensure, self._stops)
        loading = asyncio.wrap_future(found)
        # If no one waits any longer, the reason of its failure is not missed.
        loading.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(loading)

    def stop(self) -> None:
        """End the process. The next question starts another."""
        with self._lock:
            running, self._running = self._running, None
            self._stops += 1
        if running is not None:
            running[0].stop()

    def _find_running(self) -> Future[str] | None:
        """Return the address of a process that loads or serves; None if there is none. Never
        waits."""
        running = self._running
        return running[1] if running is not None and _is_good(running) else None

    def _ensure(self, stops: int) -> Future[str]:
        """The same, starting a process if there is none. It may block."""
        with self._lock:
            self._look_after()
            if self._running is None:
                if stops != self._stops:
                    raise unfit("the model was stopped before its process could start")
                self._demand_patience()
                process = self._launch()
                self._began = self._clock()
                self._running = process, _in_thread(lambda: process.load(self._start_seconds))
            return self._running[1]

    def _look_after(self) -> None:
        """Notice that the process has ended."""
        if self._running is None or _is_good(self._running):
            return
        process, _ = self._running
        process.stop()
        steady = self._clock() - self._began >= STEADY_SECONDS
        self._failures = 1 if steady else self._failures + 1
        self._not_before = self._clock() + back_off(self._failures)
        self._why = str(process.explain())
        self._running = None

    def _demand_patience(self) -> None:
        left = self._not_before - self._clock()
        if left > 0:
            raise unfit(f"{self._why}; it is tried again in {left:.0f} s", retry_after=left)


def _is_good(running: tuple[ModelProcess, Future[str]]) -> bool:
    process, address = running
    return not address.done() or process.is_running


def _in_thread(load: Callable[[], str]) -> Future[str]:
    executor = ThreadPoolExecutor(1, thread_name_prefix="wholecall model")
    loading = executor.submit(load)
    executor.shutdown(wait=False)  # the thread ends when the model is loaded
    return loading
