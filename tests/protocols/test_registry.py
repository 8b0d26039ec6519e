import subprocess
import sys
from typing import Any

import pytest

from encoded_answers import HEAD, ended
from wholecall.errors import UnknownProtocol, UnreadableRequest
from wholecall.events import Reasoning, Text
from wholecall.messages import Message, PastCall, Request, Role
from wholecall.protocols.history import Target
from wholecall.protocols.openai_chat.history import MISTRAL
from wholecall.protocols.registry import (
    CLIENTS,
    NAMES,
    client_side,
    decode_request,
    encode_answer,
    encode_failure,
    encode_request,
    find_part,
    find_protocol,
    limit_of,
    make_encoder,
    upstream_side,
)
from wholecall.protocols.response_base import Failure


@pytest.mark.parametrize("name", NAMES)
def test_a_protocol_is_found_by_the_name_in_its_record(name: str) -> None:
    assert find_protocol(name).name == name


@pytest.mark.parametrize("name", NAMES)
def test_each_answer_has_a_decoder_and_a_framing_of_its_own(name: str) -> None:
    record = find_protocol(name)
    assert record.decoder() is not record.decoder()
    assert record.framing() is not record.framing()


def test_the_protocols_of_clients_are_those_that_can_be_served() -> None:
    assert {name for name in NAMES if find_protocol(name).client} == set(CLIENTS)


def test_an_unknown_name_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(
        UnknownProtocol, match=r"'openai' is none of 'openai-chat', 'openai-responses', 'anth"
    ):
        find_protocol("openai")


@pytest.mark.parametrize("name", ["gopher", "bedrock-converse"])
def test_a_protocol_without_a_part_is_an_error_that_names_those_that_have_it(name: str) -> None:
    known = "'openai-chat', 'openai-responses', 'anthropic'"
    with pytest.raises(UnknownProtocol, match=f"{name!r} is none of {known}$"):
        client_side(name)
    asked = f"{known}, 'ollama', 'gemini', 'bedrock-invoke', 'cohere', 'gemini-interactions'"
    with pytest.raises(UnknownProtocol, match=f"{name!r} is none of {asked}$"):
        upstream_side(name)
    with pytest.raises(UnknownProtocol, match=f"{name!r} is none of {known}$"):
        find_part(name, lambda record: record.choice)


def test_a_protocol_is_imported_when_it_is_first_used() -> None:
    program = """
import sys
from wholecall.protocols.registry import find_protocol
def loaded(): return sorted(m for m in sys.modules if m.startswith("wholecall.protocols.ollama"))
print(loaded(), end=" ")
find_protocol("ollama")
print("wholecall.protocols.ollama" in loaded())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.decode().split() == ["[]", "True"]


# ── Answers ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("protocol", CLIENTS)
def test_every_protocol_is_known_in_every_table(protocol: str) -> None:
    assert make_encoder(protocol, HEAD).begin()
    assert encode_answer(protocol, [ended()], head=HEAD)["id"] == HEAD.id
    assert encode_failure(protocol, Failure(message="no"))["error"]["message"] == "no"


def test_another_protocol_is_named_with_those_that_are_known() -> None:
    with pytest.raises(UnknownProtocol, match="'gemini' is none of 'openai-chat', "):
        make_encoder("gemini", HEAD)
    with pytest.raises(UnknownProtocol):
        encode_answer("gemini", [ended()], head=HEAD)
    with pytest.raises(UnknownProtocol):
        encode_failure("gemini", Failure(message="no"))


# ── Requests ────────────────────────────────────────────────────────────────────────────

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
