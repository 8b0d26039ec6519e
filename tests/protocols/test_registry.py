import pytest

from wholecall.errors import UnknownProtocol
from wholecall.protocols.registry import FRAMINGS, PROTOCOLS, decoder_for, framing_for
from wholecall.protocols.sse_ndjson import NdjsonFraming, SseFraming


def test_every_protocol_has_a_decoder_and_a_framing() -> None:
    assert list(PROTOCOLS) == list(FRAMINGS)
    for name, decoder in PROTOCOLS.items():
        assert type(decoder_for(name)) is decoder
        assert type(framing_for(name)) in (SseFraming, NdjsonFraming)


def test_each_answer_has_a_decoder_of_its_own() -> None:
    assert decoder_for("anthropic") is not decoder_for("anthropic")


@pytest.mark.parametrize("look_up", [decoder_for, framing_for])
def test_an_unknown_name_is_an_error_that_names_the_known_ones(look_up: type) -> None:
    with pytest.raises(
        UnknownProtocol, match=r"'openai' is none of 'openai-chat', 'openai-responses', 'anth"
    ):
        look_up("openai")
