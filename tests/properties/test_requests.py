"""Laws of requests: nothing that a protocol can carry is lost, and every history is accepted."""

from __future__ import annotations

import copy
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conversations import TOOLS, Portable, bare, messes, requests, told
from example_counts import examples
from wholecall.messages import Message, Request, Role
from wholecall.protocols.history_repair import repair_history
from wholecall.protocols.registry import decode_request, encode_request
from wholecall.protocols.response_base import dump

CLIENTS = ("openai-chat", "openai-responses", "anthropic")
UPSTREAMS = (*CLIENTS, "ollama", "gemini")
MODELS = ("claude-opus-4-7", "gpt-5", "mistral-large", "deepseek-chat", "gemini-3-pro", "llama")
HISTORY = {"openai-chat": "messages", "openai-responses": "input", "anthropic": "messages"}


@pytest.mark.parametrize("protocol", CLIENTS)
@settings(max_examples=examples(50))
@given(data=st.data())
def test_what_a_protocol_can_carry_comes_back(protocol: str, data: st.DataObject) -> None:
    request = data.draw(requests(protocol))
    assert bare(decode_request(protocol, encode_request(protocol, request))) == request


@pytest.mark.parametrize("protocol", CLIENTS)
@settings(max_examples=examples(50))
@given(data=st.data())
def test_what_was_read_goes_out_as_it_came_in(protocol: str, data: st.DataObject) -> None:
    body = encode_request(protocol, data.draw(requests(protocol)))
    assert encode_request(protocol, decode_request(protocol, body)) == body


@pytest.mark.parametrize("through", ["anthropic", "openai-responses"])
@settings(max_examples=examples(50))
@given(request=requests("openai-chat", carried=Portable()))
def test_a_conversation_survives_another_protocol(through: str, request: Request) -> None:
    there = decode_request(through, encode_request(through, request))
    back = decode_request("openai-chat", encode_request("openai-chat", there))
    assert told(back) == told(request)


@pytest.mark.parametrize("protocol", CLIENTS)
@settings(max_examples=examples(50))
@given(messages=messes, model=st.sampled_from(MODELS))
def test_every_history_is_accepted(
    protocol: str, messages: tuple[Message, ...], *, model: str
) -> None:
    body = encode_request(protocol, Request(model=model, messages=messages, tools=TOOLS))
    assert is_accepted(protocol, body)
    read = decode_request(protocol, body)
    assert encode_request(protocol, read) == body
    assert all(is_accepted(other, encode_request(other, read)) for other in CLIENTS)


@pytest.mark.parametrize("upstream", UPSTREAMS)
@settings(max_examples=examples(30))
@given(client=st.sampled_from(CLIENTS), model=st.sampled_from(MODELS), data=st.data())
def test_a_longer_conversation_begins_with_the_bytes_of_the_shorter_one(
    upstream: str, client: str, *, model: str, data: st.DataObject
) -> None:
    """A provider's cache holds prompts by their beginnings."""
    drawn = data.draw(requests(client))
    before: tuple[bytes, list[bytes]] | None = None
    for end in where_clients_ask(drawn.messages):
        asked = replace(drawn, messages=drawn.messages[:end])
        read = replace(decode_request(client, encode_request(client, asked)), model=model)
        read = replace(read, marks_cache=True)
        head, prompt = take_prompt(upstream, encode_request(upstream, read))
        if before is not None:
            assert before[0] == head
            assert before[1] == prompt[: len(before[1])]
        before = head, prompt


def where_clients_ask(messages: tuple[Message, ...]) -> list[int]:
    """The lengths at which a conversation is sent: after the user's words, and after results."""
    ends = [at for at, message in enumerate(messages, 1) if message.role in (Role.USER, Role.TOOL)]
    roles = [*(message.role for message in messages), None]
    return [end for end in ends if roles[end] is not Role.TOOL]


def take_prompt(protocol: str, body: dict[str, Any]) -> tuple[bytes, list[bytes]]:
    """What comes before the messages, and the messages; of Anthropic's, the blocks in them."""
    field = {**HISTORY, "ollama": "messages", "gemini": "contents"}[protocol]
    head = {name: value for name, value in body.items() if name != field}
    messages: list[Any] = body[field]
    if protocol == "anthropic":
        # The mark moves with the end of the conversation; what is cached is the text before it.
        messages = [
            (each["role"], {key: block[key] for key in block if key != "cache_control"})
            for each in messages
            for block in blocks_of(each)
        ]
    return dump(head), [dump(message) for message in messages]


def blocks_of(message: dict[str, Any]) -> list[Any]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def is_accepted(protocol: str, body: dict[str, Any]) -> bool:
    history: list[Any] = body[HISTORY[protocol]]
    return repair_history(protocol, history) == history


@settings(max_examples=examples(50))
@given(messages=messes)
def test_each_call_to_gemini_has_a_response_behind_it(messages: tuple[Message, ...]) -> None:
    contents = encode_request("gemini", Request(model="gemini-3", messages=messages))["contents"]
    for content, behind in pairwise([*contents, {"parts": []}]):
        called = names_in(content, "functionCall")
        if called:
            assert names_in(behind, "functionResponse") == called
            assert "thoughtSignature" in next(p for p in content["parts"] if "functionCall" in p)


@settings(max_examples=examples(50))
@given(messages=messes)
def test_each_call_to_ollama_has_a_result_behind_it(messages: tuple[Message, ...]) -> None:
    wire = encode_request("ollama", Request(model="m", messages=messages))["messages"]
    for at, message in enumerate(wire):
        calls = message.get("tool_calls", [])
        behind = wire[at + 1 : at + 1 + len(calls)]
        assert [each.get("tool_call_id") for each in behind] == [call["id"] for call in calls]
    called = sum(len(message.get("tool_calls", [])) for message in wire)
    assert sum(message["role"] == "tool" for message in wire) == called


@pytest.mark.parametrize("protocol", UPSTREAMS)
@settings(max_examples=examples(50))
@given(data=st.data())
def test_nothing_is_changed_and_nothing_shared(protocol: str, data: st.DataObject) -> None:
    client = data.draw(st.sampled_from(CLIENTS))
    body = encode_request(client, data.draw(requests(client)))
    before = copy.deepcopy(body)
    request = decode_request(client, body)
    written = encode_request(protocol, request)
    again = copy.deepcopy(written)
    assert body == before
    spoil(body)
    assert encode_request(protocol, request) == again
    spoil(written)
    assert encode_request(protocol, request) == again


def names_in(content: dict[str, Any], key: str) -> list[str]:
    return [part[key]["name"] for part in content["parts"] if key in part]


def spoil(value: Any) -> None:
    """Change everything that can be changed."""
    if isinstance(value, dict):
        for each in value.values():
            spoil(each)
        value.clear()
    elif isinstance(value, list):
        for each in value:
            spoil(each)
        value.clear()
