"""Calls of OpenAI's custom tools are handed on as they are, and only whole."""

from __future__ import annotations

from typing import Any

import pytest

from wholecall.arguments.limits import DEFAULT
from wholecall.events import Event, Fault, OfChoice, ProviderBlock, Rejected, Released
from wholecall.protocols.reader import Reader
from wholecall.protocols.registry import encode_answer, make_encoder
from wholecall.protocols.response_base import ResponseHead

HEAD = ResponseHead(id="a", model="m")
PATCH = {"id": "call_1", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}
SHELL = {"id": "call_2", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
FUNCTION = {"id": "call_3", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def whole(*calls: Any, finish: str | None = "tool_calls") -> list[Event]:
    message = {"role": "assistant", "content": None, "tool_calls": list(calls)}
    reader = Reader("openai-chat")
    body = {"choices": [{"message": message, "finish_reason": finish}]}
    return [*reader.feed_response(body), *reader.end()]


def piece(index: int, **custom: str) -> dict[str, Any]:
    return {"index": index, "custom": custom}


def streamed(*entries: Any, finish: str | None = "tool_calls", choice: int = 0) -> list[Event]:
    deltas = [({"tool_calls": [entry]}, None) for entry in entries]
    chunks: list[Any] = [
        {"choices": [{"index": choice, "delta": delta, "finish_reason": reason}]}
        for delta, reason in [*deltas, ({}, finish)]
    ]
    reader = Reader("openai-chat")
    events = [event for chunk in [*chunks, "data: [DONE]\n\n"] for event in reader.feed(chunk)]
    return [*events, *reader.end()]


def blocks(events: list[Event]) -> list[Any]:
    return [event.native for event in events if isinstance(event, ProviderBlock)]


IN_PIECES = [
    {"index": 0, "id": "call_1", "type": "custom", "custom": {"name": "patch", "input": ""}},
    piece(0, input="*** "),
    {"index": 1, "id": "call_2", "type": "custom", "custom": {"name": "shell", "input": "ls"}},
    piece(0, input="Begin"),
]


@pytest.mark.parametrize("events", [whole(PATCH, SHELL), streamed(*IN_PIECES)])
def test_they_are_put_together(events: list[Event]) -> None:
    assert blocks(events) == [PATCH, SHELL]
    body = encode_answer("openai-chat", events, head=HEAD)
    [choice] = body["choices"]
    assert choice["message"]["tool_calls"] == [PATCH, SHELL]
    assert choice["finish_reason"] == "tool_calls"
    encoder = make_encoder("openai-chat", HEAD)
    stream = b"".join([*map(encoder.encode, events), encoder.finish()])
    reader = Reader("openai-chat")
    assert blocks([*reader.feed(stream), *reader.end()]) == [PATCH, SHELL]
    assert b'"finish_reason":"tool_calls"' in stream


def test_other_calls_beside_them_are_calls() -> None:
    events = whole(PATCH, FUNCTION, None)
    assert blocks(events) == [PATCH]
    assert [event.call.id for event in events if isinstance(event, Released)] == ["call_3"]


EMPTY = {"name": "", "input": ""}


@pytest.mark.parametrize("custom", [EMPTY, {}, None])
@pytest.mark.parametrize("arguments", ['{"a":1}', "{}"])
def test_an_empty_one_beside_a_function_is_none(custom: Any, arguments: str) -> None:
    entry = {"id": "call_4", "function": {"name": "f", "arguments": arguments}, "custom": custom}
    first = {"index": 0, "id": "call_4", "function": {"name": "f"}, "custom": custom}
    last = {"index": 0, "function": {"arguments": arguments}, "custom": custom}
    silent = {"index": 0, "function": {"name": "", "arguments": ""}, "custom": custom}
    for events in (whole(entry), streamed({"index": 0, **entry}), streamed(first, silent, last)):
        [call] = [event.call for event in events if isinstance(event, Released)]
        assert (call.id, call.raw, blocks(events)) == ("call_4", arguments, [])


def test_an_empty_function_beside_one_is_none() -> None:
    function = {"name": "", "arguments": ""}
    entries = [{**entry, "function": function} for entry in IN_PIECES]
    entries.append({"index": 0, "function": function, "custom": EMPTY})
    events = streamed(*entries)
    assert blocks(events) == [PATCH, SHELL]
    assert not [event for event in events if isinstance(event, Released | Rejected)]


@pytest.mark.parametrize(
    ("finish", "left"),
    [
        ("stop", [PATCH, SHELL]),
        (None, [PATCH, SHELL]),
        ("length", [PATCH]),
        ("content_filter", []),
        ("error", []),
    ],
)
def test_what_may_be_cut_is_not_handed_on(finish: str | None, left: list[Any]) -> None:
    assert blocks(whole(PATCH, SHELL, finish=finish)) == left


def test_a_stream_that_broke_off_has_none() -> None:
    reader = Reader("openai-chat")
    entry = {"index": 0, **PATCH}
    events = reader.feed({"choices": [{"index": 0, "delta": {"tool_calls": [entry]}}]})
    assert blocks([*events, *reader.end()]) == []


def test_each_choice_has_its_own() -> None:
    events = streamed({"index": 0, **PATCH, "id": 7}, choice=1, finish=None)
    others = [event.value for event in events if isinstance(event, OfChoice)]
    assert blocks(others) == [{**PATCH, "id": "7"}]
    assert blocks(events) == []


def test_they_are_not_without_number() -> None:
    events = whole(*[PATCH] * (DEFAULT.blocks + 1))
    assert any(isinstance(event, Fault) and "custom calls" in event.message for event in events)


def test_other_protocols_have_no_place_for_them() -> None:
    body = encode_answer("anthropic", whole(PATCH), head=HEAD, upstream="openai-chat")
    assert body["content"] == []
    encoder = make_encoder("anthropic", HEAD)
    stream = b"".join([*map(encoder.encode, whole(PATCH)), encoder.finish()])
    assert b'"stop_reason":"end_turn"' in stream
