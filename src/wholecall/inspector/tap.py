"""The tap that feeds the inspector without slowing a stream.

A run is recorded in the event loop of its stream, by a list that grows and nothing else: hundreds
of other events lie between two events of a run, so any work on a single one finds neither its code
nor its data in the cache. A thread makes records of the lists, many runs at a time, and writes
those that are over to the file.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias

import msgspec

from wholecall.events import Grew, Reasoning, Text
from wholecall.inspector.page_encoder import (
    ENCODERS,
    Encoders,
    Fields,
    Quoting,
    encode_offer,
    name_tools,
)
from wholecall.inspector.run_record import (
    About,
    Batch,
    Record,
    RecordedChunk,
    RecordedForm,
    RecordedRequest,
    join_batches,
)
from wholecall.inspector.run_store import RunStore
from wholecall.messages import Request
from wholecall.protocols.reader import Chunk
from wholecall.storage import StoreFailed

_KEY = "wholecall.admission"


def put_admission(scope: MutableMapping[str, Any], is_admitted: Callable[[], bool]) -> None:
    """Let the routes ask."""
    scope[_KEY] = is_admitted


def is_admitted(scope: MutableMapping[str, Any]) -> bool:
    """Return True if the sender of the request may still read; always True without keys."""
    ask: Callable[[], bool] | None = scope.get(_KEY)
    return ask is None or ask()


# ── Runs in progress and the pages that follow them ───────────────────────────────────


PAGE_LAG = 8 * 1024 * 1024
"""Bytes that a page may lag. Beyond it, the page learns how many messages it missed."""


class LiveMessage(NamedTuple):
    """Something for pages."""

    key: str
    """Whose run it is about."""
    content: bytes

    @classmethod
    def of(cls, record: Record, events: Sequence[Fields]) -> LiveMessage:
        """Events of one run."""
        content = msgspec.json.encode({"run": record.id, "events": events})
        return cls(record.about.key, content)


class Listener:
    """One page that looks."""

    def __init__(self, owner: str | None) -> None:
        self.owner = owner
        self._waiting: list[bytes] = []
        self._size = 0
        self._missed = 0
        self._came = asyncio.Event()

    def offer(self, messages: Sequence[LiveMessage]) -> None:
        """Something for the page, as far as it may see it and keeps up."""
        for message in messages:
            if not _may_see(self.owner, message.key):
                continue
            if self._size + len(message.content) > PAGE_LAG:
                self._missed += 1
                continue
            self._waiting.append(message.content)
            self._size += len(message.content)
            self._came.set()

    async def next(self) -> bytes:
        """Return all waiting messages as a JSON array, followed by the number of missed ones."""
        await self._came.wait()
        self._came.clear()
        taken, self._waiting, self._size = self._waiting, [], 0
        if self._missed:
            taken.append(msgspec.json.encode({"missed": self._missed}))
            self._missed = 0
        return b"[" + b",".join(taken) + b"]"


def _do_nothing() -> None:
    """Do nothing: no one is listening."""


async def _wait_for_nothing() -> None:
    """Return at once: the backlog is empty."""


class LiveRuns:
    """Tells pages what happens. To be used in one event loop."""

    def __init__(self) -> None:
        self.running: dict[str, Record] = {}
        self.failed = 0
        """Runs that could not be kept."""
        self.on_look: Callable[[], None] = _do_nothing
        """Called when a page begins to watch."""
        self.catch_up: Callable[[], Awaitable[None]] = _wait_for_nothing
        """Waits until the records have all that happened."""
        self._listeners: set[Listener] = set()

    @property
    def is_watched(self) -> bool:
        """True if a page watches."""
        return bool(self._listeners)

    def publish(self, messages: Sequence[LiveMessage]) -> None:
        """Send events to all watching pages."""
        for listener in self._listeners:
            listener.offer(messages)

    @contextmanager
    def listen(self, owner: str | None) -> Iterator[Listener]:
        """Look from now on, at runs of one key or at all."""
        listener = Listener(owner)
        self._listeners.add(listener)
        self.on_look()
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    def show(self, owner: str | None) -> list[Record]:
        """The runs under way that may be seen."""
        return [run for run in self.running.values() if _may_see(owner, run.about.key)]

    def find(self, id: str, *, owner: str | None) -> Record | None:
        """A run that is under way."""
        return next((run for run in self.show(owner) if run.id == id), None)


def _may_see(owner: str | None, key: str) -> bool:
    return owner is None or owner == key


# ── The recording of runs ─────────────────────────────────────────────────────────────

_LOG = logging.getLogger(__name__)
MOST_WAITING = 16 * 1024 * 1024
"""Bytes that wait, as far as they can be counted cheaply."""
MUCH_WAITING = MOST_WAITING // 4
"""Bytes after which the thread does not wait for the next time."""
EACH = 128
"""Bytes of an event without its text."""
MANY = 4096
"""Events and times of one unwatched run, after which it is encoded while it runs."""
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
TOGETHER = 64
"""Runs that are written together. When so many have ended, the thread does not wait for the next
time: while it works, streams wait for the interpreter lock."""
_UNWRITABLE = (ArithmeticError, TypeError, ValueError)
"""Errors of a number or a text that the file cannot represent."""
# What can be done without: the verdict on a call has all of its text.
_LEAST_WANTED = frozenset({Grew, Text, Reasoning, RecordedChunk, bytes, float})

Describe: TypeAlias = Callable[[Quoting], About]
"""Returns the facts about a run at its beginning that may be shown."""


class WaitingBytes:
    """The backlog of the thread."""

    __slots__ = ("bytes", "on_much")

    def __init__(self, on_much: Callable[[], None]) -> None:
        self.bytes = 0
        self.on_much = on_much
        """Called when the thread should not be waited for."""

    def admit(self, size: int) -> bool:
        """Return True, and count it, if there is room for something of this size."""
        if self.bytes > MOST_WAITING:
            return False
        if self.bytes + size > MUCH_WAITING:
            self.on_much()
        self.bytes += size
        return True


# A struct, because one is made for every request.
class RunWriter(msgspec.Struct, eq=False):
    """Writes down one run."""

    describe: Describe
    quoting: Quoting
    encoders: Encoders
    """The encoder of each type of event."""
    waiting: WaitingBytes
    on_end: Callable[[RunWriter], None]
    """Called when nothing more comes."""
    items: list[Any] = []
    """The events, each after its time. The time of a text is that of its chunk."""
    record: Record | None = None
    """The record made by the thread. None until a page watches, or the run is over."""
    is_taken: bool = False
    """True if the thread has a part of it, of which it may make a record."""
    dropped: int = 0
    """Events that came faster than they could be written down."""
    last: object = None
    """The last event."""
    told: int = 0
    """Messages of the last request."""
    weight: int = 0
    """Bytes of its chunks that wait."""

    def take(self, event: object) -> None:
        """Something happened."""
        self.items += (perf_counter(), event)

    def encode(self, event: object) -> None:
        """Something happened that holds what was said, and that is not wanted: it need not wait."""
        self.take(self.encoders[type(event)](event, self.quoting))

    def ask(self, request: Request | None) -> None:
        """A request goes to the upstream. Chunks that come now are those of its answer."""
        if self.quoting.bodies:
            self.take(RecordedRequest(request))
        elif request is not None:
            names, messages = name_tools(request.tools, self.quoting), len(request.messages)
            self.take(encode_offer(names, messages, told=self.told))
            self.told = messages

    def hear(self, piece: object) -> None:
        """A piece of text came."""
        self.items.append(piece)

    def listen(self, form: RecordedForm) -> Callable[[Chunk], None]:
        """Chunks come now; return what takes each of them."""
        self.items.append(form)
        return self._receive

    def _receive(self, chunk: Chunk) -> None:
        waiting, item = self.waiting, chunk if isinstance(chunk, bytes) else RecordedChunk(chunk)
        size = len(item) if isinstance(item, bytes) else EACH
        if waiting.bytes + size < MUCH_WAITING:
            waiting.bytes += size
        elif not waiting.admit(size):
            self.dropped += 1
            return
        self.weight += size
        self.items += (perf_counter(), item)

    def end(self, event: object) -> None:
        """The last thing happened."""
        if self.last is None:
            self.last = event
            self.take(event)
            self.on_end(self)

    def empty(self) -> list[Any]:
        """Return the events since the last call."""
        items, self.items, self.is_taken = self.items, [], True
        self._lighten()
        return items

    def drop(self) -> None:
        """Keep only what cannot be done without; if that is much, only how it ended."""
        kept = [item for item in self.items if type(item) not in _LEAST_WANTED]
        if len(kept) * EACH > MOST_WAITING:
            kept = [item for item in kept if item is self.last]
        times = [item for item in self.items if type(item) is float]
        dropped = len(self.items) - len(times) - len(kept)
        if dropped:
            self.dropped += dropped
            self.items[:] = [*times[-1:], *kept]
        self._lighten()

    def _lighten(self) -> None:
        self.waiting.bytes -= self.weight
        self.weight = 0


class _Done(NamedTuple):
    messages: Sequence[LiveMessage]
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


class RecorderThread:
    """Encodes the events of runs and keeps those that are over, in a thread."""

    def __init__(self, store: RunStore, live: LiveRuns) -> None:
        self._store = store
        self._live = live
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="inspector")
        self._failing = False
        """True if the last runs could not be stored. It is reported once, not every second."""

    def start(self, taken: deque[tuple[RunWriter, list[Any]]]) -> asyncio.Future[_Done]:
        """Work on these events in the thread."""
        return asyncio.get_running_loop().run_in_executor(self._pool, self._work, taken)

    def close(self) -> None:
        """Wait for the thread to end."""
        self._pool.shutdown()

    def _work(self, taken: deque[tuple[RunWriter, list[Any]]]) -> _Done:
        """Encode one run after the other and hold nothing longer than needed, so that the cache
        stays warm for the next one."""
        seen: list[Record] = []
        batches: list[Batch] = []
        lost = 0
        while taken:
            record = self._take(*taken.popleft())
            seen.append(record)
            if record.is_over:
                batch = _write(record)
                batches += [] if batch is None else [batch]
                lost += batch is None
        # A page that begins to watch after this line finds the events in the record.
        shown = seen if self._live.is_watched else []
        fresh = [(record, record.publish()) for record in shown]
        lost += self._keep(batches)
        messages = [LiveMessage.of(*each) for each in fresh if each[1]]
        return _Done(messages, seen, lost)

    def _take(self, writer: RunWriter, items: list[Any]) -> Record:
        """Return the record with the new events."""
        record = writer.record
        if record is None:
            about = writer.describe(writer.quoting)
            record = writer.record = Record(about, writer.quoting, encoders=writer.encoders)
        record.dropped = writer.dropped
        record.take_all(items)
        record.join()
        return record

    def _keep(self, batches: Sequence[Batch]) -> int:
        """Write runs to the file. Return how many could not be written."""
        alone = [batch for batch in batches if batch.answers]
        others = [batch for batch in batches if not batch.answers]
        starts = range(0, len(others), TOGETHER)
        joined = [join_batches(others[start : start + TOGETHER]) for start in starts]
        try:
            self._store.put(*joined, *alone)
        except StoreFailed as error:  # a full disk must not end what is shown; the page says so
            if not self._failing:
                _LOG.error("%s", error.why)
            self._failing = True
            return len(batches)
        self._failing = False
        return 0


class InspectorTap:
    """Takes events off a stream's hands."""

    def __init__(
        self,
        store: RunStore,
        live: LiveRuns,
        *,
        encoders: Encoders = ENCODERS,
        paces: Paces | None = None,
    ) -> None:
        """`encoders` tell what is shown of each event."""
        self.store = store
        self.live = live
        self.waiting = WaitingBytes(self._hurry)
        self._encoders = encoders
        self._paces = paces or Paces()
        self._writers: dict[RunWriter, None] = {}
        """Of running runs, in the order in which they were opened."""
        self._ended: list[RunWriter] = []
        """Of runs that are over."""
        self._soon: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._working: asyncio.Future[_Done] | None = None
        self._recorder = RecorderThread(store, live)
        self._over = False
        live.on_look = self._look
        live.catch_up = self._catch_up

    def open(self, describe: Describe, quoting: Quoting) -> RunWriter:
        """A run begins."""
        writer = RunWriter(describe, quoting, self._encoders, self.waiting, self._end)
        self._writers[writer] = None
        if self._timer is None and not self._over:
            self._arm()
        return writer

    async def close(self) -> None:
        """Write down what is left."""
        if self._timer is not None:
            self._timer.cancel()
        while self._working is not None or self._is_behind(self._writers):
            await self._catch_up()
        self._over = True
        self._recorder.close()

    def _end(self, writer: RunWriter) -> None:
        """Nothing more comes of a run. What comes all the same is about its connection."""
        del self._writers[writer]
        # One that was or may be shown has to be seen to end.
        if len(self._ended) >= MOST_ENDED and not writer.is_taken:
            writer.empty()
            self.live.failed += 1
            return
        self._ended.append(writer)
        if len(self._ended) == TOGETHER:
            asyncio.get_running_loop().call_soon(self._hand_over, ())

    def _arm(self) -> None:
        pace = self._paces.choose(len(self._writers), is_watched=self.live.is_watched)
        self._timer = asyncio.get_running_loop().call_later(pace, self._tick)

    def _tick(self) -> None:
        self._timer = None
        try:
            self._hand_over(self._choose())
        finally:
            if self._writers or self._ended:
                self._arm()

    def _choose(self) -> Iterable[RunWriter]:
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

    def _is_behind(self, writers: Iterable[RunWriter]) -> bool:
        """Return True if the thread has work."""
        return bool(self._ended) or any(writer.items for writer in writers)

    def _hand_over(self, writers: Iterable[RunWriter]) -> None:
        """Give what has come to the thread. While it is still at work, that has to wait; and a
        run that begins when the server has ended is not written down."""
        if self._over:
            return
        if self._working is not None:
            self._drop_what_is_too_much()
        elif self._is_behind(writers):
            self._start(writers)

    def _start(self, writers: Iterable[RunWriter]) -> None:
        """All that are over, and these."""
        chosen = [*self._ended, *(writer for writer in writers if writer.items)]
        taken = deque([(writer, writer.empty()) for writer in chosen])
        self._ended = []
        self._working = self._recorder.start(taken)
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
        waiting = [*self._ended, *self._writers]
        count = sum(len(writer.items) for writer in waiting)
        if self.waiting.bytes + count * EACH > MOST_WAITING:
            for writer in waiting:
                writer.drop()


def _write(record: Record) -> Batch | None:
    """Return the batch of a run, or None: one that cannot be written is lost, and no other."""
    try:
        return record.keep()
    except _UNWRITABLE:
        _LOG.exception("a run cannot be written to the inspector's file")
        return None
