"""What the list, its filters and the figures go by: made when somebody reads."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from inspector.recorded import Note, kept, released
from wholecall.inspector.run_record import join_batches
from wholecall.inspector.run_store import Filter, RunStore

NOW = 10_000.0


def ids(store: RunStore, limit: int = 50) -> list[str]:
    return [run["id"] for run in store.list_runs(Filter(limit=limit))]


def count_lines(path: Path) -> int:
    database = sqlite3.connect(path)
    (count,) = database.execute("SELECT count(*) FROM lines").fetchone()
    database.close()
    return int(count)


READS: dict[str, Callable[[RunStore], object]] = {
    "list": lambda store: store.list_runs(Filter()),
    "run": lambda store: store.find("run_0"),
    "answers": lambda store: store.find_answers("run_0"),
    "figures": lambda store: store.read_figures(),
}


@pytest.mark.parametrize("read", READS)
def test_it_is_made_when_somebody_reads(tmp_path: Path, read: str) -> None:
    store = RunStore(tmp_path / "runs.sqlite", clock=lambda: NOW)
    other = RunStore(tmp_path / "runs.sqlite", clock=lambda: NOW)
    many = [kept(f"run_{number}", [released()]) for number in range(1100)]
    store.put(
        *many[:500], *(join_batches(many[start : start + 30]) for start in range(500, 1100, 30))
    )
    assert count_lines(tmp_path / "runs.sqlite") == 0
    READS[read](other)
    assert count_lines(tmp_path / "runs.sqlite") == 1100
    store.put(kept("last"))
    assert ids(other, limit=1) == ids(store, limit=1) == ["last"]
    assert count_lines(tmp_path / "runs.sqlite") == 1101
    store.close()
    other.close()


def test_what_is_gone_before_anybody_reads_is_never_in_it(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    store = RunStore(path, most_bytes=500_000, clock=lambda: NOW)
    for number in range(60):
        store.put(kept(f"run_{number}", [Note("x" * 20_000)]))
    left = ids(store)
    assert left[0] == "run_59"
    assert 10 < len(left) < 25
    assert count_lines(path) == len(left)
    store.close()


def test_a_run_that_is_not_what_was_written_is_told_of() -> None:
    store = RunStore(clock=lambda: NOW)
    store.put(msgspec.structs.replace(kept("a"), content=b"[{"))
    with pytest.raises(msgspec.DecodeError):
        store.list_runs(Filter())
    store.put(kept("b"))
    store.close()
