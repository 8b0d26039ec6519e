"""The recorder of one run, in the event loop of its stream.

It is a list that grows, and nothing else: hundreds of other events lie between two events of a run,
so any work on a single one finds neither its code nor its data in the cache. Encoding many runs at
a time costs a fraction.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, Protocol, TypeAlias

import msgspec

from wholecall.core.conversation import Request
from wholecall.core.values import Grew, Reasoning, Text
from wholecall.inspector.encoding import Encoders, Quoting, encode_offer, name_tools
from wholecall.inspector.kept import KeptRun
from wholecall.inspector.record import About, Asked, Form, Received, Record
from wholecall.protocols.reader import Chunk

MOST_WAITING = 16 * 1024 * 1024
"""Bytes that wait, as far as they can be counted cheaply."""
MUCH_WAITING = MOST_WAITING // 4
"""Bytes after which the thread does not wait for the next time."""
EACH = 128
"""Bytes of an event without its text."""
MANY = 4096
"""Events and times of one unwatched run, after which it is encoded while it runs."""
FEW = 128
"""The same of a run that is soon written down."""
# What can be done without: the verdict on a call has all of its text.
_LEAST_WANTED = frozenset({Grew, Text, Reasoning, Received, bytes, float})


Describe: TypeAlias = Callable[[Quoting], About]
"""Returns the facts about a run at its beginning that may be shown."""


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


class Waiting:
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


# Structs, because one is made for every request.
class Writer(msgspec.Struct, eq=False):
    """Writes down one run."""

    describe: Describe
    quoting: Quoting
    waiting: Waiting
    on_end: Callable[[Writer], None]
    """Called when nothing more comes."""
    encoders: Encoders
    """The encoder of each type of event."""
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

    def take(self, event: object) -> None:
        """Something happened."""
        self.items += (perf_counter(), event)

    def end(self, event: object) -> None:
        """The last thing happened."""
        if self.last is None:
            self.last = event
            self.take(event)
            self.on_end(self)

    def conclude(self) -> KeptRun | None:
        """Return the stored form of a run that was never watched, if that is quick."""
        return None

    def empty(self) -> list[Any]:
        """Return the events since the last call."""
        items, self.items, self.is_taken = self.items, [], True
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


class BriefWriter(Writer):
    """Of a run of which nothing that was said is wanted. What would hold it is put into words at
    once, so that it need not wait."""

    told: int = 0
    """Messages of the last request."""

    def ask(self, asking: Asking) -> None:
        """A request goes to the upstream."""
        request = asking.request
        if request is not None:
            names, messages = name_tools(request.tools, self.quoting), len(request.messages)
            self.take(encode_offer(names, messages, told=self.told))
            self.told = messages

    def tell(self, event: object) -> None:
        """Something happened that holds what was said."""
        self.take(self.encoders[type(event)](event, self.quoting))

    def conclude(self) -> KeptRun | None:
        """Without a record, if it is all there and short."""
        items = self.items
        if items[-1] is not self.last or len(items) > FEW or self.is_taken or self.dropped:
            return None
        about, encoders, quoting = self.describe(self.quoting), self.encoders, self.quoting
        events: list[Any] = [about.head]
        each = iter(items)
        for time, item in zip(each, each, strict=True):
            encode = encoders.get(type(item))
            told = item if encode is None else encode(item, quoting)
            told.n, told.at = len(events), time - about.started
            events.append(told)
        return KeptRun(events, about.key)


class BodyWriter(Writer):
    """Of a run of which all that was said is wanted."""

    weight: int = 0
    """Bytes of its chunks that wait."""

    def ask(self, asking: Asking) -> None:
        """A request goes to the upstream; the chunks that come now are those of its answer."""
        self.take(Asked(asking.request))

    def hear(self, piece: object) -> None:
        """A piece of text came."""
        self.items.append(piece)

    def listen(self, chunks: Chunks) -> Callable[[Chunk], None]:
        """Chunks come now; return what takes each of them."""
        self.items.append(Form(chunks.protocol, chunks.streamed))
        return self._receive

    def _receive(self, chunk: Chunk) -> None:
        waiting, item = self.waiting, chunk if isinstance(chunk, bytes) else Received(chunk)
        size = len(item) if isinstance(item, bytes) else EACH
        if waiting.bytes + size < MUCH_WAITING:
            waiting.bytes += size
        elif not waiting.admit(size):
            self.dropped += 1
            return
        self.weight += size
        self.items += (perf_counter(), item)

    def empty(self) -> list[Any]:
        """Return the events since the last call."""
        self._lighten()
        return super().empty()

    def drop(self) -> None:
        """Keep only what cannot be done without; if that is much, only how it ended."""
        super().drop()
        self._lighten()

    def _lighten(self) -> None:
        self.waiting.bytes -= self.weight
        self.weight = 0
