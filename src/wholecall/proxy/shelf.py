"""Texts in a file, by names: kept for some days, and not more than fits."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

KEPT_SECONDS = 7 * 24 * 3600.0
"""How long a conversation may rest before it goes on without what was kept of it."""
MOST_BYTES = 256 * 1024 * 1024
"""Of all that is kept. The oldest goes first."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS texts (number INTEGER PRIMARY KEY, kept_at REAL, text BLOB);
CREATE TABLE IF NOT EXISTS names (
    name TEXT PRIMARY KEY, number INTEGER REFERENCES texts ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS names_by_number ON names (number);
"""
_BUSY_SECONDS = 5.0


class Shelf:
    """One SQLite file; several processes may use it. Without a path it lives in memory.

    Its methods block and may be called from any thread.
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
        """How long a text is kept."""
        self.most_bytes = most_bytes
        """Of all texts."""
        self._clock = clock
        self._lock = threading.Lock()
        if path is not None:
            path.touch(mode=0o600)  # what was said is nobody else's business
        self._database = sqlite3.connect(
            ":memory:" if path is None else path,
            timeout=_BUSY_SECONDS,
            check_same_thread=False,
            isolation_level=None,
        )
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA foreign_keys = ON")
        self._database.executescript(_SCHEMA)

    def put(self, names: Sequence[str], text: bytes) -> None:
        """Keep a text under several names. It is on the disk when this returns."""
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                now = self._clock()
                insert = "INSERT INTO texts (kept_at, text) VALUES (?, ?)"
                number = self._database.execute(insert, (now, text)).lastrowid
                rows = [(name, number) for name in names]
                self._database.executemany("INSERT OR REPLACE INTO names VALUES (?, ?)", rows)
                self._make_room(now)
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")

    def find(self, names: Sequence[str]) -> Mapping[str, bytes]:
        """The texts under these names, as far as they are kept."""
        oldest = self._clock() - self.seconds
        query = (
            "SELECT name, text FROM names JOIN texts USING (number) WHERE name = ? AND kept_at > ?"
        )
        with self._lock:
            rows = [self._database.execute(query, (name, oldest)).fetchone() for name in names]
        return dict(row for row in rows if row is not None)

    def drop(self, names: Sequence[str]) -> None:
        """Forget the texts under these names."""
        rows = [(name,) for name in names]
        query = "DELETE FROM texts WHERE number = (SELECT number FROM names WHERE name = ?)"
        with self._lock:
            self._database.executemany(query, rows)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    def _make_room(self, now: float) -> None:
        run = self._database.execute
        run("DELETE FROM texts WHERE kept_at <= ?", (now - self.seconds,))
        (size,) = run("SELECT total(length(text)) FROM texts").fetchone()
        while size > self.most_bytes:
            row = run("SELECT number, length(text) FROM texts ORDER BY number LIMIT 1").fetchone()
            run("DELETE FROM texts WHERE number = ?", (row[0],))
            size -= row[1]
