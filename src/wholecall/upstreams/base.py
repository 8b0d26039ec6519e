"""The interface of an upstream, the traits of upstreams by a model's prefix, and the end of a
stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import msgspec

from wholecall.errors import UpstreamError
from wholecall.events import Value
from wholecall.messages import Request
from wholecall.protocols.reader import Chunk

if TYPE_CHECKING:
    from wholecall.dialects.emulation.emulate import Constraint
import asyncio
from types import TracebackType
from typing import Any, Self
from weakref import WeakKeyDictionary

from wholecall.protocols.reader import Reader


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Properties of an upstream that a run must know."""

    emulation: str = "native"
    """The default way of offering tools: `native`, `constrained`, or a dialect."""
    constraint: Constraint = "json_schema"
    """The way of constraining its decoding."""
    forces_natively: bool = True
    """True if a call can be required natively."""
    identical: int | None = None
    """The same call this often means that the model will make no other; None: as usual."""


class Answer(Value, frozen=True, kw_only=True):
    """An answer that is coming in."""

    protocol: str
    chunks: AsyncIterator[Chunk]
    """Chunks for `Reader.feed`; or, not streamed, one body for `Reader.feed_response`."""
    streamed: bool = True
    hides_truncation: bool = False
    """True if a cut answer may look like a finished one (LiteLLM)."""
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    silence: float | None = None
    """Seconds that may pass while chunks come that say nothing."""


class Upstream(Protocol):
    """Answers one request after the other, or many at a time.

    `answer` opens the connection and waits for the answer to begin. Leaving the context
    closes it, whether or not the answer was read to its end. What keeps an answer from
    beginning or breaks it off is an `UpstreamError`.
    """

    @property
    def protocol(self) -> str:
        """The protocol that it speaks."""

    def answer(self, request: Request) -> AbstractAsyncContextManager[Answer]:
        """Ask, and read the answer inside of the context."""

    async def close(self) -> None:
        """Give back connections and processes. Closing twice does no harm."""


async def once(body: Chunk) -> AsyncIterator[Chunk]:
    """The chunks of an answer that is not streamed: its one body."""
    yield body


# Traits of local models, which llama.cpp serves.


PREFIX = "local/"
"""Before the name of every such model."""

TRAITS = Traits(
    emulation="constrained",
    # Our own grammar costs llama.cpp a fraction of what a schema does.
    constraint="grammar",
    # Its own template offers tools, but where one must be called it lets the model write newlines
    # until the output limit.
    forces_natively=False,
    # A small model at temperature 0 that makes a call again will make it on and on. Without tools
    # it says what it knows by then.
    identical=2,
)


# Traits of an upstream, by the prefix of the model's name.


_USUAL = Traits()
_BY_PREFIX = {PREFIX: TRAITS}


def traits_of(model: str) -> Traits:
    """Return the traits of a model's upstream; the usual ones if it is unknown."""
    prefix, slash, _ = model.partition("/")
    return _BY_PREFIX.get(prefix + slash, _USUAL)


# ── The end of a stream ─────────────────────────────────────────────────────────────
#
# Most servers end the body of their answer after its terminator. Some leave the connection open,
# or continue with keep-alives. The answer is complete, so waiting is useless; but closing at once
# would lose the connection of all those servers that are about to end the body.

PATIENCE_SECONDS = 1.0
"""Seconds for which a stream may continue after the answer's own end."""


class EndOfStream:
    """Leaves its block, as if the stream were over, a moment after the end of the answer.

    `silence` is for a stream that does not end: the seconds for which comments, pings and empty
    deltas may come, and nothing that says something. Where no bytes come at all, the connection
    notices it.
    """

    __slots__ = ("_before", "_expired", "_lingering", "_quiet_since", "_silence", "_task")

    def __init__(self, *, silence: float | None = None) -> None:
        self._silence = silence
        self._quiet_since: float | None = None
        self._task: asyncio.Task[Any] | None = None
        self._before = 0
        """Cancellations of the task that are not ours."""
        self._lingering: _Lingering | None = None
        self._expired = False

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        if self._task is not None:
            self._before = self._task.cancelling()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> bool:
        task, lingering = self._task, self._lingering
        self._task = self._lingering = None
        if lingering is not None:
            lingering.leave(self)
        if task is None or not self._expired:
            return False
        # Our own cancellation is taken back; others are passed on.
        return task.uncancel() <= self._before and kind is asyncio.CancelledError

    def look(self, reader: Reader, events: Sequence[object]) -> None:
        """A chunk brought these events: see whether it was the end, or one more that says nothing.

        An `UpstreamError` ends a silence that takes too long.
        """
        if events:
            self._quiet_since = None
        elif self._silence is not None:
            self._wait_on(self._silence)
        if self._lingering is None and reader.is_terminated:
            self._lingering = _Lingering.current()
            self._lingering.enter(self)

    def _wait_on(self, silence: float) -> None:
        now = asyncio.get_running_loop().time()
        if self._quiet_since is None:
            self._quiet_since = now
        elif now - self._quiet_since > silence:
            said = f"the upstream sent nothing for {silence:g} s but signs of life"
            raise UpstreamError(said, code="timeout")

    def expire(self) -> None:
        """Its time is over."""
        if self._task is not None:
            self._expired = True
            self._task.cancel()


class _Lingering:
    """The streams of a loop that are about to end. Nearly all do so at once, and a timer for each
    of them would cost more than all else that is done about it: there is one for all."""

    def __init__(self) -> None:
        self._until: dict[EndOfStream, float] = {}
        """The deadline of each; the first has the least time left."""
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    def current(cls) -> _Lingering:
        """Those of the running loop."""
        loop = asyncio.get_running_loop()
        found = _OF_LOOPS.get(loop)
        if found is None:
            found = _OF_LOOPS[loop] = cls()
        return found

    def enter(self, stream: EndOfStream) -> None:
        """Its answer has said its end."""
        loop = asyncio.get_running_loop()
        until = self._until[stream] = loop.time() + PATIENCE_SECONDS
        if self._timer is None:
            self._timer = loop.call_at(until, self._go_round)

    def leave(self, stream: EndOfStream) -> None:
        """It is over."""
        self._until.pop(stream, None)

    def _go_round(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer, now = None, loop.time()
        for stream in [each for each, until in self._until.items() if until <= now]:
            del self._until[stream]
            stream.expire()
        for until in self._until.values():
            self._timer = loop.call_at(until, self._go_round)
            break


_OF_LOOPS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Lingering] = WeakKeyDictionary()
