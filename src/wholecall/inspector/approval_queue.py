"""Calls that wait for approval: a table shared by all processes, and its HTTP routes."""

from __future__ import annotations

import asyncio
import logging
import secrets
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from wholecall.agent.approvals import Approval
from wholecall.inspector.page_encoder import Fields
from wholecall.storage import CODE, StoreFailed, is_busy, open_database, telling

PACE = 0.25
"""Seconds between two looks for answers, while calls wait."""
SILENCE = 5.0
"""Seconds without a sign of life after which a process counts as gone."""
LONGEST_WHY = 500
"""Characters of the reason that an answer may give."""
_TOO_LATE = Approval(False, "nobody answered in time")
_SCHEMA = """
PRAGMA journal_mode = WAL;
CREATE TABLE IF NOT EXISTS approvals (
    id TEXT PRIMARY KEY,
    process TEXT NOT NULL,
    seen REAL NOT NULL,
    asked REAL NOT NULL,
    until REAL NOT NULL,
    key TEXT NOT NULL,
    request_id TEXT NOT NULL,
    model TEXT NOT NULL,
    call_id TEXT NOT NULL,
    name TEXT NOT NULL,
    arguments TEXT NOT NULL,
    approved INTEGER,
    why TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
"""
_SHOWN = ("id", "asked", "until", "request_id", "model", "call_id", "name", "arguments")
_WAITS = "approved IS NULL AND seen > :alive AND until > :now AND (:owner IS NULL OR key = :owner)"
_LIST = f"SELECT {', '.join(_SHOWN)} FROM approvals WHERE {_WAITS} ORDER BY asked"  # noqa: S608 - names of ours
_ANSWER = f"""
UPDATE approvals SET approved = :approved, why = :why WHERE id = :id AND {_WAITS}
RETURNING request_id, name
"""  # noqa: S608 - names of ours
# Of processes that are gone, and what a process could not take out itself. A process that was
# suspended is still there.
_CLEAN = "DELETE FROM approvals WHERE (seen < :old AND process <> :process) OR until < :old"
_TAKE = "DELETE FROM approvals WHERE id = ? RETURNING approved, why"
_LOOK = "SELECT id, approved, why FROM approvals WHERE process = ? AND approved IS NOT NULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingCall:
    """A call that waits."""

    key: str
    """Whose run it belongs to."""
    request_id: str
    model: str
    call_id: str
    name: str
    arguments: str = ""
    """As JSON; empty if what was said may not be shown."""
    seconds: float
    """The longest wait."""


class AnsweredApproval(NamedTuple):
    """A call that was answered for."""

    request_id: str
    """Of its run."""
    name: str
    approved: bool


class ApprovalQueue:
    """Waits for answers, and takes them. Without a path the table lives in memory."""

    def __init__(
        self,
        path: Path | None = None,
        *,
        clock: Callable[[], float] = time.time,
        pace: float = PACE,
    ) -> None:
        self._path = path
        self._clock = clock
        self._pace = pace
        self._process = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._asked: dict[str, asyncio.Future[Approval]] = {}
        self._looking: asyncio.Task[None] | None = None
        self._answered = asyncio.Event()
        self._database = open_database(path, lambda database: database.executescript(_SCHEMA))

    async def close(self) -> None:
        """Stop waiting for all calls."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
        with self._lock:
            self._database.close()

    # ── Waiting ─────────────────────────────────────────────────────────────────────

    async def wait_for(self, waiting: WaitingCall) -> Approval:
        """Return a person's answer, or a no when the time is over. Raise `StoreFailed` if none can
        come."""
        id = secrets.token_urlsafe(12)
        answer: asyncio.Future[Approval] = asyncio.get_running_loop().create_future()
        self._asked[id] = answer
        try:
            await asyncio.to_thread(self._write, id, waiting)
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._look_on(), name="look for approvals")
            async with asyncio.timeout(waiting.seconds):
                return await answer
        except TimeoutError:
            # A person who answered a moment ago has already read that the answer counts.
            return await asyncio.to_thread(self._take, id) or _TOO_LATE
        finally:
            del self._asked[id]
            await asyncio.to_thread(self._remove, id)

    async def _look_on(self) -> None:
        while self._asked:
            self._answered.clear()
            try:
                found = await asyncio.to_thread(self._look)
            except StoreFailed as error:
                self._give_up(error)
                return
            for id, approval in found.items():
                asked = self._asked.get(id)
                if asked is not None and not asked.done():
                    asked.set_result(approval)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pace):
                    await self._answered.wait()

    def _give_up(self, error: StoreFailed) -> None:
        """No answer can come any more."""
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(StoreFailed(str(error), why=error.why))

    # ── Answering ───────────────────────────────────────────────────────────────────

    async def list_waiting(self, owner: str | None) -> Sequence[Fields]:
        """The calls that wait, in all processes: those of one key, or (None) all."""
        rows = await asyncio.to_thread(self._ask, _LIST, owner=owner)
        return [dict(zip(_SHOWN, row, strict=True)) for row in rows]

    async def answer(
        self, id: str, approval: Approval, *, owner: str | None
    ) -> AnsweredApproval | None:
        """Answer for a call; None if no such call waits (any more)."""
        named = {"id": id, "approved": approval.approved, "why": approval.why[:LONGEST_WHY]}
        rows = await asyncio.to_thread(self._ask, _ANSWER, owner=owner, **named)
        self._answered.set()
        return next((AnsweredApproval(run, name, approval.approved) for run, name in rows), None)

    # ── The table ───────────────────────────────────────────────────────────────────

    def _write(self, id: str, waiting: WaitingCall) -> None:
        now = self._clock()
        row = (
            *(id, self._process, now, now, now + waiting.seconds, waiting.key),
            *(waiting.request_id, waiting.model, waiting.call_id, waiting.name),
            waiting.arguments,
        )
        with telling("the call cannot wait for approval", self._path), self._lock:
            old = {"old": now - 2 * SILENCE, "process": self._process}
            self._database.execute(_CLEAN, old)
            self._database.execute(
                "INSERT INTO approvals (id, process, seen, asked, until, key, request_id, "
                "model, call_id, name, arguments) VALUES (?,?,?,?,?,?,?,?,?,?,?)",
                row,
            )

    def _look(self) -> Mapping[str, Approval]:
        """The answers of this moment; and a sign of life."""
        with telling("no answer can be found", self._path):
            try:
                rows = self._look_once()
            except sqlite3.Error as error:
                if not is_busy(error):
                    raise
                rows = []  # it is read again
        return {id: Approval(bool(approved), why) for id, approved, why in rows}

    def _look_once(self) -> Sequence[tuple[Any, ...]]:
        with self._lock:
            sign = (self._clock(), self._process)
            self._database.execute("UPDATE approvals SET seen = ? WHERE process = ?", sign)
            return self._database.execute(_LOOK, (self._process,)).fetchall()

    def _take(self, id: str) -> Approval | None:
        """Take a call out, with the answer that it has; after this it can get none."""
        with telling("no answer can be found", self._path), self._lock:
            rows = self._database.execute(_TAKE, (id,)).fetchall()
        given = [Approval(bool(yes), why) for yes, why in rows if yes is not None]
        return given[0] if given else None

    def _remove(self, id: str) -> None:
        try:
            with self._lock:
                self._database.execute("DELETE FROM approvals WHERE id = ?", (id,))
        except sqlite3.Error:  # it is closed, or busy: the time of the call ends by itself
            return

    def _ask(self, query: str, **named: Any) -> Sequence[tuple[Any, ...]]:
        with telling("the calls that wait cannot be reached", self._path), self._lock:
            return self._database.execute(query, {**named, **self._now()}).fetchall()

    def _now(self) -> dict[str, float]:
        now = self._clock()
        return {"now": now, "alive": now - SILENCE}


# The calls that wait for approval, over HTTP.
#
# Who sees a run may answer for its calls. An answer changes what happens, so it is taken only from
# pages of the proxy's own origin and from programs: whatever a browser says to come from another
# website is refused, even from websites that may read.


_LOG = logging.getLogger(__name__)
PATH = "/inspector/api/approvals"
FindOwner: TypeAlias = Callable[[Request], str | None]
"""Whose runs may be seen by who sent a request: those of one key, or (None) all."""
_Responder: TypeAlias = Callable[[Request], Awaitable[Response]]
"""The handler of a route."""
OnAnswer: TypeAlias = Callable[[Request, AnsweredApproval], None]
"""Called with each answer that counts, and with the request that brought it."""
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
}
_JSON = "application/json"
_OURS = frozenset({"same-origin", "none"})
_GONE = (
    "no such call waits: it was answered, its time is over, its run has ended, or it belongs to "
    "another key"
)


class ApprovalDecision(msgspec.Struct, forbid_unknown_fields=True):
    """A person's answer about a call."""

    approved: bool
    why: str = ""
    """For the model."""


def make_approval_routes(
    desk: ApprovalQueue, *, owner: FindOwner, on_answer: OnAnswer
) -> list[Route]:
    """Return the routes that list and answer pending calls."""
    routes = _Approvals(desk, owner, on_answer=on_answer)
    return [
        Route(PATH, guard(routes.list_waiting)),
        Route(f"{PATH}/{{id}}", guard(routes.answer), methods=["POST"]),
    ]


class _Approvals:
    def __init__(self, desk: ApprovalQueue, owner: FindOwner, *, on_answer: OnAnswer) -> None:
        self._desk = desk
        self._owner = owner
        self._on_answer = on_answer

    async def list_waiting(self, request: Request) -> Response:
        """The calls that wait, in all processes of the proxy."""
        waiting = await self._desk.list_waiting(self._owner(request))
        return JSONResponse({"waiting": waiting}, headers=HEADERS)

    async def answer(self, request: Request) -> Response:
        """Approve or deny one of them."""
        if not _comes_from_us(request):
            return refuse(403, "only the proxy's own page may answer")
        # A form of another website cannot send this type without being asked about first.
        if request.headers.get("content-type", "").partition(";")[0].strip() != _JSON:
            return refuse(415, f"an answer is sent as {_JSON}")
        try:
            given = msgspec.json.decode(await request.body(), type=ApprovalDecision)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return refuse(400, f'an answer is {{"approved": true}} or false, and why: {error}')
        id, approval = request.path_params["id"], Approval(given.approved, given.why)
        answered = await self._desk.answer(id, approval, owner=self._owner(request))
        if answered is None:
            return refuse(404, _GONE)
        self._on_answer(request, answered)
        return JSONResponse({"approved": given.approved}, headers=HEADERS)


def _comes_from_us(request: Request) -> bool:
    """Return True if our own page or a program sent it.

    Browsers omit `Sec-Fetch-Site` on plain HTTP, except to loopback; they always send `Origin`.
    """
    site, origin = request.headers.get("sec-fetch-site", "none"), request.headers.get("origin")
    host = request.headers.get("host", "")
    return site in _OURS and origin in {None, f"http://{host}", f"https://{host}"}


def guard(answer: _Responder) -> _Responder:
    """The same answers; if the file fails, one that says so. The log says which file it is."""

    @wraps(answer)
    async def answer_or_refuse(request: Request) -> Response:
        try:
            return await answer(request)
        except StoreFailed as error:
            _LOG.error("%s", error.why)
            return refuse(503, str(error), code=CODE)

    return answer_or_refuse


def refuse(status: int, message: str, *, code: str = "") -> Response:
    """Say why not."""
    error = {"message": message, "code": code} if code else {"message": message}
    return JSONResponse({"error": error}, status_code=status, headers=HEADERS)
