import pytest

from wholecall.arguments.limits import DEFAULT
from wholecall.errors import ProtocolError
from wholecall.events import CallDelta, CallSealed, Fault, FaultKind, ProviderBlock
from wholecall.protocols.decoder import GrowingBlock, OpenBlocks, Pieces


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
    native: dict[str, object], deltas: list[tuple[str, str]], *, whole: dict[str, object]
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


def test_a_list_grows_within_the_limit() -> None:
    block = GrowingBlock({}, "toolResult")
    block.extend("content", [{"text": "a"}])
    block.extend("content", [{"text": "b"}])
    with pytest.raises(ProtocolError, match="field 'content' of a provider's block has more than"):
        block.extend("content", ["c" * DEFAULT.characters])
    content = [{"text": "a"}, {"text": "b"}]
    assert block.finish() == ProviderBlock({"toolResult": {"content": content}})


def test_what_is_no_list_does_not_go_on_as_one() -> None:
    with pytest.raises(ProtocolError, match=r"field 'content'.*goes on as a list"):
        GrowingBlock({"content": "a"}).extend("content", ["b"])


# ── Blocks ──────────────────────────────────────────────────────────────────────────


def test_a_call_and_a_block_of_the_provider_stop_in_their_own_way() -> None:
    blocks = OpenBlocks("tool_use")
    blocks.open_call(0)
    blocks.open_other(1, GrowingBlock({"type": "x"}))
    assert (blocks.growing(0), blocks.growing(1) is None) == (None, False)
    assert list(blocks.add_input(0, "{")) == [CallDelta(0, "{")]
    assert list(blocks.stop(0)) == [CallSealed(0)]
    assert list(blocks.stop(1)) == [ProviderBlock({"type": "x"})]
    assert list(blocks.stop(1)) == []


def test_input_for_what_is_no_call_is_a_fault_and_a_call() -> None:
    blocks = OpenBlocks("tool_use")
    fault = Fault(FaultKind.PROTOCOL, "input for content block 3, which is no tool_use")
    assert list(blocks.add_input(3, "{")) == [fault, CallDelta(3, "{", opens=True)]
    assert list(blocks.add_input(3, "}")) == [CallDelta(3, "}")]


def test_a_place_may_be_used_again() -> None:
    blocks = OpenBlocks("tool_use")
    blocks.open_other(0, GrowingBlock({}))
    blocks.open_call(0)
    assert blocks.growing(0) is None
    blocks.open_words(0)
    assert list(blocks.stop(0)) == []


def test_more_blocks_than_the_limit_are_an_error() -> None:
    blocks = OpenBlocks("tool_use")
    for index in range(DEFAULT.blocks):
        blocks.open_call(index)
    with pytest.raises(ProtocolError, match="more than 1024 content blocks"):
        blocks.open_other(DEFAULT.blocks, GrowingBlock({}))
