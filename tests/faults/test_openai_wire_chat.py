"""Chat completions, byte for byte."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wholecall.faults.openai_wire import ChatFaultWriter, refuse
from wholecall.faults.script import (
    Begin,
    CountTokens,
    Fail,
    FinishWith,
    Grow,
    Raw,
    Say,
    Seal,
    Spoken,
    Terminate,
    Think,
    fold,
)

HEAD = {"id": "chatcmpl-3", "created": 1_790_000_000, "model": "good"}
USAGE = {"prompt_tokens": 42, "completion_tokens": 17, "total_tokens": 59}


def writer() -> ChatFaultWriter:
    return ChatFaultWriter("good", 3)


def delta(content: object, reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": content, "finish_reason": reason}
    return {**HEAD, "object": "chat.completion.chunk", "choices": [choice]}


def entry(**fields: object) -> dict[str, Any]:
    return delta({"tool_calls": [fields]})


ROWS: list[tuple[Spoken, dict[str, Any]]] = [
    (Say("é"), delta({"content": "é"})),
    (Think("hm"), delta({"reasoning_content": "hm"})),
    (
        Begin(call=1, name="n"),
        entry(index=1, id="call_3_1", type="function", function={"name": "n", "arguments": ""}),
    ),
    (
        Begin(call=1, index=None, id=None, arguments={"a": 1}),
        entry(type="function", function={"arguments": {"a": 1}}),
    ),
    (Grow(call=1, arguments="{"), entry(index=1, function={"arguments": "{"})),
    (
        Grow(index=7, id="x", name="n"),
        entry(index=7, id="x", function={"name": "n", "arguments": ""}),
    ),
    (FinishWith("banana"), delta({}, "banana")),
    (
        CountTokens(),
        {**HEAD, "object": "chat.completion.chunk", "choices": [], "usage": USAGE},
    ),
    (Fail("no"), refuse(500, "no")),
]


@pytest.mark.parametrize(("step", "payload"), ROWS)
def test_a_step_is_one_chunk(step: Spoken, payload: dict[str, Any]) -> None:
    text = writer().write(step)
    assert text.startswith("data: ")
    assert text.endswith("\n\n")
    assert json.loads(text.removeprefix("data: ")) == payload


@pytest.mark.parametrize(
    ("step", "text"),
    [(Seal(), ""), (Terminate(), "data: [DONE]\n\n"), (Raw("data: {\r"), "data: {\r")],
)
def test_a_step_that_is_no_chunk(step: Spoken, text: str) -> None:
    assert writer().write(step) == text


def test_a_stream_begins_with_the_role() -> None:
    opening = json.loads(writer().open().removeprefix("data: "))
    assert opening == delta({"role": "assistant", "content": ""})


def test_a_whole_answer() -> None:
    steps = (
        Think("hm"),
        Say("a"),
        Say("b"),
        Begin(name="n"),
        Grow(arguments="{}"),
        FinishWith("stop"),
    )
    function = {"name": "n", "arguments": "{}"}
    message = {
        "role": "assistant",
        "content": "ab",
        "reasoning_content": "hm",
        "tool_calls": [{"id": "call_3_0", "type": "function", "function": function}],
    }
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    assert writer().encode(fold(steps)) == {
        **HEAD,
        "object": "chat.completion",
        "choices": [choice],
        "usage": USAGE,
    }


def test_an_empty_whole_answer_has_no_content() -> None:
    [choice] = writer().encode(fold(()))["choices"]
    assert choice["message"] == {"role": "assistant", "content": None}


def test_a_whole_answer_that_failed_is_an_error() -> None:
    assert writer().encode(fold((Say("a"), Fail("no")))) == refuse(500, "no")


@pytest.mark.parametrize(
    ("status", "kind"), [(400, "invalid_request_error"), (500, "server_error")]
)
def test_an_error(status: int, kind: str) -> None:
    error = {"message": "no", "type": kind, "param": None, "code": None}
    assert refuse(status, "no") == {"error": error}
