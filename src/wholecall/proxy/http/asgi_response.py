"""The writer of an answer to its client, over ASGI.

Frames are collected and sent in one piece by `flush`, which is called once for each chunk from the
upstream. The headers leave with the first bytes, so that an earlier failure has a status of its
own. A client that hears nothing for long gets a keep-alive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias

from starlette.types import Send

from wholecall.events import Value

RawHeaders: TypeAlias = tuple[tuple[bytes, bytes], ...]
BEAT_SECONDS = 15.0
"""The longest silence in a stream. Proxies in between give up after 30 or 60 seconds."""
_OK = 200
# What says how much is left. Whose account it is remains ours to know.
_KEPT_HEADERS = (b"x-ratelimit-", b"anthropic-ratelimit-", b"openai-processing-ms")
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

    def note_departure(self) -> None:
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
