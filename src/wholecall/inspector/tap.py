"""A tap that never slows a stream.

What happens in a run is put into a list, and taken out of it by a thread: up to twenty times a
second while somebody looks, once a second while nobody does. That is all that the stream's own
loop has to do, and for a piece of text it is one append. If more comes than the thread can take,
it is dropped and counted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from wholecall.core.values import Grew, Reasoning, Text
from wholecall.inspector.database import StoreFailed
from wholecall.inspector.encoding import Hides, Plain, Quoting
from wholecall.inspector.live import Live, Message
from wholecall.inspector.record import About, Asked, Note, Received, Record
from wholecall.inspector.store import Store
from wholecall.protocols.reader import Chunk

PACE = 0.05
"""Seconds that events are collected before they are shown."""
UNSEEN_PACE = 1.0
"""The same while nobody looks."""
_CROWD = 10
"""Runs under way at a time; with more of them pages are told less often,"""
_SLOWEST = 5
"""but not more than so many times less."""
MOST_WAITING = 16 * 1024 * 1024
"""Bytes that wait to be taken, as far as they can be told cheaply."""
_SOON = MOST_WAITING // 4
"""Bytes after which the thread does not wait for the next time."""
_EACH = 128
"""Bytes of an event besides its text."""
# What can be done without: the verdict on a call has all of its text.
_LEAST_WANTED = frozenset({Grew, Text, Reasoning, Received, bytes, float})


class _Done(NamedTuple):
    messages: Sequence[Message]
    over: Sequence[Record]
    failed: int


class Paces(NamedTuple):
    """Seconds between two looks at what happened."""

    seen: float = PACE
    unseen: float = UNSEEN_PACE

    def choose(self, runs: int, *, is_watched: bool) -> float:
        """Nobody looks at a hundred runs twenty times a second."""
        crowd = min(max(runs / _CROWD, 1), _SLOWEST)
        return self.seen * crowd if is_watched else self.unseen


class InspectorTap:
    """Takes events off a stream's hands."""

    def __init__(
        self,
        store: Store,
        live: Live,
        *,
        bodies: Callable[[], bool] = lambda: False,
        hides: Hides | None = None,
        paces: Paces | None = None,
    ) -> None:
        self.store = store
        self.live = live
        self._bodies = bodies
        self._hides = hides or Plain()
        self._paces = paces or Paces()
        self._writers: dict[str, Writer] = {}
        self.weight = 0
        """Bytes of the chunks that wait."""
        self._soon: asyncio.Handle | None = None
        self._working: asyncio.Future[_Done] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="inspector")
        live.on_look = self._hurry

    def open(self, about: About) -> Writer:
        """A run begins."""
        record = Record(about, Quoting(self._bodies(), self._hides))
        self.live.running[record.id] = record
        writer = self._writers[record.id] = Writer(self, record, bodies=self._bodies())
        self._arm()
        return writer

    def weigh(self, size: int) -> bool:
        """Whether there is room for something of this size."""
        if self.weight > MOST_WAITING:
            return False
        if self.weight + size > _SOON and self._soon is None:
            self._soon = asyncio.get_running_loop().call_soon(self._hand_over)
        self.weight += size
        return True

    async def close(self) -> None:
        """Write down what is left."""
        if self._timer is not None:
            self._timer.cancel()
        while self._working is not None or any(one.items for one in self._writers.values()):
            await asyncio.wait([self._working or self._start()])
        self._thread.shutdown()

    # ── In the loop ─────────────────────────────────────────────────────────────────

    def _arm(self) -> None:
        if self._timer is None:
            pace = self._paces.choose(len(self._writers), is_watched=self.live.is_watched)
            self._timer = asyncio.get_running_loop().call_later(pace, self._tick)

    def _hurry(self) -> None:
        """Somebody begins to look: what has come so far is not left until the next time."""
        if self._timer is not None:
            self._timer.cancel()
            self._tick()

    def _tick(self) -> None:
        self._timer = None
        self._hand_over()
        if self._writers:
            self._arm()

    def _hand_over(self) -> None:
        """Give what has come to the thread. While it is still at work, that has to wait."""
        self._soon = None
        if self._working is not None:
            self._drop_what_is_too_much()
        elif any(writer.items for writer in self._writers.values()):
            self._start()

    def _start(self) -> asyncio.Future[_Done]:
        batches = [(one.record, one.empty()) for one in self._writers.values() if one.items]
        self.weight = 0
        loop = asyncio.get_running_loop()
        self._working = loop.run_in_executor(self._thread, self._work, batches)
        self._working.add_done_callback(self._finish)
        return self._working

    def _finish(self, working: asyncio.Future[_Done]) -> None:
        self._working = None
        done = working.result()
        self.live.publish(done.messages)
        self.live.failed += done.failed
        for record in done.over:
            self.live.running.pop(record.id, None)
            self._writers.pop(record.id, None)

    def _drop_what_is_too_much(self) -> None:
        count = sum(len(writer.items) for writer in self._writers.values())
        if self.weight + count * _EACH > MOST_WAITING:
            for writer in self._writers.values():
                writer.drop()

    # ── In the thread ───────────────────────────────────────────────────────────────

    def _work(self, batches: Sequence[tuple[Record, list[object]]]) -> _Done:
        # What comes behind the end is about the client's connection, and the run is kept.
        touched = [(record, items) for record, items in batches if not record.is_over]
        for record, items in touched:
            record.take_all(items)
        fresh = [(record, record.publish()) for record, _ in touched]
        # Whoever begins to look after this line finds the events in the record.
        shown = fresh if self.live.is_watched else []
        over = [record for record, _ in touched if record.is_over]
        failed = 0 if self._keep(over) else len(over)
        return _Done([Message.of(*each) for each in shown if each[1]], over, failed)

    def _keep(self, over: Sequence[Record]) -> bool:
        try:
            self.store.put(*(record.keep() for record in over))
        except StoreFailed:  # a full disk must not end what is shown; the page says so
            return False
        return True


class Writer:
    """Writes down one run."""

    def __init__(self, tap: InspectorTap, record: Record, *, bodies: bool) -> None:
        self._tap = tap
        self.record = record
        self.id = record.id
        self.bodies = bodies
        """Whether what was said is wanted, too: texts, arguments as they grow, chunks."""
        self.items: list[object] = []
        """What happened, and before it the time. The time of a text is that of its chunk."""
        self.add = self.items.append
        """A piece of text came."""
        self._protocol = ""
        """Of the chunks that come: it is told once."""

    def ask(self, asked: Asked) -> None:
        """A request goes to the upstream; the chunks that come now are those of its answer."""
        self._protocol = ""
        self.take(asked)

    def take(self, event: object) -> None:
        """Something happened."""
        self.items += (time.perf_counter(), event)

    def receive(self, received: tuple[str, Chunk, bool]) -> None:
        """A chunk came: the upstream's protocol, the chunk, and whether it is one of a stream."""
        protocol, chunk, streamed = received
        tap = self._tap
        if type(chunk) is bytes and protocol is self._protocol and tap.weight < _SOON:
            tap.weight += len(chunk)
            self.items += (time.perf_counter(), chunk)
            return
        if not tap.weigh(len(chunk) if isinstance(chunk, bytes | str) else _EACH):
            self.record.dropped += 1
            return
        self._protocol = protocol
        self.items += (time.perf_counter(), Received(protocol, chunk, streamed))

    def empty(self) -> list[object]:
        """What happened since the last time."""
        items = self.items[:]
        self.items.clear()  # it stays the same list: `add` belongs to it
        return items

    def drop(self) -> None:
        """Keep only what cannot be done without; if that is much, only how it ended."""
        kept = [item for item in self.items if type(item) not in _LEAST_WANTED]
        if len(kept) * _EACH > MOST_WAITING:
            kept = [item for item in kept if isinstance(item, Note)]
        times = [item for item in self.items if type(item) is float]
        self.record.dropped += len(self.items) - len(times) - len(kept)
        self.items[:] = [*times[-1:], *kept]
