import pytest

from wholecall.core.limits import DEFAULT
from wholecall.core.values import ProviderBlock
from wholecall.errors import ProtocolError
from wholecall.protocols.pieces import GrowingBlock, Pieces


def test_pieces_are_joined_in_order() -> None:
    pieces = Pieces("a test")
    assert pieces.join() == ""
    pieces.add("a")
    pieces.add("b")
    assert pieces.join() == "ab"


def test_more_than_the_limit_is_an_error_that_says_of_what() -> None:
    pieces = Pieces("a test")
    pieces.add("a" * DEFAULT.characters)
    with pytest.raises(ProtocolError, match=f"a test has more than {DEFAULT.characters} char"):
        pieces.add("b")


@pytest.mark.parametrize(
    ("native", "deltas", "whole"),
    [
        pytest.param(
            {"input": {}},
            [("partial_json", '{"q":'), ("partial_json", "1}")],
            {"input": {"q": 1}},
            id="the input is parsed when it is whole",
        ),
        pytest.param(
            {"input": {}},
            [("partial_json", '{"q":')],
            {"input": {}, "partial_json": '{"q":'},
            id="an input that was cut stays text",
        ),
        pytest.param(
            {"input": {}},
            [("partial_json", "[" * 100_000)],
            {"input": {}, "partial_json": "[" * 100_000},
            id="and one that is too deep",
        ),
        pytest.param(
            {"input": {"q": 1}},
            [("partial_json", "")],
            {"input": {"q": 1}},
            id="an empty piece changes nothing",
        ),
        pytest.param(
            {"content": None},
            [("content", "a"), ("content", "b")],
            {"content": "ab"},
            id="other fields grow as text",
        ),
        pytest.param(
            {"content": "a"}, [("content", "b")], {"content": "ab"}, id="after what they began with"
        ),
    ],
)
def test_a_block_grows(
    native: dict[str, object], deltas: list[tuple[str, str]], whole: dict[str, object]
) -> None:
    block = GrowingBlock(native)
    for field, text in deltas:
        block.grow(field, text)
    assert block.finish() == ProviderBlock(whole)


def test_a_block_leaves_its_source_alone() -> None:
    native: dict[str, object] = {"type": "x"}
    block = GrowingBlock(native)
    block.grow("content", "a")
    block.finish()
    assert native == {"type": "x"}
