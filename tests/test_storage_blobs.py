"""Texts in a file, by names."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from wholecall.storage import BlobStore, StoreFailed


def test_a_text_is_found_under_each_of_its_names_also_by_another_process(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    first, second = BlobStore(path), BlobStore(path)
    first.put(["a", "b"], b"text")
    assert second.find(["b", "a", "c"]) == {"a": b"text", "b": b"text"}
    first.close()
    second.close()
    again = BlobStore(path)
    assert again.find(["a"]) == {"a": b"text"}
    again.close()


def test_a_text_that_is_too_old_is_gone() -> None:
    now = 0.0
    blobs = BlobStore(seconds=10, clock=lambda: now)
    blobs.put(["a"], b"old")
    now = 10.0
    assert blobs.find(["a"]) == {}
    blobs.put(["b"], b"new")
    now = 5.0
    assert blobs.find(["a", "b"]) == {"b": b"new"}
    blobs.close()


def test_a_text_is_edited_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    with closing(BlobStore(path)) as first, closing(BlobStore(path)) as second:
        first.put(["a"], b"one")
        assert second.edit("a", lambda text: text + b" two") == b"one two"
        assert first.edit("a", lambda text: text + b" three") == b"one two three"
        assert second.edit("a", lambda _: None) is None
        assert second.edit("b", lambda text: text) is None
        assert second.find(["a", "b"]) == {"a": b"one two three"}
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT count(*) FROM texts").fetchone() == (1,)


def test_the_oldest_texts_make_room_for_new_ones(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path / "s.sqlite", most_bytes=500_000)
    for name in "abcdefgh":
        blobs.put([name], b"x" * 120_000)
    assert set(blobs.find("abcdefgh")) == {"f", "g", "h"}
    blobs.close()
    assert (tmp_path / "s.sqlite").stat().st_size <= 500_000


def test_a_text_costs_no_more_where_many_are_kept() -> None:
    blobs, costs = BlobStore(), []
    for number in range(400):
        steps = 0

        def step() -> int:
            nonlocal steps
            steps += 1
            return 0

        blobs._database.set_progress_handler(step, 1)
        blobs.put([f"text-{number}"], b"x" * 100)
        costs.append(steps)
    assert max(costs[300:]) < 2 * max(costs[:20])
    blobs.close()


def test_what_is_dropped_is_gone_under_all_of_its_names(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path / "s.sqlite")
    assert (tmp_path / "s.sqlite").stat().st_mode & 0o077 == 0
    blobs.put(["a", "b"], b"1")
    blobs.put(["c"], b"2")
    blobs.drop(["a", "none"])
    assert blobs.find(["a", "b", "c"]) == {"c": b"2"}


def test_what_cannot_be_kept_leaves_nothing_behind() -> None:
    blobs = BlobStore()
    with pytest.raises(StoreFailed, match="cannot be written"):
        blobs.put([{"no": "name"}], b"text")  # type: ignore[list-item]
    blobs.put(["a"], b"text")
    assert blobs.find(["a"]) == {"a": b"text"}
    blobs.close()


def test_a_store_in_memory_can_move_to_a_file_once(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    with closing(BlobStore()) as store:
        store.put(["before"], b"1")
        store.move_to(path)
        store.put(["after"], b"2")
        store.move_to(tmp_path / "another.sqlite")
        assert store.find(["before", "after"]) == {"after": b"2"}
    with closing(BlobStore(path)) as other:
        assert other.find(["after"]) == {"after": b"2"}
    assert not (tmp_path / "another.sqlite").exists()
