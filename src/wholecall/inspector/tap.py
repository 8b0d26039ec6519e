"""A tap that never slows a stream.

What happens in a run is put into a list as it is. That is all that the stream's own loop has to
do, and for a piece of text it is one append. A thread makes something of it: up to twenty times a
second while somebody looks. While nobody does, a run is left alone until it is over, and once a
second all that have ended are written down together. If more comes than the thread can take, it is
dropped and counted.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import NamedTuple, Protocol

import msgspec

from wholecall.core.conversation import Request
from wholecall.core.values import Grew, Reasoning, Text
from wholecall.files.database import StoreFailed
from wholecall.inspector.encoding import ENCODERS, Encoders, Plain, Quoting, name_tools
from wholecall.inspector.kept import EndedRun
from wholecall.inspector.live import Live, Message
from wholecall.inspector.record import About, Asked, Form, Offered, Received, Record
from wholecall.inspector.store import Store
from wholecall.protocols.reader import Chunk

_LOG = logging.getLogger(__name__)
PACE = 0.05
"""Seconds that events are collected before they are shown."""
UNSEEN_PACE = 1.0
"""The same while nobody looks."""
_CROWD = 5
"""Runs under way at a time; with more of them pages are told less often of each,"""
_SLOWEST = 10
"""but not more than so many times less."""
MOST_WAITING = 16 * 1024 * 1024
"""Bytes that wait to be taken, as far as they can be told cheaply."""
_SOON = MOST_WAITING // 4
"""Bytes after which the thread does not wait for the next time."""
_EACH = 128
"""Bytes of an event besides its text."""
_MANY = 4096
"""Events and times of one run that nobody looks at, after which it is not left alone any more."""
# What can be done without: the verdict on a call has all of its text.
_LEAST_WANTED = frozenset({Grew, Text, Reasoning, Received, bytes, float})


_CLOSED = Quoting(bodies=False, hides=Plain())


class Asking(Protocol):
    """Whatever tells that a request goes to the upstream."""

    @property
    def request(self) -> Request | None:
        """None if its bytes pass through unread."""


class Chunks(Protocol):
    """Whatever tells in which form the chunks of an answer come."""

    @property
    def protocol(self) -> str:
        """The upstream's."""

    @property
    def streamed(self) -> bool:
        """Otherwise there is one: the whole answer."""


class _Done(NamedTuple):
    messages: Sequence[Message]
    seen: Sequence[tuple[Writer, Record]]
    unseen: Sequence[Writer]
    """Of runs that nobody saw. They are over."""
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
        quoting: Callable[[], Quoting] = lambda: _CLOSED,
        encoders: Encoders = ENCODERS,
        paces: Paces | None = None,
    ) -> None:
        """`quoting` is asked when a run begins; `encoders` tell what is shown of each event."""
        self.store = store
        self.live = live
        self._quoting = quoting
        self.encoders = encoders
        self._paces = paces or Paces()
        # In the order in which they were opened.
        self._writers: dict[Writer, None] = {}
        self._ended: dict[Writer, None] = {}
        """Of runs that are over, and not written down yet."""
        self.weight = 0
        """Bytes of the chunks that wait."""
        self._soon: asyncio.Handle | None = None
        self._working: asyncio.Future[_Done] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="inspector")
        self._over = False
        self._failing = False
        """Whether the last runs could not be kept. It is said once, and not every second."""
        live.on_look = self._look
        live.catch_up = self._catch_up

    def open(self, describe: Callable[[], About]) -> Writer:
        """A run begins."""
        writer = Writer(self, describe, self._quoting())
        self._writers[writer] = None
        if self._timer is None and not self._over:
            self._arm()
        return writer

    def end(self, writer: Writer) -> None:
        """Nothing more comes of a run."""
        self._ended[writer] = None

    def weigh(self, size: int) -> bool:
        """Whether there is room for something of this size."""
        if self.weight > MOST_WAITING:
            return False
        if self.weight + size > _SOON and self._soon is None:
            self._soon = asyncio.get_running_loop().call_soon(self._relieve)
        self.weight += size
        return True

    async def close(self) -> None:
        """Write down what is left."""
        if self._timer is not None:
            self._timer.cancel()
        while self._working is not None or any(writer.items for writer in self._writers):
            await self._catch_up()
        self._over = True
        self._thread.shutdown()

    # ── In the loop ─────────────────────────────────────────────────────────────────

    def _arm(self) -> None:
        pace = self._paces.choose(len(self._writers), is_watched=self.live.is_watched)
        self._timer = asyncio.get_running_loop().call_later(pace, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._hand_over(self._choose())
        if self._writers:
            self._arm()

    def _choose(self) -> Iterable[Writer]:
        """While nobody looks, a run is of interest when it is over, or if it is very long."""
        if self.live.is_watched:
            return self._writers
        long = (writer for writer in self._writers if len(writer.items) > _MANY)
        return [*self._ended, *long]

    def _look(self) -> None:
        """Somebody begins to look: what has come so far is not left until the next time."""
        if self._timer is not None:
            self._timer.cancel()
            self._tick()

    def _relieve(self) -> None:
        """A lot has come: it is not left until the next time."""
        self._soon = None
        self._hand_over(self._writers)

    async def _catch_up(self) -> None:
        """Until what has come so far is in the records."""
        if self._working is not None:
            await asyncio.wait([self._working])
        if self._working is None and any(writer.items for writer in self._writers):
            self._start(self._writers)
        if self._working is not None:
            await asyncio.wait([self._working])

    def _hand_over(self, writers: Iterable[Writer]) -> None:
        """Give what has come to the thread. While it is still at work, that has to wait; and a
        run that begins when the server has ended is not written down."""
        if self._over:
            return
        if self._working is not None:
            self._drop_what_is_too_much()
        elif any(writer.items for writer in writers):
            self._start(writers)

    def _start(self, writers: Iterable[Writer]) -> None:
        chosen = {writer: None for writer in writers if writer.items}
        batches = deque([(writer, writer.empty()) for writer in chosen])
        loop = asyncio.get_running_loop()
        self._working = loop.run_in_executor(self._thread, self._work, batches)
        self._working.add_done_callback(self._finish)

    def _finish(self, working: asyncio.Future[_Done]) -> None:
        self._working = None
        done = working.result()
        self.live.publish(done.messages)
        self.live.failed += done.failed
        for writer in done.unseen:
            self._forget(writer)
        for writer, record in done.seen:
            if record.is_over:
                self.live.running.pop(record.id, None)
                self._forget(writer)
            else:
                self.live.running[record.id] = record

    def _forget(self, writer: Writer) -> None:
        self._writers.pop(writer, None)
        self._ended.pop(writer, None)

    def _drop_what_is_too_much(self) -> None:
        count = sum(len(writer.items) for writer in self._writers)
        if self.weight + count * _EACH > MOST_WAITING:
            for writer in self._writers:
                writer.drop()

    # ── In the thread ───────────────────────────────────────────────────────────────

    def _work(self, batches: deque[tuple[Writer, list[object]]]) -> _Done:
        """One run after the other, and nothing is held longer than needed: so the next one finds
        all that it needs at hand."""
        seen: list[tuple[Writer, Record]] = []
        unseen: list[Writer] = []
        ended: list[EndedRun] = []
        while batches:
            writer, items = batches.popleft()
            record = self._take(writer, items)
            if record is None:
                continue
            if record.is_over:
                ended.append(record.keep())
            if record.is_over and writer.record is None and not self.live.is_watched:
                unseen.append(writer)
            else:
                writer.record = record
                seen.append((writer, record))
        # Whoever begins to look after this line finds the events in the record.
        shown = seen if self.live.is_watched else []
        fresh = [(record, record.publish()) for _, record in shown]
        failed = 0 if self._keep(ended) else len(ended)
        messages = [Message.of(*each) for each in fresh if each[1]]
        return _Done(messages, seen, unseen, failed)

    def _take(self, writer: Writer, items: list[object]) -> Record | None:
        """What came, in its record; None if that was over: what comes behind the end is about the
        client's connection."""
        record = writer.record
        if record is None:
            record = Record(writer.describe(), writer.quoting, encoders=self.encoders)
        elif record.is_over:
            return None
        record.dropped = writer.dropped
        record.take_all(items)
        record.join()
        return record

    def _keep(self, ended: Sequence[EndedRun]) -> bool:
        try:
            self.store.put(*ended)
        except StoreFailed as error:  # a full disk must not end what is shown; the page says so
            if not self._failing:
                _LOG.error("%s", error.why)
            self._failing = True
        else:
            self._failing = False
        return not self._failing


class Writer(msgspec.Struct, eq=False):
    """Writes down one run. (A struct, because one is made for every request.)"""

    tap: InspectorTap
    describe: Callable[[], About]
    quoting: Quoting
    items: list[object] = []
    """What happened, and before it the time. The time of a text is that of its chunk."""
    record: Record | None = None
    """What was made of it, in the thread. Until somebody looks, or it is over, nothing is."""
    dropped: int = 0
    """Events that came faster than they could be written down."""
    last: object = None
    """How it ended."""
    weight: int = 0
    """Bytes of its chunks that wait."""

    @property
    def bodies(self) -> bool:
        """Whether what was said is wanted, too: texts, arguments as they grow, chunks."""
        return self.quoting.bodies

    def ask(self, asking: Asking) -> None:
        """A request goes to the upstream; the chunks that come now are those of its answer."""
        self.take(Asked(asking.request))

    def ask_briefly(self, asking: Asking) -> None:
        """The same where nothing that was said is wanted: then a long history and the schemas of
        tools need not wait."""
        request = asking.request
        if request is not None:
            names = name_tools(request.tools, self.quoting)
            self.take(Offered(names, len(request.messages)))

    def take_briefly(self, event: object) -> None:
        """The same of an event that holds what was said: it is put into words at once."""
        self.take(self.tap.encoders[type(event)](event, self.quoting))

    def hear(self, piece: object) -> None:
        """A piece of text came."""
        self.items.append(piece)

    def take(self, event: object) -> None:
        """Something happened."""
        self.items += (perf_counter(), event)

    def end(self, event: object) -> None:
        """The last thing happened."""
        self.last = event
        self.take(event)
        self.tap.end(self)

    def listen(self, chunks: Chunks) -> Callable[[Chunk], None]:
        """Chunks come now; return what takes each of them."""
        self.items.append(Form(chunks.protocol, chunks.streamed))
        return self._receive

    def _receive(self, chunk: Chunk) -> None:
        tap, item = self.tap, chunk if isinstance(chunk, bytes) else Received(chunk)
        size = len(item) if isinstance(item, bytes) else _EACH
        if tap.weight + size < _SOON:
            tap.weight += size
        elif not tap.weigh(size):
            self.dropped += 1
            return
        self.weight += size
        self.items += (perf_counter(), item)

    def empty(self) -> list[object]:
        """What happened since the last time."""
        items, self.items = self.items, []
        self._lighten()
        return items

    def drop(self) -> None:
        """Keep only what cannot be done without; if that is much, only how it ended."""
        kept = [item for item in self.items if type(item) not in _LEAST_WANTED]
        if len(kept) * _EACH > MOST_WAITING:
            kept = [item for item in kept if item is self.last]
        times = [item for item in self.items if type(item) is float]
        self.dropped += len(self.items) - len(times) - len(kept)
        self.items[:] = [*times[-1:], *kept]
        self._lighten()

    def _lighten(self) -> None:
        self.tap.weight -= self.weight
        self.weight = 0
