"""Taps: readers of what happens to requests. They see every event and change none.

A tap names the types of events that it wants. Any other event costs one dictionary lookup, and
nearly all events of a stream are such: text, and growing arguments. The chunks of an answer are not
events: a tap that wants them gets the bytes themselves.
"""

from __future__ import annotations

import asyncio
import enum
import time
from collections.abc import AsyncIterator, Callable, Container, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from functools import lru_cache, partial
from operator import itemgetter
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from wholecall.agent.run_events import RunEvent
from wholecall.errors import UpstreamError
from wholecall.events import OfChoice, Value
from wholecall.messages import Request
from wholecall.protocols.reader import Chunk
from wholecall.upstreams.base import Answer, Upstream

_Begun = TypeVar("_Begun")


class Exchange(Value, frozen=True, kw_only=True, eq=False):
    """A client's request and its answer, without a secret and without a word of what was said."""

    request_id: str
    protocol: str = ""
    """The client's."""
    path: str = ""
    model: str = ""
    """The name that the client used, whether or not there is such a model; empty if none."""
    key_id: str = ""
    way: str = ""
    """`forward`, `gate` or `run`; empty if the request was refused."""
    stream: bool = False
    upstream: str = ""
    """The upstream's protocol."""
    upstream_model: str = ""
    dropped: tuple[str, ...] = ()
    """Fields of the request that the upstream does not get."""
    started: float = msgspec.field(default_factory=time.perf_counter)
    """The time at which the request came, by the clock of the taps."""
    trace_headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    """`traceparent` and `tracestate`, which continue the client's trace."""


# ── Events other than those of runs ─────────────────────────────────────────────────


class Fate(enum.Enum):
    """The end of an exchange."""

    DONE = "done"
    FAILED = "failed"
    GONE = "gone"
    """The client left before its answer was over."""
    STOPPED = "stopped"
    """The server ended before the answer was over."""


CLIENT_GONE = "client_gone"
"""The code of answers whose client disconnected."""
RUN_TAKEN_OVER = "run_taken_over"
"""The code of answers whose run another worker has taken over."""
RUN_WAITING = "run_waiting"
"""The code of runs that wait for a person or a tool."""
_CLIENT_CLOSED_REQUEST = 499
"""No status of HTTP, but what nginx writes into its log for such a client."""


class UpstreamAsked(Value, frozen=True):
    """A request goes to the upstream."""

    request: Request | None = None
    """None if its bytes pass through unread."""


class RunOpened(Value, frozen=True):
    """A run begins; it is in the journal under this id."""

    run: str


class UpstreamRetried(Value, frozen=True):
    """The upstream refused, and is asked again after this many seconds."""

    delay: float


class UpstreamAnswered(Value, frozen=True):
    """The upstream's answer began."""

    seconds: float
    """Since it was asked."""
    retries: int = 0


class ChunksBegan(Value, frozen=True):
    """The chunks of an answer begin. A tap that wants them returns a function that takes each of
    them, as the upstream sent it."""

    protocol: str
    """The upstream's."""
    streamed: bool = True
    """Otherwise the one chunk that comes is the whole answer."""


class UpstreamFailed(Value, frozen=True):
    """The upstream gave no answer."""

    error: UpstreamError
    retries: int = 0


class AnswerBegan(Value, frozen=True):
    """The first bytes are on their way to the client."""

    seconds: float
    """Since the request came."""
    added: float
    """Of these, what was spent here: neither waiting for the upstream nor running tools."""


class ExchangeEnded(Value, frozen=True, kw_only=True):
    """Nothing more is sent to the client."""

    fate: Fate
    seconds: float
    """Since the request came."""
    status: int = 200
    """Of HTTP, or what it would have been if the answer had not begun before it failed."""
    code: str = ""
    message: str = ""
    """The error message that the client got."""


ExchangeEvent: TypeAlias = (
    UpstreamAsked
    | RunOpened
    | UpstreamRetried
    | UpstreamAnswered
    | UpstreamFailed
    | AnswerBegan
    | ExchangeEnded
)
TapEvent: TypeAlias = RunEvent | ExchangeEvent

TakeChunk: TypeAlias = Callable[[Chunk], None]


class Reads:
    """A tap's handler for each type of event that it wants: methods of its readers.

    There are few of these tables, and their combinations are cached.
    """

    __slots__ = ("by_type",)

    def __init__(self, by_type: Mapping[type, Callable[[Any, Any], Any]]) -> None:
        self.by_type = by_type


Reading: TypeAlias = tuple[Any, Reads]
"""The reader of one exchange, and its handlers."""


class Tap(Protocol):
    """Reads exchanges. The last event of each is an `ExchangeEnded`."""

    def open(self, exchange: Exchange) -> Reading:
        """An exchange begins."""


# ── One exchange ────────────────────────────────────────────────────────────────────

_MOST_COMBINED = 64
"""Tables that are remembered. A proxy has a handful: its taps, with and without bodies."""
_Shows: TypeAlias = Mapping[type, Sequence[tuple[int, Callable[[Any, Any], Any]]]]


@lru_cache(_MOST_COMBINED)
def _combine(*tables: Reads) -> _Shows:
    """For each type of event, which of the readers want to see it, and what they do with it."""
    # `OfChoice` holds an event that may be wanted.
    shows: dict[type, list[tuple[int, Callable[[Any, Any], Any]]]] = {OfChoice: []}
    for place, reads in enumerate(tables):
        for kind, read in reads.by_type.items():
            shows.setdefault(kind, []).append((place, read))
    return shows


class ExchangeWatch:
    """Shows the events of one exchange to all taps, and knows the times between them."""

    def __init__(
        self,
        exchange: Exchange,
        taps: Iterable[Tap],
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.exchange = exchange
        self._clock = clock
        readings = [tap.open(exchange) for tap in taps]
        self._readers = [reader for reader, _ in readings]
        self._shows = _combine(*[reads for _, reads in readings])
        self.wanted: Container[type] = self._shows
        """The types of events that a tap reads; `take` ignores others, but costs a call."""
        self._asked_first: float | None = None
        self._answered_last: float | None = None
        self._retries = 0
        self._begun = False
        self._ended = False

    def take(self, *events: TapEvent) -> None:
        """Show events to those who want to see them."""
        if len(events) == 1 and type(events[0]) is not OfChoice:  # the usual case
            for place, read in self._shows.get(type(events[0]), ()):
                read(self._readers[place], events[0])
            return
        # A call is a call, whichever of several answers it belongs to.
        shown = [event.value if type(event) is OfChoice else event for event in events]
        wanted = [(*want, event) for event in shown for want in self._shows.get(type(event), ())]
        if len(shown) > 1:
            wanted.sort(key=itemgetter(0))  # one tap after the other, each in order
        for place, read, event in wanted:
            read(self._readers[place], event)

    def begin(self) -> None:
        """Note the first bytes to the client. Further ones do not matter."""
        if self._begun:
            return
        self._begun = True
        now, started = self._clock(), self.exchange.started
        before = (self._asked_first or now) - started
        after = now - (self._answered_last or now)
        self.take(AnswerBegan(now - started, added=before + after))

    def end(self, fate: Fate, *, status: int = 200, code: str = "", message: str = "") -> None:
        """The exchange is over, once."""
        if self._ended:
            return
        self._ended = True
        seconds = self._clock() - self.exchange.started
        self.take(
            ExchangeEnded(fate=fate, seconds=seconds, status=status, code=code, message=message)
        )

    def leave(self) -> None:
        """Note that the client disconnected, whatever it was sent."""
        self.end(Fate.GONE, status=_CLIENT_CLOSED_REQUEST, code=CLIENT_GONE)

    def asking(
        self, opening: AbstractAsyncContextManager[_Begun], request: Request | None = None
    ) -> AbstractAsyncContextManager[_Begun]:
        """Enter `opening`, which asks an upstream and waits for its answer to begin."""
        return _Asking(self, opening, request=request)

    def ask(self, request: Request | None) -> float:
        """An upstream is asked; return when that was."""
        now = self._clock()
        self._asked_first = self._asked_first or now
        self._retries = 0
        self.take(UpstreamAsked(request))
        return now

    def answer(self, asked: float) -> None:
        """The upstream that was asked then begins to answer."""
        self._answered_last = self._clock()
        self.take(UpstreamAnswered(self._answered_last - asked, self._retries))

    def fail(self, error: UpstreamError) -> None:
        """It gives no answer."""
        self.take(UpstreamFailed(error, self._retries))

    def open_chunks(self, began: ChunksBegan) -> TakeChunk | None:
        """Return what takes the chunks of an answer as they come; None if no tap wants them."""
        wanted = self._shows.get(ChunksBegan)
        if wanted is None:
            return None
        takes = [read(self._readers[place], began) for place, read in wanted]
        if len(takes) > 1:
            return partial(_take_each, takes)
        return takes[0] if takes else None

    def retry(self, delay: float) -> None:
        """The upstream is asked again."""
        self._retries += 1
        self.take(UpstreamRetried(delay))


def _take_each(takes: Iterable[TakeChunk], chunk: Chunk) -> None:
    for take in takes:
        take(chunk)


# ── Upstreams ───────────────────────────────────────────────────────────────────────

# An upstream and its retries are shared by all exchanges; which of them asks is known here.
_ASKING: ContextVar[ExchangeWatch | None] = ContextVar("asking", default=None)


async def sleep_and_tell(delay: float) -> None:
    """For `Retry.sleep`: report a retry by the wait before it."""
    watch = _ASKING.get()
    if watch is not None:
        watch.retry(delay)
    await asyncio.sleep(delay)


class _Asking(Generic[_Begun]):
    """A context that asks an upstream, watched while it is entered."""

    __slots__ = ("_opening", "_request", "_show", "_watch")

    def __init__(
        self,
        watch: ExchangeWatch,
        opening: AbstractAsyncContextManager[_Begun],
        *,
        request: Request | None,
        show: Callable[[_Begun], _Begun] | None = None,
    ) -> None:
        self._watch = watch
        self._opening = opening
        self._request = request
        self._show = show
        """Returns what is entered, in the place of what began."""

    async def __aenter__(self) -> _Begun:
        watch = self._watch
        asked = watch.ask(self._request)
        token = _ASKING.set(watch)
        try:
            begun = await self._opening.__aenter__()
        except UpstreamError as error:
            watch.fail(error)
            raise
        finally:
            _ASKING.reset(token)
        try:
            watch.answer(asked)
            return begun if self._show is None else self._show(begun)
        except BaseException as error:
            await self._opening.__aexit__(type(error), error, error.__traceback__)
            raise

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._opening.__aexit__(*error)


class WatchedUpstream:
    """An upstream whose answers are noticed. Their chunks pass untouched."""

    def __init__(
        self,
        upstream: Upstream,
        watch: ExchangeWatch,
        *,
        peek: Callable[[Chunk], bool] | None = None,
        on_headers: Callable[[Mapping[str, str]], None] | None = None,
    ) -> None:
        """`peek` gets the chunks of each answer until it returns True, `on_headers` its headers."""
        self._upstream = upstream
        self._watch = watch
        self._peek = peek
        self._on_headers = on_headers

    @property
    def protocol(self) -> str:
        """The protocol that it speaks."""
        return self._upstream.protocol

    def answer(self, request: Request) -> AbstractAsyncContextManager[Answer]:
        """Ask, and read the answer inside of the context."""
        opening = self._upstream.answer(request)
        return _Asking(self._watch, opening, request=request, show=self._show)

    def _show(self, answer: Answer) -> Answer:
        take = self._watch.open_chunks(ChunksBegan(answer.protocol, answer.streamed))
        if self._on_headers is not None:
            self._on_headers(answer.headers)
        if self._peek is None and take is None:
            return answer
        return msgspec.structs.replace(
            answer, chunks=_look_at(answer.chunks, self._peek, take=take)
        )

    async def close(self) -> None:
        """Leave it open: others use it."""


async def _look_at(
    chunks: AsyncIterator[Chunk], peek: Callable[[Chunk], bool] | None, *, take: TakeChunk | None
) -> AsyncIterator[Chunk]:
    """All who look do it here: each generator that a chunk passes costs more than a look."""
    async for chunk in chunks:
        if peek is not None and peek(chunk):
            peek = None
        if take is not None:
            take(chunk)
        yield chunk
