"""Responses that several processes hold together."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy_server import in_loop
from wholecall.proxy.config.schema import ResponsesConfig
from wholecall.proxy.handlers.response_store import ResponseStore
from wholecall.storage import BlobStore, StoreFailed

RESPONSE = b'{"id": "r", "output": []}'


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Process:
    """One of several, with the file of all."""

    def __init__(
        self, folder: Path, *, settings: ResponsesConfig | None = None, clock: Clock | None = None
    ) -> None:
        clock = clock or Clock()
        self.blobs = BlobStore(folder / "r.sqlite", clock=clock)
        self.store = ResponseStore(settings, blobs=self.blobs, clock=clock)

    async def find(self, id: str, key: str = "k") -> bytes | None:
        await self.store.fetch(id)
        held = self.store.find(key, id)
        return None if held is None else held.work.show() + held.items


@in_loop
async def test_what_one_holds_the_others_find_for_its_key_only(tmp_path: Path) -> None:
    one, other = Process(tmp_path), Process(tmp_path)
    await one.store.share(RESPONSE, key_id="k", items=b"[1]")
    for process in (one, other, Process(tmp_path)):
        assert await process.find("r") == RESPONSE + b"[1]"
        assert await process.find("r", "theirs") is None
        assert process.store.is_of_another("theirs", "r")
        assert await process.find("none") is None
        assert await process.find("") is None


@in_loop
async def test_what_one_drops_is_dropped_by_all(tmp_path: Path) -> None:
    one, other = Process(tmp_path), Process(tmp_path)
    await one.store.share(RESPONSE, key_id="k", items=b"[]")
    assert await other.find("r") is not None
    held = one.store.find("k", "r")
    assert held is not None
    await one.store.withdraw(held)
    assert [await each.find("r") for each in (one, other)] == [None, None]


@in_loop
async def test_it_is_held_no_longer_than_the_settings_of_this_moment_say(tmp_path: Path) -> None:
    clock = Clock()
    one = Process(tmp_path, settings=ResponsesConfig(kept_seconds=10), clock=clock)
    other = Process(tmp_path, settings=ResponsesConfig(kept_seconds=99), clock=clock)
    await one.store.share(RESPONSE, key_id="k", items=b"[]")
    clock.now += 11
    assert await one.find("r") is None
    assert await other.find("r") is not None
    other.store.settings = ResponsesConfig(kept_seconds=5)
    assert await other.find("r") is None


@in_loop
async def test_what_cannot_be_asked_for_is_not_written(tmp_path: Path) -> None:
    process = Process(tmp_path)
    await process.store.share(RESPONSE, key_id="theirs", items=b"[]")
    await process.store.share(b"{}", key_id="k", items=b"[]")
    await process.store.share(RESPONSE, key_id="k", items=b"[2]")  # an id stays with its key
    assert await process.find("r", "theirs") == RESPONSE + b"[]"
    assert await process.find("r") is None


@in_loop
async def test_a_file_that_fails_breaks_no_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    process = Process(tmp_path)
    process.store.close()
    await process.store.share(RESPONSE, key_id="k", items=b"[]")
    assert await process.find("r") == RESPONSE + b"[]"  # in this process, at least
    assert "cannot be written" in caplog.text
    assert "cannot be read" in caplog.text
    held = process.store.find("k", "r")
    assert held is not None
    with pytest.raises(StoreFailed, match="cannot be written"):  # the others would still find it
        await process.store.withdraw(held)
    with pytest.raises(StoreFailed, match="cannot be read"):
        await process.find("of another process")


@in_loop
async def test_alone_nothing_is_shared() -> None:
    store = ResponseStore()
    await store.share(RESPONSE, key_id="k", items=b"[]")
    await store.fetch("r")
    held = store.find("k", "r")
    assert held is not None
    await store.withdraw(held)
    assert store.find("k", "r") is None
    store.close()
