"""An answer with several readers: now, or a moment later.

The run that makes it has a task of its own. Everything it wrote is kept, so that a client that lost
its connection and resends its request reads the same answer from the beginning, instead of a second
run doing the same things again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator

from wholecall.errors import UpstreamError
from wholecall.proxy.sinks import Body, ClientSink, RawHeaders

MOST_BYTES = 64 * 1024 * 1024
"""Of one answer."""


async def _do_nothing() -> None:
    """Do nothing: there is no writer yet."""


def _say_nothing(_: Iterator[bytes]) -> bytes:
    return b""


def _take_all(frames: bytes) -> bytes:
    return frames


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


class LiveAnswer:
    """A sink that any number of clients read."""

    def __init__(self, *, most_bytes: int = MOST_BYTES, outlives: bool = False) -> None:
        """`outlives`: it is made to its end, whether anybody reads it or not."""
        self._most_bytes = most_bytes
        self._outlives = outlives
        self._frames: list[bytes] = []
        self._size = 0
        self._body: Body | None = None
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
    def size(self) -> int:
        """Bytes of the stream, or of the answer in one piece."""
        return self._size + (0 if self._body is None else len(self._body.content))

    def look_back(self) -> Iterator[bytes]:
        """The stream in pieces, as far as it has come, the last one first."""
        return reversed(self._frames)

    @property
    def body(self) -> Body | None:
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

    async def send_body(self, body: Body) -> None:
        """It is an answer in one piece."""
        self._body = body
        self._changed.set()

    # ── Reading ─────────────────────────────────────────────────────────────────────

    async def copy_to(
        self, sink: ClientSink, *, trim: Callable[[bytes], bytes] = _take_all
    ) -> None:
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
