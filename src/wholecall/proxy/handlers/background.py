"""Background responses: made by any worker, read and cancelled through any other.

The run of a response is in the journal, and its stream is, too: a frame is committed before a
client reads it. So a client can retrieve the response as far as it has come, or read its stream
from any event on, although the worker that makes it has died.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol

import msgspec

from wholecall.errors import Fenced, RunFailed, UpstreamError, WholecallError
from wholecall.events import Reasoning, Text
from wholecall.journal.journal_rows import decode_row
from wholecall.journal.run_journal import (
    ANSWERED,
    OVER,
    Claim,
    ClaimState,
    JournalStore,
    RunRow,
    RunStatus,
    make_journal,
)
from wholecall.protocols.openai_responses.response import write_response
from wholecall.protocols.registry import RESPONSES, make_answer_id, make_encoder
from wholecall.protocols.response_base import PRIVATE, Failure, ResponseHead, dump
from wholecall.proxy.handlers.idempotency import KEPT_SECONDS, DurableRuns, RequestRow
from wholecall.proxy.handlers.request_handler import RequestHandler
from wholecall.proxy.handlers.request_plan import RequestPlan
from wholecall.proxy.handlers.response_store import (
    FinishedResponse,
    ResponseStore,
    StoredResponse,
    find_end,
    find_response,
)
from wholecall.proxy.handlers.response_writer import ResumedStream
from wholecall.proxy.http.api_keys import Key
from wholecall.proxy.http.client_connection import (
    ClientSink,
    RawHeaders,
    ResponseBody,
    ResponseSink,
)
from wholecall.proxy.http.refusals import RequestRefused, refuse_for_now
from wholecall.proxy.observe.taps import ExchangeWatch, Fate

MOST_BYTES = 16 * 1024 * 1024
"""Of the stream of one response."""
BATCH_SECONDS = 0.05
"""Seconds between two commits of a stream: the longest that a frame waits for its commit."""
MOST_TAKEOVERS = 20
"""Workers that may die of one run before it fails."""
BUSY_SECONDS = 1.0
"""`Retry-After` if all slots are taken."""
BLANK = b"\n\n"
"""Between two events."""
NUMBER = re.compile(rb'"sequence_number":(\d+)')
"""Of an event. In the words of a model the quotation marks are escaped."""
_LEFT = Failure(
    message="this stream ends here, but the response goes on: ask for it again by its id",
    status=503,
    code="stream_left",
)
_CANCELLED = Failure(message="this response was cancelled", status=409, code="cancelled")
_TOO_LATE = 504
_POLL = 0.1
"""Seconds until a reader looks for frames that another worker has written."""
_GOOD = frozenset({"completed", "incomplete"})
_LOG = logging.getLogger(__name__)


class FrameSink:
    """Commits the stream of a response, and sets the status of its run with the last frame."""

    def __init__(self, store: JournalStore, run: RunRow, *, sent: int = 0) -> None:
        """`sent`: the bytes of the stream that were committed before."""
        self.beat: Callable[[], bytes] = bytes
        self.changed = asyncio.Event()
        """Set when more can be read."""
        self._store = store
        self._run = run
        self._size = sent
        self._pending: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None
        self._failure: BaseException | None = None

    gone = False
    """No client waits for it."""
    begun = True
    """Its first event was written with the run."""
    answered: Callable[[], RunStatus] = staticmethod(lambda: RunStatus.DONE)
    """Returns the status of the run if the response is good."""

    def add_headers(self, headers: RawHeaders) -> None:
        """Headers of an upstream's answer say nothing about a run of many."""

    def put(self, frames: bytes) -> None:
        """Add to the stream."""
        if frames:
            self._pending.append(frames)
            self._size += len(frames)

    async def flush(self) -> None:
        """Have what was added committed soon; raise what prevented an earlier commit."""
        if self._failure is not None:
            raise self._failure
        self.wake()
        if self._size > MOST_BYTES:
            raise UpstreamError(f"the answer has more than {MOST_BYTES} bytes", code="limit")

    def wake(self) -> None:
        """Have what was added committed soon."""
        if self._pending and self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(BATCH_SECONDS, self._commit)

    async def commit(self) -> None:
        """Commit what was added, and wait for it."""
        await asyncio.wrap_future(self._append())

    async def close(self) -> None:
        """Commit the rest, and end the run in the same change."""
        end = find_response(b"".join(self._pending))
        good = end is not None and msgspec.json.decode(end).get("status") in _GOOD
        status = self.answered() if good else RunStatus.FAILED
        with suppress(Fenced):  # another worker has the run, or it was cancelled
            await asyncio.wrap_future(self._append(status))
        self.changed.set()

    async def send_body(self, body: ResponseBody) -> None:
        """End the stream: a body has no place in it."""
        self.put(body.content)
        await self.close()

    def _commit(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        written = self._append()
        written.add_done_callback(lambda done: loop.call_soon_threadsafe(self._take, done))

    def _take(self, written: Future[None]) -> None:
        self._failure = self._failure or written.exception()
        self.changed.set()

    def _append(self, status: RunStatus | None = None) -> Future[None]:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        frames = [b"".join(self._pending)] if self._pending else []
        self._pending.clear()
        run = self._run
        return self._store.append(run.id, frames, epoch=run.epoch, status=status)


# ── The stream as it was committed ──────────────────────────────────────────────────


class _Event(msgspec.Struct):
    type: str = ""
    delta: str = ""
    progress: Any = msgspec.field(default=None, name=PRIVATE)


_EVENT = msgspec.json.Decoder(_Event)
_TEXTS: Mapping[str, Callable[[str], Text | Reasoning]] = {
    "response.output_text.delta": Text,
    "response.reasoning_summary_text.delta": Reasoning,
}


def read_stream(sent: bytes) -> ResumedStream:
    """Return what a new encoder has to write, so that it continues a stream."""
    events = (_EVENT.decode(data) for data in _list_data(sent))
    steps = (_find_step(event) for event in events)
    return ResumedStream(sent, tuple(step for step in steps if step is not None))


def _list_data(sent: bytes) -> Iterator[bytes]:
    for frame in sent.split(BLANK):
        _, found, data = frame.partition(b"data: ")
        if found:
            yield data


def _find_step(event: _Event) -> Text | Reasoning | Any:
    make = _TEXTS.get(event.type)
    return event.progress if make is None else make(event.delta)


class After:
    """Leaves out the events of a stream up to one of them."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __call__(self, frames: bytes) -> bytes:
        """The rest of some whole events."""
        kept = [frame for frame in frames.split(BLANK) if frame and self._is_behind(frame)]
        return b"".join(frame + BLANK for frame in kept)

    def _is_behind(self, frame: bytes) -> bool:
        found = NUMBER.search(frame)
        return found is None or int(found[1]) > self._number


def make_failure(head: ResponseHead, sent: bytes, *, failure: Failure, after: int = 1) -> bytes:
    """Return the events that end a stream from outside; `after` is added to its last number.

    A stream that only its reader leaves ends with the number that was read last: a client that
    resumes after it misses nothing and reads nothing twice.
    """
    numbers = NUMBER.findall(sent)
    last = int(numbers[-1]) if numbers else -1
    encoder = make_encoder(RESPONSES, head)
    if after:
        encoder.begin()
    told = encoder.fail(failure).split(BLANK)
    frames = (
        NUMBER.sub(b'"sequence_number":%d' % max(last + after + place, 0), frame, count=1)
        for place, frame in enumerate(told)
    )
    return BLANK.join(frames)


class _Opening(msgspec.Struct):
    response: dict[str, Any] = {}


_OPENING = msgspec.json.Decoder(_Opening)


def write_state(run: RunRow, frames: bytes) -> bytes:
    """Return the response of a run as it is now."""
    head = read_head(run, frames)
    if run.status is RunStatus.CANCELLED:  # it may have waited for its client, with its answer
        end = next(filter(None, map(find_end, _list_data(frames))), None)
        return end or dump(write_response(head, [], status="cancelled"))
    end = find_response(frames)
    if end is not None:
        return end
    if run.status in ANSWERED:
        error = {"code": "server_error", "message": run.stop or "it ended without a word"}
        return dump(write_response(head, [], status="failed", error=error))
    return dump(write_response(head, []))


def read_head(run: RunRow, frames: bytes) -> ResponseHead:
    """Return the metadata of a response from its first event."""
    first = next(_list_data(frames), b"{}")
    rest = _OPENING.decode(first).response
    created = int(rest.get("created_at") or run.created)
    return ResponseHead(id=run.id, model=run.model, created=created, rest=rest)


# ── All of them ─────────────────────────────────────────────────────────────────────


class MakeHandler(Protocol):
    """Makes the handler of a request."""

    def __call__(
        self, plan: RequestPlan, sink: ResponseSink, *, watch: ExchangeWatch
    ) -> RequestHandler:
        """Make it."""


class _Work(NamedTuple):
    """A response that is made here."""

    key_id: str
    handler: RequestHandler
    sink: FrameSink
    task: asyncio.Task[None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundResponses:
    """Starts background responses, continues those of dead workers, and finds them all."""

    runs: DurableRuns
    responses: ResponseStore
    make_handler: MakeHandler
    hold: Callable[[asyncio.Task[Any]], None]
    """Keeps the task of a response that outlives its request."""
    clock: Callable[[], float] = time.time
    live: dict[str, _Work] = field(default_factory=dict)

    async def start(self, plan: RequestPlan, *, watch: ExchangeWatch) -> str:
        """Start a response; one that was started is not started again. Return its id."""
        request = plan.request
        id = make_answer_id(request.client.protocol)
        claim = await self.runs.open(plan, response=id)
        if claim.state is ClaimState.NEW:
            await self._check_places(request.key, id)
        if claim.state in (ClaimState.NEW, ClaimState.TAKEN):
            await self.carry_out(plan, claim, watch=watch)
        else:
            watch.end(Fate.DONE)
        return claim.run.id

    async def _check_places(self, key: Key, id: str) -> None:
        """Refuse more work than there may be at a time, and forget the run that was claimed."""
        refused = self._find_no_place(key)
        if refused is not None:
            await asyncio.wrap_future(self.runs.store.delete(id))
            self.runs.store.let_go(id)
            raise refused

    def _find_no_place(self, key: Key) -> RequestRefused | None:
        most = self.responses.settings.background
        if len(self.live) >= most:
            why = f"{most} responses are being made in the background, and there may be no more"
            return refuse_for_now(503, why, code="overloaded", seconds=BUSY_SECONDS)
        own = sum(work.key_id == key.id for work in self.live.values())
        if key.concurrent is not None and own >= key.concurrent:
            why = f"this key has {key.concurrent} requests at a time, and they are under way"
            return refuse_for_now(429, why, code="concurrency_limit_exceeded", seconds=BUSY_SECONDS)
        return None

    async def carry_out(self, plan: RequestPlan, claim: Claim, *, watch: ExchangeWatch) -> None:
        """Work on a claimed run from now on. Its first events are committed on return."""
        store, run = self.runs.store, claim.run
        try:
            journal = await make_journal(store, claim)
            journal.closes = False
            read = await asyncio.wrap_future(store.read_frames(run.id))
            sent = b"" if read is None else b"".join(read.bodies)
            head = ResponseHead(
                id=run.id,
                model=plan.route.name,
                created=int(run.created),
                rest=plan.echo,
                clock=self.clock,
            )
            sink = FrameSink(store, run, sent=len(sent))
            sink.answered = lambda: journal.answered
            resumed = read_stream(sent) if sent else None
            planned = msgspec.structs.replace(plan, head=head, resumed=resumed)
            handler = self.make_handler(planned, sink, watch=watch)
            handler.open_journal = partial(_give, journal)
            await sink.commit()
        except BaseException:
            store.let_go(run.id)
            raise
        task = asyncio.create_task(self._make(handler, run), name=f"response {run.id}")
        self.live[run.id] = _Work(run.key_id, handler, sink, task)
        self.hold(task)

    async def _make(self, handler: RequestHandler, run: RunRow) -> None:
        seconds = self.responses.settings.background_seconds
        alarm = asyncio.get_running_loop().call_later(seconds, self._give_up, run.id, seconds)
        try:
            await handler.run()
        finally:
            alarm.cancel()
            sink = self.live.pop(run.id).sink
            sink.beat = bytes  # the writer refers to the sink as well
            sink.changed.set()
            self.runs.store.let_go(run.id)

    def _give_up(self, id: str, seconds: float) -> None:
        why = f"the response was not over after {seconds:g} seconds"
        failure = Failure(message=why, status=_TOO_LATE, code="timeout")
        self.hold(asyncio.create_task(self._stop(id, failure)))

    async def _stop(self, id: str, failure: Failure) -> None:
        work = self.live.get(id)
        if work is not None:
            await work.handler.stop(failure)
            work.task.cancel()

    def hand_over(self) -> None:
        """Begin nothing more: tools that run come to their end, and others continue the runs."""
        for work in self.live.values():
            work.task.cancel()

    # ── Any worker ──────────────────────────────────────────────────────────────────

    async def load(self, id: str) -> StoredResponse | None:
        """Return a response by its id, as it is now; None if no run here makes it."""
        if not self.runs.is_kept:
            return None
        store = self.runs.store
        if await asyncio.wrap_future(store.find(_deleted(id))) is not None:
            return None
        found = await asyncio.wrap_future(store.load(id))
        if found is None or not found.run.background:
            return None
        run = found.run
        over = run.status in ANSWERED
        if over and self.clock() - run.touched > self.responses.settings.kept_seconds:
            return None
        state, items = await self.show(id), _read_items(run)
        work = FinishedResponse(state, is_over=over)
        return StoredResponse(id=id, key_id=run.key_id, items=items, work=work, is_background=True)

    async def copy(self, id: str, sink: ClientSink, *, after: int = -1) -> None:
        """Let a client read a stream after one of its events, to its end."""
        store, trim, number = self.runs.store, After(after), 0
        sent = b""
        try:
            while True:
                work = self.live.get(id)
                changed = asyncio.Event() if work is None else work.sink.changed
                changed.clear()
                read = await asyncio.wrap_future(store.read_frames(id, number))
                if read is None:
                    raise RequestRefused(404, "the response was deleted", code="response_not_found")
                number += len(read.bodies)
                more = b"".join(read.bodies)
                sent = more or sent
                sink.put(trim(more))
                await sink.flush()
                if read.run.status in ANSWERED:
                    break
                with suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), _POLL)
            await sink.close()
        except asyncio.CancelledError:
            if not sink.gone:
                head = ResponseHead(id=id, model="")
                sink.put(make_failure(head, sent, failure=_LEFT, after=0))
                await sink.close()
            raise

    async def show(self, id: str) -> bytes:
        """Return a response as it is now, deleted or not."""
        read = await asyncio.wrap_future(self.runs.store.read_frames(id))
        if read is None:
            raise RunFailed(f"the response {id!r} is not kept any more")
        return write_state(read.run, b"".join(read.bodies))

    async def cancel(self, id: str) -> None:
        """End a response. Tools that must not be broken off come to their end."""
        if await cancel_run(self.runs.store, id):
            await self._stop(id, _CANCELLED)

    async def delete(self, id: str) -> None:
        """End a response, and show it no more. Its run is kept: a resend must not begin it anew."""
        await self.cancel(id)
        until = self.clock() + KEPT_SECONDS
        await asyncio.wrap_future(self.runs.store.add_handles(id, [_deleted(id)], until=until))


async def cancel_run(store: JournalStore, id: str) -> bool:
    """End a run that is not over, and the stream of its response if it has one."""
    read = await asyncio.wrap_future(store.read_frames(id))
    if read is None or read.run.status in OVER:
        return False
    sent = b"" if read.run.status in ANSWERED else b"".join(read.bodies)
    end = [make_failure(read_head(read.run, sent), sent, failure=_CANCELLED)] if sent else []
    return await asyncio.wrap_future(store.cancel(id, _CANCELLED.message, frames=end))


async def _give(value: Any) -> Any:
    return value


def _deleted(id: str) -> str:
    return f"deleted {id}"


def _read_items(run: RunRow) -> bytes:
    try:
        return decode_row(RequestRow, run.plan).items.encode()
    except WholecallError:
        return b"[]"
