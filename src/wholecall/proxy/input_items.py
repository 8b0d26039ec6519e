"""The items that a held response answers, listed page by page as OpenAI's API does it.

Clients may send items in a short form and without ids; they are listed in full, each under an id
of its own that stays the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from wholecall.proxy.holding import Held
from wholecall.proxy.refusing import Refused

USUAL_LIMIT = 20
MOST_LIMIT = 100
"""Items on one page."""
_LONGEST = len(str(MOST_LIMIT))
_ORDERS = ("asc", "desc")
_NEWEST_FIRST = "desc"
_MESSAGE = "message"
# How the id of an item begins, by its type.
_PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc"}
_OTHER_PREFIX = "item"


def list_items(held: Held, query: Mapping[str, str]) -> dict[str, Any]:
    """Return one page: `limit` items after the item `after`, the newest first unless `order` is
    `asc`."""
    limit, order = _read_limit(query), _read_order(query)
    said: list[Any] = msgspec.json.decode(held.items)
    items = [_complete(item, f"{held.id}_{number}") for number, item in enumerate(said)]
    if order == _NEWEST_FIRST:
        items.reverse()
    begin = _find_begin(items, query.get("after"))
    page = items[begin : begin + limit]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": begin + limit < len(items),
    }


def _complete(item: Any, own: str) -> dict[str, Any]:
    """Return an item in full. Its type was checked with the request."""
    given = item if isinstance(item, Mapping) else {"role": "user", "content": item}
    kind = str(given.get("type") or _MESSAGE)
    own_id = f"{_PREFIXES.get(kind, _OTHER_PREFIX)}_{own.removeprefix('resp_')}"
    whole = {"status": "completed", **given, "id": str(given.get("id") or own_id), "type": kind}
    content = given.get("content")
    if kind == _MESSAGE and isinstance(content, str):
        whole["content"] = [_write_text(content, str(given.get("role")))]
    return whole


def _write_text(text: str, role: str) -> dict[str, Any]:
    if role == "assistant":
        return {"type": "output_text", "text": text, "annotations": []}
    return {"type": "input_text", "text": text}


def _find_begin(items: list[dict[str, Any]], after: str | None) -> int:
    if not after:
        return 0
    for number, item in enumerate(items):
        if item["id"] == after:
            return number + 1
    raise _refuse("after: this response has no input item of this id")


def _read_limit(query: Mapping[str, str]) -> int:
    given = query.get("limit", str(USUAL_LIMIT))
    if not given.isdecimal() or len(given) > _LONGEST or not 1 <= int(given) <= MOST_LIMIT:
        raise _refuse(f"limit: it is no whole number from 1 to {MOST_LIMIT}")
    return int(given)


def _read_order(query: Mapping[str, str]) -> str:
    given = query.get("order", _NEWEST_FIRST)
    if given not in _ORDERS:
        raise _refuse(f"order: it is neither {' nor '.join(_ORDERS)}")
    return given


def _refuse(why: str) -> Refused:
    return Refused(400, why, code="invalid_value")
