"""Responses, event by event."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wholecall.faults.openai_wire import ResponsesFaultWriter
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

TEXT_PART = {"type": "output_text", "text": "ab", "annotations": [], "logprobs": []}


def write(*steps: Spoken) -> list[dict[str, Any]]:
    """The payloads of a stream; each is named like its type and numbered in order."""
    writer = ResponsesFaultWriter("good", 3)
    text = writer.open() + "".join(map(writer.write, steps))
    payloads = []
    for number, event in enumerate(text.split("\n\n")[:-1]):
        name, data = event.split("\n")
        payload = json.loads(data.removeprefix("data: "))
        assert name == f"event: {payload['type']}"
        assert payload.pop("sequence_number") == number
        payloads.append(payload)
    return payloads[2:]


def kinds(*steps: Spoken) -> list[str]:
    return [payload["type"].removeprefix("response.") for payload in write(*steps)]


def item(*, status: str, arguments: object, **fields: object) -> dict[str, Any]:
    head = {"id": "fc_3_0", "type": "function_call", "status": status, "call_id": "call_3_0"}
    return {**head, "name": "n", "arguments": arguments, **fields}


def test_a_call_is_told_four_times() -> None:
    place = {"output_index": 0}
    steps = (
        Begin(name="n"),
        Grow(arguments="{"),
        Grow(arguments="}"),
        Seal(),
        FinishWith("tool_calls"),
        Terminate(),
    )
    *events, last = write(*steps)
    done = item(status="completed", arguments="{}")
    delta = "response.function_call_arguments.delta"
    assert events == [
        {
            "type": "response.output_item.added",
            **place,
            "item": item(status="in_progress", arguments=""),
        },
        {"type": delta, **place, "item_id": "fc_3_0", "delta": "{"},
        {"type": delta, **place, "item_id": "fc_3_0", "delta": "}"},
        {
            "type": "response.function_call_arguments.done",
            **place,
            "item_id": "fc_3_0",
            "name": "n",
            "arguments": "{}",
        },
        {"type": "response.output_item.done", **place, "item": done},
    ]
    assert last["type"] == "response.completed"
    assert last["response"]["output"] == [done]
    assert last["response"]["status"] == "completed"


@pytest.mark.parametrize("index", [None, 0, 7])
def test_an_index_of_the_script_is_written_or_left_out(index: int | None) -> None:
    events = write(Begin(name="n", index=index, arguments={"a": 1}), Grow(arguments=""), Seal())
    assert {event.get("output_index") for event in events} == {index}
    assert events[0]["item"]["arguments"] == {"a": 1}


def test_words_are_items_of_their_own() -> None:
    steps = (Think("h"), Think("m"), Say("a"), Say("b"), FinishWith("stop"), Terminate())
    assert kinds(*steps) == [
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    reasoning, message = write(*steps)[-1]["response"]["output"]
    assert reasoning["summary"] == [{"type": "summary_text", "text": "hm"}]
    assert message["content"] == [TEXT_PART]


def test_text_before_a_call_is_closed_first() -> None:
    assert kinds(Say("a"), Begin(name="n"))[-2:] == ["output_item.done", "output_item.added"]


def test_an_end_without_a_finish_reason_closes_the_text() -> None:
    assert kinds(Say("a"), Terminate())[-2:] == ["output_item.done", "completed"]


@pytest.mark.parametrize(
    ("reason", "status", "details"),
    [
        ("length", "incomplete", {"reason": "max_output_tokens"}),
        ("content_filter", "incomplete", {"reason": "content_filter"}),
        ("stop", "completed", None),
        (None, "completed", None),
    ],
)
def test_the_finish_reason_as_a_status(
    *, reason: str | None, status: str, details: dict[str, str] | None
) -> None:
    [event] = write(FinishWith(reason), Terminate())
    assert event["type"] == f"response.{status}"
    assert event["response"]["incomplete_details"] == details


def test_a_call_that_was_not_sealed_is_incomplete() -> None:
    steps = (Begin(name="n", id=None), Grow(arguments='{"a'), FinishWith("length"))
    [call] = ResponsesFaultWriter("good", 3).encode(fold(steps))["output"]
    expected = item(status="incomplete", arguments='{"a')
    del expected["call_id"]
    assert call == expected


def test_an_error_an_oddity_and_nothing() -> None:
    [event] = write(Fail("no"))
    assert event["type"] == "response.failed"
    assert event["response"]["error"] == {"code": "server_error", "message": "no"}
    writer = ResponsesFaultWriter("good", 3)
    assert writer.write(Raw("data")) == "data"
    assert not writer.write(CountTokens())


def test_a_whole_answer_that_failed_says_so() -> None:
    response = ResponsesFaultWriter("good", 3).encode(fold((Fail("no"),)))
    assert (response["status"], response["error"]["message"]) == ("failed", "no")
