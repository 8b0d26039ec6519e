"""The stores of journals: the same tests hold for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from journal_stores import Stores, open_postgres, open_sqlite
from local_postgres import LocalPostgres, start_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[LocalPostgres]:
    with start_postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stores]:
    """Both kinds of stores."""
    if request.param == "sqlite":
        stores = open_sqlite(tmp_path / "runs.sqlite")
    else:
        stores = open_postgres(request.getfixturevalue("postgres").make_database())
    yield stores
    stores.close()
