"""One HTTP/1.1 connection to an upstream and the parser of its responses."""

from __future__ import annotations

import asyncio
import enum
import os
import re
import socket
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, cast

from httptools import (
    HttpParserCallbackError,
    HttpParserError,
    HttpParserUpgrade,
    HttpResponseParser,
)

from wholecall.upstreams.retry import is_repeatable

RawHeaders: TypeAlias = Sequence[tuple[bytes, bytes]]
"""Headers with names in lower case, in the order in which they arrived."""
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
GOOD = range(200, 300)
"""Statuses of success."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Time limits for each phase of a request, and for all of it."""

    connect: float | None = 10.0
    """Seconds for a connection: a free slot, the address, the handshakes."""
    first_byte: float | None = 600.0
    """Seconds of silence before the headers, and again before the first byte. A response that is
    not streamed arrives when all of it is written."""
    between_chunks: float | None = 300.0
    """Seconds of silence in a response that has begun. Models think in between. What says nothing
    does not break the silence: comments, pings, empty deltas."""
    total: float | None = 1800.0
    """Seconds for a whole response."""

    @property
    def shortest(self) -> float | None:
        """The shortest limit for a response; None without limits."""
        limits = (self.first_byte, self.between_chunks, self.total)
        return min((each for each in limits if each is not None), default=None)


class _State(enum.Enum):
    """Of a connection. In a tunnel it may be lost before it is handed over."""

    NEW = "new"
    OPEN = "open"
    LOST = "lost"


class TookTooLong(TimeoutError):
    """A response was not over in time, although something came all along."""


class ConnectTimeout(TimeoutError):
    """A connection that was not established in time, so that nothing was sent."""


class PoolClosed(OSError):
    """A pool that was closed on this side, with all requests under way."""


class Stale(ConnectionError):
    """A disconnect on a second request without any response. The upstream likely never saw the
    request, because it keeps idle connections only briefly, or not at all."""


class Unsafe(OSError):
    """An upstream that did not prove its identity, or a failed TLS handshake."""


class NotHttp(OSError):
    """Received data that is not an HTTP response."""


class ProxyRefused(OSError):
    """A refusal by the proxy on the way."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"the proxy answered with status {status}: {message}")
        self.status = status


class ConnectionTrouble(NamedTuple):
    """The meaning of a failure for the caller."""

    code: str
    repeatable: bool
    """True if another attempt may bring a response."""


def judge(error: OSError) -> ConnectionTrouble:
    """Return what a failure means for a request that got no response."""
    match error:
        case ConnectTimeout():
            # Nothing was sent yet, so it is as if the connection had been refused.
            return ConnectionTrouble("connection", repeatable=True)
        case TimeoutError():
            # The caller has waited long, and the upstream may still be at work on the request.
            return ConnectionTrouble("timeout", repeatable=False)
        case ProxyRefused():
            return ConnectionTrouble("connection", is_repeatable(error.status, {}))
        case Unsafe():
            return ConnectionTrouble("certificate", repeatable=False)
        case NotHttp() | PoolClosed():
            return ConnectionTrouble("connection", repeatable=False)
    return ConnectionTrouble("connection", repeatable=True)


def find_header(headers: RawHeaders, wanted: bytes) -> bytes:
    """Return the value of the first header of this name; empty without one."""
    for name, value in headers:
        if name == wanted:
            return value
    return b""


def find_media_type(headers: RawHeaders) -> str:
    """Return the media type of a body, without its parameters; `application/octet-stream` without
    one."""
    given = find_header(headers, b"content-type").partition(b";")[0].strip()
    return given.decode("latin-1").lower() or "application/octet-stream"


class ResponseHeaders(Mapping[str, str]):
    """Headers by name; the case of names does not count. The first of several values counts."""

    __slots__ = ("_values",)

    def __init__(self, headers: RawHeaders) -> None:
        self._values: dict[str, str] = {}
        for name, value in headers:
            text = value.decode("utf-8", "surrogateescape")
            self._values.setdefault(name.decode("latin-1"), text)

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def find_cause(error: OSError) -> str:
    """Return why a connection failed, without addresses: clients of the proxy read this."""
    if isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    if error.errno is not None:
        return os.strerror(error.errno)
    # Several addresses failed, each in its own way; errors that we raise ourselves have their own
    # types.
    return "none of its addresses answers" if type(error) is OSError else str(error)


# An HTTP/1.1 response as its bytes arrive, without a connection.
#
# llhttp finds the parts, through httptools, as it does for uvicorn. This module decides what llhttp
# leaves open:
#
# - where a body ends: by its length, by its last chunk, or, if it has neither, with the connection;
# - what a closed connection means: the end of such a body, and a cut of any other;
# - how large a head may be, and what else surrounds a body; trailers are left out;
# - that interim responses such as `100 Continue` come before the real one;
# - whether the connection can be used again: only if nothing followed the response;
# - in which codings a body may arrive, although none is requested.


MOST_HEAD_BYTES = 64 * 1024
"""Bytes of a status line and its headers, and of what comes between and after the parts of a body.
The longest, with policies and cookies, have a tenth."""
TAKEN_BYTES = 64 * 1024
"""Bytes of a body that are read at a time. Each reader makes some copies of them, and keeps those
while its own client is slow."""
INFLATED_BYTES = TAKEN_BYTES
"""Bytes to inflate from a compressed body at a time: a few bytes may become gigabytes."""
_INTERIM = range(100, 200)
_EITHER_FORM = 32 + zlib.MAX_WBITS
"""For zlib: the header says whether it is gzip or deflate."""
_NO_HEADER = -zlib.MAX_WBITS
_GZIP_BEGINS = 0x1F
_DEFLATE_BEGINS = 0x08
"""The compression method of deflate, in the lower half of the first byte."""
_PACKED = frozenset({b"gzip", b"x-gzip", b"deflate"})
_FOREIGN = frozenset({b"br", b"zstd", b"compress", b"x-compress"})
# Any other value (`utf-8`, `none`) is not a coding, and the body is taken as it is.
_SPENT = HttpResponseParser(object())
"""A placeholder for the parser of a response that has ended."""


class AnswerParser:
    """One response, fed piece by piece. The parser calls its `on_…` methods."""

    def __init__(self) -> None:
        self.has_head = False
        """True if the status and all headers have arrived."""
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        """Names in lower case."""
        self.over = False
        """True if the last byte has arrived."""
        self.reusable = False
        """True if another request may follow on the connection; known when the response is
        complete."""
        self.begun = False
        """True if any byte of the body has arrived."""
        self.untaken = 0
        """Bytes of the body that were not taken yet."""
        self._pieces: list[bytes] = []
        self._parser = _make_parser(self)
        self._empty_bytes = 0
        """Bytes since the last useful ones: a head, or a part of the body."""
        self._header_bytes = 0
        self._until_closed = False
        self._inflating: _Inflating | None = None
        self._coding = b""
        """The coding of the body, if it cannot be decoded."""

    @property
    def is_silent(self) -> bool:
        """True if nothing has arrived yet."""
        return not self.has_head and not self._empty_bytes

    def feed(self, data: bytes) -> None:
        """Parse received bytes; raise `NotHttp` if they are not a response."""
        if self._parser is _SPENT or not data:
            self.reusable = self.reusable and not data  # no more bytes were requested
            return
        self._empty_bytes += len(data)
        known = len(self._pieces)
        try:
            self._parse(data)
        finally:
            self._count_body(known)
        if self.over:
            self.let_go()
        if max(self._empty_bytes, self._header_bytes) > MOST_HEAD_BYTES:
            raise NotHttp(f"more than {MOST_HEAD_BYTES} bytes surround its answer")

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as error:
            raise NotHttp("it switches to another protocol") from error
        except HttpParserCallbackError as error:
            raise error.__context__ or error from None  # our own mistake in one of the methods
        except HttpParserError as error:
            self.reusable = False
            if not self.over:
                raise NotHttp(str(error)) from error

    def _count_body(self, known: int) -> None:
        """Count the pieces of the body after the known ones."""
        if len(self._pieces) > known:
            self.begun = True
            self._empty_bytes = 0
            self.untaken += sum(map(len, self._pieces[known:]))

    def feed_end(self) -> ConnectionError | None:
        """Handle the end of the connection; return an error if it cut the response."""
        self.reusable = False
        if self.over:
            return None
        if self._until_closed:
            self.over = True
            self.let_go()
            return None
        where = "without an answer" if self.is_silent else "in the middle of an answer"
        return ConnectionResetError(f"it hung up {where}")

    def take(self) -> bytes:
        """Return what has arrived of the body since the last time, decoded."""
        if self._coding and self._pieces:
            coding = self._coding.decode("latin-1")
            raise NotHttp(f"its answer is encoded as {coding!r}, which was not requested")
        if self._inflating is not None:
            return self._take_inflated(self._inflating)
        return self._take_raw()

    def let_go(self) -> None:
        """Release the parser: nothing more is read. The parser holds this object, which holds the
        parser."""
        self._parser = _SPENT

    def _take_raw(self) -> bytes:
        pieces = self._pieces
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        if len(data) > TAKEN_BYTES:
            data, rest = data[:TAKEN_BYTES], data[TAKEN_BYTES:]
            pieces.append(rest)
        self.untaken -= len(data)
        return data

    def _take_inflated(self, inflating: _Inflating) -> bytes:
        inflated = b""
        while not inflated and (inflating.waiting or self._pieces):
            if not inflating.waiting:
                inflating.waiting = self._take_raw()
            inflated = inflating.take()
        if not inflated and self.over and not inflating.complete:
            raise ConnectionResetError("it hung up in the middle of a compressed answer")
        return inflated

    def _find_coding(self) -> None:
        given = find_header(self.headers, b"content-encoding").lower()
        if not given:
            return
        codings = {each.strip() for each in given.split(b",")} & (_PACKED | _FOREIGN)
        if given in _PACKED:
            self._inflating = _Inflating(given)
        elif codings:
            self._coding = b", ".join(sorted(codings))

    # ── Called by the parser ────────────────────────────────────────────────────────

    def on_message_begin(self) -> None:
        """Note the start of a response. None should follow the requested one."""
        if self.over:
            self.reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header. Skip a trailer, which comes after the body and is not needed."""
        if self.has_head:
            return
        self._header_bytes += len(name) + len(value)
        if _CONTROL.search(value) is None:  # with control characters it does harm
            self.headers.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        """Process the complete head."""
        if self.over or self._header_bytes > MOST_HEAD_BYTES:
            return
        status = self._parser.get_status_code()
        if status in _INTERIM:
            self.headers.clear()
            return
        self.has_head = True
        self.status = status
        self._empty_bytes = 0
        self._until_closed = _ends_with_connection(self.headers)
        self._find_coding()

    @property
    def on_body(self) -> Callable[[bytes], None]:
        """The function that stores a piece of the body. The parser takes it once, and calls it for
        each chunk of a stream."""
        return self._pieces.append

    def on_message_complete(self) -> None:
        """Complete the response, unless it was an interim one."""
        if self.has_head and not self.over:
            self.over = True
            self._pieces = [*self._pieces]  # the parser does not add to this list
            self._empty_bytes = 0
            self.reusable = self._parser.should_keep_alive()


def _make_parser(incoming: AnswerParser) -> HttpResponseParser:
    parser = HttpResponseParser(incoming)
    # Careless servers write this, and browsers and other clients read it all the same. It is
    # dangerous if two readers of one connection may disagree on where a response ends; here we are
    # the only reader.
    parser.set_dangerous_leniencies(
        lenient_headers=True,
        lenient_optional_cr_before_lf=True,
        lenient_spaces_after_chunk_size=True,
    )
    return parser


def _ends_with_connection(headers: RawHeaders) -> bool:
    """Return True if a body has neither a length nor a last chunk."""
    named = dict(headers)  # of several with one name, the last
    coding = named.get(b"transfer-encoding")
    if coding is not None:
        return not coding.lower().endswith(b"chunked")
    return b"content-length" not in named


class _Inflating:
    """A compressed body, inflated bit by bit."""

    def __init__(self, coding: bytes) -> None:
        self.waiting = b""
        """Received bytes that were not inflated yet."""
        self._coding = coding
        self._zlib: zlib._Decompress | None = None
        self._ended = False

    @property
    def complete(self) -> bool:
        return self._zlib is None or self._zlib.eof

    def take(self) -> bytes:
        """Return the next inflated part of the waiting bytes, which may be empty."""
        if self._zlib is None:
            self._zlib = zlib.decompressobj(self._find_form())
        elif self._zlib.eof:
            # Another member may follow a gzip member; anything else is padding, and nothing follows
            # it.
            self._ended = self._ended or self.waiting[0] != _GZIP_BEGINS
            if self._ended:
                self.waiting = b""
                return b""
            self._zlib = zlib.decompressobj(_EITHER_FORM)
        try:
            inflated = self._zlib.decompress(self.waiting, INFLATED_BYTES)
        except zlib.error as error:
            raise NotHttp(f"its compressed answer is damaged: {error}") from error
        self.waiting = self._zlib.unconsumed_tail or self._zlib.unused_data
        return inflated

    def _find_form(self) -> int:
        """Return the format for zlib. Some servers that say `deflate` leave its header out."""
        first = self.waiting[0]
        bare = first & 0x0F != _DEFLATE_BEGINS and first != _GZIP_BEGINS
        return _NO_HEADER if bare and self._coding == b"deflate" else _EITHER_FORM


# A connection to an upstream, for one request after the other, and the response that is arriving.
#
# Each connection has one timer to detect silence. When it fires, it checks whether anything has
# arrived since. Setting a timer for every read, or even every request, costs more than reading.


MOST_UNREAD_BYTES = 64 * 1024
"""Bytes of a body that may wait to be read. Beyond that, no more are taken from the socket."""
SENT_BYTES = 64 * 1024
"""Bytes of a request that are sent at a time. The loop accepts any number of them, but copies and
encrypts them all at once, and does not report those that it has encrypted and not sent."""
_NOTHING = memoryview(b"")


class HttpConnection(asyncio.Protocol):
    """One connection. It has one response at a time."""

    def __init__(
        self,
        timeouts: Timeouts,
        *,
        on_free: Callable[[HttpConnection], None],
        on_lost: Callable[[HttpConnection], None],
    ) -> None:
        self.idle_since = 0.0
        self._timeouts = timeouts
        self._on_free = on_free
        """Called when a response is complete and another request may follow."""
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._state = _State.NEW
        self._response: HttpResponse | None = None
        self._early: bytes | None = b""
        """Bytes that arrived before the first request; None after it: then none may."""
        self._paused = False
        self._unsent = _NOTHING
        self._full = False
        """True if earlier data has to leave the write buffer first."""
        self._heard = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def usable(self) -> bool:
        """True if a request can be sent."""
        return self._state is _State.OPEN and not self._transport.is_closing()

    async def ask(self, head: bytes, body: bytes) -> HttpResponse:
        """Send a request, and wait for the head of its response."""
        if self._state is not _State.OPEN:
            raise ConnectionResetError("it hung up before it was asked")
        self._heard = self._loop.time()
        response = self._response = HttpResponse(self, asked_at=self._heard)
        if self._timer is None:
            self._set_timer(self._timeouts.shortest)
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
        """Resume reading, after the received data was read."""
        if self._paused:
            self._paused = False
            self._heard = self._loop.time()
            self._transport.resume_reading()

    def close(self) -> None:
        """Close gracefully: nothing is under way."""
        self._transport.close()

    def abort(self, error: OSError | None = None) -> None:
        """Close at once, if there is anything to close. A response that is arriving is cut."""
        self._end(error or ConnectionAbortedError("it was closed on this side"))
        if self._state is _State.OPEN:
            self._transport.abort()

    # ── Called by the loop ──────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Use this transport from now on."""
        self._transport = cast(asyncio.Transport, transport)
        if self._state is _State.NEW:
            self._state = _State.OPEN

    def data_received(self, data: bytes) -> None:
        """Process received bytes."""
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
        """Keep bytes that arrive before the first request: an upstream that cannot take a
        connection may say so as soon as it is open. Abort if they arrive between two requests,
        where they would be taken for the next response."""
        if self._early is None or len(self._early) > MOST_UNREAD_BYTES:
            self.abort()
        else:
            self._early += data

    def pause_writing(self) -> None:
        """Pause sending: the write buffer is full."""
        self._full = True

    def resume_writing(self) -> None:
        """Resume sending: the upstream takes in data, so it is not silent."""
        self._full = False
        self._heard = self._loop.time()
        self._send()

    def eof_received(self) -> None:
        """End the response: nothing more arrives. Abort if data is unsent: it would keep the
        connection open, and no one reads it."""
        is_sent = self._is_sent
        self._end(None)
        if not is_sent:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the response under way, and report the lost connection."""
        self._state = _State.LOST
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._end(_as_loss(exc) if isinstance(exc, TimeoutError) else exc)
        self._on_lost(self)

    # ── Sending ─────────────────────────────────────────────────────────────────────

    @property
    def _is_sent(self) -> bool:
        return not self._unsent and not self._transport.get_write_buffer_size()

    def _send(self) -> None:
        while self._unsent and not self._full:
            piece, self._unsent = self._unsent[:SENT_BYTES], self._unsent[SENT_BYTES:]
            self._transport.write(piece)

    # ── The end of a response ───────────────────────────────────────────────────────

    def _finish(self, incoming: AnswerParser) -> None:
        """Finish a complete response. If the request was not sent in full, the connection is
        useless: an upstream that has answered may never read the rest."""
        self._response = None
        if not self._is_sent:
            self.abort()
        elif incoming.reusable and self.usable:
            self._on_free(self)
        else:
            self._transport.close()

    def _end(self, error: Exception | None) -> None:
        """End the response: nothing more arrives. `error` says why, if it is known."""
        self._unsent = _NOTHING
        if self._response is not None:
            response, self._response = self._response, None
            response.end(error)

    # ── Silence ─────────────────────────────────────────────────────────────────────

    def _set_timer(self, seconds: float | None) -> None:
        if seconds is not None:
            self._timer = self._loop.call_later(seconds, self._look)

    def _look(self) -> None:
        """Abort after too long a silence; otherwise check again when it may be too long."""
        self._timer = None
        response, tick = self._response, self._timeouts.shortest
        if response is None or tick is None:
            return  # the next request sets the timer again
        begun, timeouts = response.incoming.begun, self._timeouts
        limit = timeouts.between_chunks if begun else timeouts.first_byte
        now = self._loop.time()
        left = tick if limit is None or self._paused else self._heard + limit - now
        left_of_all = tick if timeouts.total is None else response.asked_at + timeouts.total - now
        if left_of_all <= 0:
            self.abort(TookTooLong(f"it was not over after {timeouts.total:g} s"))
        elif left <= 0:
            self.abort(TimeoutError(f"nothing came for {limit:g} s"))
        else:
            # After a tick at the latest: the limit may become the shorter one in the meantime.
            self._set_timer(min(left, left_of_all, tick))


def _as_loss(error: TimeoutError) -> ConnectionError:
    """Return the error for a connection that the system gave up: the upstream was not silent, and
    nothing more can arrive."""
    return ConnectionResetError(f"it is gone: {error.strerror or error}")


class HttpResponse:
    """A response that is arriving, for one reader."""

    def __init__(self, connection: HttpConnection, *, asked_at: float) -> None:
        self.asked_at = asked_at
        self.incoming = AnswerParser()
        self._connection: HttpConnection | None = connection
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.incoming.status

    @property
    def raw_headers(self) -> RawHeaders:
        """All headers, as bytes."""
        return self.incoming.headers

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers by name; the case of names does not count."""
        return ResponseHeaders(self.incoming.headers)

    @property
    def content_type(self) -> str:
        """The media type without its parameters."""
        return find_media_type(self.incoming.headers)

    async def read(self) -> bytes:
        """Return the bytes of the body that have arrived; empty at its end."""
        incoming = self.incoming
        while True:
            data = incoming.take()
            if self._connection is not None and not incoming.untaken:
                self._connection.resume()
            if data or incoming.over:
                return data
            await self._wait()

    async def read_start(self, most: int) -> bytes:
        """Return the first bytes that say something, or so much white space."""
        start = await self.read()
        while start.isspace() and len(start) < most:
            more = await self.read()
            if not more:
                break
            start += more
        return start

    async def wait_for_head(self) -> None:
        """Wait until the status and all headers have arrived."""
        while not self.incoming.has_head:
            await self._wait()

    def close(self) -> None:
        """Disconnect, unless the whole response has arrived."""
        if self._connection is not None:
            self._connection.abort()
        # The raised error's traceback holds this response, which must not hold the error in turn.
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
        """Wake the reader: more has arrived. After the last byte, the connection is free for other
        requests."""
        if self.incoming.over:
            self._connection = None
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def end(self, error: Exception | None) -> None:
        """End the response: nothing more arrives. `error` says why, if it is known."""
        self._connection = None
        self._error = error or self.incoming.feed_end()
        self.incoming.let_go()
        self.wake()


def describe_failure(error: OSError, place: str, *, first_byte: float | None = None) -> str:
    """Return the message for a failed connection; `first_byte`: seconds to wait for an answer."""
    said = f"the connection to {place} failed: {find_cause(error)}"
    match error:
        case ConnectTimeout():
            said = f"no connection to {place}: {error}"
        case TimeoutError() if first_byte is not None:
            said = f"{place} did not begin to answer within {first_byte:g} s"
        case TookTooLong():
            said = f"{place} did not end its answer in time: {error}"
        case TimeoutError():
            said = f"{place} fell silent"
        case ProxyRefused():
            said = str(error)
        case Unsafe():
            said = f"no safe connection to {place}"  # the cause names the host to clients
        case NotHttp():
            said = f"{place} does not speak HTTP: {error}"
    return said


async def read_some(response: HttpResponse, most_bytes: int) -> bytes:
    """Return the body, or its beginning: a little more than `most_bytes`."""
    pieces: list[bytes] = []
    size = 0
    while size <= most_bytes and (piece := await response.read()):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)
