"""The journals of runs in a SQLite file, for the processes of one machine.

One thread writes, and commits everything that is waiting in one transaction: runs that work at the
same time share the cost of the disk. It also gives the sign of life, because the event loop may be
held up by a tool. A worker is dead if its lock file is free, or its sign of life is older than the
lease; times of this kind are read from the monotonic clock of the machine, which cannot be set.
"""

from __future__ import annotations

import fcntl
import json
import os
import queue
import sqlite3
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from wholecall.errors import Fenced
from wholecall.journal.journal_rows import Row
from wholecall.journal.run_journal import (
    ANSWERED,
    COLUMNS,
    LEASE,
    MOST_ASKED,
    MOST_CLAIMED,
    OVER,
    REPLACED,
    STORE_FAILED,
    Claim,
    ClaimState,
    JournalStore,
    NewRows,
    RunRow,
    RunStatus,
    StoreChange,
    make_run,
    settle,
    split_added,
)
from wholecall.storage import StoreFailed, diagnose, open_database
from wholecall.upstreams.secrets import hide_forms

KEPT_SECONDS = 24 * 3600.0
"""Seconds for which a run and its handles are kept after its end."""
_BEAT = 1.0
"""Seconds between two signs of life."""
_MOST_CHANGES = 512
"""Changes in one commit."""
_MIGRATIONS = (
    """
CREATE TABLE runs (
    id TEXT PRIMARY KEY, key_id TEXT NOT NULL, model TEXT NOT NULL, status TEXT NOT NULL,
    owner TEXT NOT NULL, epoch INTEGER NOT NULL, created REAL NOT NULL, touched REAL NOT NULL,
    due REAL NOT NULL, stop TEXT NOT NULL, plan BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX runs_by_status ON runs (status, touched);
CREATE INDEX runs_by_due ON runs (due) WHERE due > 0;
CREATE TABLE rows (
    number INTEGER PRIMARY KEY, run TEXT NOT NULL REFERENCES runs ON DELETE CASCADE,
    key TEXT NOT NULL, epoch INTEGER NOT NULL, at REAL NOT NULL, body BLOB NOT NULL,
    UNIQUE (run, key)
);
CREATE TABLE frames (
    run TEXT NOT NULL REFERENCES runs ON DELETE CASCADE, number INTEGER NOT NULL,
    body BLOB NOT NULL, PRIMARY KEY (run, number)
) WITHOUT ROWID;
CREATE TABLE handles (
    name TEXT PRIMARY KEY, run TEXT NOT NULL REFERENCES runs ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX handles_by_run ON handles (run);
CREATE TABLE workers (id TEXT PRIMARY KEY, seen REAL NOT NULL) WITHOUT ROWID;
""",
    """
ALTER TABLE runs ADD COLUMN background INTEGER NOT NULL DEFAULT 0;
ALTER TABLE handles ADD COLUMN until REAL NOT NULL DEFAULT 0;
""",
)
"""Numbered from 1; each is one transaction."""
_OF_RUNS = ", ".join(f"runs.{name}" for name in COLUMNS.split(", "))
# A run does not wait for what was decided while its worker was about to let go of it.
_WAS_DECIDED = """
SELECT 1 FROM rows JOIN runs ON runs.id = rows.run AND runs.epoch = rows.epoch
WHERE run = ? AND (key GLOB 'decision *' OR key GLOB 'approval *')
"""
_LIST_ASKED = f"""
SELECT asked.key, asked.body, asked.epoch, asked.at, {_OF_RUNS}
FROM runs JOIN rows AS asked ON asked.run = runs.id
WHERE status IN ('ready', 'running', 'waiting') AND (:key IS NULL OR key_id = :key)
AND (key GLOB 'ask *' OR key GLOB 'approval_ask *') AND NOT EXISTS (
    SELECT 1 FROM rows AS given WHERE given.run = runs.id AND given.key IN (
        'result ' || substr(asked.key, instr(asked.key, ' ') + 1),
        CASE WHEN asked.key GLOB 'ask *' THEN 'decision' ELSE 'approval' END
            || substr(asked.key, instr(asked.key, ' '))))
ORDER BY asked.at LIMIT :most
"""  # noqa: S608 - only our own words
_INSERT_RUN = f"INSERT INTO runs ({COLUMNS}, plan) VALUES ({', '.join('?' * 12)})"  # noqa: S608 - only our own words
_INSERT = "INSERT INTO rows (run, key, epoch, at, body) VALUES (?, ?, ?, ?, ?)"
_FIND_OWNED = """
SELECT id, epoch FROM runs WHERE id IN (SELECT value FROM json_each(?))
AND status NOT IN ('done', 'failed', 'cancelled', 'broken', 'client')
"""
_T = TypeVar("_T")


class SqliteJournal(JournalStore):
    """One file; several processes may use it, each with one worker."""

    def __init__(
        self,
        path: Path,
        *,
        kept_seconds: float = KEPT_SECONDS,
        lease: float = LEASE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(f"{os.getpid()}-{uuid.uuid4().hex[:8]}", clock=clock)
        self.path = path
        self._kept_seconds = kept_seconds
        self._lease = lease
        self._locks = path.with_name(f"{path.name}-workers")
        self._database = open_database(path, _prepare)
        self._file = _identify(path)
        self._lock_file = self._lock_worker()
        self._thread.start()

    # ── The interface ───────────────────────────────────────────────────────────────

    def open_run(
        self, run: RunRow, handles: Sequence[str] = (), *, bare: bool = False
    ) -> Future[Claim]:
        """Insert a run with its handles. If its id or a handle is taken, claim that run instead.

        `bare`: the request does not say that it was sent before. So it takes the handles of a run
        that is over or has no living owner. One in which a tool had begun and that did not end well
        is returned (and is claimed), until it has been over for `REFUSED_SECONDS`.
        """

        def change(database: sqlite3.Connection) -> Claim:
            taken = self._find_taken(database, run.id, handles=handles)
            found = None if taken is None else self._claim(database, taken)
            if found is not None and (found.state is ClaimState.BUSY or not bare):
                return found
            now = self._clock()
            if found is not None:
                if found.keeps_handles(now):
                    return found
                freed = [(name,) for name in handles]
                database.executemany("DELETE FROM handles WHERE name = ?", freed)
                self._replace(database, found)
            fresh = run._replace(
                status=RunStatus.RUNNING, owner=self.worker, epoch=1, created=now, touched=now
            )
            values = fresh._replace(status=fresh.status.value)  # type: ignore[arg-type]
            database.execute(_INSERT_RUN, values)
            names = [(name, run.id) for name in handles]
            database.executemany("INSERT INTO handles (name, run) VALUES (?, ?)", names)
            self._take_in(database, run.id)
            return Claim(ClaimState.NEW, fresh)

        return self._submit(change)

    def claim_abandoned(self, most: int = MOST_CLAIMED) -> Future[list[Claim]]:
        """Take over background runs that are READY, or whose workers died: the oldest first."""

        def change(database: sqlite3.Connection) -> list[Claim]:
            query = (
                f"SELECT {COLUMNS} FROM runs WHERE background AND status IN ('ready', 'running') "  # noqa: S608 - only our own words
                "ORDER BY created"
            )
            open_runs = [make_run(row) for row in database.execute(query)]
            dead = (
                run
                for run in open_runs
                if run.status is RunStatus.READY or not self._is_at_work(database, run)
            )
            claims = (self._claim(database, run.id) for run in islice(dead, most))
            return [claim for claim in claims if claim is not None]

        return self._submit(change)

    def add_handles(self, id: str, handles: Sequence[str], *, until: float) -> Future[bool]:
        """Let more names lead to a run; False, and no change, if one of them leads to another run.

        The run is kept until then (seconds since 1970), even if it is over.
        """

        def change(database: sqlite3.Connection) -> bool:
            found = {self._find_handle(database, name) for name in handles}
            if not found <= {None, id}:
                return False
            database.executemany(
                "INSERT INTO handles (name, run, until) VALUES (?, ?, ?) "
                "ON CONFLICT (name) DO UPDATE SET until = excluded.until",
                [(name, id, until) for name in handles],
            )
            query = "UPDATE runs SET due = max(due, ?) WHERE id = ? AND due > 0"
            database.execute(query, (until, id))
            return True

        return self._submit(change)

    def append(
        self,
        id: str,
        added: Sequence[Row | bytes],
        *,
        epoch: int,
        status: RunStatus | None = None,
        stop: str = "",
    ) -> Future[None]:
        """Append rows and frames (bytes) to a run and its response, and set its status, in one
        change. A status but RUNNING lets go."""
        rows, frames = split_added(added)

        def change(database: sqlite3.Connection) -> None:
            self._append(database, id, rows=rows, epoch=epoch)
            _insert_frames(database, id, frames=frames)
            if status is not None:
                self._set_status(database, id, status=status, stop=stop)

        return self._submit(change)

    def cancel(self, id: str, why: str, *, frames: Sequence[bytes] = ()) -> Future[bool]:
        """End a run that is not over, under a new epoch: its owner is fenced."""

        def change(database: sqlite3.Connection) -> bool:
            run = self._read_run(database, id)
            if run is None or run.status in OVER:
                return False
            database.execute("UPDATE runs SET epoch = epoch + 1 WHERE id = ?", (id,))
            _insert_frames(database, id, frames=frames)
            self._set_status(database, id, status=RunStatus.CANCELLED, stop=why)
            return True

        return self._submit(change)

    def close(self) -> None:
        """Give up the runs of this worker, and close."""
        if self.is_closed:
            return
        self._changes.end()
        self._thread.join()
        self._database.close()
        self._lock_file.close()
        with suppress(OSError):
            (self._locks / self.worker).unlink()

    # ── Claims ──────────────────────────────────────────────────────────────────────

    def _execute(self, database: sqlite3.Connection, query: str, *values: Any) -> sqlite3.Cursor:
        return database.execute(query.replace("wholecall.", ""), values)

    def _read_asked(self, database: sqlite3.Connection, key_id: str | None) -> list[Any]:
        return database.execute(_LIST_ASKED, {"key": key_id, "most": MOST_ASKED}).fetchall()

    def _add_result(self, database: sqlite3.Connection, id: str, *, row: Row) -> bytes:
        call_id, epoch = row.key.partition(" ")[2], row.epoch
        if not _wrote_intent(database, id, call_id=call_id, epoch=epoch):
            _demand_epoch(database, id, epoch=epoch)
        query = "SELECT body, epoch FROM rows WHERE run = ? AND key = ?"
        before = database.execute(query, (id, row.key)).fetchone()
        if before is None:
            _insert(database, id, rows=[row], epoch=epoch, now=self._clock())
            return row.body
        if before[1] != epoch:
            insert = _INSERT.replace("INSERT", "INSERT OR IGNORE", 1)
            database.execute(insert, (id, f"late {call_id}", epoch, self._clock(), row.body))
        return bytes(before[0])

    def _replace(self, database: sqlite3.Connection, found: Claim) -> None:
        """End a claimed run in which nothing has begun: a new one takes its place."""
        if found.state is ClaimState.TAKEN:
            self._mine.discard(found.run.id)
            self._set_status(database, found.run.id, status=RunStatus.CANCELLED, stop=REPLACED)

    def _take_in(self, database: sqlite3.Connection, id: str) -> None:
        """Work on a run, with a sign of life from its first moment on."""
        if not self._mine:
            self._give_sign(database)
        self._mine.add(id)

    def _is_at_work(self, database: sqlite3.Connection, run: RunRow) -> bool:
        if run.owner == self.worker:
            return run.id in self._mine
        seen = database.execute("SELECT seen FROM workers WHERE id = ?", (run.owner,)).fetchone()
        now = time.monotonic()
        # A sign of life from the future was given before the machine was started.
        if seen is None or not now - self._lease < seen[0] <= now:
            return False
        return not self._is_lock_free(run.owner)

    def _is_lock_free(self, worker: str) -> bool:
        try:
            with (self._locks / worker).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        (self._locks / worker).unlink(missing_ok=True)
        return True

    def _lock_worker(self) -> Any:
        try:
            self._locks.mkdir(mode=0o700, exist_ok=True)
            file = (self._locks / self.worker).open("wb")
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            self._database.close()
            raise StoreFailed(diagnose(error, self._locks)) from error
        return file

    def _add(self, database: sqlite3.Connection, id: str, *, row: Row) -> bool:
        """Append a row under whatever epoch the run has; False if it is there."""
        insert = (
            "INSERT OR IGNORE INTO rows (run, key, epoch, at, body) "
            "SELECT id, ?, epoch, ?, ? FROM runs WHERE id = ?"
        )
        values = (row.key, self._clock(), row.body, id)
        return database.execute(insert, values).rowcount == 1

    def _set_status(
        self, database: sqlite3.Connection, id: str, *, status: RunStatus, stop: str
    ) -> None:
        now = self._clock()
        if status is RunStatus.WAITING and database.execute(_WAS_DECIDED, (id,)).fetchone():
            status, stop = RunStatus.READY, ""
        over = status in ANSWERED
        query = "SELECT max(until) FROM handles WHERE run = ?"
        (until,) = database.execute(query, (id,)).fetchone()
        due = max(now + self._kept_seconds, until or 0.0)
        owner = self.worker if status is RunStatus.RUNNING else ""
        database.execute(
            "UPDATE runs SET status = ?, stop = ?, owner = ?, touched = ?, "
            "due = CASE WHEN ? THEN ? ELSE due END WHERE id = ?",
            (status.value, hide_forms(stop), owner, now, over, due, id),
        )
        if over:
            query = "DELETE FROM runs WHERE due > 0 AND due < ? AND status <> 'waiting'"
            database.execute(query, (now,))

    # ── The thread ──────────────────────────────────────────────────────────────────

    def _work(self) -> None:
        beat = time.monotonic()
        while True:
            taken = self._take()
            changes = [change for change in taken if change is not None]
            if self._mine and time.monotonic() - beat >= _BEAT:
                beat = time.monotonic()
                changes.append(StoreChange(self._give_sign, Future()))
            self._commit(changes)
            if None in taken:
                return

    def _take(self) -> list[StoreChange | NewRows | None]:
        changes: list[StoreChange | NewRows | None] = []
        with suppress(queue.Empty):
            changes.append(self._changes.get(timeout=_BEAT / 2))
            self._changes.gather(has_others=len(self._mine) > 1)
            while changes[-1] is not None and len(changes) < _MOST_CHANGES:
                changes.append(self._changes.get_nowait())
        return changes

    def _give_sign(self, database: sqlite3.Connection) -> None:
        values = (self.worker, time.monotonic())
        database.execute("INSERT OR REPLACE INTO workers (id, seen) VALUES (?, ?)", values)

    def _demand_file(self) -> None:
        """Notice a file that was deleted: what is written to it would be lost."""
        if _identify(self.path) != self._file:
            raise OSError("the file was deleted or replaced")

    def _commit(self, changes: Sequence[StoreChange | NewRows]) -> None:
        """Make all changes in one transaction; one that fails leaves nothing of itself.

        A change whose future was cancelled is not made: the one who wanted it does not wait for it.
        """
        changes = [change for change in changes if change.is_wanted]
        if not changes:
            return
        database, began = self._database, time.monotonic()
        try:
            self._demand_file()
            outcomes = self._make_all(database, changes)
            database.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            with suppress(sqlite3.Error):
                database.execute("ROLLBACK")
            why = f"{STORE_FAILED}: {diagnose(error, self.path)}"
            failed = StoreFailed(f"{STORE_FAILED}; the log says why", why=why)
            outcomes = [failed] * len(changes)
        self.on_commit(time.monotonic() - began)
        settle(changes, outcomes)

    def _make_all(self, database: sqlite3.Connection, changes: Sequence[Any]) -> list[Any]:
        """Make changes in one transaction, which is left open; one that fails leaves nothing of
        itself. Nearly none fails after it has written, so savepoints are made only then."""
        database.execute("BEGIN IMMEDIATE")
        try:
            return self._make_each(database, changes)
        except (sqlite3.IntegrityError, ValueError):
            database.execute("ROLLBACK")
        database.execute("BEGIN IMMEDIATE")
        return [self._make(database, change) for change in changes]

    def _make(self, database: sqlite3.Connection, change: StoreChange | NewRows) -> Any:
        database.execute("SAVEPOINT change")
        try:
            if isinstance(change, NewRows):
                return self._write(database, change)
            return change.make(database)
        except (Fenced, sqlite3.IntegrityError, ValueError) as error:  # the last: a damaged row
            database.execute("ROLLBACK TO change")
            return error
        finally:
            if database.in_transaction:
                database.execute("RELEASE change")

    def _append(
        self, database: sqlite3.Connection, id: str, *, rows: Sequence[Row], epoch: int
    ) -> None:
        _demand_epoch(database, id, epoch=epoch)
        _insert(database, id, rows=rows, epoch=epoch, now=self._clock())

    def _write_all(self, database: sqlite3.Connection, news: Sequence[NewRows]) -> list[None]:
        """Append rows of many runs; `ValueError` if one of them is fenced."""
        owned = dict(database.execute(_FIND_OWNED, (json.dumps([new.id for new in news]),)))
        if any(owned.get(new.id) != new.epoch for new in news):
            raise ValueError
        now = self._clock()
        rows = ((new.id, row.key, new.epoch, now, row.body) for new in news for row in new.rows)
        database.executemany(_INSERT, rows)
        return [None] * len(news)


def _prepare(database: sqlite3.Connection) -> None:
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("PRAGMA foreign_keys = ON")
    database.execute("BEGIN IMMEDIATE")
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version > len(_MIGRATIONS):
        raise sqlite3.DatabaseError(f"a newer version of wholecall made it (tables {version})")
    for number, migration in enumerate(_MIGRATIONS[version:], start=version + 1):
        for statement in migration.split(";"):
            database.execute(statement)
        database.execute(f"PRAGMA user_version = {number}")
    database.execute("COMMIT")


def _identify(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _demand_epoch(database: sqlite3.Connection, id: str, *, epoch: int) -> None:
    row = database.execute("SELECT epoch, status FROM runs WHERE id = ?", (id,)).fetchone()
    if row is None or row[0] != epoch:
        raise Fenced(f"another worker has taken over the run {id!r}")
    if RunStatus(row[1]) in ANSWERED:
        raise Fenced(f"the run {id!r} is over")


def _wrote_intent(database: sqlite3.Connection, id: str, *, call_id: str, epoch: int) -> bool:
    """Return True if this epoch wrote an intent of the call."""
    query = "SELECT key FROM rows WHERE run = ? AND epoch = ? AND key LIKE 'intent %'"
    keys = (key for (key,) in database.execute(query, (id, epoch)))
    return any(key.split(" ", 2)[2] == call_id for key in keys)


def _insert(
    database: sqlite3.Connection, id: str, *, rows: Sequence[Row], epoch: int, now: float
) -> None:
    database.executemany(_INSERT, [(id, row.key, epoch, now, row.body) for row in rows])


def _insert_frames(database: sqlite3.Connection, id: str, *, frames: Sequence[bytes]) -> None:
    """Number the frames on: a client resumes after one of them."""
    query = "SELECT coalesce(max(number) + 1, 0) FROM frames WHERE run = ?"
    (first,) = database.execute(query, (id,)).fetchone() if frames else (0,)
    values = [(id, number, body) for number, body in enumerate(frames, first)]
    database.executemany("INSERT INTO frames (run, number, body) VALUES (?, ?, ?)", values)


_OPEN: dict[tuple[int, Path], SqliteJournal] = {}
"""The journals that this process has opened by their names. A child has to open its own."""


def find_journal(name: str) -> SqliteJournal:
    """Return the journal of a name such as `sqlite:runs.sqlite`; one for all runs of a process."""
    kind, _, place = name.partition(":")
    if kind != "sqlite" or not place:
        raise ValueError(f"the journal {name!r} is not known: write 'sqlite:<file>'")
    key = (os.getpid(), Path(place).absolute())
    if key not in _OPEN or _OPEN[key].is_closed:
        _OPEN[key] = SqliteJournal(key[1])
    return _OPEN[key]
