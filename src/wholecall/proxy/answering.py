"""An answer on its way to one client: events in, a stream or one body out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from wholecall.core.values import JSON, Event, Text, Usage
from wholecall.protocols.answers import (
    KEEP_ALIVE,
    Encoder,
    Failure,
    Head,
    Style,
    dump,
    encode_answer,
    encode_failure,
    make_encoder,
)
from wholecall.proxy.sinks import Body, RawHeaders, Sink

_OK = 200
_BETWEEN_TURNS = "\n\n"


class Answering(Protocol):
    """Takes the events of an answer. It is finished or it fails, once."""

    def put(self, event: Event) -> None:
        """Something for the client."""

    def begin_turn(self, *, void: bool) -> None:
        """The model answers once more; `void`: what it said before is not wanted any more."""

    def report(self, progress: JSON) -> None:
        """Report progress to clients that requested it."""

    async def flush(self) -> None:
        """Send what there is; wait while the client is slow."""

    async def finish(self) -> None:
        """All events have come."""

    async def fail(self, failure: Failure, headers: RawHeaders = ()) -> None:
        """No more comes, and what came is not an answer."""


class _Seam:
    """Keeps the texts of two turns apart: they were not written to be read as one word."""

    __slots__ = ("_last", "_open")

    def __init__(self) -> None:
        self._last = ""
        self._open = False

    def begin_turn(self) -> None:
        self._open = bool(self._last)

    def join(self, event: Text) -> Text:
        if self._open:
            self._open = False
            ends = self._last.endswith("\n") or event.text.startswith("\n")
            event = event if ends else Text(_BETWEEN_TURNS + event.text)
        self._last = event.text or self._last
        return event


class StreamedAnswer:
    """Writes a stream. Its metadata is read when the first event comes."""

    def __init__(
        self,
        sink: Sink,
        protocol: str,
        *,
        make_head: Callable[[], Head],
        style: Style,
        progress: bool = False,
    ) -> None:
        self._sink = sink
        self._protocol = protocol
        self._make_head = make_head
        self._style = style
        self._progress = progress
        self._encoder: Encoder | None = None
        self._seam = _Seam()
        sink.beat = self._beat

    def open(self) -> None:
        """Begin the stream before there is anything to say: its client shall know its id."""
        self._sink.put((self._encoder or self._begin()).begin())

    def put(self, event: Event) -> None:
        """Encode an event."""
        if isinstance(event, Text):
            event = self._seam.join(event)
        self._sink.put((self._encoder or self._begin()).encode(event))

    def begin_turn(self, *, void: bool) -> None:  # noqa: ARG002 - what was sent cannot be taken back
        """Keep what was sent, and separate it from what follows."""
        self._seam.begin_turn()

    def report(self, progress: JSON) -> None:
        """Encode progress, if it is wanted."""
        if self._progress:
            self._sink.put((self._encoder or self._begin()).report(progress))

    async def flush(self) -> None:
        """Send what was encoded."""
        await self._sink.flush()

    async def finish(self) -> None:
        """End the stream. An answer that did not end well is an `UpstreamError`."""
        encoder = self._encoder or self._begin()
        encoder.demand_end()
        self._sink.put(encoder.finish())
        await self._sink.close()

    async def fail(self, failure: Failure, headers: RawHeaders = ()) -> None:
        """An HTTP error as long as nothing was sent; then an error in the stream."""
        if not self._sink.begun:
            await self._sink.send_body(make_error(self._protocol, failure, headers=headers))
            return
        self._sink.put((self._encoder or self._begin()).fail(failure))
        await self._sink.close()

    def _begin(self) -> Encoder:
        self._encoder = make_encoder(self._protocol, self._make_head(), style=self._style)
        return self._encoder

    def _beat(self) -> bytes:
        return KEEP_ALIVE if self._encoder is None else self._encoder.keep_alive()


class WholeAnswer:
    """Collects the events and writes one body."""

    def __init__(
        self, sink: Sink, protocol: str, *, make_head: Callable[[], Head], style: Style
    ) -> None:
        self._sink = sink
        self._protocol = protocol
        self._make_head = make_head
        self._style = style
        self._events: list[Event] = []
        self._rejected = 0
        self._seam = _Seam()

    def put(self, event: Event) -> None:
        """Keep an event."""
        self._events.append(self._seam.join(event) if isinstance(event, Text) else event)

    def begin_turn(self, *, void: bool) -> None:
        """Drop void content, and separate the rest from what follows."""
        if void:
            self._events = [event for event in self._events if isinstance(event, Usage)]
            self._seam = _Seam()
        self._seam.begin_turn()

    def report(self, progress: JSON) -> None:
        """Ignore progress, for which a body has no place; a header reports rejected calls."""
        rejected = progress.get("rejected") if isinstance(progress, Mapping) else None
        if isinstance(rejected, list):
            self._rejected = len(rejected)

    async def flush(self) -> None:
        """There is nothing to send yet."""

    async def finish(self) -> None:
        """Send the body. An answer that did not end well is an `UpstreamError`."""
        body = encode_answer(
            self._protocol,
            self._events,
            head=self._make_head(),
            upstream=self._style.upstream,
            functions=self._style.functions,
        )
        count = str(self._rejected).encode()
        headers = ((b"x-wholecall-rejected", count),) if self._rejected else ()
        await self._sink.send_body(Body(_OK, dump(body), headers))

    async def fail(self, failure: Failure, headers: RawHeaders = ()) -> None:
        """An HTTP error."""
        await self._sink.send_body(make_error(self._protocol, failure, headers=headers))


def make_error(protocol: str, failure: Failure, *, headers: RawHeaders = ()) -> Body:
    """An HTTP error in the client's shape."""
    content = dump(encode_failure(protocol, failure))
    return Body(failure.status, content, headers)
