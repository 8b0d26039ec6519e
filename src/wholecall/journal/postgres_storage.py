"""Tables in PostgreSQL that the proxies of many machines share beside their journal: blobs by name,
rows of any kind, over a connection that is opened anew after the server was away."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from wholecall.journal.postgres_server import connect, diagnose_server, load_driver, migrate
from wholecall.storage import KEPT_SECONDS, MOST_BYTES, BlobStore, StoreFailed

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
