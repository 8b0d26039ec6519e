import pytest

from wholecall.errors import UnknownProtocol
from wholecall.protocols.decoder import find_entry

TABLE = {"openai-chat": 1, "anthropic": 2}


def test_a_protocol_has_its_entry() -> None:
    assert find_entry(TABLE, "anthropic") == 2


def test_one_without_an_entry_is_told_which_there_are() -> None:
    with pytest.raises(UnknownProtocol, match="protocol 'gopher' is none of 'openai-chat', 'anth"):
        find_entry(TABLE, "gopher")
