"""The arguments of a healthy call pass in the bytes that the model wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from encoded_answers import CLIENTS, HEAD, encode, ended, make_call, payloads
from wholecall.events import Event, Released
from wholecall.messages import PastCall, ToolSpec
from wholecall.protocols.reader import Reader
from wholecall.protocols.registry import decode_request, encode_answer, encode_request

RAW = '{ "city": "Oslo",\n  "days": 2.50 }'
CALL = make_call(arguments={"city": "Oslo", "days": 2.5}, raw=RAW)
ANSWER: list[Event] = [Released(CALL), ended("tool_calls")]
OFFER = [ToolSpec("weather")]
# Whole answers of Anthropic's hold objects; all other forms hold text.
TEXTS = ("openai-chat", "openai-responses")
FIELDS = ("arguments", "partial_json")


def texts_in(value: Any) -> list[str]:
    """The texts of arguments in an answer, in order."""
    if isinstance(value, list):
        return [text for each in value for text in texts_in(each)]
    if not isinstance(value, dict):
        return []
    own = [value[field] for field in FIELDS if value.get(field)]
    return own or [text for each in value.values() for text in texts_in(each)]


def read(upstream: str, *, stream: bool) -> list[Event]:
    reader = Reader(upstream, OFFER)
    if stream:
        return [*reader.feed(encode(upstream, ANSWER)), *reader.end()]
    body = encode_answer(upstream, ANSWER, head=HEAD)
    return [*reader.feed_response(json.dumps(body)), *reader.end()]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("upstream", CLIENTS)
def test_a_stream_hands_on_what_the_model_wrote(client: str, upstream: str) -> None:
    written = texts_in(payloads(encode(client, read(upstream, stream=True))))
    assert set(written) == {RAW}


@pytest.mark.parametrize("client", TEXTS)
@pytest.mark.parametrize(
    ("upstream", "stream"),
    [(upstream, stream) for upstream in TEXTS for stream in (True, False)] + [("anthropic", True)],
)
def test_a_whole_answer_has_what_the_model_wrote(
    client: str, upstream: str, *, stream: bool
) -> None:
    body = encode_answer(client, read(upstream, stream=stream), head=HEAD)
    assert texts_in(body) == [RAW]


CHAT_CALL = {"id": "a", "type": "function", "function": {"name": "weather", "arguments": RAW}}
PAST: dict[str, dict[str, Any]] = {
    "openai-chat": {"messages": [{"role": "assistant", "tool_calls": [CHAT_CALL]}]},
    "openai-responses": {
        "input": [{"type": "function_call", "call_id": "a", "name": "weather", "arguments": RAW}]
    },
}


@pytest.mark.parametrize("client", TEXTS)
@pytest.mark.parametrize("upstream", TEXTS)
def test_a_call_in_the_history_is_sent_as_it_was_written(client: str, upstream: str) -> None:
    request = decode_request(client, {"model": "m", **PAST[client]})
    assert texts_in(encode_request(upstream, request)) == [RAW]


@pytest.mark.parametrize(
    ("says", "arguments", "expected"),
    [
        ("an object has no text", {"x": 1}, '{"x":1}'),
        ("a string of JSON is not the text of an object", '"{\\"x\\": 1}"', '{"x":1}'),
        ("text that is no object is not kept", "[1]", "{}"),
        ("blank text is no object", " ", "{}"),
    ],
)
def test_other_arguments_are_written_anew(says: str, arguments: Any, *, expected: str) -> None:
    function = {"name": "weather", "arguments": arguments}
    call = {"id": "a", "type": "function", "function": function}
    body = {"model": "m", "messages": [{"role": "assistant", "tool_calls": [call]}]}
    request = decode_request("openai-chat", body)
    [past] = [part for part in request.messages[0].parts if isinstance(part, PastCall)]
    assert past.raw == "", says
    assert texts_in(encode_request("openai-responses", request)) == [expected], says
