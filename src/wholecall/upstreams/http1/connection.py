"""A connection to an upstream, for one request after the other, and the answer that is coming in.

Silence is noticed by one timer for a connection, which looks when it rings whether anything has
come since: to set one for every read, or even every request, costs more than to read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import cast

from wholecall.upstreams.http1.base import (
    NotHttp,
    RawHeaders,
    Stale,
    Timeouts,
    decode_headers,
    find_media_type,
)
from wholecall.upstreams.http1.incoming import Incoming

MOST_UNREAD_BYTES = 256 * 1024
"""Bytes of a body that wait to be read. Then no more are taken from the socket."""
SENT_BYTES = 64 * 1024
"""Bytes of a request that are sent at a time. The loop takes any number of them, but copies and
encrypts them all at once, and says nothing of those that it has encrypted and not sent."""
_NOTHING = memoryview(b"")


class Connection(asyncio.Protocol):
    """One connection. It has one answer at a time."""

    def __init__(
        self,
        timeouts: Timeouts,
        *,
        on_free: Callable[[Connection], None],
        on_lost: Callable[[Connection], None],
    ) -> None:
        self.idle_since = 0.0
        self._timeouts = timeouts
        self._on_free = on_free
        """Called when an answer is over and another request may follow."""
        self._on_lost = on_lost
        self._tick = _shorter(timeouts.first_byte, timeouts.between_chunks)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._connected = False
        self._lost = False
        self._response: Response | None = None
        self._early: bytes | None = b""
        """What came before the first request; None: it was asked, and nothing may."""
        self._paused = False
        self._unsent = _NOTHING
        self._full = False
        """Whether what was sent last has to leave first."""
        self._heard = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def usable(self) -> bool:
        """Whether a request can be sent."""
        return self._connected and not self._transport.is_closing()

    async def ask(self, head: bytes, body: bytes) -> Response:
        """Send a request, and wait for the head of its answer."""
        if not self._connected:
            raise ConnectionResetError("it hung up before it was asked")
        response = self._response = Response(self)
        self._heard = self._loop.time()
        if self._timer is None and self._tick is not None:
            self._timer = self._loop.call_later(self._tick, self._look)
        self._transport.write(head + body[:SENT_BYTES])
        if len(body) > SENT_BYTES:
            self._unsent = memoryview(body)[SENT_BYTES:]
            self._send()
        early, self._early = self._early, None
        if early:
            self.data_received(early)
        try:
            await response.wait_for_head()
        except BaseException as error:
            response.close()
            is_second = early is None
            if is_second and response.incoming.is_silent and isinstance(error, ConnectionError):
                raise Stale(str(error)) from error
            raise
        return response

    def resume(self) -> None:
        """What has come was read."""
        if self._paused:
            self._paused = False
            self._heard = self._loop.time()
            self._transport.resume_reading()

    def close(self) -> None:
        """Close politely: nothing is on its way."""
        self._transport.close()

    def abort(self, error: OSError | None = None) -> None:
        """Close at once, if there is anything to close. An answer that is coming in is cut."""
        self._end(error or ConnectionAbortedError("it was closed on this side"))
        if self._connected:
            self._transport.abort()

    # ── Called by the loop ──────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Use this transport from now on. In a tunnel it may be lost before it is handed over."""
        self._transport = cast(asyncio.Transport, transport)
        self._connected = not self._lost

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        response = self._response
        if response is None:
            self._hear_early(data)
            return
        self._heard = self._loop.time()
        incoming = response.incoming
        try:
            incoming.feed(data)
        except NotHttp as error:
            self.abort(error)
            return
        response.wake()
        if incoming.over:
            self._finish(incoming)
        elif incoming.untaken > MOST_UNREAD_BYTES and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def _hear_early(self, data: bytes) -> None:
        """Nobody asked. Who cannot take a connection may say so as soon as it is open; between
        two requests, whatever it is, it would be taken for the next answer."""
        if self._early is None or len(self._early) > MOST_UNREAD_BYTES:
            self.abort()
        else:
            self._early += data

    def pause_writing(self) -> None:
        """More is waiting to be sent than is good."""
        self._full = True

    def resume_writing(self) -> None:
        """The upstream takes in what it is sent: it is not silent."""
        self._full = False
        self._heard = self._loop.time()
        self._send()

    def eof_received(self) -> None:
        """Nothing more comes. What is to be sent would keep it open, and nobody reads it."""
        is_sent = self._is_sent
        self._end(None)
        if not is_sent:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Whatever was on its way is lost."""
        self._connected = False
        self._lost = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._end(_as_loss(exc) if isinstance(exc, TimeoutError) else exc)
        self._on_lost(self)

    # ── What is sent ────────────────────────────────────────────────────────────────

    @property
    def _is_sent(self) -> bool:
        return not self._unsent and not self._transport.get_write_buffer_size()

    def _send(self) -> None:
        while self._unsent and not self._full:
            piece, self._unsent = self._unsent[:SENT_BYTES], self._unsent[SENT_BYTES:]
            self._transport.write(piece)

    # ── The end of an answer ────────────────────────────────────────────────────────

    def _finish(self, incoming: Incoming) -> None:
        """All of it has come. Before all of the request was sent, the connection is of no use:
        who has answered may never read the rest."""
        self._response = None
        if not self._is_sent:
            self.abort()
        elif incoming.reusable and self.usable:
            self._on_free(self)
        else:
            self._transport.close()

    def _end(self, error: Exception | None) -> None:
        """Nothing more comes; `error` says why, if it is known."""
        self._unsent = _NOTHING
        if self._response is not None:
            response, self._response = self._response, None
            response.end(error)

    # ── Silence ─────────────────────────────────────────────────────────────────────

    def _look(self) -> None:
        """See whether it is silent for too long; if not, look again when it may be."""
        self._timer = None
        response, tick = self._response, self._tick
        if response is None or tick is None:
            return  # the next request sets the timer again
        begun, timeouts = response.incoming.begun, self._timeouts
        limit = timeouts.between_chunks if begun else timeouts.first_byte
        now = self._loop.time()
        left = tick if limit is None or self._paused else self._heard + limit - now
        if left > 0:
            # At the latest after a tick: the limit may become the shorter one meanwhile.
            self._timer = self._loop.call_later(min(left, tick), self._look)
        else:
            self.abort(TimeoutError(f"nothing came for {limit:g} s"))


def _as_loss(error: TimeoutError) -> ConnectionError:
    """The system has given the connection up: nobody was silent, and nothing can come any more."""
    return ConnectionResetError(f"it is gone: {error.strerror or error}")


def _shorter(one: float | None, other: float | None) -> float | None:
    return min((each for each in (one, other) if each is not None), default=None)


class Response:
    """An answer that is coming in, for one reader."""

    def __init__(self, connection: Connection) -> None:
        self.incoming = Incoming()
        self._connection: Connection | None = connection
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None

    @property
    def status(self) -> int:
        """Of HTTP."""
        return self.incoming.status

    @property
    def raw_headers(self) -> RawHeaders:
        """All headers, as bytes."""
        return self.incoming.headers

    @property
    def headers(self) -> Mapping[str, str]:
        """By their names, in whatever case."""
        return decode_headers(self.incoming.headers)

    @property
    def content_type(self) -> str:
        """The media type without its parameters."""
        return find_media_type(self.incoming.headers)

    async def read(self) -> bytes:
        """What has come of the body; nothing: it is over."""
        incoming = self.incoming
        while True:
            data = incoming.take()
            if self._connection is not None and not incoming.untaken:
                self._connection.resume()
            if data or incoming.over:
                return data
            await self._wait()

    async def wait_for_head(self) -> None:
        """Return when the status and all headers have come."""
        while not self.incoming.has_head:
            await self._wait()

    def close(self) -> None:
        """Hang up, unless all of it has come."""
        if self._connection is not None:
            self._connection.abort()
        # Whoever was told why it ended holds this answer, which would hold what was told.
        self._error = ConnectionAbortedError("it was closed on this side")

    async def _wait(self) -> None:
        if self._error is not None:
            raise self._error
        if self._waiter is not None:
            raise RuntimeError("an answer has one reader, and this is the second")
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    # ── Called by the connection ────────────────────────────────────────────────────

    def wake(self) -> None:
        """More has come; perhaps the last of it, and then the connection is somebody else's."""
        if self.incoming.over:
            self._connection = None
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def end(self, error: Exception | None) -> None:
        """Nothing more comes; `error` says why, if it is known."""
        self._connection = None
        self._error = error or self.incoming.feed_end()
        self.incoming.let_go()
        self.wake()


async def read_some(response: Response, most_bytes: int) -> bytes:
    """Return the body, or its beginning: a little more than so many bytes."""
    pieces: list[bytes] = []
    size = 0
    while size <= most_bytes and (piece := await response.read()):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)
