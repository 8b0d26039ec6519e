"""A sink that remembers how the answer that passed through it ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from wholecall.proxy.holding import UNREADABLE
from wholecall.proxy.sinks import Body, RawHeaders, Sink

_OK = 200
_DATA = b"data:"
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
_GOOD_ENDS = (b"response.completed", b"response.incomplete")


class _Event(msgspec.Struct):
    type: str = ""
    response: msgspec.Raw = msgspec.Raw(b"")


_EVENT = msgspec.json.Decoder(_Event)


def find_response(frames: bytes) -> bytes | None:
    """The response that the last events of a stream tell whole; None if it has no such end."""
    for line in reversed(frames.splitlines()):
        if line.startswith(_DATA):
            event = _read_event(line[len(_DATA) :])
            if event is not None and event.type in _ENDS:
                return bytes(event.response)
    return None


def _read_event(text: bytes) -> _Event | None:
    try:
        return _EVENT.decode(text)
    except UNREADABLE:
        return None


class CopyingSink:
    """Passes an answer on. A response that ended well is kept before its client knows its end."""

    def __init__(self, sink: Sink, keep: Callable[[bytes], Awaitable[None]]) -> None:
        self._sink = sink
        self._keep = keep
        self._end = b""

    @property
    def beat(self) -> Callable[[], bytes]:
        """Makes a sign of life."""
        return self._sink.beat

    @beat.setter
    def beat(self, beat: Callable[[], bytes]) -> None:
        self._sink.beat = beat

    @property
    def gone(self) -> bool:
        """True if the client disconnected."""
        return self._sink.gone

    @property
    def begun(self) -> bool:
        """True if a part of the answer was sent."""
        return self._sink.begun

    def add_headers(self, headers: RawHeaders) -> None:
        """More headers."""
        self._sink.add_headers(headers)

    def put(self, frames: bytes) -> None:
        """Add to the stream."""
        # A model may say these words, too; what they were is found out at the end.
        if any(end in frames for end in _GOOD_ENDS):
            self._end = frames
        self._sink.put(frames)

    async def flush(self) -> None:
        """Send what was added."""
        await self._sink.flush()

    def wake(self) -> None:
        """Send soon what was added."""
        self._sink.wake()

    async def close(self) -> None:
        """The stream is over."""
        response = find_response(self._end)
        if response:
            await self._keep(response)
        await self._sink.close()

    async def send_body(self, body: Body) -> None:
        """Answer in one piece."""
        if body.status == _OK:
            await self._keep(body.content)
        await self._sink.send_body(body)
