from typing import Any

import pytest

from wholecall.errors import UnknownProtocol, UnreadableRequest
from wholecall.events import Reasoning, Text
from wholecall.messages import Message, PastCall, Request, Role
from wholecall.protocols.history import Target
from wholecall.protocols.openai_chat.history import MISTRAL
from wholecall.protocols.registry import decode_request, encode_request, limit_of

REQUEST = Request(
    model="m",
    messages=(
        Message(Role.USER, (Text("hi"),)),
        Message(Role.ASSISTANT, (Reasoning("hm"), Text("ho"))),
    ),
)


@pytest.mark.parametrize(
    "protocol", ["openai-chat", "openai-responses", "anthropic", "ollama", "gemini"]
)
def test_each_protocol_writes_a_request(protocol: str) -> None:
    assert "hi" in str(encode_request(protocol, REQUEST))


@pytest.mark.parametrize("protocol", ["openai-chat", "openai-responses", "anthropic"])
def test_each_client_protocol_reads_one(protocol: str) -> None:
    read = decode_request(protocol, encode_request(protocol, REQUEST))
    assert [message.text for message in read.messages] == ["hi", "ho"]


def test_the_target_decides_over_the_name() -> None:
    said = encode_request("openai-chat", REQUEST, target=MISTRAL)["messages"][1]
    assert said == {"role": "assistant", "content": "ho"}
    said = encode_request("openai-chat", REQUEST, target=Target())["messages"][1]
    assert said == {"role": "assistant", "content": "ho", "reasoning_content": "hm"}


def test_other_protocols_are_unknown() -> None:
    with pytest.raises(UnknownProtocol, match="'smoke' is none of 'openai-chat'"):
        encode_request("smoke", REQUEST)
    with pytest.raises(UnknownProtocol, match="'gemini' is none of"):
        decode_request("gemini", {})


@pytest.mark.parametrize("body", [[], "hi", None])
def test_a_body_is_an_object(body: Any) -> None:
    with pytest.raises(UnreadableRequest) as caught:
        decode_request("openai-chat", body)
    assert caught.value.param == ""


@pytest.mark.parametrize(
    "protocol", ["openai-chat", "openai-responses", "anthropic", "ollama", "gemini"]
)
def test_a_call_of_what_does_not_exist_gets_a_legal_name(protocol: str) -> None:
    call = PastCall(id="a", name="functions.f:0", arguments={})
    request = Request(model="m", messages=(Message(Role.ASSISTANT, (call,)),))
    written = str(encode_request(protocol, request))
    assert "functions_f_0" in written
    assert "functions.f:0" not in written


@pytest.mark.parametrize(
    ("protocol", "asked", "limit"),
    [
        ("openai-chat", None, None),
        ("openai-chat", 5, 5),
        ("anthropic", None, 8192),  # of a model that is not known
        ("anthropic", 5, 5),
        ("bedrock-converse", None, None),
    ],
)
def test_a_limit_is_the_requests_own_or_what_the_protocol_demands(
    protocol: str, asked: int | None, *, limit: int | None
) -> None:
    assert limit_of(protocol, Request(model="m", messages=(), max_tokens=asked)) == limit
