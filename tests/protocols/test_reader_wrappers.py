"""OpenAI's wrapper around calls, as a native call of each protocol, streamed and whole."""

from __future__ import annotations

import json
from typing import Any

import pytest

from protocols.test_reader_usual_answers import ARGUMENTS, STREAMS, TEXT, WHOLE
from wholecall.events import Event, collect
from wholecall.messages import PastCall
from wholecall.protocols.history import answer_message
from wholecall.protocols.reader import Reader
from wholecall.protocols.registry import NAMES

TOOLS = [
    {"name": "weather", "parameters": {"type": "object", "properties": {"city": {}}}},
    {"name": "now", "parameters": {"type": "object", "properties": {}}},
]
HELD = {
    "tool_uses": [
        {"recipient_name": "functions.weather", "parameters": ARGUMENTS},
        {"recipient_name": "functions.now", "parameters": {}},
    ]
}
CUT = json.dumps(HELD)[:-30]


def wrap(payload: Any, text: str = json.dumps(HELD)) -> Any:
    """The same payload with the wrapper in the place of its call."""
    if isinstance(payload, dict):
        return (
            {key: wrap(value, text) for key, value in payload.items()}
            if (payload != ARGUMENTS)
            else HELD
        )
    if isinstance(payload, list):
        return [wrap(each, text) for each in payload]
    if isinstance(payload, bytes):
        return json.dumps(wrap(json.loads(payload), text)).encode()
    return {"weather": "multi_tool_use.parallel", TEXT: text}.get(payload, payload)


def stream(protocol: str, text: str = json.dumps(HELD)) -> list[Event]:
    reader = Reader(protocol, TOOLS)
    events = [event for chunk in STREAMS[protocol] for event in reader.feed(wrap(chunk, text))]
    return [*events, *reader.end()]


def whole(protocol: str) -> list[Event]:
    reader = Reader(protocol, TOOLS)
    return [*reader.feed_response(wrap(WHOLE[protocol])), *reader.end()]


@pytest.mark.parametrize("read", [stream, whole])
@pytest.mark.parametrize("protocol", NAMES)
def test_a_wrapper_becomes_its_calls(protocol: str, read: Any) -> None:
    outcome = collect(read(protocol))
    called = [(call.name, call.arguments) for call in outcome.calls]
    assert called == [("weather", ARGUMENTS), ("now", {})]
    assert (outcome.rejected, outcome.finish_reason) == ((), "tool_calls")
    first, second = outcome.calls
    assert second.provider_id == (first.provider_id and f"{first.provider_id}_2")
    assert first.id != second.id


@pytest.mark.parametrize("read", [stream, whole])
@pytest.mark.parametrize("protocol", NAMES)
def test_the_history_holds_the_calls_and_not_the_wrapper(protocol: str, read: Any) -> None:
    events = read(protocol)
    past = [each for each in answer_message(events, protocol).parts if isinstance(each, PastCall)]
    made = collect(events).calls
    assert [(call.id, call.name) for call in past] == [(call.id, call.name) for call in made]


@pytest.mark.parametrize("protocol", sorted(set(NAMES) - {"gemini", "ollama"}))
def test_a_cut_wrapper_runs_nothing(protocol: str) -> None:
    outcome = collect(stream(protocol, CUT))
    assert outcome.calls == ()
    assert [each.reason.value for each in outcome.rejected] == ["truncated"]
