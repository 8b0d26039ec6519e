"""A SQLite file that several processes and threads use."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from wholecall.errors import WholecallError

_BUSY_SECONDS = 5.0
"""How long somebody waits while others write."""
_PRIMARY = 0xFF
"""The part of an error code that says what kind of error it is."""
_PASSING = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


class StoreFailed(WholecallError):
    """The file of the inspector cannot be used."""


def open_database(
    path: Path | None, prepare: Callable[[sqlite3.Connection], object]
) -> sqlite3.Connection:
    """Open a file, without a path one in memory, and make its tables; `StoreFailed` if not.

    Every statement is a transaction of its own, unless one is begun.
    """
    try:
        database = sqlite3.connect(
            ":memory:" if path is None else path,
            timeout=_BUSY_SECONDS,
            check_same_thread=False,
            isolation_level=None,
        )
        prepare(database)
    except sqlite3.Error as error:
        raise StoreFailed(f"{path}: {error}") from error
    return database


def is_busy(error: sqlite3.Error) -> bool:
    """Whether others use the file just now, so that it can be tried again."""
    # Errors of Python's own module, such as that of a file that was closed, have no code.
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & _PRIMARY in _PASSING
