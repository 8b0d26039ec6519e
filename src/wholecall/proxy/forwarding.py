"""Requests that need nothing from us: the client's bytes out, the upstream's bytes back.

Client and upstream speak the same protocol, no tools are offered, nothing is emulated. Then every
field passes in both directions, known or not. A reader listens all the same: it counts, and it
knows when an answer was cut. What is cut gets an error behind it, so that it never looks finished.
"""

from __future__ import annotations

from collections.abc import Iterable

import aiohttp

from wholecall.core.values import Ended, Event, FaultKind
from wholecall.errors import UpstreamError
from wholecall.protocols.reader import Reader
from wholecall.proxy.answering import Answering
from wholecall.proxy.piping import Letter, Pipe, read_whole
from wholecall.proxy.sinks import Body, Headers, Sink
from wholecall.proxy.taps import ChunkCame, Watch

_EVENTS = "text/event-stream"
_OK = 200
_BLANK_LINES = (b"\n\n", b"\r\n\r\n", b"\r\r")
_MOST_HELD = 1024 * 1024
"""Bytes of a frame that is not over. A longer one is sent in pieces."""
# What says how much is left. Whose account it is remains ours to know.
_KEPT_HEADERS = ("x-ratelimit-", "anthropic-ratelimit-", "openai-processing-ms")


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
        self._wants_chunks = watch.wants_chunks
        self._reader = Reader(pipe.endpoint.protocol)
        self._held = b""

    async def run(self, letter: Letter) -> None:
        """Send the request, and pass its answer on."""
        async with self._watch.asking(self._pipe.send(letter)) as response:
            if not letter.stream:
                await self._pass_whole(response)
            elif response.content_type != _EVENTS:
                await self._translate(response)
            else:
                self._sink.add_headers(_keep_headers(response))
                await self._pass_stream(response)

    # ── In one piece ────────────────────────────────────────────────────────────────

    async def _pass_whole(self, response: aiohttp.ClientResponse) -> None:
        content = await read_whole(self._pipe, response)
        self._show_chunk(content, streamed=False)
        self._judge([*self._reader.feed_response(content), *self._reader.end()])
        media_type = response.headers.get("content-type", "application/json").encode("latin-1")
        await self._sink.send_body(Body(_OK, content, _keep_headers(response), media_type))

    async def _translate(self, response: aiohttp.ClientResponse) -> None:
        """The upstream sent no stream although one was asked for: write one of what it sent."""
        content = await read_whole(self._pipe, response)
        self._show_chunk(content, streamed=False)
        events = [*self._reader.feed_response(content), *self._reader.end()]
        self._show_all(events)
        for event in events:
            self._answering.put(event)
        await self._answering.finish()

    # ── As a stream ─────────────────────────────────────────────────────────────────

    async def _pass_stream(self, response: aiohttp.ClientResponse) -> None:
        sink, reader, read = self._sink, self._reader, response.content.readany
        try:
            while chunk := await read():
                sink.put(self._cut(chunk))
                self._show_chunk(chunk)
                self._show_all(reader.feed(chunk))
                await sink.flush()
        except TimeoutError as error:
            raise self._pipe.fail(error) from error
        except (aiohttp.ClientError, OSError):
            pass  # whether the answer was over by then is written in the answer itself
        self._judge(reader.end())
        if self._held:
            sink.put(self._held + b"\n\n")
        await sink.close()

    def _cut(self, chunk: bytes) -> bytes:
        """What can be sent: whole frames, so that whatever we add stands between two of them."""
        text = self._held + chunk if self._held else chunk
        if text.endswith(b"\n\n"):
            self._held = b""
            return text
        end = max(text.rfind(blank) + len(blank) * (blank in text) for blank in _BLANK_LINES)
        if end <= 0 and len(text) > _MOST_HELD:
            end = len(text)
        end = max(end, 0)
        self._held = text[end:]
        return text[:end]

    # ── Listening ───────────────────────────────────────────────────────────────────

    def _judge(self, events: list[Event]) -> None:
        """An answer that broke off is an error, unless the upstream itself said so."""
        self._show_all(events)
        for event in events:
            if isinstance(event, Ended) and event.error not in (None, _TOLD):
                raise UpstreamError("the answer was cut off before its end", code=event.error or "")

    def _show_chunk(self, chunk: bytes, *, streamed: bool = True) -> None:
        if self._wants_chunks:
            self._watch.take(ChunkCame(self._pipe.endpoint.protocol, chunk, streamed))

    def _show_all(self, events: Iterable[Event]) -> None:
        for event in events:
            self._watch.take(event)


_TOLD = FaultKind.UPSTREAM_ERROR.value


def _keep_headers(response: aiohttp.ClientResponse) -> Headers:
    return tuple(
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in response.headers.items()
        if name.lower().startswith(_KEPT_HEADERS)
    )
