"""The journals of runs in PostgreSQL, for the processes of many machines.

The tables and the rules are those of the SQLite file. One thread writes, and commits everything
that is waiting in one transaction. Here many workers write at once, so a change locks its run: the
epoch is checked in the statement that appends, under that lock.

When the server is away, what a run appends waits for it, and nothing begins that needs an intent.
A commit whose answer was lost may have happened, so every change can be made twice: rows and frames
that are there already, from the same epoch, are not written again.
"""

from __future__ import annotations

import os
import queue
import socket
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from types import ModuleType
from typing import Any, TypeVar

from wholecall.errors import Fenced
from wholecall.journal.journal_rows import Row
from wholecall.journal.postgres_server import (
    GRACE,
    LIVING,
    SignOfLife,
    connect,
    diagnose_server,
    load_driver,
    migrate,
)
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
from wholecall.journal.sqlite_journal import (
    KEPT_SECONDS,
    find_journal,
)
from wholecall.storage import StoreFailed
from wholecall.upstreams.secrets import hide_forms

PATIENCE = 120.0
"""Seconds for which what a run appends waits for a server that is away."""
_PAUSE = 0.2
"""Seconds between two attempts to connect."""
_MOST_CHANGES = 512
"""Changes in one commit."""
_MOST_DELETED = 100
_ATTEMPTS = 20
"""Of a change that others were in the way of."""
_OF_RUNS = ", ".join(f"runs.{name}" for name in COLUMNS.split(", "))
_INSERT_RUN = f"""
INSERT INTO wholecall.runs ({COLUMNS}, plan) VALUES ({", ".join(["%s"] * 12)})
ON CONFLICT DO NOTHING
"""  # noqa: S608 - only our own words
_SELECT_RUN = f"SELECT {COLUMNS}, plan FROM wholecall.runs WHERE id = %s"  # noqa: S608 - only our own words
_OWNED = """
SELECT id FROM wholecall.runs WHERE id = %(id)s AND epoch = %(epoch)s
    AND (status NOT IN ('done', 'failed', 'cancelled', 'broken', 'client')
        OR status = %(status)s::text) FOR NO KEY UPDATE
"""
"""Locks the run: no other worker can take it over before the rows are committed. One that is over
stays so; only the change that ended it may be made again."""
_INSERT_ROWS = """
INSERT INTO wholecall.rows (run, key, epoch, at, body)
SELECT owned.id, new.key, %(epoch)s, %(now)s, new.body
FROM owned, unnest(%(keys)s::text[], %(bodies)s::bytea[]) WITH ORDINALITY AS new (key, body, place)
ORDER BY new.place ON CONFLICT DO NOTHING RETURNING 1
"""
# A run does not wait for what was decided while its worker was about to let go of it.
_UPDATE_STATUS = """
UPDATE wholecall.runs SET status = CASE WHEN %(status)s = 'waiting' AND EXISTS (
        SELECT 1 FROM wholecall.rows WHERE run = %(id)s AND epoch = %(epoch)s
        AND split_part(key, ' ', 1) IN ('decision', 'approval')
    ) THEN 'ready' ELSE %(status)s END, stop = %(stop)s, owner = %(owner)s,
    touched = %(now)s, due = CASE WHEN %(over)s THEN greatest(%(due)s, (
        SELECT max(until) FROM wholecall.handles WHERE run = %(id)s)) ELSE due END
WHERE id IN (SELECT id FROM owned)
"""
_APPEND = f"""
WITH owned AS ({_OWNED}), written AS ({_INSERT_ROWS})
SELECT (SELECT count(*) FROM owned), (SELECT count(*) FROM written)
"""  # noqa: S608 - only our own words
# The rows and the status are one statement: a run is never over and open at once.
_APPEND_STATUS = f"""
WITH owned AS ({_OWNED}), written AS ({_INSERT_ROWS}), changed AS ({_UPDATE_STATUS})
SELECT (SELECT count(*) FROM owned), (SELECT count(*) FROM written)
"""  # noqa: S608 - only our own words
# What a tool did stays true: its result is accepted from the epoch that wrote the intent, too.
_APPEND_RESULT = """
WITH owned AS (
    SELECT id FROM wholecall.runs WHERE id = %(id)s AND (epoch = %(epoch)s OR EXISTS (
        SELECT 1 FROM wholecall.rows WHERE run = %(id)s AND epoch = %(epoch)s
        AND key LIKE 'intent %%' AND regexp_replace(key, '^intent [^ ]+ ', '') = %(call)s))
    FOR NO KEY UPDATE
), written AS (
    INSERT INTO wholecall.rows (run, key, epoch, at, body)
    SELECT id, %(key)s, %(epoch)s, %(now)s, %(body)s FROM owned ON CONFLICT DO NOTHING RETURNING 1
)
SELECT (SELECT count(*) FROM owned), (SELECT count(*) FROM written)
"""
# Rows of many runs, each under its epoch, which is checked under the locks of the runs.
_WRITE_ALL = """
WITH owned AS (
    SELECT id, epoch FROM wholecall.runs WHERE id = ANY(%(runs)s)
    AND status NOT IN ('done', 'failed', 'cancelled', 'broken', 'client')
    ORDER BY id FOR NO KEY UPDATE)
INSERT INTO wholecall.rows (run, key, epoch, at, body)
SELECT owned.id, new.key, owned.epoch, %(now)s, new.body FROM owned
JOIN unnest(%(runs)s::text[], %(epochs)s::integer[], %(keys)s::text[], %(bodies)s::bytea[])
WITH ORDINALITY AS new (run, epoch, key, body, place) ON run = id AND new.epoch = owned.epoch
ORDER BY new.place ON CONFLICT DO NOTHING
"""
_INSERT_LATE = """
INSERT INTO wholecall.rows (run, key, epoch, at, body)
VALUES (%(id)s, %(late)s, %(epoch)s, %(now)s, %(body)s) ON CONFLICT DO NOTHING
"""
_ABANDONED = """
SELECT id FROM wholecall.runs WHERE background AND (status = 'ready' OR status = 'running' AND
    CASE WHEN owner = %(me)s THEN NOT id = ANY(%(mine)s) ELSE NOT owner = ANY(%(living)s) END)
ORDER BY created LIMIT %(most)s FOR NO KEY UPDATE SKIP LOCKED
"""
_DELETE_DUE = """
DELETE FROM wholecall.runs WHERE id IN (
    SELECT id FROM wholecall.runs WHERE due > 0 AND due < %s
    AND status <> 'waiting' LIMIT %s FOR UPDATE SKIP LOCKED)
"""
_LOCK_RUN = "SELECT 1 FROM wholecall.runs WHERE id = %s FOR NO KEY UPDATE"
_LIST_ASKED = f"""
SELECT asked.key, asked.body, asked.epoch, asked.at, {_OF_RUNS}
FROM wholecall.runs JOIN wholecall.rows AS asked ON asked.run = runs.id
WHERE status IN ('ready', 'running', 'waiting')
AND (%(key)s::text IS NULL OR key_id = %(key)s)
AND split_part(asked.key, ' ', 1) IN ('ask', 'approval_ask') AND NOT EXISTS (
    SELECT 1 FROM wholecall.rows AS given WHERE given.run = runs.id AND given.key IN (
        'result ' || substr(asked.key, strpos(asked.key, ' ') + 1),
        CASE split_part(asked.key, ' ', 1) WHEN 'ask' THEN 'decision' ELSE 'approval' END
            || substr(asked.key, strpos(asked.key, ' '))))
ORDER BY asked.at LIMIT %(most)s
"""  # noqa: S608 - only our own words
_T = TypeVar("_T")


class _InTheWay(Exception):
    """Another worker wrote the same at the same time: look again."""


class PostgresJournal(JournalStore):
    """One database; any number of processes may use it, each with one worker."""

    def __init__(
        self,
        url: str,
        *,
        kept_seconds: float = KEPT_SECONDS,
        lease: float = LEASE,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`StoreFailed` if the server cannot be used."""
        name = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        super().__init__(name, clock=clock)
        self.url = url
        self._kept_seconds, self._patience = kept_seconds, patience
        self._lease = lease
        self.grace = GRACE
        """Seconds after the server's start in which no worker is dead for want of a session."""
        self._database: Any = None
        try:
            self._database = connect(url)
            migrate(self._database)
            self._sign = SignOfLife(url, self.worker)
        except (self._driver.Error, StoreFailed) as error:
            self._drop()
            raise StoreFailed(diagnose_server(error, url)) from None
        self._backlog: list[StoreChange | NewRows | None] = []
        """Changes that came while the server was away."""
        self._thread.start()

    # ── Runs and their handles ──────────────────────────────────────────────────────

    def open_run(
        self, run: RunRow, handles: Sequence[str] = (), *, bare: bool = False
    ) -> Future[Claim]:
        """Insert a run with its handles. If its id or a handle is taken, claim that run instead.

        `bare`: the request does not say that it was sent before. So it takes the handles of a run
        that is over or has no living owner. One in which a tool had begun and that did not end well
        is returned (and is claimed), until it has been over for `REFUSED_SECONDS`.
        """
        now = self._clock()
        fresh = run._replace(
            status=RunStatus.RUNNING, owner=self.worker, epoch=1, created=now, touched=now
        )

        def change(database: Any) -> Claim:
            taken = self._find_taken(database, run.id, handles=handles)
            found = None if taken is None else self._claim(database, taken)
            if found is not None and found.run == fresh:
                return Claim(ClaimState.NEW, fresh)  # the answer to its commit was lost
            if found is not None and (found.state is ClaimState.BUSY or not bare):
                return found
            if found is not None:
                if found.keeps_handles(now):
                    return found
                query = "DELETE FROM wholecall.handles WHERE name = ANY(%s)"
                database.execute(query, (list(handles),))
                self._replace(database, found)
            _insert_run(database, fresh, handles=handles)
            self._take_in(database, run.id)
            return Claim(ClaimState.NEW, fresh)

        return self._submit(change)

    def claim_abandoned(self, most: int = MOST_CLAIMED) -> Future[list[Claim]]:
        """Take over background runs that are READY, or whose workers died: the oldest first."""

        def change(database: Any) -> list[Claim]:
            values = {
                "me": self.worker,
                "mine": list(self._mine),
                "living": list(self.find_living(database)),
                "most": most,
            }
            found = database.execute(_ABANDONED, values).fetchall()
            claims = [self._claim(database, id) for (id,) in found]
            return [claim for claim in claims if claim is not None]

        return self._submit(change)

    def add_handles(self, id: str, handles: Sequence[str], *, until: float) -> Future[bool]:
        """Let more names lead to a run; False, and no change, if one of them leads to another run.

        The run is kept until then (seconds since 1970), even if it is over.
        """

        def change(database: Any) -> bool:
            query = "SELECT 1 FROM wholecall.handles WHERE name = ANY(%s) AND run <> %s"
            if database.execute(query, (list(handles), id)).fetchone() is not None:
                return False
            written = database.execute(
                "INSERT INTO wholecall.handles (name, run, until) SELECT unnest(%s::text[]), %s, %s"
                " ON CONFLICT (name) DO UPDATE SET until = excluded.until"
                " WHERE handles.run = excluded.run",
                (list(handles), id, until),
            )
            if written.rowcount != len(set(handles)):
                raise _InTheWay
            query = "UPDATE wholecall.runs SET due = greatest(due, %s) WHERE id = %s AND due > 0"
            database.execute(query, (until, id))
            return True

        return self._submit(change)

    def cancel(self, id: str, why: str, *, frames: Sequence[bytes] = ()) -> Future[bool]:
        """End a run that is not over, under a new epoch: its owner is fenced."""

        def change(database: Any) -> bool:
            run = self._lock_run(database, id)
            if run is None or run.status in OVER:
                return False
            epoch = run.epoch + 1
            query = "UPDATE wholecall.runs SET epoch = %s WHERE id = %s"
            database.execute(query, (epoch, id))
            _insert_frames(database, id, frames=frames, first=_count_frames(database, id))
            values = self._describe(id, epoch=epoch, status=RunStatus.CANCELLED, stop=why)
            self._extend(database, values, rows=())
            return True

        return self._submit(change)

    def close(self) -> None:
        """Give up the runs of this worker, and close."""
        if self.is_closed:
            return
        self._changes.end()
        self._thread.join()
        self._sign.close()
        self._drop()

    # ── Rows and frames ─────────────────────────────────────────────────────────────

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
        values = self._describe(id, epoch=epoch, status=status, stop=stop)
        rows, frames = split_added(added)
        first: list[int] = []  # a second attempt writes the same numbers

        def change(database: Any) -> None:
            self._extend(database, values, rows=rows)
            first[:] = first or [_count_frames(database, id) if frames else 0]
            _insert_frames(database, id, frames=frames, first=first[0])

        return self._submit(change, waits=True)

    # ── Claims ──────────────────────────────────────────────────────────────────────

    def _lock_run(self, database: Any, id: str) -> RunRow | None:
        row = database.execute(f"{_SELECT_RUN} FOR NO KEY UPDATE", (id,)).fetchone()
        return None if row is None else make_run(row)

    def _execute(self, database: Any, query: str, *values: object) -> Any:
        return database.execute(query.replace("?", "%s"), values)

    def _read_asked(self, database: Any, key_id: str | None) -> Sequence[Sequence[Any]]:
        asked = {"key": key_id, "most": MOST_ASKED}
        found: Sequence[Sequence[Any]] = database.execute(_LIST_ASKED, asked).fetchall()
        return found

    def _replace(self, database: Any, found: Claim) -> None:
        """End a claimed run in which nothing has begun: a new one takes its place."""
        if found.state is ClaimState.TAKEN:
            self._mine.discard(found.run.id)
            id, epoch = found.run.id, found.run.epoch
            values = self._describe(id, epoch=epoch, status=RunStatus.CANCELLED, stop=REPLACED)
            self._extend(database, values, rows=())

    def _is_at_work(self, database: Any, run: RunRow) -> bool:
        if run.owner == self.worker:
            return run.id in self._mine
        return run.owner in self.find_living(database)

    def find_living(self, database: Any) -> set[str]:
        """Return the workers that give signs of life, as a connection sees them."""
        limits = {"lease": self._lease, "grace": self.grace}
        return {id for (id,) in database.execute(LIVING, limits)}

    def _describe(
        self, id: str, *, epoch: int, status: RunStatus | None, stop: str
    ) -> Mapping[str, Any]:
        """Return the values of a statement that appends."""
        now = self._clock()
        return {
            "id": id,
            "epoch": epoch,
            "now": now,
            "status": None if status is None else status.value,
            "stop": hide_forms(stop),
            "owner": self.worker if status is RunStatus.RUNNING else "",
            "over": status in ANSWERED,
            "due": now + self._kept_seconds,
        }

    def _add(self, database: Any, id: str, *, row: Row) -> bool:
        """Append a row under whatever epoch the run has; False if it is there."""
        insert = (
            "INSERT INTO wholecall.rows (run, key, epoch, at, body) SELECT id, %s, epoch, %s, "
            "%s FROM wholecall.runs WHERE id = %s FOR NO KEY UPDATE ON CONFLICT DO NOTHING"
        )
        values = (row.key, self._clock(), row.body, id)
        return bool(database.execute(insert, values).rowcount == 1)

    def _extend(self, database: Any, values: Mapping[str, Any], *, rows: Sequence[Row]) -> None:
        """Append rows under an epoch, and set the status, in one statement."""
        id, epoch = values["id"], values["epoch"]
        columns = {"keys": [row.key for row in rows], "bodies": [row.body for row in rows]}
        if values["status"] == RunStatus.WAITING.value:
            # Decisions lock the run: the statement that looks for one begins after them.
            database.execute(_LOCK_RUN, (id,))
        statement = _APPEND if values["status"] is None else _APPEND_STATUS
        owned, written = database.execute(statement, {**values, **columns}).fetchone()
        if not owned:
            raise Fenced(f"another worker has taken over the run {id!r}")
        if written < len(rows):
            there = {row.key: row for row in self._read_rows(database, id)}
            if any(there[row.key] != row._replace(epoch=epoch) for row in rows):
                raise ValueError(f"the run {id!r} has other rows of these keys: {columns['keys']}")
        if values["over"]:
            database.execute(_DELETE_DUE, (values["now"], _MOST_DELETED))

    def _add_result(self, database: Any, id: str, *, row: Row) -> bytes:
        call_id, (key, body, epoch) = row.key.partition(" ")[2], row
        names = {"id": id, "call": call_id, "key": key, "late": f"late {call_id}"}
        values = {**names, "epoch": epoch, "now": self._clock(), "body": body}
        owned, written = database.execute(_APPEND_RESULT, values).fetchone()
        if not owned:
            raise Fenced(f"another worker has taken over the run {id!r}")
        if written:
            return body
        query = "SELECT body, epoch FROM wholecall.rows WHERE run = %s AND key = %s"
        counts, by = database.execute(query, (id, key)).fetchone()
        if by != epoch:
            database.execute(_INSERT_LATE, values)
        return bytes(counts)

    def _write_all(self, database: Any, news: Sequence[NewRows]) -> list[Fenced | None]:
        """Append rows of many runs at once, or one after the other if something is in the way."""
        rows = [(new.id, new.epoch, row.key, row.body) for new in news for row in new.rows]
        names = ("runs", "epochs", "keys", "bodies")
        columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
        written = database.execute(_WRITE_ALL, {**columns, "now": self._clock()}).rowcount
        if written == len(rows):
            return [None] * len(news)
        return [self._write(database, new) for new in news]

    def _append(self, database: Any, id: str, *, rows: Sequence[Row], epoch: int) -> None:
        values = self._describe(id, epoch=epoch, status=None, stop="")
        self._extend(database, values, rows=rows)

    # ── The thread ──────────────────────────────────────────────────────────────────

    @property
    def _driver(self) -> ModuleType:
        return load_driver()

    def _work(self) -> None:
        while True:
            taken = self._take()
            changes = [change for change in taken if change is not None]
            # A change whose future was cancelled is not made.
            wanted = [each for each in changes if each.is_wanted]
            if wanted:
                self._make_all(wanted)
            if None in taken:
                return

    def _take(self) -> list[StoreChange | NewRows | None]:
        taken = self._backlog or [self._changes.get()]
        self._backlog = []
        self._changes.gather(has_others=len(self._mine) > 1)
        with suppress(queue.Empty):
            while taken[-1] is not None and len(taken) < _MOST_CHANGES:
                taken.append(self._changes.get_nowait())
        return taken

    def _make_all(self, changes: Sequence[StoreChange | NewRows]) -> None:
        """Make all changes in one transaction; if that fails, each in one of its own."""
        began = time.monotonic()
        try:
            outcomes = self._commit(changes)
        except (self._driver.Error, _InTheWay, ValueError) as error:
            for change in self._refuse_impatient(changes, error):
                settle([change], [self._make_one(change)])
        else:
            settle(changes, outcomes)
        self.on_commit(time.monotonic() - began)

    def _refuse_impatient(
        self, changes: Sequence[StoreChange | NewRows], error: Exception
    ) -> list[StoreChange | NewRows]:
        """While the server is away, fail the changes that do not wait for it; return the others."""
        with suppress(self._driver.Error):
            self._connect()
            return list(changes)
        impatient = [change for change in changes if not change.waits]
        settle(impatient, [self._fail(error)] * len(impatient))
        return [change for change in changes if change.waits]

    def _make_one(self, change: StoreChange | NewRows) -> Any:
        """Make a change in a transaction of its own. If it waits, it outlives a restart."""
        until = time.monotonic() + (self._patience if change.waits else 0.0)
        for attempt in count(1):
            try:
                return self._commit([change])[0]
            except ValueError as error:
                return error  # a damaged row
            except (self._driver.Error, _InTheWay) as error:
                is_away = self._database is None or self._database.closed
                if self._has_to_close(until) if is_away else attempt >= _ATTEMPTS:
                    return self._fail(error)
                if is_away:
                    self._pause(error)
        return None

    def _has_to_close(self, until: float) -> bool:
        return time.monotonic() > until or None in self._backlog

    def _pause(self, error: Exception) -> None:
        """Wait before the next attempt to connect, and refuse what does not wait for it."""
        time.sleep(_PAUSE)
        new: list[StoreChange | NewRows | None] = []
        with suppress(queue.Empty):
            while True:
                new.append(self._changes.get_nowait())
        for change in new:
            if change is None or change.waits:
                self._backlog.append(change)
            elif change.is_wanted:
                settle([change], [self._fail(error)])

    def _connect(self) -> None:
        if self._database is None or self._database.closed:
            self._drop()
            self._database = connect(self.url)

    def _commit(self, changes: Sequence[StoreChange | NewRows]) -> list[Any]:
        """Make changes in one transaction. One that is fenced has written nothing."""
        self._connect()
        with self._database.transaction():
            return self._make_each(self._database, changes)

    def _fail(self, error: Exception) -> StoreFailed:
        why = f"{STORE_FAILED}: {diagnose_server(error, self.url)}"
        return StoreFailed(f"{STORE_FAILED}; the log says why", why=why)

    def _drop(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            with suppress(self._driver.Error):
                database.close()


def _insert_run(database: Any, run: RunRow, *, handles: Sequence[str]) -> None:
    values = run._replace(status=run.status.value)  # type: ignore[arg-type]
    inserted = database.execute(_INSERT_RUN, values).rowcount
    # Sorted, so that two equal requests do not wait for each other.
    insert = (
        "INSERT INTO wholecall.handles (name, run) SELECT unnest(%s::text[]), %s "
        "ON CONFLICT DO NOTHING"
    )
    names = sorted(set(handles))
    inserted += database.execute(insert, (names, run.id)).rowcount if names else 0
    if inserted != 1 + len(names):
        raise _InTheWay


def _count_frames(database: Any, id: str) -> int:
    query = "SELECT coalesce(max(number) + 1, 0) FROM wholecall.frames WHERE run = %s"
    return int(database.execute(query, (id,)).fetchone()[0])


def _insert_frames(database: Any, id: str, *, frames: Sequence[bytes], first: int) -> None:
    """Number the frames on: a client resumes after one of them."""
    insert = (
        "INSERT INTO wholecall.frames (run, number, body) SELECT %s, %s + new.place - 1, new.body "
        "FROM unnest(%s::bytea[]) WITH ORDINALITY AS new (body, place) ON CONFLICT DO NOTHING"
    )
    if frames:
        database.execute(insert, (id, first, list(frames)))


_OPEN: dict[tuple[int, str], PostgresJournal] = {}
"""The journals that this process has opened by their addresses. A child has to open its own."""


def find_store(journal: str | JournalStore) -> JournalStore:
    """Return the journal of a name: `sqlite:runs.sqlite`, or `postgresql://…`; each is opened once
    in a process."""
    if not isinstance(journal, str):
        return journal
    if journal.partition(":")[0] not in {"postgresql", "postgres"}:
        return find_journal(journal)
    key = (os.getpid(), journal)
    if key not in _OPEN or _OPEN[key].is_closed:
        _OPEN[key] = PostgresJournal(journal)
    return _OPEN[key]
