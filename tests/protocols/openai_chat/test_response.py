from __future__ import annotations

from typing import Any

import pytest

from encoded_answers import (
    HEAD,
    LIVE,
    encode,
    ended,
    grown,
    make_call,
    of_choice,
    payloads,
    take_apart,
)
from wholecall.events import Event, ProviderBlock, Reasoning, Text, Usage
from wholecall.protocols.openai_chat.response import read_style
from wholecall.protocols.registry import encode_answer, make_encoder
from wholecall.protocols.response_base import Failure, ResponseHead, ResponseStyle

CHUNK = {
    "id": "resp_7",
    "object": "chat.completion.chunk",
    "created": 7,
    "model": "m",
    "system_fingerprint": "fp",
}
QUIET = ResponseStyle(usage=False)
ROLE = {"role": "assistant", "content": None}
FUNCTION = {"name": "weather", "arguments": '{"city":"Oslo"}'}
CALL = {"id": "call_0", "type": "function", "function": FUNCTION}
DETAILS = {"reasoning_details": [{"type": "reasoning.text", "text": "a", "index": 0}]}
SIGNED = make_call(extras={"thought_signature": "s", "item_id": "fc_1"})


def deltas(*events: Event, style: ResponseStyle = QUIET) -> list[Any]:
    """The deltas between the role and the finish."""
    chunks = payloads(encode("openai-chat", [*events, ended()], style=style))
    [*found] = (chunk["choices"][0]["delta"] for chunk in chunks[:-1])
    assert found[0] == ROLE
    assert found[-1] == {}
    return found[1:-1]


@pytest.mark.parametrize(
    ("says", "events", "expected"),
    [
        ("text", [Text("a"), Text("b")], [{"content": "a"}, {"content": "b"}]),
        ("reasoning", [Reasoning("a")], [{"reasoning_content": "a"}]),
        ("details of its own", [Reasoning("", DETAILS)], [DETAILS]),
        ("both", [Reasoning("a", DETAILS)], [{"reasoning_content": "a"}, DETAILS]),
        ("what another protocol seals has no place", [Reasoning("", {"signature": "s"})], []),
        ("neither has what a provider did", [ProviderBlock({"type": "x"})], []),
        ("a call is one entry", grown(make_call()), [{"tool_calls": [{"index": 0, **CALL}]}]),
        (
            "what goes back with a call stands beside it",
            grown(SIGNED),
            [{"tool_calls": [{"index": 0, **CALL, "thought_signature": "s"}]}],
        ),
        (
            "calls are counted as they are sent, whatever their numbers",
            [*grown(make_call(4)), *grown(make_call(2, {}))],
            [
                {"tool_calls": [{"index": 0, **CALL, "id": "call_4"}]},
                {
                    "tool_calls": [
                        {
                            "index": 1,
                            **CALL,
                            "id": "call_2",
                            "function": {"name": "weather", "arguments": "{}"},
                        }
                    ]
                },
            ],
        ),
    ],
)
def test_deltas(says: str, events: list[Event], *, expected: list[Any]) -> None:
    assert deltas(*events) == expected, says


def test_a_live_call_has_its_id_and_name_once() -> None:
    pieces = deltas(*grown(SIGNED, size=9), style=ResponseStyle(live=True, usage=False))
    assert [piece["tool_calls"][0] for piece in pieces] == [
        {"index": 0, **CALL, "function": {"name": "weather", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"city":"'}},
        {"index": 0, "function": {"arguments": 'Oslo"}'}},
        {"index": 0, "thought_signature": "s"},
    ]
    plain = deltas(*grown(make_call(), size=99), style=ResponseStyle(live=True, usage=False))
    assert len(plain) == 2


def test_a_stream_from_its_role_to_its_terminator() -> None:
    stream = encode("openai-chat", [Text("Hi"), Usage(3, 4), ended("length", "max_tokens")])
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    *chunks, cost, done = payloads(stream)
    assert [frame.name for frame in take_apart(stream)] == [""] * 5
    assert chunks == [
        {**CHUNK, "choices": [choice], "usage": None}
        for choice in (
            {"index": 0, "delta": ROLE, "finish_reason": None},
            {"index": 0, "delta": {"content": "Hi"}, "finish_reason": None},
            {
                "index": 0,
                "delta": {},
                "finish_reason": "length",
                "native_finish_reason": "max_tokens",
            },
        )
    ]
    assert cost.items() >= {**CHUNK, "choices": []}.items()
    assert cost["usage"].items() >= usage.items()
    assert done == "[DONE]"


def test_who_did_not_ask_for_the_usage_does_not_get_it() -> None:
    chunks = payloads(encode("openai-chat", [Usage(3, 4), ended()], style=QUIET))
    assert all("usage" not in chunk for chunk in chunks[:-1])
    assert all(chunk["choices"] for chunk in chunks[:-1])


def test_every_choice_has_its_role_and_its_finish() -> None:
    other = of_choice(1, [Text("Ho"), *grown(make_call()), ended()])
    chunks = payloads(encode("openai-chat", [*other, Text("Hi"), ended("length")], style=QUIET))
    told = [chunk["choices"][0] for chunk in chunks[:-1]]
    assert [choice["index"] for choice in told] == [0, 1, 1, 1, 0, 0, 1]
    assert told[1]["delta"] == ROLE
    assert [choice["finish_reason"] for choice in told[-2:]] == ["length", "tool_calls"]


def test_an_error_in_place_of_a_chunk() -> None:
    failure = Failure(message="gone", status=502, code="stream_dropped")
    [frame] = take_apart(make_encoder("openai-chat", HEAD).fail(failure))
    error = {"message": "gone", "type": "server_error", "param": None, "code": "stream_dropped"}
    assert frame == ("", {"error": error})


def test_progress_stands_beside_no_choices() -> None:
    encoder = make_encoder("openai-chat", HEAD)
    encoder.begin()
    [chunk] = payloads(encoder.report({"tool": "weather"}))
    assert chunk == {**CHUNK, "choices": [], "wholecall": {"tool": "weather"}}
    assert encoder.keep_alive().startswith(b":")


def test_other_fields_cannot_break_a_chunk() -> None:
    head = ResponseHead(id="a", model="m", rest={"choices": [1], "usage": {}, "id": "b", "x": 1})
    stream = make_encoder("openai-chat", head, style=LIVE).begin()
    [chunk] = payloads(stream)
    assert (stream.count(b'"choices":'), stream.count(b'"usage":')) == (1, 1)
    assert (chunk["id"], chunk["x"], chunk["usage"]) == ("a", 1, None)
    assert chunk["choices"][0]["delta"] == ROLE


def test_a_body() -> None:
    events = [
        Reasoning("a"),
        Reasoning("b", {"signature": "s"}),
        Reasoning("", DETAILS),
        Text("Hi"),
        *grown(SIGNED),
        Text(" you"),
        ProviderBlock({"type": "x"}),
        ended("tool_calls", "tool_use"),
    ]
    message = {
        "role": "assistant",
        "content": "Hi you",
        "reasoning_content": "ab",
        **DETAILS,
        "tool_calls": [{**CALL, "thought_signature": "s"}],
    }
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": "tool_calls",
        "native_finish_reason": "tool_use",
    }
    body = encode_answer("openai-chat", events, head=HEAD)
    assert body == {**CHUNK, "object": "chat.completion", "choices": [choice]}


def test_a_body_with_choices_and_its_cost() -> None:
    events = [*of_choice(2, [ended()]), *of_choice(1, [Text("Ho"), ended()]), ended(), Usage(3, 4)]
    body = encode_answer("openai-chat", events, head=HEAD)
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2]
    assert body["choices"][0]["message"] == ROLE
    assert body["choices"][1]["message"]["content"] == "Ho"
    assert body["usage"]["total_tokens"] == 7


@pytest.mark.parametrize(
    ("body", "usage", "functions"),
    [
        ({}, False, False),
        ({"stream_options": {"include_usage": True}}, True, False),
        ({"stream_options": {"include_usage": False}}, False, False),
        ({"stream_options": "include_usage"}, False, False),
        ({"functions": [{"name": "f"}]}, False, True),
        ({"functions": [{"name": "f"}], "tools": [{"type": "function"}]}, False, False),
    ],
)
def test_a_client_says_how_it_reads_a_stream(
    body: dict[str, Any], *, usage: bool, functions: bool
) -> None:
    style = read_style(body)
    assert (style.usage, style.functions) == (usage, functions)
