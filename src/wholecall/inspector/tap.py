"""A tap that never slows a stream.

What happens is put into a queue of bounded size and taken out of it by a thread, some twenty
times a second. If more comes than the thread can take, it is dropped and counted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from wholecall.inspector.encoding import Quoting
from wholecall.inspector.live import Live, Message
from wholecall.inspector.record import About, Record
from wholecall.inspector.store import Store, StoreFailed

PACE = 0.05
"""Seconds that events are collected before they are written down and shown."""
MOST_WAITING = 16 * 1024 * 1024
"""Bytes that wait to be taken, as far as they can be told cheaply."""
_EACH = 128
"""Bytes of an event besides its text."""


class _Item(NamedTuple):
    record: Record
    at: float
    event: object


class _Done(NamedTuple):
    messages: Sequence[Message]
    over: Sequence[Record]
    failed: int


class InspectorTap:
    """Takes events off a stream's hands."""

    def __init__(
        self,
        store: Store,
        live: Live,
        *,
        bodies: Callable[[], bool] = lambda: False,
        hide: Callable[[str], str] = str,
        pace: float = PACE,
    ) -> None:
        self.store = store
        self.live = live
        self._bodies = bodies
        self._hide = hide
        self._pace = pace
        self._queue: list[_Item] = []
        self._weight = 0
        self._working: asyncio.Future[_Done] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="inspector")

    def open(self, about: About) -> Writer:
        """A run begins."""
        record = Record(about, Quoting(self._bodies(), self._hide))
        self.live.running[record.id] = record
        return Writer(self, record, bodies=self._bodies())

    def put(self, record: Record, event: object, *, size: int = 0) -> None:
        """Something happened."""
        weight = self._weight + size + _EACH
        if weight > MOST_WAITING:
            record.dropped += 1
            return
        self._weight = weight
        self._queue.append(_Item(record, time.perf_counter(), event))
        if self._timer is None:
            self._arm()

    async def close(self) -> None:
        """Write down what is left."""
        if self._timer is not None:
            self._timer.cancel()
        while self._queue or self._working is not None:
            await asyncio.wait([self._working or self._start()])
        self._thread.shutdown()

    # ── In the loop ─────────────────────────────────────────────────────────────────

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._pace, self._hand_over)

    def _hand_over(self) -> None:
        """Give what has come to the thread. If it is still at work, that happens at its end."""
        self._timer = None
        if self._working is None:
            self._start()

    def _start(self) -> asyncio.Future[_Done]:
        items, self._queue = self._queue, []
        self._weight = 0
        loop = asyncio.get_running_loop()
        self._working = loop.run_in_executor(self._thread, self._work, items)
        self._working.add_done_callback(self._finish)
        return self._working

    def _finish(self, working: asyncio.Future[_Done]) -> None:
        self._working = None
        done = working.result()
        self.live.publish(done.messages)
        self.live.failed += done.failed
        for record in done.over:
            self.live.running.pop(record.id, None)
        if self._queue and self._timer is None:
            self._arm()

    # ── In the thread ───────────────────────────────────────────────────────────────

    def _work(self, items: Sequence[_Item]) -> _Done:
        touched: dict[str, Record] = {}
        for item in items:
            # What comes behind the end is about the client's connection, and the run is kept.
            if not item.record.is_over:
                touched[item.record.id] = item.record
                item.record.take(item.at, item.event)
        fresh = [(record, record.publish()) for record in touched.values()]
        # Whoever begins to look after this line finds the events in the record.
        shown = fresh if self.live.is_watched else []
        over = [record for record in touched.values() if record.is_over]
        failed = sum(not self._keep(record) for record in over)
        return _Done([Message.of(*each) for each in shown if each[1]], over, failed)

    def _keep(self, record: Record) -> bool:
        try:
            self.store.put(record.keep())
        except StoreFailed:  # a full disk must not end what is shown; the page says so
            return False
        return True


class Writer:
    """Writes down one run."""

    def __init__(self, tap: InspectorTap, record: Record, *, bodies: bool) -> None:
        self._tap = tap
        self._record = record
        self.id = record.id
        self.bodies = bodies
        """Whether what was said is wanted, too: texts, arguments as they grow, chunks."""

    def take(self, event: object) -> None:
        """Something happened."""
        self._tap.put(self._record, event)

    def take_sized(self, event: object, size: int) -> None:
        """Something happened that takes so many bytes until it is written down."""
        self._tap.put(self._record, event, size=size)
