"""Runs in a file."""

from __future__ import annotations

import json
import secrets
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from inspector.recorded import CALL, Note, end, kept, rejected, released
from wholecall.agent.budget import Stop
from wholecall.agent.run_events import RunEnded, Status, ToolEnded, TurnStarted
from wholecall.events import Inconsistent, Oddity, Opened, Repair
from wholecall.inspector.run_record import join_batches, read_runs
from wholecall.inspector.run_store import MOST_LISTED, Filter, RunStore
from wholecall.messages import Result
from wholecall.storage import StoreFailed, measure_use

NOW = 10_000.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    made = RunStore(tmp_path / "runs.sqlite", clock=lambda: NOW)
    yield made
    made.close()


def ids(store: RunStore, **wanted: Any) -> list[str]:
    return [run["id"] for run in store.list_runs(Filter(**wanted))]


def test_what_was_kept_is_found(store: RunStore) -> None:
    run = kept("run_1", [TurnStarted(1), released()], answers=[b"one", b"two"])
    store.put(run)
    found = store.find("run_1")
    assert found is not None
    summary, events = found
    assert (summary["id"], summary["fate"], summary["tools"]) == ("run_1", "done", ["look"])
    assert events == msgspec.json.encode(read_runs(run.content)[0].events)
    assert [event["type"] for event in json.loads(events)] == [
        "Exchange",
        "TurnStarted",
        "Released",
        "ExchangeEnded",
    ]
    assert store.find_answers("run_1") == [b"one", b"two"]
    assert store.find("run_2") is None
    assert store.find_answers("run_2") == []


def test_each_run_of_a_batch_is_found(store: RunStore) -> None:
    store.put(kept("a"), join_batches([kept("b"), kept("c", [released()], key="k1"), kept("d")]))
    store.put(join_batches([kept("e"), kept("f")]), kept("g", answers=[b"{}"]))
    listed = store.list_runs(Filter())
    assert [(run["number"], run["id"]) for run in listed] == list(
        zip(range(7, 0, -1), "gfedcba", strict=True)
    )
    for id in "abcdefg":
        found = store.find(id)
        assert found is not None
        assert (found[0]["id"], json.loads(found[1])[0]["id"]) == (id, id)
    assert [run["id"] for run in store.list_runs(Filter(tool="look", owner="k1"))] == ["c"]
    assert store.find_answers("g") == [b"{}"]


def test_it_is_still_there_after_a_restart(tmp_path: Path) -> None:
    for _ in range(2):
        store = RunStore(tmp_path / "runs.sqlite", clock=lambda: NOW)
        if not store.list_runs(Filter()):
            store.put(kept())
        else:
            assert ids(store) == ["run_1"]
        store.close()


def test_without_a_path_it_lives_in_memory() -> None:
    store = RunStore(clock=lambda: NOW)
    store.put(kept())
    assert ids(store) == ["run_1"]
    store.close()


FILTERED: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["e", "d", "c", "b", "a"]),
    ({"model": "m"}, ["e", "d", "b", "a"]),
    ({"tool": "look"}, ["e", "c", "a"]),
    ({"verdict": "rejected"}, ["d", "b"]),
    ({"verdict": "rejected", "reason": "schema"}, ["b"]),
    ({"tool": "look", "verdict": "rejected"}, []),
    ({"oddity": "id_missing"}, ["c"]),
    ({"fate": "failed"}, ["b"]),
    ({"code": "bad_call"}, ["b"]),
    ({"code": "other"}, []),
    ({"status": "skipped"}, ["e"]),
    ({"tool": "look", "status": "skipped"}, ["e"]),
    ({"status": "failed"}, []),
    ({"stop": "identical"}, ["e"]),
    ({"stop": "turns"}, []),
    ({"stop": "answer"}, []),
    ({"owner": "k1"}, ["c", "b"]),
    ({"owner": ""}, ["e", "d", "a"]),
    ({"limit": 2}, ["e", "d"]),
    ({"limit": 0}, ["e"]),
    ({"limit": MOST_LISTED + 1}, ["e", "d", "c", "b", "a"]),
    ({"before": 3}, ["b", "a"]),
    ({"model": "' OR 1=1 --"}, []),
]


@pytest.mark.parametrize(("wanted", "found"), FILTERED)
def test_runs_are_filtered(store: RunStore, wanted: dict[str, Any], *, found: list[str]) -> None:
    store.put(kept("a", [released()]))
    store.put(kept("b", [rejected("dig", "schema")], key="k1", over=end("failed", code="bad_call")))
    odd = [Inconsistent(Oddity.ID_MISSING), Inconsistent(Oddity.ID_MISSING)]
    store.put(kept("c", [released(), *odd], key="k1", model="other"))
    store.put(kept("d", [rejected("dig", "truncated")]))
    skipped = ToolEnded(CALL, Status.SKIPPED, Result(()), 0.0)
    store.put(kept("e", [released(number=1), skipped, RunEnded(Stop.IDENTICAL)]))
    assert ids(store, **wanted) == found


def test_a_run_of_another_key_is_not_found(store: RunStore) -> None:
    store.put(kept("a", key="k1", answers=[b"{}"]))
    assert store.find("a", owner="k1") is not None
    assert store.find("a", owner="k2") is None
    assert store.find_answers("a", owner="k2") == []


# ── Bounds ──────────────────────────────────────────────────────────────────────────


def test_old_runs_go(tmp_path: Path) -> None:
    now = 1000.0
    store = RunStore(tmp_path / "runs.sqlite", seconds=60, clock=lambda: now)
    store.put(kept("old", began=1000.0))
    assert ids(store) == ["old"]
    now = 1100.0
    assert ids(store) == []
    store.put(kept("new", began=1100.0))
    assert ids(store) == ["new"]
    assert store.find("old") is None
    store.close()


def test_a_batch_goes_when_its_last_run_is_old_and_lists_none_of_the_others(
    tmp_path: Path,
) -> None:
    now = 1050.0
    store = RunStore(tmp_path / "runs.sqlite", seconds=60, clock=lambda: now)
    store.put(join_batches([kept("old", began=1000.0), kept("newer", began=1040.0)]))
    store.put(kept("newest", began=1080.0))
    now = 1090.0
    store.put(kept("now", began=1090.0))
    assert ids(store) == ["now", "newest", "newer"]
    now = 1125.0
    store.put(kept("then", began=1125.0))
    assert ids(store) == ["then", "now", "newest"]
    assert store.find("newer") is None
    assert store.find("newest") is not None
    assert [run["number"] for run in store.list_runs(Filter())] == [5, 4, 3]
    store.close()


def test_the_oldest_runs_go_when_it_is_full_and_the_file_shrinks(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    store = RunStore(path, most_bytes=3_000_000, clock=lambda: NOW)
    for number in range(20):
        store.put(kept(f"run_{number}", answers=[secrets.token_bytes(1_200_000)]))
    assert ids(store) == ["run_19", "run_18"]
    assert store.find_answers("run_0") == []
    store.close()
    assert path.stat().st_size < 3_000_000


@pytest.mark.parametrize("looks", [True, False])
def test_the_file_is_not_longer_than_it_may_be_whether_anybody_looks_or_not(
    tmp_path: Path, *, looks: bool
) -> None:
    path = tmp_path / "runs.sqlite"
    store = RunStore(path, most_bytes=1_000_000, clock=lambda: NOW)
    for number in range(40):
        store.put(*(kept(f"run_{number}_{n}", [released()]) for n in range(100)))
        if looks:
            store.list_runs(Filter())
    assert store.find("run_0_0") is None
    assert store.find("run_39_99") is not None
    store.put(kept())
    store.close()
    assert 500_000 < path.stat().st_size <= 1_000_000


def test_room_is_made_for_many_runs_at_once(tmp_path: Path) -> None:
    """Or a full file would be looked through for every run."""
    store = RunStore(tmp_path / "runs.sqlite", most_bytes=1_000_000, clock=lambda: NOW)
    counts = []
    for number in range(120):
        store.put(kept(f"run_{number}", [Note("x" * 20_000)]))
        counts.append(len(ids(store, limit=200)))
    falls = [before - after for before, after in pairwise(counts) if after <= before]
    assert len(falls) > 5
    assert min(falls) >= 3
    store.close()


def test_a_lower_limit_makes_the_file_shorter(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    for most_bytes in (3_000_000, 1_000_000):
        store = RunStore(path, most_bytes=most_bytes, clock=lambda: NOW)
        for number in range(20):
            store.put(kept(f"run_{number}", [Note("x" * 200_000)]))
        store.close()
    assert path.stat().st_size <= 1_000_000


def test_a_run_that_is_larger_than_all_is_not_kept(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "runs.sqlite", most_bytes=100, clock=lambda: NOW)
    store.put(kept())
    assert ids(store) == []
    store.close()


def test_many_runs_are_kept_at_once(store: RunStore) -> None:
    many = [
        kept(
            f"run_{number}",
            [released(), Inconsistent(Oddity.ID_MISSING)],
            answers=[b"%d" % number],
        )
        for number in range(200)
    ]
    store.put(kept("first"))
    store.put(*many)
    assert ids(store, limit=200, before=202) == [f"run_{n}" for n in reversed(range(200))]
    assert store.find_answers("run_150") == [b"150"]
    assert store.read_figures()["oddities"] == [{"kind": "id_missing", "count": 200}]
    assert len(store.list_runs(Filter(tool="look", limit=200))) == 200


@pytest.mark.parametrize("answers", [[], [b"{}"]])
@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 100, 150])
def test_each_of_many_runs_is_written_once(
    store: RunStore, count: int, *, answers: list[bytes]
) -> None:
    store.put(kept("first"))
    store.put(*(kept(f"run_{number}", answers=answers) for number in range(count)))
    store.put(join_batches([kept("last but one"), kept("last")]))
    listed = [(run["number"], run["id"]) for run in store.list_runs(Filter(limit=200))]
    names = ["first", *(f"run_{number}" for number in range(count)), "last but one", "last"]
    assert listed == list(enumerate(names, 1))[::-1]
    assert store.find_answers(f"run_{count - 1}") == answers


def test_small_runs_do_not_make_the_file_too_long_between_two_looks_at_it(tmp_path: Path) -> None:
    """How full it is, is not measured each time: all of these come within a second."""
    path = tmp_path / "runs.sqlite"
    stores = [RunStore(path, most_bytes=1_000_000, clock=lambda: NOW) for _ in range(3)]
    used = []
    for number in range(1500):
        stores[number % 3].put(kept(f"run_{number}", [Note("x" * 1500)]))
        used.append(measure_use(stores[0]._database))
    assert max(used) <= 1_000_000
    assert min(used[-500:]) > 700_000
    for store in stores:
        store.close()


def test_a_number_is_never_given_twice(tmp_path: Path) -> None:
    """A page asks for what is older than a number."""
    store = RunStore(tmp_path / "runs.sqlite", most_bytes=500_000, clock=lambda: NOW)
    store.put(kept("too large", [Note("x" * 250_000)] * 2))
    store.put(kept("second"))
    assert [run["number"] for run in store.list_runs(Filter())] == [2]
    store.close()


# ── Failures ────────────────────────────────────────────────────────────────────────


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match="no-folder"):
        RunStore(tmp_path / "no-folder" / "runs.sqlite")
    (tmp_path / "text").write_text("this is no database, and long enough to be seen as none")
    with pytest.raises(StoreFailed, match="text"):
        RunStore(tmp_path / "text")


def test_a_run_that_cannot_be_kept_leaves_nothing_behind(store: RunStore) -> None:
    store.put(kept("a"))
    strange = msgspec.structs.replace(kept("c"), answers=["no bytes"])
    with pytest.raises(StoreFailed, match="could not be kept"):
        store.put(kept("b"), strange)
    store.put()
    store.put(kept("d"))
    assert ids(store) == ["d", "a"]


def test_threads_and_processes_share_it(tmp_path: Path) -> None:
    stores = [RunStore(tmp_path / "runs.sqlite", clock=lambda: NOW) for _ in range(2)]

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


def run_tool(number: int, status: Status, *, seconds: float) -> ToolEnded:
    return ToolEnded(replace(CALL, id=f"c{number}"), status, Result(), seconds)


def test_figures_are_sums_over_runs(store: RunStore) -> None:
    ran = [
        event
        for number in range(20)
        for event in (
            released(number=number),
            run_tool(number, Status.DONE, seconds=number / 10),
        )
    ]
    store.put(kept("a", ran))
    odd = Inconsistent(Oddity.ID_MISSING)
    store.put(kept("b", [rejected("dig", "schema"), odd, odd], key="k1"))
    repaired = released("dig", repairs=(Repair("closed", "{", "{}"),))
    failed = run_tool(0, Status.FAILED, seconds=1.0)
    turns = [
        TurnStarted(1),
        Opened(0, "", "dig"),
        TurnStarted(2),
        repaired,
        failed,
    ]
    store.put(kept("c", [*turns, odd, Inconsistent(Oddity.SLOT_REUSED)]))
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
        "names": ["dig", "look"],
        "codes": [],
    }
    assert store.read_figures(owner="k1")["tools"] == []
    assert store.read_figures(owner="k1")["oddities"] == [{"kind": "id_missing", "count": 2}]


def test_filters_know_the_words_of_all_runs_that_may_be_seen(store: RunStore) -> None:
    failed = kept("b", over=end("failed", code="model_not_found"), key="k1")
    store.put(kept("a", [rejected("dig", "schema")]), failed)
    known = store.read_figures()
    assert (known["names"], known["codes"]) == (["dig"], ["model_not_found"])
    theirs = store.read_figures(owner="k1")
    assert (theirs["names"], theirs["codes"]) == ([], ["model_not_found"])


def test_nothing_is_dropped_that_another_wrote_while_the_file_was_opened(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE runs (number INTEGER PRIMARY KEY)")
    database.close()

    def work(number: int) -> None:
        store = RunStore(path, clock=lambda: NOW)
        store.put(kept(f"run_{number}"))
        store.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    store = RunStore(path, clock=lambda: NOW)
    assert len(ids(store)) == 8
    store.close()


def test_tables_of_an_older_version_are_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE runs (number INTEGER PRIMARY KEY, other TEXT)")
        database.execute("CREATE TABLE answers (run INTEGER, number INTEGER, answer TEXT)")
    database.close()
    for _ in range(2):
        store = RunStore(path, clock=lambda: 1001.0)
        assert len(store.list_runs(Filter())) in {0, 1}
        store.put(*([] if store.list_runs(Filter()) else [kept(answers=[b"{}"])]))
        assert store.find_answers("run_1") == [b"{}"]
        store.close()
