"""Requests that come twice get one answer: a shared stream, and notices to other processes."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import msgspec

from wholecall.errors import UnreadableRequest, UpstreamError
from wholecall.proxy.handlers.response_writer import BROKEN_OFF, NEVER_AGAIN, explain_break
from wholecall.proxy.http.client_connection import ClientSink, RawHeaders, ResponseBody
from wholecall.proxy.http.client_request import TOOLS_HEADER, ClientRequest
from wholecall.proxy.http.refusals import RequestRefused
from wholecall.storage import BlobStore, StoreFailed

MOST_BYTES = 64 * 1024 * 1024
"""Of one answer."""
_FIRST_ERROR = 400


async def _do_nothing() -> None:
    """Do nothing: the writer has not started yet."""


def _say_nothing(_: Iterator[bytes]) -> bytes:
    return b""


class _Reading:
    """The position and the format of one reader."""

    def __init__(self, frames: list[bytes], trim: Callable[[bytes], bytes]) -> None:
        self._frames = frames
        self._trim = trim
        self.count = 0

    @property
    def is_behind(self) -> bool:
        return self.count < len(self._frames)

    def take(self) -> bytes:
        frames = b"".join(self._frames[self.count :])
        self.count = len(self._frames)
        return self._trim(frames)

    def look_back(self) -> Iterator[bytes]:
        """Yield what was read, the last of it first."""
        return (self._frames[at] for at in range(self.count - 1, -1, -1))


class SharedStream:
    """A sink that any number of clients read."""

    def __init__(self, *, most_bytes: int = MOST_BYTES, outlives: bool = False) -> None:
        """`outlives`: it is made to its end, whether anybody reads it or not."""
        self._most_bytes = most_bytes
        self._outlives = outlives
        self._frames: list[bytes] = []
        self._size = 0
        self._body: ResponseBody | None = None
        self._over = False
        self._gone = False
        self._left = False
        """True if it was cancelled. A second cancellation would also cancel the cleanup."""
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._break_off: Callable[[], Coroutine[None, None, None]] = _do_nothing
        self._readers = 0
        self.beat: Callable[[], bytes] = bytes
        self.farewell: Callable[[Iterator[bytes]], bytes] = _say_nothing
        """Makes the last event for a reader whose stream ends before the answer does, if the answer
        outlives it; from what it has read, the last of it first."""

    # ── Writing ─────────────────────────────────────────────────────────────────────

    def start(
        self,
        make: Callable[[], Coroutine[None, None, None]],
        *,
        break_off: Callable[[], Coroutine[None, None, None]],
    ) -> asyncio.Task[None]:
        """Let the answer be made; `break_off` writes that it ends here."""

        async def work() -> None:
            try:
                await make()
            finally:
                self._over = True
                # It may be kept for long: drop the references to the request.
                self._break_off, self._task = _do_nothing, None
                self.beat, self.farewell = bytes, _say_nothing
                self._changed.set()

        self._break_off = break_off
        self._task = asyncio.create_task(work(), name="an answer for whoever reads it")
        return self._task

    @property
    def gone(self) -> bool:
        """True if the last of its readers disconnected before its end."""
        return self._gone

    @property
    def begun(self) -> bool:
        """True if a part of it may have been read."""
        return bool(self._frames)

    @property
    def is_over(self) -> bool:
        """True if nothing more is written."""
        return self._over

    @property
    def succeeded(self) -> bool:
        """True if it is over and not an HTTP error."""
        return self._over and (self._body is None or self._body.status < _FIRST_ERROR)

    @property
    def size(self) -> int:
        """Bytes of the stream, or of the answer in one piece."""
        return self._size + (0 if self._body is None else len(self._body.content))

    def look_back(self) -> Iterator[bytes]:
        """The stream in pieces, as far as it has come, the last one first."""
        return reversed(self._frames)

    @property
    def body(self) -> ResponseBody | None:
        """The answer in one piece, if it is one."""
        return self._body

    def add_headers(self, headers: RawHeaders) -> None:
        """Headers of an upstream's answer say nothing about a run of many."""

    def put(self, frames: bytes) -> None:
        """Add to the stream."""
        if frames:
            self._frames.append(frames)
            self._size += len(frames)

    async def flush(self) -> None:
        """Let the readers read."""
        self._changed.set()
        if self._size > self._most_bytes:
            raise UpstreamError(f"the answer has more than {self._most_bytes} bytes", code="limit")

    def wake(self) -> None:
        """Let the readers read."""
        self._changed.set()

    async def close(self) -> None:
        """The stream is over."""
        self._changed.set()

    async def send_body(self, body: ResponseBody) -> None:
        """It is an answer in one piece."""
        self._body = body
        self._changed.set()

    # ── Reading ─────────────────────────────────────────────────────────────────────

    async def copy_to(self, sink: ClientSink, *, trim: Callable[[bytes], bytes] = bytes) -> None:
        """Read it from its beginning to its end, or what `trim` leaves of it.

        The last reader who leaves ends it, and so does the end of the server, unless it outlives
        its readers.
        """
        self._readers += 1
        reading = _Reading(self._frames, trim)
        sink.beat = self._beat
        try:
            while not self._over or reading.is_behind:
                if not reading.is_behind:
                    await self._wait()
                sink.put(reading.take())
                await sink.flush()
            await self._end(sink, reading)
        except asyncio.CancelledError:
            if self._outlives:
                await self._say_farewell(sink, reading)
            elif self._readers == 1 or not sink.gone:
                await self._leave(sink, reading)
            raise
        finally:
            self._readers -= 1

    async def _end(self, sink: ClientSink, reading: _Reading) -> None:
        if self._body is not None and not reading.count:
            await sink.send_body(self._body)
        else:
            sink.put(reading.take())
            await sink.close()

    async def _say_farewell(self, sink: ClientSink, reading: _Reading) -> None:
        """Tell a reader that its stream ends before the answer does."""
        sink.put(b"" if self._over else self.farewell(reading.look_back()))
        await sink.close()

    async def _leave(self, sink: ClientSink, reading: _Reading) -> None:
        """Cancel the answer: it has no readers any more, or the server stops."""
        if not self._over and not self._left:
            self._left, self._gone = True, sink.gone
            await self._break_off()
            if self._task is not None:
                self._task.cancel()
        await self._end(sink, reading)

    async def _wait(self) -> None:
        changed = self._changed
        await changed.wait()
        if self._changed is changed:  # the first of the readers makes the next one
            self._changed = asyncio.Event()

    def _beat(self) -> bytes:
        return self.beat()


# Resent requests.
#
# Official SDKs resend a request by themselves, up to two times: after a timeout, a dropped
# connection, a 5xx. If tools run here, doing it all again would run them again. So the second
# request reads the answer to the first. A resend is distinguished from a new, equal request by:
#
# - `Idempotency-Key`: the client says so itself. With another body it is a mistake, and refused.
# - `x-stainless-retry-count`, which the official SDKs count up: above 0 it is a resend, at 0 it is
#   not.
# - Without either: an equal body while the first request is still being answered, or after it
#   failed. The AI SDK resends after any 5xx, without a count and whatever the headers say.
#
# After a disconnect the run is cancelled (see `http/client_connection`). If a tool had begun by
# then, its effects remain, and the response to a resend says so instead of running it again.


KEPT_SECONDS = 120.0
"""Seconds for which a finished answer is kept: SDKs wait at most 8 seconds, or as long as the
response demands."""
MOST_KEPT = 256
"""Finished answers that are kept. The oldest goes first; what is being made never does."""


MOST_KEPT_BYTES = 256 * 1024 * 1024
"""Of them all; but the last one is kept, however large it is."""


class ResendName(NamedTuple):
    """The identity that a resend shares with the first request."""

    key_id: str
    path: str
    word: str


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """An answer that is being made, or was a moment ago."""

    answer: SharedStream
    digest: str
    show: Callable[[], bytes] = bytes
    """Returns its state, for clients that do not wait for its end."""


class _Finished(NamedTuple):
    timer: asyncio.TimerHandle
    size: int


class ResendStore:
    """The answers that a resend may ask for."""

    def __init__(
        self,
        notices: ToolNotices | None = None,
        *,
        seconds: float = KEPT_SECONDS,
        most_bytes: int = MOST_KEPT_BYTES,
    ) -> None:
        self.notices = notices or ToolNotices()
        self.seconds = seconds
        """Seconds for which a finished answer is kept."""
        self._most_bytes = most_bytes
        self._bytes = 0
        """Of the finished answers that are kept."""
        self._kept: dict[ResendName, KeptAnswer] = {}
        self._names: dict[SharedStream, set[ResendName]] = {}
        self._over: OrderedDict[SharedStream, _Finished] = OrderedDict()

    async def find_first(self, request: ClientRequest) -> KeptAnswer | None:
        """Return the answer to a resent request; raise `RequestRefused` if the first request went
        to another process, and a tool has begun there."""
        first = self.find(request)
        if first is None and self.notices.are_kept:
            await self.notices.check(request)
            first = self.find(request)  # it may have arrived meanwhile
        return first

    def find(self, request: ClientRequest) -> KeptAnswer | None:
        """The answer that this request asks for a second time."""
        digest = _digest(request)
        key = request.headers.get("idempotency-key")
        if key:
            kept = self._kept.get(_name(request, key))
            if kept is not None and kept.digest != digest:
                said = "this Idempotency-Key came before with another request"
                raise UnreadableRequest(said, param="Idempotency-Key")
            return kept
        kept = self._kept.get(_name(request, digest))
        count = request.headers.get("x-stainless-retry-count")
        if kept is None or count == "0" or (count is None and kept.answer.succeeded):
            return None
        return kept

    def keep(
        self, request: ClientRequest, answer: SharedStream, *, show: Callable[[], bytes] = bytes
    ) -> KeptAnswer:
        """Remember an answer that is being made, and for a while after it is."""
        digest = _digest(request)
        kept = KeptAnswer(answer, digest, show)
        self._names[answer] = names = name_all(request, digest)
        self._kept.update(dict.fromkeys(names, kept))
        return kept

    def forget(self, answer: SharedStream) -> None:
        """Nothing was done that must not be done again."""
        finished = self._over.pop(answer, None)
        if finished is not None:
            finished.timer.cancel()
            self._bytes -= finished.size
        for name in self._names.pop(answer, ()):
            kept = self._kept.get(name)
            if kept is not None and kept.answer is answer:  # the same words may have come anew
                del self._kept[name]

    def forget_later(self, answer: SharedStream) -> None:
        """The answer is over; it is kept for those who lost it on the way."""
        if answer not in self._names:
            return
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self.seconds, self.forget, answer)
        self._over[answer] = _Finished(timer, answer.size)
        self._bytes += answer.size
        while len(self._over) > MOST_KEPT or (
            self._bytes > self._most_bytes and len(self._over) > 1
        ):
            self.forget(next(iter(self._over)))


def name_all(request: ClientRequest, digest: str = "") -> set[ResendName]:
    """Return the names under which a request is remembered; `digest` if the caller has it."""
    digest = digest or _digest(request)
    words = {digest, request.headers.get("idempotency-key") or digest}
    return {_name(request, word) for word in words}


def find_resend(request: ClientRequest) -> ResendName | None:
    """Under which the first is remembered, if this request says that it may be the second."""
    key = request.headers.get("idempotency-key")
    if key:
        return _name(request, key)
    count = request.headers.get("x-stainless-retry-count", "0")
    return None if count == "0" else _name(request, _digest(request))


def _name(request: ClientRequest, word: str) -> ResendName:
    return ResendName(request.key.id, request.client.path, word)


def _digest(request: ClientRequest) -> str:
    """Of the words, and of the tools that they are asked with."""
    wanted = request.headers.get(TOOLS_HEADER, "").encode()
    return hashlib.sha256(b"\0".join((wanted, request.body))).hexdigest()


# Requests in which a tool has begun, for other processes than the one that began it.
#
# A resend may reach another worker on the same port, or the one that was started
# after the first had died: both know nothing about it. So a row is written before a tool begins
# that must not begin twice, and a resend that finds it is refused. If the row cannot be written,
# the tool does not begin.


_LOG = logging.getLogger(__name__)
_TIME = msgspec.json.Decoder(float)


class ToolNotice:
    """The record that a tool begins for one request."""

    def __init__(self, write: Callable[[], None]) -> None:
        self._write = write
        self._writing = asyncio.Lock()
        self._written = False

    async def put_up(self) -> None:
        """Returns when it is on the disk; `StoreFailed` if it is not."""
        async with self._writing:
            if not self._written:
                await asyncio.to_thread(self._write)
                self._written = True


class ToolNotices:
    """In a file that all processes share; without one they are forgotten with the process."""

    def __init__(
        self, blobs: BlobStore | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._blobs = blobs
        self._clock = clock

    @property
    def are_kept(self) -> bool:
        """True if records are kept."""
        return self._blobs is not None

    def prepare(self, request: ClientRequest) -> ToolNotice | None:
        """Return the record for a request whose tools may run; None if no other process needs
        it."""
        blobs = self._blobs
        return None if blobs is None else ToolNotice(partial(self._write, blobs, request))

    async def check(self, request: ClientRequest) -> None:
        """`RequestRefused` if this is a resend, and a tool has begun for the first."""
        name = None if self._blobs is None else find_resend(request)
        if self._blobs is None or name is None:
            return
        written = await asyncio.to_thread(self._blobs.find, (_write_name(name),))
        with self._blobs.decoding():
            times = [_TIME.decode(text) for text in written.values()]
        if any(self._clock() - at < KEPT_SECONDS for at in times):
            told = explain_break(request.request_id, ran=True, gone=False)
            raise RequestRefused(told.status, told.message, code=BROKEN_OFF, headers=NEVER_AGAIN)

    def _write(self, blobs: BlobStore, request: ClientRequest) -> None:
        names = [_write_name(name) for name in name_all(request)]
        try:
            blobs.put(names, msgspec.json.encode(self._clock()))
        except StoreFailed as error:
            _LOG.error("request %s: no tool begins for it: %s", request.request_id, error.why)
            raise


def _write_name(name: ResendName) -> str:
    """Return the name of a row. A client may choose a key of any length."""
    return f"begun {hashlib.sha256(repr(tuple(name)).encode()).hexdigest()}"
