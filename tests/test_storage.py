"""Files of SQLite, and what is said when one fails."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from damaged_files import DAMAGES, SEEN_AT_ONCE, no_room, overwrite_head, write_back
from wholecall.storage import StoreFailed, changing, decoding, find_trouble, open_database, telling

SCHEMA = "PRAGMA journal_mode = WAL; CREATE TABLE IF NOT EXISTS rows (text TEXT)"
NOWHERE = Path("/proc/self/wholecall.sqlite")
"""Where nobody may write, not even the owner of the machine."""


def make(path: Path | None) -> sqlite3.Connection:
    return open_database(path, lambda database: database.executescript(SCHEMA))


def insert(database: sqlite3.Connection, rows: int) -> None:
    with changing(database):
        for _ in range(rows):
            database.execute("INSERT INTO rows VALUES (?)", ("x" * 1000,))


def count(path: Path) -> int:
    with closing(sqlite3.connect(path)) as database:
        [number] = database.execute("SELECT count(*) FROM rows").fetchone()
        return int(number)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file.sqlite"
    with closing(make(path)) as database:
        insert(database, 100)
    return path


# ── Damages ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("damage", SEEN_AT_ONCE)
def test_a_damaged_file_is_not_opened_and_it_is_said_what_to_do(
    path: Path, damage: Callable[[Path], None]
) -> None:
    damage(path)
    before = path.read_bytes()
    trouble = find_trouble(path)
    with pytest.raises(StoreFailed) as failed:
        make(path)
    assert str(failed.value) == failed.value.why == trouble
    assert trouble.startswith(f"{path}: ")
    assert "move it away" in trouble
    assert path.read_bytes() == before, "what can be saved of it is not touched"


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_that_is_damaged_while_it_is_used_is_told(
    path: Path, damage: Callable[[Path], None]
) -> None:
    with closing(make(path)) as database:
        damage(path)
        with pytest.raises(StoreFailed) as failed, telling("rows cannot be read", path):
            database.execute("SELECT * FROM rows").fetchall()
    assert str(failed.value) == "rows cannot be read; the log of the proxy says why"
    assert f"rows cannot be read: {path}: " in failed.value.why
    assert "move it away" in failed.value.why


def test_a_text_that_is_not_what_was_written_is_a_damage(path: Path) -> None:
    with pytest.raises(StoreFailed) as failed, decoding("it cannot be read", path):
        int("four")
    assert "(invalid literal for int" in failed.value.why
    assert "move it away" in failed.value.why


def test_a_damaged_file_that_was_moved_away_is_made_anew(path: Path) -> None:
    overwrite_head(path)
    path.rename(path.with_suffix(".damaged"))
    assert find_trouble(path) == ""
    make(path).close()
    assert count(path) == 0


# ── Disks ───────────────────────────────────────────────────────────────────────────


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    for path in (NOWHERE, tmp_path / "missing" / "file.sqlite"):
        with pytest.raises(StoreFailed, match="see that its folder is there") as failed:
            make(path)
        assert str(failed.value).startswith(f"{path}: ")
    assert "see that its folder is there" in find_trouble(tmp_path / "missing" / "file.sqlite")


def test_a_file_that_may_only_be_read_is_told(path: Path) -> None:
    with closing(make(path)) as database:
        database.execute("PRAGMA query_only = ON")
        with pytest.raises(StoreFailed, match="rows") as failed, telling("no rows", path):
            insert(database, 1)
    assert "the proxy may write to both" in failed.value.why


def test_a_full_file_changes_nothing_and_goes_on_when_there_is_room(path: Path) -> None:
    with closing(make(path)) as database:
        [pages] = database.execute("PRAGMA page_count").fetchone()
        database.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreFailed) as failed, telling("rows cannot be kept", path):
            insert(database, 100)
        assert "make room on its disk" in failed.value.why
        assert not database.in_transaction
        database.execute(f"PRAGMA max_page_count = {10 * pages}")
        insert(database, 1)
    assert count(path) == 101


def test_a_full_disk_leaves_no_change_open_that_would_keep_others_out(path: Path) -> None:
    write_back(path)
    with closing(make(path)) as database, closing(make(path)) as other:
        with no_room(), pytest.raises(StoreFailed) as failed, telling("no rows", path):
            insert(database, 100)
        assert "its disk cannot be" in failed.value.why
        insert(other, 1)
        insert(database, 1)
    assert count(path) == 102


def test_a_change_that_is_broken_off_changes_nothing(path: Path) -> None:
    with closing(make(path)) as database:
        with pytest.raises(sqlite3.Error), changing(database):
            database.executemany("INSERT INTO rows VALUES (?)", [("x",), ({},)])
        insert(database, 1)
    assert count(path) == 101


def test_a_file_that_others_hold_is_no_trouble_at_the_start(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert find_trouble(path) == ""
        with closing(make(path)) as database:
            database.execute("PRAGMA busy_timeout = 1")
            with pytest.raises(StoreFailed) as failed, telling("no rows", path):
                insert(database, 1)
    assert "another process" in failed.value.why


def test_without_a_path_it_lives_in_memory() -> None:
    with closing(make(None)) as database, pytest.raises(StoreFailed) as failed, telling("no", None):
        database.execute("SELECT * FROM nobody")
    assert failed.value.why == "no: no such table: nobody"
