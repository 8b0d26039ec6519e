"""Room in files."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from wholecall.storage import find_last_to_go, give_back, measure_excess

ROWS = [(1, 10.0, 100), (2, 20.0, 100), (4, 30.0, 100)]
TO_GO: list[tuple[float, float, int | None]] = [
    (0.0, 0, None),
    (10.0, 0, 1),
    (25.0, 0, 2),
    (99.0, 0, 4),
    (0.0, 1, 1),
    (0.0, 100, 1),
    (0.0, 101, 2),
    (10.0, 150, 2),
    (0.0, 1000, 4),
]


@pytest.mark.parametrize(("oldest", "excess", "last"), TO_GO)
def test_what_is_too_old_or_too_much_goes(oldest: float, excess: float, *, last: int) -> None:
    assert find_last_to_go(iter(ROWS), oldest=oldest, excess=excess) == last


def test_no_more_rows_are_read_than_go() -> None:
    rows = iter(ROWS)
    assert find_last_to_go(rows, oldest=10.0, excess=0) == 1
    assert list(rows) == [(4, 30.0, 100)]
    assert find_last_to_go(iter(()), oldest=99.0, excess=99) is None


def test_what_a_file_is_too_long_goes_back_to_the_disk(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "file", isolation_level=None)
    database.executescript("PRAGMA auto_vacuum = INCREMENTAL; CREATE TABLE texts (text BLOB)")
    assert measure_excess(database, 100_000) == 0
    for _ in range(20):
        database.execute("INSERT INTO texts VALUES (zeroblob(10000))")
    excess = measure_excess(database, 100_000)
    assert 110_000 < excess < 160_000
    assert give_back(database, 100_000)
    assert (tmp_path / "file").stat().st_size > 200_000  # all of it is needed
    database.execute("DELETE FROM texts WHERE rowid > 5")
    assert measure_excess(database, 100_000) == 0
    give_back(database, 100_000)
    assert 90_000 < (tmp_path / "file").stat().st_size <= 100_000
    database.close()


def test_a_file_that_is_much_too_long_is_given_back_in_parts(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "file", isolation_level=None)
    database.executescript("PRAGMA auto_vacuum = INCREMENTAL; CREATE TABLE texts (text BLOB)")
    database.execute("INSERT INTO texts VALUES (zeroblob(6000000))")
    database.execute("DELETE FROM texts")
    assert not give_back(database, 100_000)
    assert 1_500_000 < (tmp_path / "file").stat().st_size < 2_500_000
    assert give_back(database, 100_000)
    assert (tmp_path / "file").stat().st_size <= 100_000
    database.close()
