"""Files of SQLite that are really damaged, full, or cannot be written."""

from __future__ import annotations

import resource
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

_PAGE = 4096


def write_back(path: Path) -> None:
    """All of it stands in the file itself, and nothing in the log beside it."""
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0


def truncate(path: Path) -> None:
    """The second half is lost."""
    write_back(path)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(size // 2 // _PAGE * _PAGE)


def overwrite_head(path: Path) -> None:
    """It does not look like a database any more."""
    write_back(path)
    with path.open("r+b") as file:
        file.write(b"\xde\xad" * _PAGE)


def overwrite_pages(path: Path) -> None:
    """Its head is whole, and nothing behind it."""
    write_back(path)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(_PAGE)
        file.write(b"\xde\xad" * ((size - _PAGE) // 2))


DAMAGES: tuple[Callable[[Path], None], ...] = (truncate, overwrite_head, overwrite_pages)
SEEN_AT_ONCE: tuple[Callable[[Path], None], ...] = (truncate, overwrite_head)
"""Damages that are seen when a file is opened."""


@contextmanager
def no_room() -> Iterator[None]:
    """No file may grow: what is written behind its end fails, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
