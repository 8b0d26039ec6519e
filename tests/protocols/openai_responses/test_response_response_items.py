from __future__ import annotations

from typing import Any

from encoded_answers import HEAD, ended, grown, make_call
from wholecall.events import Event, ProviderBlock, Reasoning, Text, Usage
from wholecall.protocols.codecs import encode_answer
from wholecall.protocols.openai_responses.response import ItemIds, finish_response, write_response
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


def test_ids_are_told_apart() -> None:
    ids = ItemIds(HEAD)
    assert [ids.make("msg"), ids.make("fc")] == ["msg_7_1", "fc_7_2"]


def test_a_response_tells_what_the_caller_knows_of_the_request() -> None:
    echo = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    assert write_response(HEAD, []) == {**OURS, **echo, "system_fingerprint": "fp"}
    head = ResponseHead(id="resp_7", model="m", created=7, rest={"tools": [1], "status": "theirs"})
    assert write_response(head, []) == {**OURS, **echo, "tools": [1]}


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
        {"id": "rs_7_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "a"}]},
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
