"""Requests that come twice get one answer: a run that both lead to, and a stream that both read."""

from __future__ import annotations

import asyncio
import hashlib
import time
import uuid
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import NamedTuple

import msgspec

from wholecall.arguments.describe import cut
from wholecall.errors import RunFailed, UpstreamError
from wholecall.events import Call
from wholecall.journal.journal_rows import (
    VERSION,
    BrokenRow,
    RecalledCall,
    decode_row,
    encode_row,
    restore,
)
from wholecall.journal.run_journal import (
    OVER,
    Claim,
    ClaimState,
    JournalStore,
    RunJournal,
    RunRow,
    RunStatus,
    make_journal,
)
from wholecall.proxy.handlers.request_plan import RequestPlan
from wholecall.proxy.handlers.response_writer import BROKEN_OFF, NEVER_AGAIN
from wholecall.proxy.http.client_connection import ClientSink, RawHeaders, ResponseBody
from wholecall.proxy.http.client_request import TOOLS_HEADER, ClientRequest
from wholecall.proxy.http.refusals import RequestRefused
from wholecall.storage import StoreFailed
from wholecall.tools.toolbox import Toolbox

MOST_BYTES = 64 * 1024 * 1024
"""Of one answer."""


async def _do_nothing() -> None:
    """Do nothing: the writer has not started yet."""


class _Reading:
    """The position of one reader."""

    def __init__(self, frames: list[bytes]) -> None:
        self._frames = frames
        self.count = 0

    @property
    def is_behind(self) -> bool:
        return self.count < len(self._frames)

    def take(self) -> bytes:
        frames = b"".join(self._frames[self.count :])
        self.count = len(self._frames)
        return frames


class SharedStream:
    """A sink that any number of clients read."""

    def __init__(self, *, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._frames: list[bytes] = []
        self._size = 0
        self._body: ResponseBody | None = None
        self._over = False
        self._gone = False
        self._left = False
        """True if it was cancelled. A second cancellation would also cancel the cleanup."""
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._break_off: Callable[[], Coroutine[None, None, None]] = _do_nothing
        self._readers = 0
        self.beat: Callable[[], bytes] = bytes

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
                self.beat = bytes
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
    def body(self) -> ResponseBody | None:
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

    async def send_body(self, body: ResponseBody) -> None:
        """It is an answer in one piece."""
        self._body = body
        self._changed.set()

    # ── Reading ─────────────────────────────────────────────────────────────────────

    async def copy_to(self, sink: ClientSink) -> None:
        """Read it from its beginning to its end.

        The last reader who leaves ends it, and so does the end of the server.
        """
        self._readers += 1
        reading = _Reading(self._frames)
        sink.beat = self._beat
        try:
            while not self._over or reading.is_behind:
                if not reading.is_behind:
                    await self._wait()
                sink.put(reading.take())
                await sink.flush()
            await self._end(sink, reading)
        except asyncio.CancelledError:
            if self._readers == 1 or not sink.gone:
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


# Resent requests.
#
# Official SDKs resend a request by themselves, up to two times: after a timeout, a dropped
# connection, a 5xx. If tools run here, doing it all again would run them again. So each request
# claims a *handle* in the journal of runs before the upstream is asked, on whichever worker. The
# second of two equal requests finds the run of the first: it reads along, waits for its end, or
# continues it if its worker has died. A resend is distinguished from a new, equal request by:
#
# - `Idempotency-Key`: the client says so itself. With another body it is a mistake, and refused.
# - `x-stainless-retry-count`, which the official SDKs count up: above 0 it is a resend, at 0 it is
#   not.
# - Without either: an equal body while the first request is still being answered. After the first
#   was interrupted and a tool had begun, it is refused for two minutes, with what had begun.


KEPT_SECONDS = 24 * 3600.0
"""Seconds for which a run can be continued by a resend."""
_MOST_SHOWN = 200
"""Characters of a result that a refusal repeats."""
_OTHER_BODY = "this Idempotency-Key came before with another request"
_INTERRUPTED = (
    "an equal request was interrupted after tools had begun, and they are not run again without "
    "your word: {begun}. To run all of it anew, send the request with another Idempotency-Key, or "
    "again in two minutes; to continue a run, send its Idempotency-Key"
)
_FINAL = frozenset({RunStatus.DONE, RunStatus.CLIENT, RunStatus.CANCELLED})
_COUNT_SECONDS = 1.0
_AWAY = "the journal of runs cannot be used; the log says why"
_KEPT_HEADERS = (TOOLS_HEADER, "x-wholecall-events")


class RequestRow(msgspec.Struct):
    """The request that a run answers, as its plan in the journal."""

    path: str
    body: str
    digest: str
    headers: dict[str, str] = {}
    request_id: str = ""
    items: str = "[]"
    """The items of the whole conversation, if the response can be continued."""
    version: int = VERSION


def _measure_nothing(_: float) -> None:
    """Do nothing: no one is interested."""


class _Resend(NamedTuple):
    handle: str
    bare: bool
    """True if the request does not say that it was sent before."""
    new: bool = False
    """True if the request says that it was not."""


class DurableRuns:
    """The runs that requests lead to, in a journal that all workers share."""

    def __init__(
        self,
        open_store: Callable[[], JournalStore],
        *,
        exists: Callable[[], bool] = lambda: False,
        is_remote: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`open_store` is called when the first request needs it, or when it `exists`. One on a
        server is opened by `connect` only, because that may take seconds."""
        self._open_store = open_store
        self._exists = exists
        self._is_remote = is_remote
        self._clock = clock
        self._opened: JournalStore | None = None
        self._closed = False
        self._connecting = asyncio.Lock()
        self.on_commit: Callable[[float], None] = _measure_nothing
        """Called in any thread with the seconds that a commit took."""
        self.live: dict[str, SharedStream] = {}
        """The streams of the runs that are made here, by the ids of the runs."""

    @property
    def store(self) -> JournalStore:
        """The journal; `StoreFailed` if it cannot be opened."""
        if self._opened is None and self._is_remote:
            raise StoreFailed(_AWAY)
        return self._opened or self._take(self._open_store())

    async def connect(self) -> JournalStore:
        """Open the journal, unless it is open."""
        async with self._connecting:
            if self._opened is None:
                self._take(await asyncio.to_thread(self._open_store))
        return self.store

    def _take(self, store: JournalStore) -> JournalStore:
        store.on_commit = self.on_commit
        self._opened = store
        if self._closed:
            store.close()
        return store

    @property
    def is_kept(self) -> bool:
        """True if there is a journal: a proxy that runs no tools has none."""
        return self._opened is not None or self._is_remote or self._exists()

    def find_store(self) -> JournalStore | None:
        """Return the journal; None if there is none yet."""
        return self.store if self.is_kept else None

    async def count_open(self) -> dict[str, int]:
        """Return how many runs are not over, by their status; nothing if the journal is away."""
        try:
            store = self.find_store()
            if store is None:
                return {}
            async with asyncio.timeout(_COUNT_SECONDS):
                counts = await asyncio.wrap_future(store.count_open())
        except (StoreFailed, TimeoutError):
            return {}
        return {each.value: counts.get(each, 0) for each in RunStatus if each not in OVER}

    async def open(self, plan: RequestPlan, *, response: str = "") -> Claim:
        """Claim the run of a request, before the upstream is asked.

        `response`: the id of a background response, which names its run. Raise `RequestRefused` for
        a key with another body, and for an interrupted request that does not say what it is.
        """
        request = plan.request
        row = _make_row(plan)
        sent = _find_resend(request, row.digest)
        run = RunRow(
            response or f"run_{uuid.uuid4().hex}",
            key_id=request.key.id,
            model=plan.route.name,
            due=0.0 if response else self._clock() + KEPT_SECONDS,
            background=bool(response),
            plan=encode_row(row),
        )
        claim = await self._claim(run, sent)
        if claim.state is not ClaimState.NEW:
            _demand_same(claim, row.digest)
        if sent.bare and claim.state in (ClaimState.TAKEN, ClaimState.OVER):
            await self._settle_bare(claim, plan.toolbox)
            await asyncio.wrap_future(self.store.delete(claim.run.id))
            return await self._claim(run, sent)
        return claim

    async def _claim(self, run: RunRow, sent: _Resend) -> Claim:
        claim = await self._wait(self.store.open_run(run, [sent.handle], bare=sent.bare))
        if sent.new and claim.state is ClaimState.BUSY:
            return await self._wait(self.store.open_run(run))
        if claim.state is ClaimState.OVER and not sent.bare and _failed_before_it_began(claim):
            await asyncio.wrap_future(self.store.delete(claim.run.id))
            return await self._wait(self.store.open_run(run, [sent.handle]))
        return claim

    async def _wait(self, opened: Future[Claim]) -> Claim:
        try:
            return await asyncio.wrap_future(opened)
        except asyncio.CancelledError:  # the client left, and the claim may be made nevertheless
            opened.add_done_callback(self._give_back)
            raise

    def _give_back(self, opened: Future[Claim]) -> None:
        if not opened.cancelled() and opened.exception() is None:
            claim = opened.result()
            if claim.state in (ClaimState.NEW, ClaimState.TAKEN):
                self.store.let_go(claim.run.id)

    async def _settle_bare(self, claim: Claim, toolbox: Toolbox) -> None:
        """End an interrupted run; refuse the request if a tool had begun that must not repeat."""
        id = claim.run.id
        if claim.state is ClaimState.TAKEN:
            await asyncio.wrap_future(self.store.cancel(id, "an equal request was sent anew"))
            self.store.let_go(id)
        try:
            restored = restore(claim.rows)
        except BrokenRow as error:
            raise _refuse_interrupted(str(error)) from error
        begun = [call for call in restored.intents.values() if not _may_repeat(toolbox, call)]
        if begun:
            told = (_tell_begun(call, restored.results.get(call.id)) for call in begun)
            raise _refuse_interrupted("; ".join(told))

    async def restore(self, claim: Claim, *, poll: float = 0.25) -> RunJournal:
        """Return the journal of a run: at once if it is ours or over, else when it is."""
        while claim.state is ClaimState.BUSY:
            await asyncio.sleep(poll)
            found = await asyncio.wrap_future(self.store.claim(claim.run.id))
            if found is None:
                raise RunFailed(f"the run {claim.run.id!r} was deleted")
            claim = found
        return await make_journal(self.store, claim)

    def close(self) -> None:
        """Give up the runs of this worker, and close the journal."""
        self._closed = True
        if self._opened is not None:
            self._opened.close()


def _make_row(plan: RequestPlan) -> RequestRow:
    request, params = plan.request, plan.params
    names = (*_KEPT_HEADERS, request.client.beta)
    return RequestRow(
        path=request.client.path,
        body=request.body.decode(),
        digest=_digest(request),
        headers={name: request.headers[name] for name in names if name in request.headers},
        request_id=request.request_id,
        items="[]" if params is None else params.items.decode(),
    )


def _find_resend(request: ClientRequest, digest: str) -> _Resend:
    key = request.headers.get("idempotency-key")
    if key:
        return _Resend(_name(request, "key", word=key), bare=False)
    handle = _name(request, "body", word=digest)
    count = request.headers.get("x-stainless-retry-count")
    return _Resend(handle, bare=count in (None, "0"), new=count == "0")


def _name(request: ClientRequest, kind: str, *, word: str) -> str:
    """Return the name of a handle. A client may choose a key of any length."""
    named = repr((request.key.id, request.client.path, kind, word)).encode()
    return f"resend {hashlib.sha256(named).hexdigest()}"


def _digest(request: ClientRequest) -> str:
    """Of the words, and of the tools that they are asked with."""
    wanted = request.headers.get(TOOLS_HEADER, "").encode()
    return hashlib.sha256(b"\0".join((wanted, request.body))).hexdigest()


def _demand_same(claim: Claim, digest: str) -> None:
    try:
        before = decode_row(RequestRow, claim.run.plan)
    except BrokenRow as error:
        raise RunFailed(f"the run {claim.run.id!r} is broken: {error}") from error
    if before.digest != digest:
        raise RequestRefused(422, _OTHER_BODY, code="idempotency_key_reused", headers=NEVER_AGAIN)


def _failed_before_it_began(claim: Claim) -> bool:
    """Return True if nothing was done that must not be done again. What an operator has cancelled
    stays so."""
    return claim.run.status not in _FINAL and not claim.has_begun


def _may_repeat(toolbox: Toolbox, call: Call) -> bool:
    tool = toolbox.find(call.name)
    return tool is not None and tool.repeatable


def _tell_begun(call: Call, recalled: RecalledCall | None) -> str:
    if recalled is None:
        return f"{call.name!r} began, and its outcome is unknown"
    said = cut(recalled.result.text, _MOST_SHOWN)
    return f"{call.name!r} ended ({recalled.status}) and returned {said!r}"


def _refuse_interrupted(begun: str) -> RequestRefused:
    words = _INTERRUPTED.format(begun=begun)
    return RequestRefused(409, words, code=BROKEN_OFF, headers=NEVER_AGAIN)
