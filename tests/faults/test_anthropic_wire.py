"""Messages, byte for byte."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wholecall.events import JSON
from wholecall.faults.anthropic_wire import AnthropicFaultWriter, refuse
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
    WholeScript,
    WrittenCall,
    fold,
)


def write(*steps: Spoken) -> list[dict[str, Any]]:
    """The payloads of the events; each is named like its type."""
    writer = AnthropicFaultWriter("good", 3)
    payloads = []
    for event in "".join(map(writer.write, steps)).split("\n\n")[:-1]:
        name, data = event.split("\n")
        payload = json.loads(data.removeprefix("data: "))
        assert name == f"event: {payload['type']}"
        payloads.append(payload)
    return payloads


def start(index: int | None, **block: object) -> dict[str, Any]:
    place = {} if index is None else {"index": index}
    return {"type": "content_block_start", **place, "content_block": block}


def grow(index: int | None, **delta: str) -> dict[str, Any]:
    place = {} if index is None else {"index": index}
    return {"type": "content_block_delta", **place, "delta": delta}


def stop(index: int | None) -> dict[str, Any]:
    return {"type": "content_block_stop", **({} if index is None else {"index": index})}


def tool_use(index: int | None, *, number: int, input: object) -> dict[str, Any]:  # noqa: A002
    return start(index, type="tool_use", id=f"toolu_3_{number}", name="n", input=input)


def test_words_and_calls_are_blocks_of_their_own() -> None:
    assert write(
        Think("hm"),
        Say("a"),
        Say("b"),
        Begin(name="n", arguments="{"),
        Grow(arguments="}"),
        Seal(),
        FinishWith("tool_calls"),
        Terminate(),
    ) == [
        start(0, type="thinking", thinking="", signature=""),
        grow(0, type="thinking_delta", thinking="hm"),
        grow(0, type="signature_delta", signature="c2lnbmF0dXJl"),
        stop(0),
        start(1, type="text", text=""),
        grow(1, type="text_delta", text="a"),
        grow(1, type="text_delta", text="b"),
        stop(1),
        tool_use(2, number=0, input={}),
        grow(2, type="input_json_delta", partial_json="{"),
        grow(2, type="input_json_delta", partial_json="}"),
        stop(2),
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None},
            "usage": {"output_tokens": 17},
        },
        {"type": "message_stop"},
    ]


@pytest.mark.parametrize("index", [None, 0, 7])
def test_an_index_of_the_script_is_written_or_left_out(index: int | None) -> None:
    steps = (Begin(name="n", index=index, arguments={"a": 1}), Grow(arguments="x"), Seal())
    assert write(*steps) == [
        tool_use(index, number=0, input={"a": 1}),
        grow(index, type="input_json_delta", partial_json="x"),
        stop(index),
    ]


def test_an_end_without_a_finish_reason_closes_the_text() -> None:
    assert write(Say("a"), Terminate())[-2:] == [stop(0), {"type": "message_stop"}]


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("stop", "end_turn"),
        ("length", "max_tokens"),
        ("content_filter", "refusal"),
        ("banana", "banana"),
        (None, None),
    ],
)
def test_the_finish_reason_in_anthropics_words(reason: str | None, word: str | None) -> None:
    [event] = write(FinishWith(reason))
    assert event["delta"]["stop_reason"] == word


def test_an_error_an_oddity_and_nothing() -> None:
    writer = AnthropicFaultWriter("good", 3)
    failed = json.dumps(refuse(529, "no"))
    assert writer.write(Fail("no")) == f"event: error\ndata: {failed}\n\n"
    assert writer.write(Raw("data")) == "data"
    assert not writer.write(CountTokens())


def test_a_stream_begins_with_an_empty_message() -> None:
    opening = AnthropicFaultWriter("good", 3).open()
    first, second, _ = opening.split("\n\n")
    message = json.loads(first.split("data: ")[1])["message"]
    assert (message["id"], message["model"], message["content"]) == ("msg_3", "good", [])
    assert second == 'event: ping\ndata: {"type": "ping"}'


def test_a_whole_answer() -> None:
    steps = (
        Think("hm"),
        Say("a"),
        Begin(name="n", id=None),
        Grow(arguments="{}"),
        FinishWith("stop"),
    )
    assert AnthropicFaultWriter("good", 3).encode(fold(steps)) == {
        "id": "msg_3",
        "type": "message",
        "role": "assistant",
        "model": "good",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "c2lnbmF0dXJl"},
            {"type": "text", "text": "a"},
            {"type": "tool_use", "name": "n", "input": {}},
        ],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 42, "output_tokens": 17},
    }


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ({"a": 1}, {"a": 1}),
        ('{"a": 1}', {"a": 1}),
        ('{"a": 1, "b": "cu', {"a": 1, "b": "cu"}),
        ("", {}),
    ],
)
def test_the_input_is_what_a_partial_parser_makes_of_the_text(
    arguments: str | dict[str, JSON], value: JSON
) -> None:
    whole = WholeScript(calls={0: WrittenCall(number=0, name="n", arguments=arguments)})
    [block] = AnthropicFaultWriter("good", 3).encode(whole)["content"]
    assert block["input"] == value


def test_a_whole_answer_that_failed_is_an_error() -> None:
    assert AnthropicFaultWriter("good", 3).encode(fold((Fail("no"),))) == refuse(529, "no")


@pytest.mark.parametrize(
    ("status", "kind"), [(429, "rate_limit_error"), (529, "overloaded_error"), (500, "api_error")]
)
def test_an_error(status: int, kind: str) -> None:
    error = {"type": kind, "message": "no"}
    assert refuse(status, "no") == {"type": "error", "error": error, "request_id": "req_faults"}
