"""A tap that never slows a stream.

The events of a run are appended to a list (`writers.py`); a piece of text is one append. While a
page watches, a thread encodes them, up to twenty times a second. While no page does, a run is left
alone until it is over. Short runs are then encoded in the event loop, some dozens at a time: that
ends before a stream could notice, and costs half of moving their data to a thread. The thread
writes all ended runs to the file, once a second. If more arrives than it can take, it is dropped
and counted.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from wholecall.files.database import StoreFailed
from wholecall.inspector.encoding import ENCODERS, Encoders, Quoting
from wholecall.inspector.kept import Batch, KeptRun, make_batch
from wholecall.inspector.live import Live, Message
from wholecall.inspector.record import Record
from wholecall.inspector.store import Store
from wholecall.inspector.writers import (
    EACH,
    MANY,
    MOST_WAITING,
    BodyWriter,
    BriefWriter,
    Describe,
    Waiting,
    Writer,
)

_AnyWriter = TypeVar("_AnyWriter", bound=Writer)

_LOG = logging.getLogger(__name__)
PACE = 0.05
"""Seconds that events are collected before they are shown."""
UNSEEN_PACE = 1.0
"""The same while no page watches."""
_CROWD = 5
"""Concurrent runs; with more of them pages get fewer updates of each,"""
_SLOWEST = 10
"""but not more than so many times less."""
MOST_ENDED = 10_000
"""Ended runs that wait for the thread. Further ones are lost, and counted."""
TOGETHER = 32
"""Runs that are put into words at a time; where many more end at once, the thread does it."""
_SOON_SAID = 1024
"""Events and times of all of them. What is longer is left to the thread as well."""
_UNWRITABLE = (ArithmeticError, TypeError, ValueError)
"""Errors of a number or a text that the file cannot represent."""


class _Done(NamedTuple):
    messages: Sequence[Message]
    seen: Sequence[Record]
    failed: int


class Paces(NamedTuple):
    """Seconds between two looks at what happened."""

    seen: float = PACE
    unseen: float = UNSEEN_PACE

    def choose(self, runs: int, *, is_watched: bool) -> float:
        """A page cannot show a hundred runs twenty times a second."""
        crowd = min(max(runs / _CROWD, 1), _SLOWEST)
        return self.seen * crowd if is_watched else self.unseen


class InspectorTap:
    """Takes events off a stream's hands."""

    def __init__(
        self,
        store: Store,
        live: Live,
        *,
        encoders: Encoders = ENCODERS,
        paces: Paces | None = None,
    ) -> None:
        """`encoders` tell what is shown of each event."""
        self.store = store
        self.live = live
        self._encoders = encoders
        self._paces = paces or Paces()
        # In the order in which they were opened.
        self._writers: dict[Writer, None] = {}
        """Of runs that go on."""
        self._ended: list[Writer] = []
        """Of runs that are over."""
        self._rest: list[Writer] = []
        """Of those, the ones that are left to the thread."""
        self._batches: list[Batch] = []
        """The others, in words."""
        self._waiting_runs = 0
        """The size of all of them."""
        self._batch_bytes = 0
        self.waiting = Waiting(self._hurry)
        self._soon: asyncio.Handle | None = None
        self._working: asyncio.Future[_Done] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="inspector")
        self._over = False
        self._failing = False
        """True if the last runs could not be stored. It is reported once, not every second."""
        live.on_look = self._look
        live.catch_up = self._catch_up

    def open(self, describe: Describe, quoting: Quoting) -> BodyWriter:
        """A run begins of which all that is said is wanted."""
        return self._open(BodyWriter(describe, quoting, self.waiting, self._end, self._encoders))

    def open_briefly(self, describe: Describe, quoting: Quoting) -> BriefWriter:
        """A run begins of which nothing that is said is wanted."""
        return self._open(BriefWriter(describe, quoting, self.waiting, self._end, self._encoders))

    async def close(self) -> None:
        """Write down what is left."""
        if self._timer is not None:
            self._timer.cancel()
        while self._working is not None or self._is_behind(self._writers):
            await self._catch_up()
        self._over = True
        self._thread.shutdown()

    # ── In the loop ─────────────────────────────────────────────────────────────────

    def _open(self, writer: _AnyWriter) -> _AnyWriter:
        self._writers[writer] = None
        if self._timer is None and not self._over:
            self._arm()
        return writer

    def _end(self, writer: Writer) -> None:
        """Nothing more comes of a run. What comes all the same is about its connection."""
        del self._writers[writer]
        # One that was or may be shown has to be seen to end.
        if self._waiting_runs >= MOST_ENDED and not writer.is_taken:
            writer.empty()
            self.live.failed += 1
            return
        self._waiting_runs += 1
        self._ended.append(writer)
        if len(self._ended) == TOGETHER:
            asyncio.get_running_loop().call_soon(self._conclude)

    def _conclude(self) -> None:
        """Encode ended runs that no page has to see at once."""
        if self.live.is_watched or len(self._ended) > 2 * TOGETHER:
            return
        ended, self._ended = self._ended, []
        runs, items = [], 0
        for writer in ended:
            items += len(writer.items)
            run = writer.conclude() if items <= _SOON_SAID else None
            if run is None:
                self._rest.append(writer)
            else:
                runs.append(run)
        if runs:
            self._put_into_words(runs)

    def _put_into_words(self, runs: Sequence[KeptRun]) -> None:
        """One that cannot be is lost, and no other with it."""
        if self._batch_bytes > MOST_WAITING:
            self.live.failed += len(runs)
            return
        try:
            batch = make_batch(runs)
        except _UNWRITABLE:
            if len(runs) == 1:
                _LOG.exception("a run could not be put into words")
                self.live.failed += 1
            else:
                for run in runs:
                    self._put_into_words([run])
        else:
            self._batches.append(batch)
            self._batch_bytes += len(batch.content)

    def _arm(self) -> None:
        pace = self._paces.choose(len(self._writers), is_watched=self.live.is_watched)
        self._timer = asyncio.get_running_loop().call_later(pace, self._tick)

    def _tick(self) -> None:
        self._timer = None
        try:
            self._hand_over(self._choose())
        finally:
            if self._writers or self._waiting_runs:
                self._arm()

    def _choose(self) -> Iterable[Writer]:
        """While no page watches, a running run matters only if it is very long."""
        if self.live.is_watched:
            return self._writers
        return [writer for writer in self._writers if len(writer.items) > MANY]

    def _look(self) -> None:
        """Start watching: send what has come so far without waiting for the next interval."""
        if self._timer is not None:
            self._timer.cancel()
            self._tick()

    def _hurry(self) -> None:
        if self._soon is None:
            self._soon = asyncio.get_running_loop().call_soon(self._relieve)

    def _relieve(self) -> None:
        """A lot has come: it is not left until the next time."""
        self._soon = None
        self._hand_over(self._writers)

    async def _catch_up(self) -> None:
        """Until what has come so far is in the records, or kept."""
        if self._working is not None:
            await asyncio.wait([self._working])
        if self._working is None and self._is_behind(self._writers):
            self._start(self._writers)
        if self._working is not None:
            await asyncio.wait([self._working])

    def _is_behind(self, writers: Iterable[Writer]) -> bool:
        """Return True if the thread has work."""
        return self._waiting_runs > 0 or any(writer.items for writer in writers)

    def _hand_over(self, writers: Iterable[Writer]) -> None:
        """Give what has come to the thread. While it is still at work, that has to wait; and a
        run that begins when the server has ended is not written down."""
        if self._over:
            return
        if self._working is not None:
            self._drop_what_is_too_much()
        elif self._is_behind(writers):
            self._start(writers)

    def _start(self, writers: Iterable[Writer]) -> None:
        """All that are over, and these."""
        self._conclude()
        over = [*self._rest, *self._ended]
        chosen = [*over, *(writer for writer in writers if writer.items)]
        taken, batches = deque([(writer, writer.empty()) for writer in chosen]), self._batches
        self._rest, self._ended, self._batches = [], [], []
        self._waiting_runs = self._batch_bytes = 0
        loop = asyncio.get_running_loop()
        self._working = loop.run_in_executor(self._thread, self._work, taken, batches)
        self._working.add_done_callback(self._finish)

    def _finish(self, working: asyncio.Future[_Done]) -> None:
        self._working = None
        done = working.result()
        self.live.publish(done.messages)
        self.live.failed += done.failed
        for record in done.seen:
            if record.is_over:
                self.live.running.pop(record.id, None)
            else:
                self.live.running[record.id] = record

    def _drop_what_is_too_much(self) -> None:
        waiting = [*self._rest, *self._ended, *self._writers]
        count = sum(len(writer.items) for writer in waiting)
        if self.waiting.bytes + count * EACH > MOST_WAITING:
            for writer in waiting:
                writer.drop()

    # ── In the thread ───────────────────────────────────────────────────────────────

    def _work(self, taken: deque[tuple[Writer, list[Any]]], batches: list[Batch]) -> _Done:
        """Encode one run after the other and hold nothing longer than needed, so that the cache
        stays warm for the next one. In the file they follow those that are already encoded."""
        seen: list[Record] = []
        while taken:
            writer, items = taken.popleft()
            record = writer.record = self._take(writer, items)
            seen.append(record)
            if record.is_over:
                batches.append(record.keep())
        # A page that begins to watch after this line finds the events in the record.
        shown = seen if self.live.is_watched else []
        fresh = [(record, record.publish()) for record in shown]
        failed = 0 if self._keep(batches) else sum(batch.runs for batch in batches)
        messages = [Message.of(*each) for each in fresh if each[1]]
        return _Done(messages, seen, failed)

    def _take(self, writer: Writer, items: list[Any]) -> Record:
        """Return the record with the new events."""
        record = writer.record
        if record is None:
            about = writer.describe(writer.quoting)
            record = Record(about, writer.quoting, encoders=writer.encoders)
        record.dropped = writer.dropped
        record.take_all(items)
        record.join()
        return record

    def _keep(self, batches: Sequence[Batch]) -> bool:
        try:
            self.store.put(*batches)
        except StoreFailed as error:  # a full disk must not end what is shown; the page says so
            if not self._failing:
                _LOG.error("%s", error.why)
            self._failing = True
        else:
            self._failing = False
        return not self._failing
