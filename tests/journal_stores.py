"""The stores of journals, each with any number of workers."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wholecall.journal.postgres_journal import PostgresJournal
from wholecall.journal.postgres_server import connect
from wholecall.journal.run_journal import Claim, ClaimState, JournalStore
from wholecall.journal.sqlite_journal import SqliteJournal


class Stores:
    """Opens any number of workers on one store."""

    def __init__(self, open_one: Callable[..., JournalStore], change: Callable[[str], None]):
        self._open_one = open_one
        self.change = change
        """Executes a statement, as an intruder would."""
        self._opened: list[JournalStore] = []

    def __call__(self, **options: Any) -> JournalStore:
        self._opened.append(self._open_one(**options))
        return self._opened[-1]

    def take_over(self, journal: JournalStore, id: str = "one") -> Claim:
        """Claim a run as if its owner had died."""
        self.change(f"UPDATE wholecall.runs SET owner = 'dead' WHERE id = '{id}'")  # noqa: S608
        claim = journal.claim(id).result()
        assert claim is not None
        assert claim.state is ClaimState.TAKEN
        return claim

    def close(self) -> None:
        for journal in self._opened:
            journal.close()


def open_sqlite(path: Path) -> Stores:
    def change(statement: str) -> None:
        database = sqlite3.connect(path)
        with database:
            database.execute(statement.replace("wholecall.", ""))
        database.close()

    return Stores(lambda **options: SqliteJournal(path, **options), change)


def open_postgres(url: str) -> Stores:
    def change(statement: str) -> None:
        with connect(url) as connection:
            connection.execute(statement)

    return Stores(lambda **options: PostgresJournal(url, **options), change)
