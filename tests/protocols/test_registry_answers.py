import pytest

from encoded_answers import CLIENTS, HEAD, ended
from wholecall.errors import UnknownProtocol
from wholecall.protocols.registry import encode_answer, encode_failure, make_encoder
from wholecall.protocols.response_base import Failure


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
