"""Calls that should come as a list, and come as something else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wholecall import Outcome, assemble, assemble_response
from wholecall.protocols.openai_chat.stream import mend_lists

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]
CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "look", "arguments": '{"city": "Rome"}'},
}
ROME = {"city": "Rome"}
ODD: dict[str, tuple[Any, list[dict[str, str]]]] = {
    "an empty text is no call": ("", []),
    "blanks are no call": (" \n", []),
    "an empty object is no call": ({}, []),
    "false is no call": (False, []),
    "zero is no call": (0, []),
    "a list as text is one": (json.dumps([CALL]), [ROME]),
    "an empty list as text is no call": ("[]", []),
    "a call as text is one": (json.dumps(CALL), [ROME]),
    "a call without brackets is one": (CALL, [ROME]),
    "a call without brackets and without `function` is one": (CALL["function"], [ROME]),
    "an object of places is a list": ({"0": CALL, "1": {**CALL, "id": "c2"}}, [ROME, ROME]),
}


def stream(calls: Any) -> Outcome:
    chunks = [
        {"choices": [{"index": 0, "delta": {"content": "Hello.", "tool_calls": calls}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        "data: [DONE]",
    ]
    return assemble("openai-chat", chunks, tools=TOOLS)


def answer(calls: Any) -> Outcome:
    message = {"role": "assistant", "content": "Hello.", "tool_calls": calls}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    return assemble_response("openai-chat", body, tools=TOOLS)


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("send", [stream, answer])
def test_what_is_no_list_is_read_as_what_it_stands_for(send: Any, name: str) -> None:
    calls, expected = ODD[name]
    outcome = send(calls)
    assert [dict(call.arguments) for call in outcome.calls] == expected
    assert (outcome.text, outcome.error) == ("Hello.", None)


@pytest.mark.parametrize("send", [stream, answer])
@pytest.mark.parametrize("calls", ["look at Rome", "7", 7, "[" * 100_000])
def test_what_stands_for_no_call_remains_unreadable(send: Any, calls: Any) -> None:
    outcome = send(calls)
    assert (outcome.calls, outcome.error) == ((), "protocol")


@pytest.mark.parametrize(
    "chunk",
    [
        7,
        {"choices": "none"},
        {"choices": [None, 7]},
        {"choices": [{"message": "words"}]},
        {"choices": [{"delta": {"content": "words"}}]},
    ],
)
def test_all_else_stays_as_it_is(chunk: Any) -> None:
    assert mend_lists(chunk) == chunk
