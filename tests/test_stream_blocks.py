"""`ContentBlockBuffer`: content blocks by their index, in pieces, until they stop."""

from functools import partial
from typing import Any

import pytest

from recut import every_cutting
from wholecall.dialects.rescue import parse_text
from wholecall.stream import ContentBlockBuffer


def test_a_block_is_whole_when_it_stops_and_not_before() -> None:
    for pieces in every_cutting('{"command": "ls"}'):
        buffer = ContentBlockBuffer()
        for piece in pieces:
            assert buffer.handle_content_block_delta(1, piece, tool_id="toolu_1") is True
        assert buffer.handle_content_block_stop(1) == {
            "type": "tool_use",
            "id": "toolu_1",
            "name": None,
            "input": {"command": "ls"},
        }
        assert buffer.handle_content_block_stop(1) is None  # once


def test_blocks_are_kept_apart() -> None:
    buffer = ContentBlockBuffer()
    buffer.handle_content_block_delta(0, '{"a"', "toolu_0", name="find")
    buffer.handle_content_block_delta(1, '{"b"', "toolu_1", name="list")
    buffer.handle_content_block_delta(0, ": 1}")
    buffer.handle_content_block_delta(1, ": 2}")
    stopped = [buffer.handle_content_block_stop(index) for index in (1, 0)]
    assert [(block or {})["input"] for block in stopped] == [{"b": 2}, {"a": 1}]
    assert [(block or {})["name"] for block in stopped] == ["list", "find"]
    assert [(block or {})["id"] for block in stopped] == ["toolu_1", "toolu_0"]


def test_the_texts_and_the_ids_of_the_blocks_can_be_read_and_not_changed() -> None:
    buffer = ContentBlockBuffer()
    buffer.handle_content_block_delta(1, '{"a"', "toolu_1")
    buffer.handle_content_block_delta(1, ": 1")
    assert (buffer.json_buffers, buffer.tool_ids) == ({1: '{"a": 1'}, {1: "toolu_1"})
    assert (buffer.attempt_count, buffer.max_attempts) == (0, 3)
    assert buffer.handle_content_block_stop(1) is None
    assert (buffer.json_buffers, buffer.tool_ids) == ({}, {1: "toolu_1"})
    assert buffer.attempt_count == 1
    with pytest.raises(TypeError):
        buffer.json_buffers[1] = "{}"  # type: ignore[index]
    with pytest.raises(TypeError):
        buffer.tool_ids[1] = "toolu_2"  # type: ignore[index]
    buffer.reset()
    assert buffer.tool_ids == {}


# what holds, the block's text, the name, the input
BLOCKS = [
    ("no text is no parameters", "", None, {}),
    (
        "a call written as JSON",
        '{"name": "bash", "input": {"command": "ls"}}',
        "bash",
        {"command": "ls"},
    ),
    ("in OpenAI's words", '{"name": "bash", "arguments": {}}', "bash", {}),
    ("in other words", '{"name": "bash", "parameters": {"x": 1}}', "bash", {"x": 1}),
    ("a parameter that is called name", '{"name": "Ada"}', None, {"name": "Ada"}),
    (
        "a parameter that is called input",
        '{"name": "Ada", "input": "x"}',
        None,
        {"name": "Ada", "input": "x"},
    ),
    ("a name that is no text", '{"name": 1, "input": {}}', None, {"name": 1, "input": {}}),
]


@pytest.mark.parametrize(
    ("text", "name", "arguments"), [row[1:] for row in BLOCKS], ids=[row[0] for row in BLOCKS]
)
def test_a_block_may_hold_its_own_name(
    text: str, name: str | None, *, arguments: dict[str, Any]
) -> None:
    buffer = ContentBlockBuffer()
    buffer.handle_content_block_delta(0, text, "toolu_1")
    block = buffer.handle_content_block_stop(0)
    assert block == {"type": "tool_use", "id": "toolu_1", "name": name, "input": arguments}


def test_a_name_from_outside_leaves_the_input_as_it_is() -> None:
    buffer = ContentBlockBuffer()
    buffer.handle_content_block_delta(0, '{"name": "Ada", "input": {}}', "toolu_1", name="greet")
    block = buffer.handle_content_block_stop(0)
    assert block == {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "greet",
        "input": {"name": "Ada", "input": {}},
    }


@pytest.mark.parametrize("text", ['{"command": "in', "[1]", "in", '"in"'])
def test_a_block_that_is_not_whole_is_nothing_to_run(text: str) -> None:
    buffer = ContentBlockBuffer()
    buffer.handle_content_block_delta(0, text, "toolu_1")
    assert buffer.handle_content_block_stop(0) is None
    assert buffer.attempt_count == 1
    assert buffer.last_error


def fail(buffer: ContentBlockBuffer) -> None:
    buffer.handle_content_block_delta(0, '{"command": "in', "toolu_1")
    buffer.handle_content_block_stop(0)


def test_attempts_count_failures_only() -> None:
    buffer = ContentBlockBuffer(max_attempts=2)
    for _ in range(5):
        buffer.handle_content_block_delta(0, '{"command": "ls"}', "toolu_1")
        assert buffer.handle_content_block_stop(0) is not None
    assert buffer.handle_content_block_stop(7) is None  # a block of text
    assert (buffer.attempt_count, buffer.exhausted) == (0, False)

    fail(buffer)
    assert (buffer.attempt_count, buffer.exhausted) == (1, False)
    fail(buffer)
    assert (buffer.attempt_count, buffer.exhausted) == (2, True)


def test_a_whole_block_sets_the_attempts_back() -> None:
    buffer = ContentBlockBuffer()
    fail(buffer)
    buffer.handle_content_block_delta(0, "{}", "toolu_1")
    buffer.handle_content_block_stop(0)
    assert (buffer.attempt_count, buffer.last_error, buffer.max_attempts) == (0, None, 3)


def test_a_reset_forgets_blocks_and_failures() -> None:
    buffer = ContentBlockBuffer()
    fail(buffer)
    buffer.handle_content_block_delta(1, '{"a": 1}', "toolu_1")
    buffer.reset()
    assert (buffer.attempt_count, buffer.last_error) == (0, None)
    assert buffer.handle_content_block_stop(1) is None


@pytest.mark.parametrize(
    ("text", "name", "error"),
    [
        ('<invoke name="ping"></invoke>', "ping", None),
        ('<invoke name="ping"></invoke>' * 2, None, "several calls"),
        ('<invoke name="ping"><parameter name="a">1', None, "cut off"),
        ("<b>bold</b>", None, "no call"),
        ('{"name": "ping", "input": {}}', "ping", None),
    ],
)
def test_a_block_in_tags_is_read_by_whoever_can(
    text: str, name: str | None, *, error: str | None
) -> None:
    buffer = ContentBlockBuffer(read_markup=partial(parse_text, "anthropic_xml"))
    buffer.handle_content_block_delta(0, text)
    use = buffer.handle_content_block_stop(0)
    assert (use and use["name"]) == name
    assert (error or "") in (buffer.last_error or "")
    assert (buffer.last_error is None) is (error is None)
