"""Size limits for SQLite files.

A file's fill level is known without reading it, whoever wrote to it. Its oldest rows go first; when
it is full, a tenth of it at once: deleting many rows costs little more than deleting one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

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
