"""Texts in a file, by names: kept for some days, and not more than fits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from wholecall.files.database import changing, decoding, open_database, telling
from wholecall.files.room import find_last_to_go, give_back, measure_excess

KEPT_SECONDS = 7 * 24 * 3600.0
"""Seconds for which a conversation may rest before its stored turns are dropped."""
MOST_BYTES = 256 * 1024 * 1024
"""The largest size of the file. The oldest rows go first."""
_SCHEMA = """
PRAGMA auto_vacuum = INCREMENTAL; -- of a new file; others keep their length
PRAGMA journal_mode = WAL;
PRAGMA foreign_keys = ON;
CREATE TABLE IF NOT EXISTS texts (number INTEGER PRIMARY KEY, kept_at REAL, text BLOB);
CREATE TABLE IF NOT EXISTS names (
    name TEXT PRIMARY KEY, number INTEGER REFERENCES texts ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS names_by_number ON names (number);
"""
_UNREADABLE = "what the proxy keeps of this conversation cannot be read"
_UNWRITABLE = "what the proxy keeps of this conversation cannot be written"


class Shelf:
    """One SQLite file; several processes may use it. Without a path it lives in memory.

    Its methods block and may be called from any thread. `StoreFailed` if the file fails.
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        seconds: float = KEPT_SECONDS,
        most_bytes: int = MOST_BYTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.seconds = seconds
        """Seconds for which a text is kept."""
        self.most_bytes = most_bytes
        """The largest size of the file."""
        self._clock = clock
        self._lock = threading.Lock()
        self._path = path
        self._database = open_database(path, lambda database: database.executescript(_SCHEMA))

    def put(self, names: Sequence[str], text: bytes) -> None:
        """Keep a text under several names. It is on the disk when this returns."""
        with telling(_UNWRITABLE, self._path), self._lock:
            with changing(self._database):
                now = self._clock()
                insert = "INSERT INTO texts (kept_at, text) VALUES (?, ?)"
                number = self._database.execute(insert, (now, text)).lastrowid
                rows = [(name, number) for name in names]
                self._database.executemany("INSERT OR REPLACE INTO names VALUES (?, ?)", rows)
                self._make_room(now)
            give_back(self._database, self.most_bytes)

    def find(self, names: Sequence[str]) -> Mapping[str, bytes]:
        """The texts under these names, as far as they are kept."""
        oldest = self._clock() - self.seconds
        query = (
            "SELECT name, text FROM names JOIN texts USING (number) WHERE name = ? AND kept_at > ?"
        )
        with telling(_UNREADABLE, self._path), self._lock:
            rows = [self._database.execute(query, (name, oldest)).fetchone() for name in names]
        return dict(row for row in rows if row is not None)

    def drop(self, names: Sequence[str]) -> None:
        """Forget the texts under these names."""
        rows = [(name,) for name in names]
        query = "DELETE FROM texts WHERE number = (SELECT number FROM names WHERE name = ?)"
        with telling(_UNWRITABLE, self._path), self._lock:
            self._database.executemany(query, rows)

    @contextmanager
    def decoding(self) -> Iterator[None]:
        """While a text of it is decoded: one that is not as it was written is a `StoreFailed`."""
        with decoding(_UNREADABLE, self._path):
            yield

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    def _make_room(self, now: float) -> None:
        excess = measure_excess(self._database, self.most_bytes)
        # In the order of their numbers they were kept.
        texts = self._database.execute(
            "SELECT number, kept_at, length(text) FROM texts ORDER BY number"
        )
        last = find_last_to_go(texts, oldest=now - self.seconds, excess=excess)
        texts.close()
        if last is not None:
            self._database.execute("DELETE FROM texts WHERE number <= ?", (last,))
