"""The connection to one client, over ASGI: read its request, write its response, notice that it
disconnected.

Frames are collected and sent in one piece by `flush`, which is called once for each chunk from the
upstream. The headers leave with the first bytes, so that an earlier failure has a status of its
own. A client that hears nothing for long gets a keep-alive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Protocol, TypeAlias

from starlette.types import Receive, Send

from wholecall.events import Value
from wholecall.protocols.registry import CLIENTS, upstream_side
from wholecall.proxy.http.shutdown import WorkInProgress

RawHeaders: TypeAlias = tuple[tuple[bytes, bytes], ...]
BEAT_SECONDS = 15.0
"""The longest silence in a stream. Proxies in between give up after 30 or 60 seconds."""
_OK = 200
# What says how much is left. Whose account it is remains ours to know.
_KEPT_HEADERS = tuple(
    header.encode() for name in CLIENTS for header in upstream_side(name).shared_headers
)
_FRAME_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
_STREAM_HEADERS: RawHeaders = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    # nginx would collect a stream until its buffer is full.
    (b"x-accel-buffering", b"no"),
)


def pick_headers(headers: Iterable[tuple[bytes, bytes]]) -> RawHeaders:
    """Those of an upstream's headers, in lower case, that its client may read."""
    return tuple(each for each in headers if each[0].startswith(_KEPT_HEADERS))


class ResponseBody(Value, frozen=True):
    """An answer in one piece."""

    status: int
    content: bytes
    headers: RawHeaders = ()
    media_type: bytes = b"application/json"


def _do_nothing() -> None:
    """Do nothing: no one is listening."""


class ResponseSink(Protocol):
    """Takes one answer: a stream, or a body in one piece."""

    beat: Callable[[], bytes]
    """Makes a sign of life."""

    @property
    def gone(self) -> bool:
        """True if its client disconnected."""

    @property
    def begun(self) -> bool:
        """True if a part of the answer was sent, so that its status is fixed."""

    def add_headers(self, headers: RawHeaders) -> None:
        """More headers, as long as none were sent."""

    def put(self, frames: bytes) -> None:
        """Add to the stream."""

    async def flush(self) -> None:
        """Send what was added; wait for a slow reader."""

    def wake(self) -> None:
        """Send soon what was added: no `flush` is near."""

    async def close(self) -> None:
        """The stream is over."""

    async def send_body(self, body: ResponseBody) -> None:
        """Answer in one piece."""


class ClientSink:
    """Writes to the client of one request."""

    def __init__(self, send: Send, *, beat_seconds: float = BEAT_SECONDS) -> None:
        self.beat_seconds = beat_seconds
        """The longest silence for the client."""
        self._send = send
        self._headers: RawHeaders = ()
        self._pending: list[bytes] = []
        self._begun = False
        self._over = False
        """True if the last byte was sent: later output is discarded."""
        self._gone = False
        self._whole_frames = True
        self._written_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._beating: asyncio.Task[None] | None = None
        self.beat: Callable[[], bytes] = bytes
        self.on_begin: Callable[[], None] = _do_nothing
        """Called when the first bytes of a good answer are on their way."""

    @property
    def gone(self) -> bool:
        """True if the client disconnected."""
        return self._gone

    def note_disconnect(self) -> None:
        """The client hung up."""
        self._gone = True

    @property
    def begun(self) -> bool:
        """True if the status has been sent."""
        return self._begun

    def add_headers(self, headers: RawHeaders) -> None:
        """More headers, as long as none were sent; of two with one name the later counts."""
        self._headers = tuple({**dict(self._headers), **dict(headers)}.items())

    def start_beating(self) -> None:
        """From now on a silence is broken by a sign of life."""
        loop = asyncio.get_running_loop()
        self._written_at = loop.time()
        self._timer = loop.call_later(self.beat_seconds, self._tick)

    def put(self, frames: bytes) -> None:
        """Add to the stream."""
        if frames:
            self._pending.append(frames)

    async def flush(self) -> None:
        """Send what was added, in one piece."""
        if self._pending:
            frames = b"".join(self._pending)
            self._pending.clear()
            await self._write(frames)

    def wake(self) -> None:
        """Send soon what was added."""
        self._beating = asyncio.get_running_loop().create_task(self.flush())

    async def close(self) -> None:
        """Send the rest, and end the stream."""
        self.stop()
        await self._begin(_OK, _STREAM_HEADERS)
        self._over = True
        rest = b"".join(self._pending)
        self._pending.clear()
        await self._send({"type": "http.response.body", "body": rest, "more_body": False})

    async def send_body(self, body: ResponseBody) -> None:
        """Answer in one piece."""
        self.stop()
        self._over = True
        length = str(len(body.content)).encode()
        own = ((b"content-type", body.media_type), (b"content-length", length))
        await self._begin(body.status, (*own, *body.headers))
        await self._send({"type": "http.response.body", "body": body.content, "more_body": False})

    async def begin_raw(self, status: int, headers: RawHeaders) -> None:
        """Begin an answer whose bytes its caller sends by itself."""
        self.stop()
        self._over = True
        await self._begin(status, headers)

    def stop(self) -> None:
        """Give no more signs of life."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def let_go(self) -> None:
        """End the request. The writer of the answer and this sink refer to each other; without this
        reference all of it is freed at once, not by the garbage collector."""
        self.stop()
        self.beat, self.on_begin = bytes, _do_nothing

    async def _write(self, frames: bytes) -> None:
        if self._over:
            return
        if not self._begun:
            await self._begin(_OK, _STREAM_HEADERS)
        self._whole_frames = frames.endswith(_FRAME_ENDS)
        self._written_at = asyncio.get_running_loop().time()
        await self._send({"type": "http.response.body", "body": frames, "more_body": True})

    async def _begin(self, status: int, headers: RawHeaders) -> None:
        if self._begun:
            return
        self._begun = True
        if status == _OK:
            self.on_begin()
        every = [*headers, *self._headers]
        await self._send({"type": "http.response.start", "status": status, "headers": every})

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        rest = self._written_at + self.beat_seconds - loop.time()
        if rest <= 0:
            rest = self.beat_seconds
            if self._whole_frames:  # inside a frame it would become part of it
                self._beating = loop.create_task(self._write(self.beat()))
        self._timer = loop.call_later(rest, self._tick)


# ── Disconnects ─────────────────────────────────────────────────────────────────────


AT_ONCE_SECONDS = 0.1
"""An answer that takes no longer is not broken off."""


class ClientDisconnected(Exception):
    """The client disconnected: no one waits for the answer any more."""


async def read_body(receive: Receive) -> bytes:
    """The body of a request. Its size is the edge's concern."""
    pieces: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        pieces.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(pieces)


class DisconnectWatcher:
    """Poll for disconnects while a response is slow.

    It polls every `seconds` while a client is being answered; one that is there twice takes long.
    A timer for each of them would be started and stopped with every request.
    """

    def __init__(self, seconds: float = AT_ONCE_SECONDS) -> None:
        self._seconds = seconds
        self._new: set[UntilDisconnect] = set()
        self._seen: set[UntilDisconnect] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop of its timer."""

    def enter(self, client: UntilDisconnect) -> None:
        """A client is being answered."""
        self._new.add(client)
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            loop.call_later(self._seconds, self._go_round, loop)

    def leave(self, client: UntilDisconnect) -> None:
        """Its answer is over."""
        self._new.discard(client)
        self._seen.discard(client)

    def _go_round(self, loop: asyncio.AbstractEventLoop) -> None:
        for client in self._seen:
            client.watch()
        self._seen, self._new = self._new, set()
        if self._seen:
            loop.call_later(self._seconds, self._go_round, loop)
        else:
            self._loop = None


class UntilDisconnect:
    """Cancels its block when the client disconnects; it then ends with `ClientDisconnected`.

    `on_gone` is called before: the cancelled code may ask why.

    A quick answer is not watched at all: waiting for a disconnect takes a task of its own, which
    costs more than many an answer.
    """

    __slots__ = ("_disconnects", "_gone", "_on_gone", "_receive", "_task", "_watcher")

    def __init__(
        self, receive: Receive, on_gone: Callable[[], None], *, disconnects: DisconnectWatcher
    ) -> None:
        self._receive = receive
        self._on_gone = on_gone
        self._disconnects = disconnects
        self._gone = False
        self._task: asyncio.Task[Any] | None = None
        self._watcher: asyncio.Task[None] | None = None

    def __enter__(self) -> None:
        self._task = asyncio.current_task()
        self._disconnects.enter(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        task, watcher = self._task, self._watcher
        self._disconnects.leave(self)
        if watcher is not None:
            watcher.cancel()
        # They hold this, and only the collector could free them if this held them, too.
        self._watcher = self._task = None
        # Our own cancellation is taken back; the server's is passed on.
        ours = self._gone and isinstance(error, asyncio.CancelledError)
        if ours and task is not None and task.uncancel() == 0:
            raise ClientDisconnected from None

    def watch(self) -> None:
        """Wait for the client's departure from now on."""
        self._watcher = asyncio.create_task(self._watch(), name="watch for the client's departure")

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        self._on_gone()
        if self._task is not None:
            self._task.cancel()


class ClientConnections:
    """Opens and closes the connections to clients: keep-alives, and watches for disconnects."""

    def __init__(self, work: WorkInProgress, *, keep_alive_seconds: float = BEAT_SECONDS) -> None:
        self.keep_alive_seconds = keep_alive_seconds
        """The longest silence of a stream."""
        self._work = work
        self._disconnects = DisconnectWatcher()
        self.hold = work.hold
        """Keeps a task that continues although its request may be over."""

    @contextmanager
    def open(self, send: Send) -> Iterator[ClientSink]:
        """Answer a client inside of the context, which a disconnect ends without an error."""
        sink = ClientSink(send, beat_seconds=self.keep_alive_seconds)
        self._work.begin(sink)
        try:
            yield sink
        except ClientDisconnected:
            pass
        finally:
            sink.let_go()
            self._work.end(sink)

    def watch(self, receive: Receive, sink: ClientSink) -> UntilDisconnect:
        """Return a block that is cancelled when the client disconnects."""
        return UntilDisconnect(receive, sink.note_disconnect, disconnects=self._disconnects)
