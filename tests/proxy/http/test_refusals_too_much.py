"""Requests with too much of something are refused before they are decoded."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from wholecall.errors import UnreadableRequest
from wholecall.proxy.config.schema import ServerLimits
from wholecall.proxy.http.refusals import MOST_VALUES, check_size

LIMITS = ServerLimits(messages=20, parts=30, calls=10, tools=5, tool_bytes=2000)
TEXT = {"type": "text", "text": "[{,"}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
USE = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
ITEM = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def said(content: Any, count: int = 1) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}] * count}


def check(body: dict[str, Any] | bytes) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    check_size(_FIELDS.decode(content), LIMITS)


def results(count: int) -> dict[str, Any]:
    return {"input": [{"type": "function_call_output", "output": [TEXT] * count}]}


def called(calls: int, messages: int = 1) -> dict[str, Any]:
    return {"messages": [{"role": "assistant", "tool_calls": [CALL] * calls}] * messages}


def spread(count: int) -> dict[str, Any]:
    return {"messages": said([TEXT], 5)["messages"] + said([TEXT] * (count - 5))["messages"]}


# Each row: the setting, what makes a request with so many of them, and how many it may have.
ROWS: list[tuple[str, Callable[[int], dict[str, Any]], int]] = [
    ("messages", lambda count: said("hi", count), 20),
    ("messages", lambda count: {"input": [{"role": "user", "content": "hi"}] * count}, 20),
    ("messages", lambda count: {"input": ["hi"] * count}, 20),
    ("parts", lambda count: said([TEXT] * count), 30),
    ("parts", spread, 30),
    ("parts", lambda count: said([{"type": "tool_result", "content": [TEXT] * (count - 1)}]), 30),
    ("parts", results, 30),
    ("calls", called, 10),
    ("calls", lambda count: called(count - 9, 2) if count > 10 else called(5, 2), 10),
    ("calls", lambda count: said([USE] * count) if count < 20 else said([USE] * 30), 10),
    ("calls", lambda count: {"input": [ITEM] * min(count, 20)}, 10),
    ("tools", lambda count: {"tools": [{"name": "f"}] * count}, 5),
    ("tools", lambda count: {"functions": [{"name": "f"}] * count}, 5),
    ("tools", lambda count: {"tools": [1] * count}, 5),
    ("messages", lambda count: {"input": ["hi " * 30_000, *["hi"] * (count - 1)]}, 20),
]


@pytest.mark.parametrize("row", ROWS)
def test_a_request_may_have_as_many_as_the_limit_says(
    row: tuple[str, Callable[[int], dict[str, Any]], int],
) -> None:
    setting, make, most = row
    check(make(most))
    for count in (most + 11, 20 * most):
        with pytest.raises(UnreadableRequest) as told:
            check(make(count))
        assert f"more than {most} " in str(told.value)
        assert f"limits.{setting}" in str(told.value)
        assert told.value.param in make(1)
        assert len(str(told.value)) < 200


def test_the_definitions_of_tools_have_a_size() -> None:
    check({"tools": [{"name": "f" * 1900}]})
    with pytest.raises(UnreadableRequest, match="tool_bytes"):
        check({"tools": [{"name": "f" * 2000}]})


def test_what_is_not_a_list_is_left_to_the_protocol() -> None:
    for odd in ("text" * 100, None, {"a": 1}, 5):
        check({"messages": odd, "tools": odd, "input": odd, "functions": odd})
    check({"messages": [1, "x", None, {"content": {"content": [1] * 99}}, {"content": 5}]})


def test_values_are_counted_outside_of_texts() -> None:
    full = b"[" + b"1," * (MOST_VALUES - 2) + b"1]"
    check(b'{"metadata":' + full + b"}")
    with pytest.raises(UnreadableRequest, match=f"metadata: more than {MOST_VALUES} JSON values"):
        check(b'{"metadata":' + full[:-1] + b",1,1]}")
    text = json.dumps(',[{"' * MOST_VALUES)
    check(f'{{"metadata":{text}}}'.encode())
    with pytest.raises(UnreadableRequest, match="JSON values"):
        check(f'{{"metadata":[{text},{"{},[]," * MOST_VALUES}1]}}'.encode())
