"""The bodies of requests are what the SDKs of OpenAI and Anthropic would send."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from anthropic.types.message_create_params import MessageCreateParams
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat.completion_create_params import CompletionCreateParams
from openai.types.responses.response_create_params import ResponseCreateParams
from pydantic import TypeAdapter, ValidationError

from conversations import CARRIED, messes, requests
from example_counts import examples
from wholecall.messages import Request
from wholecall.protocols.registry import encode_request

TYPES: dict[str, Any] = {
    "openai-chat": CompletionCreateParams,
    "openai-responses": ResponseCreateParams,
    "anthropic": MessageCreateParams,
}


@cache
def adapter(protocol: str) -> TypeAdapter[Any]:
    return TypeAdapter(TYPES[protocol])


def check(protocol: str, body: dict[str, Any]) -> None:
    exhaust(adapter(protocol).validate_python(body))


def exhaust(value: Any) -> None:
    """Look at everything: pydantic checks what is declared as an iterable when it is read."""
    if isinstance(value, Mapping):
        for each in value.values():
            exhaust(each)
    elif isinstance(value, list | Iterator) or type(value).__name__ == "ValidatorIterator":
        for each in value:
            exhaust(each)


@pytest.mark.parametrize("protocol", TYPES)
@settings(max_examples=examples(40))
@given(data=st.data())
def test_a_request_fits_the_sdk(protocol: str, data: st.DataObject) -> None:
    client = data.draw(st.sampled_from(sorted(CARRIED)))
    request = replace(data.draw(requests(client)), rest=None, model=CARRIED[protocol].model)
    check(protocol, encode_request(protocol, request))


@pytest.mark.parametrize("protocol", TYPES)
@settings(max_examples=examples(40))
@given(messages=messes)
def test_and_so_does_one_whose_history_had_to_be_mended(protocol: str, messages: Any) -> None:
    check(protocol, encode_request(protocol, Request(model="claude-x", messages=messages)))


@pytest.mark.parametrize(
    ("protocol", "history"),
    [
        ("openai-chat", {"messages": [{"role": "tool", "content": "no call"}]}),
        ("openai-responses", {"input": [{"type": "function_call", "name": 1}]}),
        ("anthropic", {"messages": [{"role": "user", "content": [{"type": "text"}]}]}),
    ],
)
def test_the_check_finds_what_is_wrong_in_a_history(protocol: str, history: Any) -> None:
    with pytest.raises(ValidationError):
        check(protocol, {"model": "m", "max_tokens": 1, "stream": True, **history})
