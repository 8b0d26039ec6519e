"""Responses that are held: whose they are, for how long, and how many."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from wholecall.proxy.config.schema import ResponsesConfig
from wholecall.proxy.handlers.response_store import (
    FinishedResponse,
    ResponseStore,
    StoredResponse,
    restore_items,
)


@dataclass
class Working:
    """Work that is over when a test says so."""

    is_over: bool = False
    size: int = 10

    def show(self) -> bytes:
        return b"{}"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def make(id: str, *, key: str = "k", size: int = 20) -> StoredResponse:
    return StoredResponse(id=id, key_id=key, items=b"[]", work=FinishedResponse(b"x" * (size - 2)))


def test_a_response_is_its_keys_and_nobody_elses() -> None:
    store = ResponseStore()
    store.keep(b'{"id": "r", "output": []}', key_id="k", items=b"[]")
    held = store.find("k", "r")
    assert held is not None
    assert msgspec.json.decode(held.work.show())["id"] == "r"
    assert store.find("other", "r") is None
    assert store.is_of_another("other", "r")
    assert not store.is_of_another("k", "r")
    assert not store.is_of_another("k", "none")


STUB = {"type": "item_reference", "id": "msg_a1_2"}
SAID = {"type": "message", "id": "msg_a1_2", "role": "assistant", "content": "one"}
STUBS = [
    ("k", STUB, SAID),
    ("other", STUB, STUB),
    ("k", {**STUB, "id": "msg_a1_1"}, {**STUB, "id": "msg_a1_1"}),
    ("k", {**STUB, "id": ""}, {**STUB, "id": ""}),
    ("k", {"type": "item_reference", "id": 7}, {"type": "item_reference", "id": 7}),
]


@pytest.mark.parametrize(("key", "item", "expected"), STUBS)
def test_a_reference_is_resolved_for_the_key_of_the_response(
    key: str, item: Any, *, expected: Any
) -> None:
    store = ResponseStore()
    answer = msgspec.json.encode({"id": "resp_a1", "output": [SAID]})
    store.keep(answer, key_id="k", items=b"[]")
    fields = {"input": msgspec.Raw(msgspec.json.encode([item, "as it is"]))}
    restored = asyncio.run(restore_items(store, fields, key_id=key))
    assert (restored is fields) == (item == expected)
    assert msgspec.json.decode(restored["input"]) == [expected, "as it is"]


def test_an_id_stays_with_whoever_has_it() -> None:
    store = ResponseStore()
    first, second = make("r"), make("r", key="other")
    store.put(first)
    store.put(second)
    assert store.find("k", "r") is first
    assert store.find("other", "r") is None


def test_what_has_no_id_is_not_held() -> None:
    store = ResponseStore()
    for response in (b"{}", b'{"id": null}', b'{"id": 7}', b"[]", b"no JSON", b'{"id": "\xff"}'):
        store.keep(response, key_id="k", items=b"[]")
    assert store.find("k", "") is None


def test_it_is_held_for_so_many_seconds_after_its_end() -> None:
    clock = Clock()
    store = ResponseStore(ResponsesConfig(kept_seconds=10), clock=clock)
    store.put(make("r"))
    work = Working()
    live = StoredResponse(id="live", key_id="k", items=b"[]", work=work)
    store.put(live)
    clock.now += 9
    assert store.find("k", "r") is not None
    clock.now += 1
    assert store.find("k", "r") is None
    assert store.find("k", "live") is live
    work.is_over = True
    store.put(live)
    clock.now += 9
    assert store.find("k", "live") is live
    clock.now += 2
    assert store.find("k", "live") is None


def test_the_oldest_go_first_when_there_is_too_much() -> None:
    store = ResponseStore(ResponsesConfig(megabytes=1))
    half = 512 * 1024
    for id in ("a", "b", "c"):
        store.put(make(id, size=half))
    assert [store.find("k", id) is not None for id in ("a", "b", "c")] == [False, True, True]
    store.put(make("large", size=3 * half))
    assert [store.find("k", id) for id in ("b", "c", "large")] == [None, None, None]


def test_the_same_again_takes_the_place_of_the_first() -> None:
    store = ResponseStore(ResponsesConfig(megabytes=1))
    store.put(make("other", size=512 * 1024))
    for _ in range(5):
        store.put(make("r", size=512 * 1024))
    assert store.find("k", "other") is not None
    held = store.find("k", "r")
    assert held is not None
    store.drop(held)
    store.drop(held)
    assert store.find("k", "r") is None


def test_nothing_is_held_where_no_time_is_given() -> None:
    store = ResponseStore(ResponsesConfig(kept_seconds=0))
    assert not store.enabled
    store.put(make("r"))
    assert store.find("k", "r") is None


def test_what_is_over_can_be_forgotten_by_its_id() -> None:
    store = ResponseStore()
    store.put(make("r"))
    store.forget("r")
    store.forget("r")
    assert store.find("k", "r") is None
