"""Threads for tools that block.

They are ours and not a pool's, because a thread cannot be ended from outside. One that
hangs is let go and counted: it is a daemon, so that it does not keep the process alive,
and there is a limit to how many of them may pile up.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Threads:
    """Runs functions in threads, and counts those that were abandoned."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lost = 0

    @property
    def lost(self) -> int:
        """Threads that were let go and have not ended yet."""
        return self._lost

    async def run(
        self,
        work: Callable[[], T],
        *,
        name: str,
        on_lost: Callable[[], None],
        on_late: Callable[[T | BaseException], None] = lambda _: None,
    ) -> T | BaseException:
        """Run `work` with the caller's context variables; what it raises is returned.

        It is returned and not raised, because a future refuses `StopIteration`. If the
        caller is cancelled the thread is let go, and `on_lost` is called unless it is over.
        `on_late` is then called, in the event loop, with what it gives in the end.
        """
        job = _Job(work, asyncio.get_running_loop(), on_late=on_late)
        context = contextvars.copy_context()
        thread = threading.Thread(
            target=context.run, args=(self._serve, job), name=f"wholecall {name}", daemon=True
        )
        thread.start()
        try:
            return await job.ended
        except asyncio.CancelledError:
            if self._let_go(job):
                on_lost()
            raise

    def _serve(self, job: _Job[T]) -> None:
        outcome: T | BaseException
        try:
            outcome = job.work()
        # The thread ends here: whatever the tool raises, SystemExit included, is its outcome.
        except BaseException as error:  # noqa: BLE001
            outcome = error
        with self._lock:
            job.over = True
            self._lost -= job.lost
        job.deliver(outcome)

    def _let_go(self, job: _Job[T]) -> bool:
        with self._lock:
            job.lost = not job.over
            self._lost += job.lost
        return job.lost


class _Job(Generic[T]):
    def __init__(
        self,
        work: Callable[[], T],
        loop: asyncio.AbstractEventLoop,
        *,
        on_late: Callable[[T | BaseException], None],
    ) -> None:
        self.work = work
        self.on_late = on_late
        self.ended: asyncio.Future[T | BaseException] = loop.create_future()
        self.over = False
        self.lost = False

    def deliver(self, outcome: T | BaseException) -> None:
        try:
            self.ended.get_loop().call_soon_threadsafe(self._arrive, outcome)
        except RuntimeError:  # the loop was closed: no one waits
            return

    def _arrive(self, outcome: T | BaseException) -> None:
        if self.ended.done():
            self.on_late(outcome)
        else:
            self.ended.set_result(outcome)


THREADS = Threads()
"""Those of this process: a lost thread is lost to all runs."""
