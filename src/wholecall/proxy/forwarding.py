"""Pass-through: the client's bytes out, the upstream's bytes back.

Client and upstream speak the same protocol, no tools are offered, nothing is emulated. Then every
field passes in both directions, known or not. A reader still observes: it counts, and it knows when
an answer was cut. A cut answer is followed by an error, so that it never looks finished.
"""

from __future__ import annotations

from collections.abc import Iterable

from wholecall.core.values import Ended, Event, Fault, FaultKind
from wholecall.errors import UpstreamError
from wholecall.protocols.detect import BLANKS, LONGEST_FIELD, begins_events
from wholecall.protocols.reader import Reader
from wholecall.protocols.sse import SseParser
from wholecall.proxy.answering import Answering
from wholecall.proxy.frames import BLANK_LINE, Frames
from wholecall.proxy.piping import Letter, Pipe, read_whole
from wholecall.proxy.sinks import Body, Sink, pick_headers
from wholecall.proxy.taps import ChunksBegan, Fate, Watch
from wholecall.upstreams.ending import EndOfStream
from wholecall.upstreams.http1.base import NotHttp, find_header
from wholecall.upstreams.http1.connection import Response
from wholecall.upstreams.strangers import find_stranger

_JSON = b"application/json"
_EVENTS = "text/event-stream"
_MOST_BLANKS = 1024
"""White space may come first, as a sign of life. More of it says nothing of what follows."""
_OK = 200
_BAD_GATEWAY = 502


class Forwarding:
    """Passes one answer through."""

    def __init__(
        self,
        pipe: Pipe,
        sink: Sink,
        *,
        answering: Answering,
        watch: Watch,
    ) -> None:
        self._pipe = pipe
        self._sink = sink
        self._answering = answering
        self._watch = watch
        self._reader = Reader(pipe.endpoint.protocol)
        self._frames = Frames()
        self._told: Fault | None = None
        """The upstream's own error, which is passed on to the client."""

    async def run(self, letter: Letter) -> None:
        """Send the request, and pass its answer on."""
        async with self._watch.asking(self._pipe.send(letter)) as response:
            if not letter.stream:
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

    async def _pass_whole(self, response: Response) -> None:
        content = await self._read_whole(response)
        if begins_events(content):
            await self._translate(content)
            return
        self._judge([*self._reader.feed_response(content), *self._reader.end()])
        media_type = find_header(response.raw_headers, b"content-type") or _JSON
        await self._sink.send_body(
            Body(_OK, content, pick_headers(response.raw_headers), media_type)
        )

    async def _translate(self, content: bytes) -> None:
        """Translate an answer that is not streamed although the client wants a stream, or the other
        way round."""
        reader = self._reader
        read = reader.feed if begins_events(content) else reader.feed_response
        events = [*read(content), *reader.end()]
        self._show_all(events)
        for event in events:
            self._answering.put(event)
        await self._answering.finish()

    async def _read_whole(self, response: Response, start: bytes = b"") -> bytes:
        content = start + await read_whole(self._pipe, response)
        take = self._watch.open_chunks(ChunksBegan(self._pipe.endpoint.protocol, streamed=False))
        if take is not None:
            take(content)
        stranger = find_stranger(response.status, response.content_type, start=content)
        if stranger:
            raise UpstreamError(f"the upstream {stranger}", code=FaultKind.PROTOCOL.value)
        return content

    # ── As a stream ─────────────────────────────────────────────────────────────────

    async def _read_start(self, response: Response) -> bytes:
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

    async def _pass_stream(self, response: Response, start: bytes) -> None:
        try:
            await self._pass_chunks(response, start)
            self._judge(self._reader.end())
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

    async def _pass_chunks(self, response: Response, start: bytes) -> None:
        try:
            with EndOfStream() as end:
                await self._copy_chunks(response, start, end=end)
        except TimeoutError as error:
            raise self._pipe.fail(error) from error
        except OSError as error:
            # Whether the answer was over by then is written in the answer itself.
            if isinstance(error, NotHttp) and not self._sink.begun:
                raise self._pipe.fail(error) from error

    async def _copy_chunks(self, response: Response, start: bytes, *, end: EndOfStream) -> None:
        sink, reader, read = self._sink, self._reader, response.read
        take = self._watch.open_chunks(ChunksBegan(self._pipe.endpoint.protocol))
        chunk = start or await read()
        while chunk:
            if take is not None:
                take(chunk)
            self._show_all(reader.feed(chunk))
            sink.put(self._frames.cut(chunk))
            await sink.flush()
            end.look(reader)
            chunk = await read()

    # ── Listening ───────────────────────────────────────────────────────────────────

    def _judge(self, events: list[Event]) -> None:
        """An answer that broke off is an error, unless the upstream's own words say so."""
        self._show_all(events)
        for event in events:
            if isinstance(event, Ended) and event.error is not None and self._told is None:
                raise UpstreamError("the answer was cut off before its end", code=event.error or "")

    def _show_all(self, events: Iterable[Event]) -> None:
        for place, event in enumerate(events):
            self._watch.take(event)
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
