import subprocess
import sys

import pytest

from wholecall.errors import UnknownProtocol
from wholecall.protocols.registry import (
    CLIENTS,
    NAMES,
    client_side,
    find_part,
    find_protocol,
    upstream_side,
)


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
