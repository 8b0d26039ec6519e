"""A PostgreSQL server that holds journals: connections, migrations, and the sign of life.

A worker is alive while its session holds an advisory lock, which the server frees when the session
ends: a killed process is noticed at once. A process that is stopped keeps its session, so a sign of
life older than the lease counts as death, too. The clock is the server's.
"""

from __future__ import annotations

import importlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from wholecall.errors import require_extra
from wholecall.storage import KEPT_SECONDS, MOST_BYTES, BlobStore, StoreFailed

SCHEMA = "wholecall"
BEAT = 1.0
"""Seconds between two signs of life."""
GRACE = 5.0
"""Seconds after the server's own start in which a free lock proves nothing: the workers have to
connect again."""
_LOCK_CLASS = 0x77686F6C
"""Of the advisory locks of workers; their second number is the worker's."""
_MIGRATION_LOCK = 0x77686F6C6563616C
_CONNECTING = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "application_name": "wholecall",
}
_MIGRATIONS = (
    """
CREATE TABLE wholecall.runs (
    id text PRIMARY KEY, key_id text NOT NULL, model text NOT NULL, status text NOT NULL,
    owner text NOT NULL, epoch integer NOT NULL, created double precision NOT NULL,
    touched double precision NOT NULL, due double precision NOT NULL, stop text NOT NULL,
    background boolean NOT NULL, plan bytea NOT NULL
);
CREATE INDEX runs_by_status ON wholecall.runs (status, touched);
CREATE INDEX runs_by_due ON wholecall.runs (due) WHERE due > 0;
CREATE TABLE wholecall.rows (
    number bigint GENERATED ALWAYS AS IDENTITY,
    run text NOT NULL REFERENCES wholecall.runs ON DELETE CASCADE,
    key text NOT NULL, epoch integer NOT NULL, at double precision NOT NULL, body bytea NOT NULL,
    PRIMARY KEY (run, key)
);
CREATE TABLE wholecall.frames (
    run text NOT NULL REFERENCES wholecall.runs ON DELETE CASCADE, number integer NOT NULL,
    body bytea NOT NULL, PRIMARY KEY (run, number)
);
CREATE TABLE wholecall.handles (
    name text PRIMARY KEY, run text NOT NULL REFERENCES wholecall.runs ON DELETE CASCADE,
    until double precision NOT NULL DEFAULT 0
);
CREATE INDEX handles_by_run ON wholecall.handles (run);
CREATE TABLE wholecall.workers (
    id text PRIMARY KEY, lock integer GENERATED ALWAYS AS IDENTITY,
    seen timestamptz NOT NULL, locked boolean NOT NULL
);
""",
    """
CREATE TABLE wholecall.keys (
    digest bytea PRIMARY KEY, id text NOT NULL UNIQUE, rights text NOT NULL,
    created double precision NOT NULL, revoked double precision
);
CREATE TABLE wholecall.pins (
    server text NOT NULL, tool text NOT NULL, sha256 text NOT NULL, PRIMARY KEY (server, tool)
);
CREATE TABLE wholecall.texts (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, kind text NOT NULL,
    kept_at double precision NOT NULL, text bytea NOT NULL
);
CREATE INDEX texts_by_age ON wholecall.texts (kind, kept_at);
CREATE TABLE wholecall.names (
    kind text NOT NULL, name text NOT NULL,
    number bigint NOT NULL REFERENCES wholecall.texts ON DELETE CASCADE, PRIMARY KEY (kind, name)
);
CREATE INDEX names_by_number ON wholecall.names (number);
""",
)
"""Numbered from 1; each is one transaction."""
_ADDRESS = "postgresql"
_LOG = logging.getLogger(__name__)


def load_driver() -> ModuleType:
    """Return psycopg, which an extra brings."""
    require_extra("a journal on PostgreSQL", "fleet")
    return importlib.import_module("psycopg")


def connect(url: str) -> Any:
    """Open a connection. Every statement is a transaction of its own, unless one is begun."""
    connection = load_driver().connect(url, autocommit=True, **_CONNECTING)
    if is_pooled(connection):
        connection.prepare_threshold = None  # the next statement may go to another session
    return connection


def is_pooled(connection: Any) -> bool:
    """Return True if a pooler such as PgBouncer is in between: it answers with a number of its own
    when a session begins. Locks of sessions do not hold through it."""
    (pid,) = connection.execute("SELECT pg_backend_pid()").fetchone()
    return bool(pid != connection.info.backend_pid)


def migrate(connection: Any) -> None:
    """Make the tables, or bring them up to date. Any number of workers may do so at once."""
    for number, migration in enumerate(_MIGRATIONS, start=1):
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
            version = _read_version(connection)
            if version > len(_MIGRATIONS):
                raise StoreFailed(f"a newer version of wholecall made the tables ({version})")
            if version < number:
                connection.execute(migration)
                insert = "INSERT INTO wholecall.migrations (number) VALUES (%s)"
                connection.execute(insert, (number,))


def _read_version(connection: Any) -> int:
    connection.execute("CREATE SCHEMA IF NOT EXISTS wholecall")
    connection.execute("CREATE TABLE IF NOT EXISTS wholecall.migrations (number integer)")
    query = "SELECT coalesce(max(number), 0) FROM wholecall.migrations"
    (version,) = connection.execute(query).fetchone()
    return int(version)


def name_server(url: str) -> str:
    """Return an address without its password, for messages."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return f"{_ADDRESS}://{place}{parts.path}"


def diagnose_server(error: Exception, url: str) -> str:
    """Describe which server fails, how, and what to do about it."""
    said = " ".join(str(error).split()) or type(error).__name__
    password = urlsplit(url).password
    shown = said.replace(password, "***") if password else said
    return f"{name_server(url)}: {shown}. See that it runs, and that the address is right"


# ── The sign of life ────────────────────────────────────────────────────────────────

_GIVE_SIGN = """
INSERT INTO wholecall.workers (id, seen, locked) VALUES (%(id)s, clock_timestamp(), %(locked)s)
ON CONFLICT (id) DO UPDATE SET seen = excluded.seen, locked = excluded.locked RETURNING lock
"""
_FORGET_WORKERS = "DELETE FROM wholecall.workers WHERE seen < now() - interval '1 day'"
LIVING = f"""
SELECT id FROM wholecall.workers WHERE seen > clock_timestamp() - %(lease)s * interval '1 second'
AND (
    NOT locked
    OR clock_timestamp() - pg_postmaster_start_time() < %(grace)s * interval '1 second'
    OR lock IN (
        SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND granted
        AND classid = {_LOCK_CLASS} AND objsubid = 2
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    )
)
"""  # noqa: S608 - only our own numbers
"""The workers that are alive."""


class SignOfLife:
    """Holds the lock of a worker and gives signs of life, in a thread and a session of its own: the
    event loop may be held up by a tool, and the writer by a lock."""

    def __init__(self, url: str, worker: str) -> None:
        """Return after the first sign of life; raise what the server says instead."""
        self._url = url
        self._worker = worker
        self._connection: Any = connect(url)
        self._is_locked = False
        self._closing = threading.Event()
        try:
            self._warn_of_pooler()
            self._connection.execute(_FORGET_WORKERS)
            self._give()
        except load_driver().Error:
            self._drop()
            raise
        self._thread = threading.Thread(target=self._live, name="wholecall sign", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the session: its lock is free, and the worker is forgotten."""
        self._closing.set()
        self._thread.join()
        if self._connection is not None:
            with suppress(load_driver().Error):
                query = "DELETE FROM wholecall.workers WHERE id = %s"
                self._connection.execute(query, (self._worker,))
        self._drop()

    def _warn_of_pooler(self) -> None:
        if is_pooled(self._connection):
            where = name_server(self._url)
            _LOG.warning(
                "%s is reached through a pooler such as PgBouncer, so a dead worker is noticed by "
                "its lease alone; give the journal an address of the server itself",
                where,
            )

    def _live(self) -> None:
        errors = (load_driver().Error, OSError)
        while not self._closing.wait(BEAT):
            try:
                if self._connection is None:
                    self._connection = connect(self._url)
                self._give()
            except errors:
                self._drop()  # the next beat connects again

    def _give(self) -> None:
        values = {"id": self._worker, "locked": self._is_locked}
        (number,) = self._connection.execute(_GIVE_SIGN, values).fetchone()
        if not self._is_locked and not is_pooled(self._connection):
            query = "SELECT pg_try_advisory_lock(%s, %s)"
            taken = self._connection.execute(query, (_LOCK_CLASS, number)).fetchone()
            self._is_locked = bool(taken[0])
            self._connection.execute(_GIVE_SIGN, {**values, "locked": self._is_locked})

    def _drop(self) -> None:
        connection, self._connection, self._is_locked = self._connection, None, False
        if connection is not None:
            with suppress(Exception):  # it may be gone already
                connection.close()


# ── Tables that the proxies of many machines share beside their journal ───────────────
#
# Blobs by name, and rows of any kind, over a connection that is opened anew after the server was
# away.

_MOST_DELETED = 100
_FAILED = "what the proxies share cannot be read or written"
_DROP = """
DELETE FROM wholecall.texts WHERE number IN (
    SELECT number FROM wholecall.names WHERE kind = %s AND name = ANY(%s))
"""
_FIND = """
SELECT name, text FROM wholecall.names JOIN wholecall.texts USING (number)
WHERE names.kind = %s AND name = ANY(%s) AND kept_at > %s
"""
_INSERT_TEXT = """
INSERT INTO wholecall.texts (kind, kept_at, text) VALUES (%s, %s, %s) RETURNING number
"""
_INSERT_NAMES = """
INSERT INTO wholecall.names (kind, name, number) SELECT %s, unnest(%s::text[]), %s
ON CONFLICT (kind, name) DO UPDATE SET number = excluded.number
"""
_DELETE_OLD = """
DELETE FROM wholecall.texts WHERE number IN (
    SELECT number FROM wholecall.texts WHERE kind = %s AND kept_at < %s
    LIMIT %s FOR UPDATE SKIP LOCKED)
"""


class PostgresSession:
    """One connection, for any thread. Its calls block; `StoreFailed` if the server fails."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._lock = threading.Lock()
        self._connection: Any = None

    @contextmanager
    def change(self) -> Iterator[Any]:
        """Change all or nothing, in one transaction."""
        driver = load_driver()
        try:
            with self._lock:
                if self._connection is None or self._connection.closed:
                    self._connection = connect(self.url)
                    migrate(self._connection)
                with self._connection.transaction():
                    yield self._connection
        except driver.Error as error:
            self._drop()
            why = f"{_FAILED}: {diagnose_server(error, self.url)}"
            raise StoreFailed(f"{_FAILED}; the log says why", why=why) from None

    def ask(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self.change() as database:
            return list(database.execute(query, values).fetchall())

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(load_driver().Error):
                connection.close()


class PostgresBlobs(BlobStore):
    """Blobs by name, in a database. Their age alone limits them, not their size."""

    def __init__(  # the file's own is not called: there is no file
        self,
        session: PostgresSession,
        kind: str,
        *,
        seconds: float = KEPT_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`kind` parts the names of several stores in one database."""
        self.seconds, self.most_bytes = seconds, MOST_BYTES
        self._session = session
        self._kind = kind
        self._now = clock
        self._path = None

    def move_to(self, path: object) -> None:
        """Stay: a database has no path."""

    def put(self, names: Sequence[str], text: bytes) -> None:
        """Keep a text under several names. It is committed when this returns."""
        with self._session.change() as database:
            self._put(database, names, text=text)

    def edit(self, name: str, change: Callable[[bytes], bytes | None]) -> bytes | None:
        """Replace the text under a name by what `change` makes of it, and return that."""
        values = (self._kind, [name], self._now() - self.seconds)
        with self._session.change() as database:
            row = database.execute(f"{_FIND} FOR UPDATE", values).fetchone()
            text = None if row is None else change(bytes(row[1]))
            if text is not None:
                database.execute(_DROP, (self._kind, [name]))
                self._put(database, [name], text=text)
        return text

    def find(self, names: Sequence[str]) -> Mapping[str, bytes]:
        """The texts under these names, as far as they are kept."""
        values = (self._kind, list(names), self._now() - self.seconds)
        return {name: bytes(text) for name, text in self._session.ask(_FIND, values)}

    def drop(self, names: Sequence[str]) -> None:
        """Forget the texts under these names."""
        with self._session.change() as database:
            database.execute(_DROP, (self._kind, list(names)))

    def close(self) -> None:
        """Close the connection."""
        self._session.close()

    def _put(self, database: Any, names: Sequence[str], *, text: bytes) -> None:
        now = self._now()
        (number,) = database.execute(_INSERT_TEXT, (self._kind, now, text)).fetchone()
        database.execute(_INSERT_NAMES, (self._kind, sorted(set(names)), number))
        database.execute(_DELETE_OLD, (self._kind, now - self.seconds, _MOST_DELETED))
