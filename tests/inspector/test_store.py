"""Runs in a file."""

from __future__ import annotations

import secrets
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inspector.recorded import kept
from wholecall.files.database import StoreFailed
from wholecall.inspector.store import MOST_LISTED, Filter, Store
from wholecall.inspector.tally import CallTally

NOW = 10_000.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "runs.sqlite", clock=lambda: NOW)
    yield made
    made.close()


def ids(store: Store, **wanted: Any) -> list[str]:
    return [run["id"] for run in store.list_runs(Filter(**wanted))]


def call(name: str, verdict: str = "released", **fields: Any) -> CallTally:
    return CallTally(turn=1, number=0, name=name, verdict=verdict, **fields)


def test_what_was_kept_is_found(store: Store) -> None:
    store.put(kept("run_1", answers=[b"one", b"two"]))
    assert store.find("run_1") == (
        {"id": "run_1", "turns": 1, "fate": "done"},
        b'[{"kind":"run","n":0,"id":"run_1"},{"kind":"turn","n":1},{"kind":"over","fate":"done"}]',
    )
    assert store.find_answers("run_1") == [b"one", b"two"]
    assert store.find("run_2") is None
    assert store.find_answers("run_2") == []


def test_it_is_still_there_after_a_restart(tmp_path: Path) -> None:
    for _ in range(2):
        store = Store(tmp_path / "runs.sqlite", clock=lambda: NOW)
        if not store.list_runs(Filter()):
            store.put(kept())
        else:
            assert ids(store) == ["run_1"]
        store.close()


def test_without_a_path_it_lives_in_memory() -> None:
    store = Store(clock=lambda: NOW)
    store.put(kept())
    assert ids(store) == ["run_1"]
    store.close()


FILTERED: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["d", "c", "b", "a"]),
    ({"model": "m"}, ["d", "b", "a"]),
    ({"tool": "look"}, ["c", "a"]),
    ({"verdict": "rejected"}, ["d", "b"]),
    ({"verdict": "rejected", "reason": "schema"}, ["b"]),
    ({"tool": "look", "verdict": "rejected"}, []),
    ({"oddity": "id_missing"}, ["c"]),
    ({"fate": "failed"}, ["b"]),
    ({"code": "bad_call"}, ["b"]),
    ({"code": "other"}, []),
    ({"owner": "k1"}, ["c", "b"]),
    ({"owner": ""}, ["d", "a"]),
    ({"limit": 2}, ["d", "c"]),
    ({"limit": 0}, ["d"]),
    ({"limit": MOST_LISTED + 1}, ["d", "c", "b", "a"]),
    ({"before": 3}, ["b", "a"]),
    ({"model": "' OR 1=1 --"}, []),
]


@pytest.mark.parametrize(("wanted", "found"), FILTERED)
def test_runs_are_filtered(store: Store, wanted: dict[str, Any], *, found: list[str]) -> None:
    store.put(kept("a", calls=[call("look")]))
    rejected = call("dig", "rejected", reason="schema")
    store.put(kept("b", calls=[rejected], key="k1", fate="failed", code="bad_call"))
    odd = {"id_missing": 2}
    store.put(kept("c", calls=[call("look")], key="k1", model="other", oddities=odd))
    store.put(kept("d", calls=[call("dig", "rejected", reason="truncated")]))
    assert ids(store, **wanted) == found


def test_a_run_of_another_key_is_not_found(store: Store) -> None:
    store.put(kept("a", key="k1", answers=[b"{}"]))
    assert store.find("a", owner="k1") is not None
    assert store.find("a", owner="k2") is None
    assert store.find_answers("a", owner="k2") == []


# ── Bounds ──────────────────────────────────────────────────────────────────────────


def test_old_runs_go(tmp_path: Path) -> None:
    now = 1000.0
    store = Store(tmp_path / "runs.sqlite", seconds=60, clock=lambda: now)
    store.put(kept("old", began=1000.0))
    assert ids(store) == ["old"]
    now = 1100.0
    assert ids(store) == []
    store.put(kept("new", began=1100.0))
    assert ids(store) == ["new"]
    assert store.find("old") is None
    store.close()


def test_the_oldest_runs_go_when_it_is_full_and_the_file_shrinks(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    store = Store(path, most_bytes=3_000_000, clock=lambda: NOW)
    for number in range(20):
        store.put(kept(f"run_{number}", answers=[secrets.token_bytes(1_200_000)]))
    assert ids(store) == ["run_19", "run_18"]
    assert store.find_answers("run_0") == []
    store.close()
    assert path.stat().st_size < 8_000_000


def test_a_run_that_is_larger_than_all_is_not_kept(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs.sqlite", most_bytes=100, clock=lambda: NOW)
    store.put(kept(events=b"x" * 1000))
    assert ids(store) == []
    store.close()


def test_many_runs_are_kept_at_once(store: Store) -> None:
    many = [
        kept(f"run_{number}", answers=[b"%d" % number], oddities={"id_missing": 1})
        for number in range(200)
    ]
    store.put(kept("first"))
    store.put(*many)
    assert ids(store, limit=200, before=202) == [run.id for run in reversed(many)]
    assert store.find_answers("run_150") == [b"150"]
    assert store.read_figures()["oddities"] == [{"kind": "id_missing", "count": 200}]
    assert len(store.list_runs(Filter(tool="look", limit=200))) == 200


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 100])
def test_each_of_many_runs_is_written_once(store: Store, count: int) -> None:
    store.put(*(kept(f"run_{number}") for number in range(count)))
    assert ids(store, limit=200) == [f"run_{number}" for number in reversed(range(count))]


def test_a_number_is_never_given_twice(tmp_path: Path) -> None:
    """A page asks for what is older than a number."""
    store = Store(tmp_path / "runs.sqlite", most_bytes=300, clock=lambda: NOW)
    store.put(kept("too large", events=b"x" * 1000))
    store.put(kept("second"))
    assert [run["number"] for run in store.list_runs(Filter())] == [2]
    store.close()


# ── Failures ────────────────────────────────────────────────────────────────────────


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match="no-folder"):
        Store(tmp_path / "no-folder" / "runs.sqlite")
    (tmp_path / "text").write_text("this is no database, and long enough to be seen as none")
    with pytest.raises(StoreFailed, match="text"):
        Store(tmp_path / "text")


def test_a_run_that_cannot_be_kept_leaves_nothing_behind(store: Store) -> None:
    store.put(kept("a"))
    with pytest.raises(StoreFailed, match="could not be kept"):
        store.put(kept("a"))
    twice = [call("look"), call("look")]
    with pytest.raises(StoreFailed):
        store.put(kept("b", calls=twice))
    store.put(kept("c"))
    assert ids(store) == ["c", "a"]


def test_threads_and_processes_share_it(tmp_path: Path) -> None:
    stores = [Store(tmp_path / "runs.sqlite", clock=lambda: NOW) for _ in range(2)]

    def write(number: int) -> None:
        for turn in range(10):
            stores[number % 2].put(kept(f"run_{number}_{turn}"))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stores[0].list_runs(Filter(limit=100))) == 40
    for store in stores:
        store.close()
    with sqlite3.connect(tmp_path / "runs.sqlite") as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()


# ── Figures ─────────────────────────────────────────────────────────────────────────


def test_figures_are_sums_over_runs(store: Store) -> None:
    ran = [
        CallTally(turn=1, number=n, name="look", verdict="released", status="done", seconds=n / 10)
        for n in range(20)
    ]
    store.put(kept("a", calls=ran))
    rejected = call("dig", "rejected", reason="schema")
    store.put(kept("b", calls=[rejected], oddities={"id_missing": 2}, key="k1"))
    unfinished = call("dig", "")
    failed = CallTally(
        turn=2, number=0, name="dig", verdict="repaired", status="failed", seconds=1.0
    )
    store.put(kept("c", calls=[unfinished, failed], oddities={"id_missing": 1, "slot_reused": 1}))
    assert store.read_figures() == {
        "runs": [{"model": "m", "fate": "done", "count": 3}],
        "calls": [
            {"model": "m", "verdict": "rejected", "reason": "schema", "count": 1},
            {"model": "m", "verdict": "released", "reason": "", "count": 20},
            {"model": "m", "verdict": "repaired", "reason": "", "count": 1},
        ],
        "oddities": [{"kind": "id_missing", "count": 3}, {"kind": "slot_reused", "count": 1}],
        "tools": [
            {"name": "dig", "count": 1, "failed": 1, "median": 1.0, "p95": 1.0, "longest": 1.0},
            {"name": "look", "count": 20, "failed": 0, "median": 1.0, "p95": 1.9, "longest": 1.9},
        ],
    }
    assert store.read_figures(owner="k1")["tools"] == []
    assert store.read_figures(owner="k1")["oddities"] == [{"kind": "id_missing", "count": 2}]


def test_tables_of_an_older_version_are_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE runs (number INTEGER PRIMARY KEY, other TEXT)")
        database.execute("CREATE TABLE answers (run INTEGER, number INTEGER, answer TEXT)")
    database.close()
    for _ in range(2):
        store = Store(path, clock=lambda: 1001.0)
        assert len(store.list_runs(Filter())) in {0, 1}
        store.put(*([] if store.list_runs(Filter()) else [kept(answers=[b"{}"])]))
        assert store.find_answers("run_1") == [b"{}"]
        store.close()


def test_runs_are_kept_together_or_not_at_all() -> None:
    store = Store(clock=lambda: 1001.0)
    with pytest.raises(StoreFailed):
        store.put(kept("a"), kept("b"), kept("a"))
    assert store.list_runs(Filter()) == []
    store.put()
    store.close()
