"""Pass a request through: the client's bytes out, the upstream's bytes back in whole frames."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager, closing
from functools import partial

import msgspec

from wholecall.errors import UpstreamError
from wholecall.events import Ended, Event, Fault, FaultKind, Value
from wholecall.protocols.reader import Reader, read_whole_answer
from wholecall.protocols.registry import BLANKS, LONGEST_FIELD, begins_events
from wholecall.protocols.sse_ndjson import SseParser
from wholecall.proxy.handlers.response_writer import ResponseWriter
from wholecall.proxy.http.client_connection import ResponseBody, ResponseSink, pick_headers
from wholecall.proxy.observe.taps import ChunksBegan, ExchangeWatch, Fate
from wholecall.upstreams.base import EndOfStream
from wholecall.upstreams.connection_pool import ConnectionPool
from wholecall.upstreams.endpoint import Endpoint, find_stranger, read_refusal
from wholecall.upstreams.http import MOST_BODY_BYTES, HttpSettings, ResponseContext, pools_for
from wholecall.upstreams.http_connection import (
    GOOD,
    HttpResponse,
    NotHttp,
    Stale,
    describe_failure,
    find_header,
    judge,
    read_some,
)
from wholecall.upstreams.retry import FailedAttempt, ask

LISTING_SECONDS = 5.0
"""Seconds for a list of models."""
LISTING_BYTES = 4 * 1024 * 1024


class UpstreamRequest(Value, frozen=True, kw_only=True):
    """A body for an upstream."""

    content: bytes
    model: str
    stream: bool
    below: str = ""
    """A path below the protocol's own: `count_tokens`."""
    beside: str = ""
    """A path beside the protocol's own, instead of it: `embeddings`."""
    method: str = "POST"
    query: str = ""
    headers: Mapping[str, str] = {}
    """The client's headers for this protocol."""


class UpstreamPipe:
    """Sends bodies to one endpoint."""

    def __init__(self, endpoint: Endpoint, settings: HttpSettings | None = None) -> None:
        self.endpoint = endpoint
        self._settings = settings or HttpSettings()
        self._pools = pools_for(endpoint, self._settings)

    @property
    def silence(self) -> float | None:
        """Seconds of an answer in which nothing comes that says something."""
        return self._settings.timeouts.between_chunks

    def send(self, outgoing: UpstreamRequest) -> AbstractAsyncContextManager[HttpResponse]:
        """Send a body; its answer has begun well inside of the context."""
        return ResponseContext(partial(self._begin, outgoing))

    async def _begin(self, outgoing: UpstreamRequest) -> tuple[HttpResponse, HttpResponse]:
        response = await self.open(outgoing)
        return response, response

    async def open(self, outgoing: UpstreamRequest) -> HttpResponse:
        """The same for a caller that closes the response itself."""
        return await ask(partial(self._attempt, outgoing), self._settings.retry)

    async def fetch_models(self) -> bytes:
        """The upstream's own list of its models; an `UpstreamError` if it gives none in time."""
        pool = await self._pools.current()
        try:
            async with asyncio.timeout(LISTING_SECONDS):
                return await self._fetch(pool)
        except OSError as error:
            raise self.fail(error) from error

    async def _fetch(self, pool: ConnectionPool) -> bytes:
        response = await pool.get(self.endpoint.models_url, headers=self.endpoint.headers)
        with closing(response):
            if response.status not in GOOD:
                raise UpstreamError("the upstream lists no models", status=response.status)
            return await read_whole(self, response, most_bytes=LISTING_BYTES)

    async def close(self) -> None:
        """Close the connections."""
        await self._pools.close()

    def fail(self, error: OSError) -> UpstreamError:
        """Return the error for a failed connection. It names the address and the reason, for the
        log; the address is hidden from clients."""
        said = self.endpoint.hide_secrets(describe_failure(error, self.endpoint.place))
        return UpstreamError(said, code=judge(error).code)

    async def _attempt(self, outgoing: UpstreamRequest) -> HttpResponse | FailedAttempt:
        pool = await self._pools.current()
        try:
            response = await self._send(pool, outgoing)
        except OSError as error:
            repeatable, at_once = judge(error).repeatable, isinstance(error, Stale)
            return FailedAttempt(self.fail(error), repeatable, error, at_once=at_once)
        if response.status in GOOD:
            return response
        return await read_refusal(self.endpoint, response)

    async def _send(self, pool: ConnectionPool, outgoing: UpstreamRequest) -> HttpResponse:
        endpoint, body = self.endpoint, outgoing.content
        if outgoing.beside:
            url = endpoint.sibling_url(outgoing.beside, outgoing.query)
            headers = endpoint.headers_instead(outgoing.headers)
            return await pool.send(outgoing.method, url, body=body, headers=headers)
        url = endpoint.url_for(outgoing.model, stream=outgoing.stream)
        url = url / outgoing.below if outgoing.below else url
        return await pool.post(url, body=body, headers=endpoint.headers_with(outgoing.headers))


async def read_whole(
    pipe: UpstreamPipe, response: HttpResponse, *, most_bytes: int = MOST_BODY_BYTES
) -> bytes:
    """A body in one piece, of a bounded size, without our own key."""
    try:
        body = await read_some(response, most_bytes)
    except OSError as error:
        raise pipe.fail(error) from error
    if len(body) > most_bytes:
        raise UpstreamError("the upstream's answer is too large", code="limit")
    return pipe.endpoint.hide_in(body)


_NOT_THERE = frozenset({404, 405, 501})


async def read_below(
    pipe: UpstreamPipe | None, outgoing: UpstreamRequest, *, below: str
) -> bytes | None:
    """Return the answer of the upstream's route `below` that of its protocol; None if there is
    none."""
    if pipe is None:
        return None
    asked = msgspec.structs.replace(outgoing, stream=False, below=below)
    try:
        async with pipe.send(asked) as response:
            return await read_whole(pipe, response)
    except UpstreamError as error:
        if error.status not in _NOT_THERE:
            raise
    return None


# Server-sent events on their way through: sent on in whole frames.
#
# A keep-alive or an error that we add to a stream is then between two frames, not inside one.


BLANK_LINE = b"\n\n"
_BLANK_LINES = (BLANK_LINE, b"\r\n\r\n", b"\r\r")
_SEAM = max(map(len, _BLANK_LINES)) - 1
"""Bytes of a blank line that may have come before the rest of it."""
MOST_HELD = 1024 * 1024
"""Bytes of a frame that is not over. A longer one is sent in pieces."""


class Frames:
    """Holds back an incomplete frame. Each byte is read once."""

    __slots__ = ("_held", "_last", "_size", "is_within")

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._size = 0
        self._last = b""
        """The last bytes that came, in which a blank line may have begun."""
        self.is_within = False
        """True if a part of a frame was sent, but not its end."""

    def cut(self, chunk: bytes) -> bytes:
        """Return the bytes that can be sent after this chunk."""
        if chunk.endswith(BLANK_LINE):
            self._last, self.is_within = b"", False
            return self._release() + chunk if self._held else chunk
        seam = self._last + chunk
        end = max(seam.rfind(blank) + len(blank) * (blank in seam) for blank in _BLANK_LINES)
        before = len(seam) - len(chunk)
        self._last = seam[-_SEAM:]
        if end > before:
            whole = self._release() + chunk[: end - before]
            self.is_within = False
            self._hold(chunk[end - before :])
            return whole
        self._hold(chunk)
        if self._size <= MOST_HELD:
            return b""
        self.is_within = True
        return self._release()

    def rest(self) -> bytes:
        """Return the held bytes at the end of the stream."""
        return self._release()

    def _hold(self, piece: bytes) -> None:
        if piece:
            self._held.append(piece)
            self._size += len(piece)

    def _release(self) -> bytes:
        held = b"".join(self._held)
        self._held.clear()
        self._size = 0
        return held


# Pass-through: the client's bytes out, the upstream's bytes back.
#
# Client and upstream speak the same protocol, no tools are offered, nothing is emulated. Then every
# field passes in both directions, known or not. A reader still observes: it counts, and it knows
# when an answer was cut. A cut answer is followed by an error, so that it never looks finished.


_JSON = b"application/json"
_EVENTS = "text/event-stream"
_MOST_BLANKS = 1024
"""White space may come first, as a sign of life. More of it says nothing of what follows."""
_OK = 200
_BAD_GATEWAY = 502


class Passthrough:
    """Passes one answer through."""

    def __init__(
        self,
        pipe: UpstreamPipe,
        sink: ResponseSink,
        *,
        writer: ResponseWriter,
        watch: ExchangeWatch,
    ) -> None:
        self._pipe = pipe
        self._sink = sink
        self._writer = writer
        self._watch = watch
        self._frames = Frames()
        self._told: Fault | None = None
        """The upstream's own error, which is passed on to the client."""

    async def run(self, outgoing: UpstreamRequest) -> None:
        """Send the request, and pass its answer on."""
        async with self._watch.asking(self._pipe.send(outgoing)) as response:
            if not outgoing.stream:
                await self._pass_whole(response)
                return
            named = response.content_type == _EVENTS
            start = b"" if named else await self._read_start(response)
            if named or begins_events(start):
                self._sink.add_headers(pick_headers(response.raw_headers))
                await self._pass_stream(response, start)
            else:
                await self._translate(await self._read_whole(response, start))

    # ── In one piece ────────────────────────────────────────────────────────────────

    async def _pass_whole(self, response: HttpResponse) -> None:
        content = await self._read_whole(response)
        if begins_events(content):
            await self._translate(content)
            return
        self._judge(read_whole_answer(self._pipe.endpoint.protocol, content))
        media_type = find_header(response.raw_headers, b"content-type") or _JSON
        await self._sink.send_body(
            ResponseBody(_OK, content, pick_headers(response.raw_headers), media_type)
        )

    async def _translate(self, content: bytes) -> None:
        """Translate an answer that is not streamed although the client wants a stream, or the other
        way round."""
        reader = Reader(self._pipe.endpoint.protocol)
        read = reader.feed if begins_events(content) else reader.feed_response
        events = [*read(content), *reader.end()]
        self._show_all(events)
        for event in events:
            self._writer.put(event)
        await self._writer.finish()

    async def _read_whole(self, response: HttpResponse, start: bytes = b"") -> bytes:
        content = self._pipe.endpoint.hide_in(start + await read_whole(self._pipe, response))
        take = self._watch.open_chunks(ChunksBegan(self._pipe.endpoint.protocol, streamed=False))
        if take is not None:
            take(content)
        stranger = find_stranger(response.status, response.content_type, start=content)
        if stranger:
            raise UpstreamError(f"the upstream {stranger}", code=FaultKind.PROTOCOL.value)
        return content

    # ── As a stream ─────────────────────────────────────────────────────────────────

    async def _read_start(self, response: HttpResponse) -> bytes:
        """So much of a body without a name that one can see whether it is a stream."""
        start = b""
        try:
            while len(start.lstrip(BLANKS)) < LONGEST_FIELD and len(start) < _MOST_BLANKS:
                piece = await response.read()
                if not piece:
                    break
                start += piece
        except OSError as error:
            raise self._pipe.fail(error) from error
        return start

    async def _pass_stream(self, response: HttpResponse, start: bytes) -> None:
        reader = Reader(self._pipe.endpoint.protocol)
        try:
            await self._pass_chunks(response, start, reader=reader)
            self._judge(reader.end())
        except UpstreamError:
            if self._frames.is_within:
                self._sink.put(BLANK_LINE)  # the error is not part of what was cut
            raise
        self._sink.put(self._end_frame(self._frames.rest()))
        await self._sink.close()
        if self._told is not None:
            code, message = self._told.kind.value, self._told.message
            self._watch.end(Fate.FAILED, status=_BAD_GATEWAY, code=code, message=message)

    def _end_frame(self, rest: bytes) -> bytes:
        """An event that lacks only its blank line gets it. One that was cut is left out: clients
        would take what came of it for all of it."""
        parser = SseParser()
        is_event = bool(parser.feed(rest) or parser.end())
        return rest + BLANK_LINE if is_event or self._frames.is_within else b""

    async def _pass_chunks(self, response: HttpResponse, start: bytes, *, reader: Reader) -> None:
        try:
            with EndOfStream(silence=self._pipe.silence) as end:
                await self._copy_chunks(response, start, reader=reader, end=end)
        except TimeoutError as error:
            raise self._pipe.fail(error) from error
        except OSError as error:
            # Whether the answer was over by then is written in the answer itself.
            if isinstance(error, NotHttp) and not self._sink.begun:
                raise self._pipe.fail(error) from error

    async def _copy_chunks(
        self, response: HttpResponse, start: bytes, *, reader: Reader, end: EndOfStream
    ) -> None:
        sink, read = self._sink, response.read
        take = self._watch.open_chunks(ChunksBegan(self._pipe.endpoint.protocol))
        chunk = start or await read()
        while chunk:
            chunk = self._pipe.endpoint.hide_in(chunk)
            if take is not None:
                take(chunk)
            events = reader.feed(chunk)
            self._show_all(events)
            sink.put(self._frames.cut(chunk))
            await sink.flush()
            end.look(reader, events)
            chunk = await read()

    # ── Listening ───────────────────────────────────────────────────────────────────

    def _judge(self, events: list[Event]) -> None:
        """An answer that broke off is an error, unless the upstream's own words say so."""
        self._show_all(events)
        for event in events:
            if isinstance(event, Ended) and event.error is not None and self._told is None:
                raise UpstreamError("the answer was cut off before its end", code=event.error or "")

    def _show_all(self, events: Iterable[Event]) -> None:
        watch = self._watch
        for place, event in enumerate(events):
            if type(event) in watch.wanted:
                watch.take(event)
            if isinstance(event, Fault):
                self._take_fault(event, is_first=not place)

    def _take_fault(self, fault: Fault, *, is_first: bool) -> None:
        """A stream that was cut is judged at its end; the upstream's own words are passed on.

        But before anything was said they get a status of their own. And what follows a chunk that
        could not be read cannot be judged, so that its good end would be believed.
        """
        begins = is_first and not self._sink.begun
        told = fault.kind is FaultKind.UPSTREAM_ERROR
        if fault.kind is FaultKind.PROTOCOL or (told and begins):
            raise UpstreamError(fault.message, code=fault.kind.value)
        if told:
            self._told = fault
