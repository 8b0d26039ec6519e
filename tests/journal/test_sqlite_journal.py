"""What is special about a SQLite file that holds runs; test_journal_stores.py has the rest."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from wholecall.journal.journal_rows import Row
from wholecall.journal.run_journal import ClaimState, RunRow, RunStatus
from wholecall.journal.sqlite_journal import SqliteJournal
from wholecall.storage import StoreFailed

NEW = RunRow("one", model="m", plan=b"{}")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqliteJournal]:
    opened = SqliteJournal(tmp_path / "runs.sqlite")
    yield opened
    opened.close()


def test_the_end_and_the_status_are_one_change(journal: SqliteJournal) -> None:
    journal.open_run(NEW).result()
    database = sqlite3.connect(journal.path)
    with database:
        database.execute(
            "CREATE TRIGGER refuse BEFORE UPDATE OF status ON runs "
            "BEGIN SELECT RAISE(ABORT, 'refused'); END"
        )
    with pytest.raises(sqlite3.IntegrityError, match="refused"):
        journal.append("one", [Row("end", b"")], epoch=1, status=RunStatus.DONE).result()
    before = journal.load("one").result()
    assert before is not None
    assert before.rows == ()
    with database:
        database.execute("DROP TRIGGER refuse")
    database.close()
    journal.append("one", [Row("end", b"")], epoch=1, status=RunStatus.DONE).result()
    over = journal.claim("one").result()
    assert over is not None
    assert (over.state, over.run.status, over.run.owner) == (ClaimState.OVER, RunStatus.DONE, "")


def test_a_deleted_file_is_noticed_before_anything_is_claimed(
    journal: SqliteJournal,
) -> None:
    journal.open_run(NEW).result()
    journal.path.unlink()
    with pytest.raises(StoreFailed) as failed:
        journal.append("one", [Row("intent 1 a", b"")], epoch=1).result()
    assert "was deleted or replaced" in failed.value.why


def test_a_file_of_a_newer_version_is_refused(journal: SqliteJournal) -> None:
    journal.close()
    with sqlite3.connect(journal.path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(StoreFailed, match="a newer version of wholecall made it"):
        SqliteJournal(journal.path)
