"""SQLite files that several processes and threads use, and the messages when one fails.

A failure has two readers. The client learns what is not possible, and nothing about our files. The
operator learns which file it is, what is wrong with it, and what to do.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
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
        prepare(database)
    except (sqlite3.Error, OSError) as error:
        if database is not None:
            database.close()
        # Only the operator who starts the proxy sees it.
        raise StoreFailed(diagnose(error, path)) from error
    return database


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
