"""What a held response answers, page by page."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wholecall.proxy.handlers.response_store import FinishedResponse, StoredResponse
from wholecall.proxy.http.refusals import RequestRefused
from wholecall.proxy.routes.responses import MOST_LIMIT, USUAL_LIMIT, list_items


def held(*items: Any) -> StoredResponse:
    return StoredResponse(
        id="resp_1", key_id="k", items=json.dumps(items).encode(), work=FinishedResponse(b"{}")
    )


CALL = {"type": "function_call", "id": "fc_x", "call_id": "c", "name": "f", "arguments": "{}"}
FORMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "a short message": (
        {"role": "user", "content": "hi"},
        {"role": "user", "content": [{"type": "input_text", "text": "hi"}], "type": "message"},
    ),
    "a short answer": (
        {"role": "assistant", "content": "hi"},
        {
            "role": "assistant",
            "content": [{"type": "output_text", "text": "hi", "annotations": []}],
            "type": "message",
        },
    ),
    "a bare text": (
        "hi",
        {"role": "user", "content": [{"type": "input_text", "text": "hi"}], "type": "message"},
    ),
    "what is whole": (CALL, CALL),
    "a status of its own": ({**CALL, "status": "incomplete"}, {**CALL, "status": "incomplete"}),
    "a type that is none": ({"type": {"a": 1}, "id": 7}, {"type": "{'a': 1}", "id": "7"}),
}


@pytest.mark.parametrize(("item", "expected"), FORMS.values(), ids=FORMS)
def test_an_item_is_listed_in_full(item: Any, expected: dict[str, Any]) -> None:
    [listed] = list_items(held(item), {})["data"]
    assert listed == {"status": "completed", "id": listed["id"], **expected}


def test_ids_are_made_once_and_say_what_they_name() -> None:
    items = held("a", {"type": "reasoning"}, {"type": "function_call"}, {"type": "other"})
    ids = [item["id"] for item in list_items(items, {"order": "asc"})["data"]]
    assert ids == ["msg_1_0", "rs_1_1", "fc_1_2", "item_1_3"]
    assert ids[::-1] == [item["id"] for item in list_items(items, {})["data"]]


PAGES: list[tuple[dict[str, str], list[int], bool]] = [
    ({}, [*range(29, 9, -1)], True),
    ({"order": "asc"}, [*range(20)], True),
    ({"limit": "100"}, [*range(29, -1, -1)], False),
    ({"limit": "2", "after": "msg_1_1"}, [0], False),
    ({"limit": "1", "order": "asc", "after": "msg_1_1"}, [2], True),
    ({"after": "msg_1_0"}, [], False),
    ({"after": ""}, [*range(29, 9, -1)], True),
]


@pytest.mark.parametrize(("query", "numbers", "more"), PAGES)
def test_a_page(query: dict[str, str], numbers: list[int], *, more: bool) -> None:
    assert (USUAL_LIMIT, MOST_LIMIT) == (20, 100)
    page = list_items(held(*map(str, range(30))), query)
    ids = [f"msg_1_{number}" for number in numbers]
    assert [item["id"] for item in page["data"]] == ids
    assert (page["first_id"], page["last_id"]) == (ids[0], ids[-1]) if ids else (None, None)
    assert (page["object"], page["has_more"]) == ("list", more)


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "101"}, "limit"),
        ({"limit": "9" * 5000}, "limit"),
        ({"limit": "x"}, "limit"),
        ({"order": "up"}, "order"),
        ({"after": "msg_none"}, "after"),
    ],
)
def test_a_wrong_query_is_told_by_its_name(query: dict[str, str], named: str) -> None:
    with pytest.raises(RequestRefused, match=f"^{named}: ") as refused:
        list_items(held("a"), query)
    assert refused.value.status == 400
