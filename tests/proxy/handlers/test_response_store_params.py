"""What a client says about store its response."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from wholecall.errors import UnreadableRequest
from wholecall.proxy.config.schema import ResponsesConfig
from wholecall.proxy.handlers.response_store import ResponseParams, ResponseStore, read_params

USER = {"type": "message", "role": "user", "content": "one"}
SAID = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "1"}]}


def read(
    body: Any, store: ResponseStore | None = None, *, key: str = "k"
) -> tuple[ResponseParams | None, Any]:
    fields = msgspec.json.decode(json.dumps(body).encode(), type=dict[str, msgspec.Raw])
    terms, agreed = read_params(store or ResponseStore(), fields, key_id=key)
    return terms, json.loads(msgspec.json.encode(agreed))


INPUTS: dict[str, tuple[Any, list[Any]]] = {
    "a text": ("one", [USER]),
    "no text": ("", []),
    "items": ([USER, {"odd": 1.50}], [USER, {"odd": 1.5}]),
    "nothing": (None, []),
    "no input at all": (7, []),
}


@pytest.mark.parametrize(("given", "items"), INPUTS.values(), ids=INPUTS)
def test_what_is_answered_is_remembered(given: Any, items: list[Any]) -> None:
    body = {"model": "m", "input": given, "store": None}
    terms, agreed = read(body)
    assert terms is not None
    assert json.loads(terms.items) == items
    assert not terms.background
    assert agreed == body


def test_without_an_input_there_are_no_items() -> None:
    terms, _ = read({"model": "m"})
    assert terms is not None
    assert terms.items == b"[]"


def test_what_is_not_stored_has_no_terms() -> None:
    assert read({"store": False})[0] is None
    assert read({}, ResponseStore(ResponsesConfig(kept_seconds=0)))[0] is None


def test_in_the_background_it_is_a_stream_for_us() -> None:
    body = {"model": "m", "input": "one", "background": True}
    terms, agreed = read(body)
    assert terms is not None
    assert (terms.background, terms.streamed, terms.echo) == (True, False, {"background": True})
    assert agreed == {"model": "m", "input": "one", "stream": True}
    terms, _ = read({**body, "stream": True})
    assert terms is not None
    assert terms.streamed


def test_it_goes_on_from_what_is_held() -> None:
    store = ResponseStore()
    answer = {"id": "r", "status": "completed", "output": [SAID]}
    store.keep(json.dumps(answer).encode(), key_id="k", items=json.dumps([USER]).encode())
    terms, agreed = read({"input": "two", "previous_response_id": "r"}, store)
    expected = [USER, SAID, {**USER, "content": "two"}]
    assert agreed == {"input": expected}
    assert terms is not None
    assert json.loads(terms.items) == expected
    assert terms.echo == {}


def test_what_is_not_stored_goes_on_as_well() -> None:
    store = ResponseStore()
    answer = {"id": "r", "status": "incomplete", "output": [SAID]}
    store.keep(json.dumps(answer).encode(), key_id="k", items=b"[]")
    terms, agreed = read({"previous_response_id": "r", "store": False}, store)
    assert terms is None
    assert agreed == {"input": [SAID], "store": False}


@pytest.mark.parametrize("previous", ["none", None, 7])
def test_what_is_not_held_is_left_to_others(previous: Any) -> None:
    body = {"input": "two", "previous_response_id": previous}
    assert read(body)[1] == body


WRONG: dict[str, tuple[Any, str]] = {
    "in the background, and not stored": ({"background": True, "store": False}, "store"),
    "from a response that failed": ({"previous_response_id": "failed"}, "previous_response_id"),
    "from one of another form": ({"previous_response_id": "odd"}, "previous_response_id"),
    "from one that is no UTF-8": ({"previous_response_id": "bytes"}, "previous_response_id"),
    "from somebody else's": ({"previous_response_id": "theirs"}, "previous_response_id"),
}


@pytest.mark.parametrize(("body", "param"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_agreed_on_names_its_field(body: Any, param: str) -> None:
    store = ResponseStore()
    store.keep(b'{"id": "failed", "status": "failed"}', key_id="k", items=b"[]")
    store.keep(b'{"id": "odd", "status": null}', key_id="k", items=b"[]")
    store.keep(b'{"id": "bytes", "status": "\xff"}', key_id="k", items=b"[]")
    store.keep(b'{"id": "theirs", "status": "completed"}', key_id="other", items=b"[]")
    with pytest.raises(UnreadableRequest) as caught:
        read(body, store)
    assert caught.value.param == param


def test_where_nothing_is_stored_nothing_is_made_in_the_background() -> None:
    with pytest.raises(UnreadableRequest) as caught:
        read({"background": True}, ResponseStore(ResponsesConfig(kept_seconds=0.0)))
    assert caught.value.param == "background"
