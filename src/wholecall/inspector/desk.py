"""Pending approvals: a table that all processes of a proxy share.

The process whose run waits inserts the call and polls for an answer a few times a second. So it
does not matter which process a page has reached: it reads the table and writes the answer into it.
Each poll updates a heartbeat; a call whose process is gone is not shown any more. The first answer
counts, also that of the timeout: a call whose time is over is deleted together with an answer that
may have come at the last moment.
"""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from wholecall.files.database import StoreFailed, is_busy, open_database, telling
from wholecall.inspector.encoding import Fields
from wholecall.runs.approvals import Approval

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
class Waiting:
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


class Answered(NamedTuple):
    """A call that was answered for."""

    request_id: str
    """Of its run."""
    name: str
    approved: bool


class Desk:
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

    async def wait_for(self, waiting: Waiting) -> Approval:
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
            # A person who answered a moment ago was told that it counts.
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

    async def answer(self, id: str, approval: Approval, *, owner: str | None) -> Answered | None:
        """Answer for a call; None if no such call waits (any more)."""
        named = {"id": id, "approved": approval.approved, "why": approval.why[:LONGEST_WHY]}
        rows = await asyncio.to_thread(self._ask, _ANSWER, owner=owner, **named)
        self._answered.set()
        return next((Answered(run, name, approval.approved) for run, name in rows), None)

    # ── The table ───────────────────────────────────────────────────────────────────

    def _write(self, id: str, waiting: Waiting) -> None:
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
