"""SQLite files that several processes share: opening, diagnosis, size caps, and a key-value store
with a TTL.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeAlias

import msgspec

from wholecall.errors import WholecallError

CODE = "store_failed"
"""Of a request that failed for it."""
FileError: TypeAlias = sqlite3.Error | OSError
_BUSY_SECONDS = 5.0
"""Seconds to wait while others write."""
_BUSY_PAUSE = 0.02
"""Seconds between two attempts to prepare a file."""
_PRIMARY = 0xFF
"""The part of an error code that says what kind of error it is."""
_PASSING = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_DAMAGED = (
    "it is damaged, or no file of ours. Stop the proxy, move it away (and what has its name with "
    "-wal and -shm behind it), and start again: it is made anew, without what it held"
)
_FORBIDDEN = "see that its folder is there, and that the proxy may write to both"
_BUSY = "another process has not let go of it for too long: see what else has it open"
_ADVICE = {
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_FULL: "make room on its disk; what it holds is not lost",
    sqlite3.SQLITE_IOERR: "its disk cannot be read or written, or is full",
    sqlite3.SQLITE_READONLY: _FORBIDDEN,
    sqlite3.SQLITE_CANTOPEN: _FORBIDDEN,
    sqlite3.SQLITE_PERM: _FORBIDDEN,
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_LOCKED: _BUSY,
}


class StoreFailed(WholecallError):
    """A file in which something is kept cannot be used. To clients its words may be shown."""

    def __init__(self, message: str, *, why: str = "") -> None:
        super().__init__(message)
        self.why = why or message
        """For the operator: the file, what is wrong with it, and what to do."""


def open_database(
    path: Path | None, prepare: Callable[[sqlite3.Connection], object]
) -> sqlite3.Connection:
    """Open a file, without a path one in memory, and make its tables; `StoreFailed` if not.

    Every statement is a transaction of its own, unless one is begun.
    """
    database: sqlite3.Connection | None = None
    try:
        if path is not None:
            path.touch(mode=0o600)  # the details are for the operator only
        database = sqlite3.connect(
            ":memory:" if path is None else path,
            timeout=_BUSY_SECONDS,
            check_same_thread=False,
            isolation_level=None,
        )
        _prepare(database, prepare)
    except (sqlite3.Error, OSError) as error:
        if database is not None:
            database.close()
        # Only the operator who starts the proxy sees it.
        raise StoreFailed(diagnose(error, path)) from error
    return database


def _prepare(database: sqlite3.Connection, prepare: Callable[[sqlite3.Connection], object]) -> None:
    """Make the tables. SQLite itself does not wait for the lock that a change to WAL needs, and
    several workers may start at the same moment."""
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            prepare(database)
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
            if database.in_transaction:
                database.execute("ROLLBACK")
            time.sleep(_BUSY_PAUSE)
        else:
            return


@contextmanager
def changing(database: sqlite3.Connection) -> Iterator[None]:
    """Change all or nothing. A failed file is not left in the middle of a change, because no one
    else could write to it then."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:  # SQLite itself has given up some
            database.execute("ROLLBACK")
        raise


@contextmanager
def telling(what: str, path: Path | None) -> Iterator[None]:
    """Make a `StoreFailed` of what a file says; `what` is then not possible."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        message = f"{what}; the log of the proxy says why"
        raise StoreFailed(message, why=f"{what}: {diagnose(error, path)}") from error


@contextmanager
def decoding(what: str, path: Path | None) -> Iterator[None]:
    """The same where texts of a file are decoded: one that is not as it was written is damaged."""
    with telling(what, path):
        try:
            yield
        except (msgspec.MsgspecError, ValueError) as error:
            raise damage(f"a text in it is not what was written ({error})") from error


def diagnose(error: FileError, path: Path | None) -> str:
    """Describe which file fails, how, and what to do about it."""
    said = error.strerror or str(error) if isinstance(error, OSError) else str(error)
    words = f"{path}: {said}" if path is not None else said
    advice = _FORBIDDEN if isinstance(error, OSError) else _ADVICE.get(_read_code(error), "")
    return f"{words}; {advice}" if advice else words


def damage(said: str) -> sqlite3.DatabaseError:
    """Return SQLite's error for a damage that only we can see."""
    error = sqlite3.DatabaseError(said)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def find_trouble(path: Path) -> str:
    """Return what prevents the use of a file, and what to do; empty if nothing does. Write
    nothing."""
    place = path if path.exists() else path.parent
    if not os.access(place, os.R_OK | os.W_OK):
        return f"{place}: it cannot be written; {_FORBIDDEN}"
    if not path.exists():
        return ""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as opened:
            opened.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except sqlite3.Error as error:
        return "" if is_busy(error) else diagnose(error, path)
    return ""


def is_busy(error: sqlite3.Error) -> bool:
    """Return True if others use the file at the moment, so that a retry makes sense."""
    return _read_code(error) in _PASSING


def _read_code(error: sqlite3.Error) -> int:
    # Errors of Python's own module, such as that of a file that was closed, have no code.
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & _PRIMARY


# Size limits for SQLite files.
#
# A file's fill level is known without reading it, whichever process wrote to it. Its oldest rows
# are deleted first. When it is full, a tenth of it is deleted at once: deleting many rows costs
# little more than deleting one.


_ROOM = 0.9
"""The fill level after making room."""
_FREED_PAGES = 1000
"""Given back to the disk at a time."""


def measure_excess(database: sqlite3.Connection, most_bytes: int) -> float:
    """Bytes that have to go; 0 if it is not full."""
    return find_excess(measure_use(database), most_bytes)


def measure_use(database: sqlite3.Connection) -> int:
    """Bytes that hold something."""
    pages = _ask(database, "page_count") - _ask(database, "freelist_count")
    return pages * _ask(database, "page_size")


def find_excess(used: int, most_bytes: int) -> float:
    """Bytes that have to go where so many are used; 0 if that is not too much."""
    return used - most_bytes * _ROOM if used > most_bytes else 0


def find_last_to_go(
    rows: Iterable[tuple[int, float, int]], *, oldest: float, excess: float
) -> int | None:
    """Of rows in the order in which they were written, each with its number, its time and its
    bytes, the last one that is too old or too much. No more of them are read than have to be."""
    last = None
    for number, at, size in rows:
        if at > oldest and excess <= 0:
            break
        last = number
        excess -= size
    return last


def give_back(database: sqlite3.Connection, most_bytes: int) -> bool:
    """Return excess file size to the disk, a part at a time. Other free pages are needed again
    soon. (For files with `auto_vacuum = INCREMENTAL`.)

    Return True if that was all.
    """
    too_many = _ask(database, "page_count") - most_bytes // _ask(database, "page_size")
    if too_many > 0:
        # Each page is a row without columns, of which `execute` would read one.
        pages = min(too_many, _FREED_PAGES)
        database.executescript(f"PRAGMA incremental_vacuum({pages})")
    return too_many <= _FREED_PAGES


def _ask(database: sqlite3.Connection, setting: str) -> int:
    (number,) = database.execute(f"PRAGMA {setting}").fetchone()
    return int(number)


# Texts in a file, by names: kept for some days, and not more than fits.


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
_DROP = "DELETE FROM texts WHERE number = (SELECT number FROM names WHERE name = ?)"
_UNREADABLE = "what the proxy keeps of this conversation cannot be read"
_UNWRITABLE = "what the proxy keeps of this conversation cannot be written"


class BlobStore:
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

    def move_to(self, path: Path) -> None:
        """Use this file from now on, unless there is one. What was kept in memory is dropped."""
        if self._path is not None:
            return
        fresh = open_database(path, lambda database: database.executescript(_SCHEMA))
        with self._lock:
            self._database.close()
            self._path, self._database = path, fresh

    def put(self, names: Sequence[str], text: bytes) -> None:
        """Keep a text under several names. It is on the disk when this returns."""
        with telling(_UNWRITABLE, self._path), self._lock:
            with changing(self._database):
                self._insert(names, text, now=self._clock())
            give_back(self._database, self.most_bytes)

    def edit(self, name: str, change: Callable[[bytes], bytes | None]) -> bytes | None:
        """Replace the text under a name by what `change` makes of it, and return that. Other
        processes see either text. None: there is none, or it stays as it is."""
        query = "SELECT text FROM names JOIN texts USING (number) WHERE name = ? AND kept_at > ?"
        with telling(_UNWRITABLE, self._path), self._lock, changing(self._database):
            now = self._clock()
            row = self._database.execute(query, (name, now - self.seconds)).fetchone()
            text = None if row is None else change(row[0])
            if text is not None:
                self._database.execute(_DROP, (name,))
                self._insert([name], text, now=now)
        return text

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
        with telling(_UNWRITABLE, self._path), self._lock:
            self._database.executemany(_DROP, rows)

    @contextmanager
    def decoding(self) -> Iterator[None]:
        """While a text of it is decoded: one that is not as it was written is a `StoreFailed`."""
        with decoding(_UNREADABLE, self._path):
            yield

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    def _insert(self, names: Sequence[str], text: bytes, *, now: float) -> None:
        insert = "INSERT INTO texts (kept_at, text) VALUES (?, ?)"
        number = self._database.execute(insert, (now, text)).lastrowid
        rows = [(name, number) for name in names]
        self._database.executemany("INSERT OR REPLACE INTO names VALUES (?, ?)", rows)
        self._make_room(now)

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
