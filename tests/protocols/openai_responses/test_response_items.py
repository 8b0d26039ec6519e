from __future__ import annotations

from typing import Any

import pytest

from encoded_answers import HEAD, encode, ended, grown, make_call, payloads
from wholecall.events import Event, ProviderBlock, Reasoning, Text, Usage
from wholecall.protocols.openai_responses.response import (
    ItemIds,
    finish_response,
    read_style,
    write_response,
)
from wholecall.protocols.registry import encode_answer
from wholecall.protocols.response_base import FinishReason, ResponseHead

OURS = {
    "id": "resp_7",
    "object": "response",
    "created_at": 7,
    "status": "in_progress",
    "error": None,
    "incomplete_details": None,
    "model": "m",
    "output": [],
    "usage": None,
}
PART = {"type": "output_text", "annotations": [], "logprobs": []}
SEARCH = {"type": "web_search_call", "id": "ws_1"}
ITEM: dict[str, Any] = {
    "type": "reasoning",
    "id": "rs_a",
    "summary": [],
    "encrypted_content": "e",
    "status": None,
}


DEFAULTS: dict[str, Any] = {
    "previous_response_id": None,
    "instructions": None,
    "tools": [],
    "tool_choice": "auto",
    "truncation": "disabled",
    "parallel_tool_calls": True,
    "text": {"format": {"type": "text"}},
    "top_p": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "top_logprobs": 0,
    "temperature": 1.0,
    "reasoning": {"effort": None, "summary": None},
    "max_output_tokens": None,
    "max_tool_calls": None,
    "store": True,
    "background": False,
    "service_tier": "default",
    "metadata": {},
    "safety_identifier": None,
    "prompt_cache_key": None,
    "completed_at": None,
}


def test_ids_are_told_apart() -> None:
    ids = ItemIds(HEAD)
    assert [ids.make("msg"), ids.make("fc")] == ["msg_7_1", "fc_7_2"]


def test_a_response_tells_what_the_caller_knows_of_the_request() -> None:
    assert write_response(HEAD, []) == {**OURS, **DEFAULTS, "system_fingerprint": "fp"}
    rest = {"tools": [1], "status": "theirs", "temperature": None}
    head = ResponseHead(id="resp_7", model="m", created=7, rest=rest)
    assert write_response(head, []) == {**OURS, **DEFAULTS, "tools": [1]}


def test_a_response_repeats_its_request() -> None:
    function = {"type": "function", "name": "f"}
    form = {"type": "json_schema", "name": "n", "schema": {}, "strict": True}
    rows: list[tuple[str, Any, Any]] = [
        (
            "tools",
            [function, {"type": "web_search"}],
            [
                {**function, "description": None, "parameters": None, "strict": None},
                {"type": "web_search"},
            ],
        ),
        ("tool_choice", "required", "required"),
        ("parallel_tool_calls", False, False),
        ("text", {"format": form}, {"format": {**form, "description": None}}),
        ("text", {"verbosity": "low"}, {"format": {"type": "text"}, "verbosity": "low"}),
        ("reasoning", {"effort": "low"}, {"effort": "low", "summary": None}),
        ("reasoning", 7, {"effort": None, "summary": None}),
        ("metadata", {"a": "b"}, {"a": "b"}),
        ("store", False, False),
        ("temperature", None, None),
        ("model", "m", None),
    ]
    for name, said, repeated in rows:
        assert read_style({name: said}).echo.get(name) == repeated, name
    assert read_style({}).echo == {"tools": [], "tool_choice": "auto", "parallel_tool_calls": True}


def test_when_a_response_was_complete() -> None:
    head = ResponseHead(id="resp_7", model="m", created=7, clock=lambda: 9.5)
    for at, reason, when in ((HEAD, "stop", 7), (head, "stop", 9), (head, "length", None)):
        response = finish_response(at, [], finish=FinishReason(reason), usage=None)
        assert response["completed_at"] == when


def test_how_a_response_ended() -> None:
    rows = [
        ("stop", "completed", None),
        ("tool_calls", "completed", None),
        ("length", "incomplete", {"reason": "max_output_tokens"}),
        ("content_filter", "incomplete", {"reason": "content_filter"}),
    ]
    for reason, status, details in rows:
        response = finish_response(HEAD, [], finish=FinishReason(reason), usage=None)
        assert (response["status"], response["incomplete_details"]) == (status, details)
    costly = finish_response(HEAD, [], finish=FinishReason("stop"), usage=Usage(3, 4))
    assert costly["usage"]["total_tokens"] == 7


def test_the_items_of_a_body() -> None:
    events: list[Event] = [
        Reasoning("a"),
        Reasoning("", {"signature": "theirs"}),
        Reasoning("", {"signature": "alone"}),
        Reasoning("", {"item": ITEM}),
        Text("Hi"),
        Reasoning("", {"message": {"id": "msg_a", "phase": "commentary"}}),
        *grown(make_call(0, extras={"item_id": "fc_a", "namespace": "n"})),
        *grown(make_call(1, {})),
        ProviderBlock(SEARCH),
        Text("Bye"),
        ended("tool_calls"),
    ]
    call = {"type": "function_call", "status": "completed", "name": "weather"}
    said = {"type": "message", "status": "completed", "role": "assistant"}
    body = encode_answer("openai-responses", events, head=HEAD, upstream="openai-responses")
    assert body["output"] == [
        {
            "id": "rs_7_1",
            "type": "reasoning",
            "status": "completed",
            "summary": [{"type": "summary_text", "text": "a"}],
        },
        {"type": "reasoning", "id": "rs_a", "summary": [], "encrypted_content": "e"},
        {**said, "id": "msg_a", "content": [{**PART, "text": "Hi"}], "phase": "commentary"},
        {
            **call,
            "id": "fc_a",
            "call_id": "call_0",
            "arguments": '{"city":"Oslo"}',
            "namespace": "n",
        },
        {**call, "id": "fc_7_4", "call_id": "call_1", "arguments": "{}"},
        SEARCH,
        {**said, "id": "msg_7_5", "content": [{**PART, "text": "Bye"}]},
    ]
    elsewhere = encode_answer("openai-responses", events, head=HEAD)
    assert SEARCH not in elsewhere["output"]


def test_an_envelope_without_a_letter_is_dropped() -> None:
    events: list[Event] = [Reasoning("", {"message": {"id": "msg_a"}}), ended()]
    assert encode_answer("openai-responses", events, head=HEAD)["output"] == []


CUT: list[tuple[list[Event], list[str | None]]] = [
    ([Reasoning("a"), Text("Hi")], ["completed", "incomplete"]),
    ([Reasoning("a")], ["incomplete"]),
    ([Text("Hi"), *grown(make_call())], ["completed", "completed"]),
    ([Reasoning("", {"item": ITEM})], [None]),
    ([], []),
]


@pytest.mark.parametrize(("events", "statuses"), CUT)
def test_the_last_item_of_an_answer_that_was_cut_is_incomplete(
    events: list[Event], statuses: list[str | None]
) -> None:
    body = encode_answer("openai-responses", [*events, ended("length")], head=HEAD)
    assert [item.get("status") for item in body["output"]] == statuses
    stream = encode("openai-responses", [*events, ended("length")])
    done = [each for each in payloads(stream) if each["type"] == "response.output_item.done"]
    assert [event["item"].get("status") for event in done] == statuses
