"""Answers for clients from before there were `tool_calls`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from encoded_answers import HEAD, grown, make_call
from wholecall.events import Ended, Event, Hint, Released, Text
from wholecall.protocols.reader import Reader
from wholecall.protocols.registry import encode_answer, make_encoder
from wholecall.protocols.response_base import ResponseStyle

CALL = make_call()
CALLED = {"name": "weather", "arguments": '{"city":"Oslo"}'}
ENDED = Ended("tool_calls", Hint.TOOL_CALLS, "tool_calls", None)
ANSWER: list[Event] = [Text("Let me look."), *grown(CALL), ENDED]


def stream(events: list[Event], *, live: bool) -> list[dict[str, Any]]:
    style = ResponseStyle(functions=True, live=live, usage=False)
    encoder = make_encoder("openai-chat", HEAD, style=style)
    written = b"".join([*map(encoder.encode, events), encoder.finish()]).decode()
    return [json.loads(line[6:]) for line in written.splitlines() if line.startswith("data: {")]


@pytest.mark.parametrize("live", [False, True], ids=["gated", "live"])
def test_a_stream_has_one_call_without_an_id(live: bool) -> None:
    choices = [chunk["choices"][0] for chunk in stream(ANSWER, live=live)]
    assert not any("tool_calls" in choice["delta"] for choice in choices)
    calls = [choice["delta"].get("function_call", {}) for choice in choices]
    assert [call["name"] for call in calls if "name" in call] == ["weather"]
    arguments = "".join(call.get("arguments", "") for call in calls)
    assert json.loads(arguments) == {"city": "Oslo"}
    assert [choice["finish_reason"] for choice in choices if choice["finish_reason"]] == [
        "function_call"
    ]


def test_what_is_written_can_be_read() -> None:
    reader = Reader("openai-chat")
    events = [event for chunk in stream(ANSWER, live=True) for event in reader.feed(chunk)]
    [released] = [event for event in [*events, *reader.end()] if isinstance(event, Released)]
    assert (released.call.name, released.call.arguments) == (CALL.name, CALL.arguments)


def test_a_body_has_one_call_without_an_id() -> None:
    [choice] = encode_answer("openai-chat", ANSWER, head=HEAD, functions=True)["choices"]
    content = {"role": "assistant", "content": "Let me look."}
    assert choice["message"] == {**content, "function_call": CALLED}
    assert choice["finish_reason"] == "function_call"


def test_an_answer_without_a_call_is_as_ever() -> None:
    events: list[Event] = [Text("Rain."), Ended("stop", Hint.STOP, "stop", None)]
    body = encode_answer("openai-chat", events, head=HEAD, functions=True)
    assert body == encode_answer("openai-chat", events, head=HEAD)
    assert stream(events, live=False)[-1]["choices"][0]["finish_reason"] == "stop"
