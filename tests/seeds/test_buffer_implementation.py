"""The samples of "Buffer Implementation for Streaming Tool Calls", run against `ToolUseBuffer`.

Each docstring names the document's section. More of the buffer: tests/test_stream_blocks.py;
of blocks in XML, cut at every character: tests/test_stream_recorded.py.
"""

from typing import Any

import pytest

from wholecall import Ended, Grew, Opened, Rejected, Released, Text, ToolUseBuffer
from wholecall.events import Event
from wholecall.protocols.reader import Reader

COMMAND = '{"command": "find . -name in.txt"}'
PROMPTED = """<function_calls>
<invoke name="TOOL_NAME">
<parameter name="PARAM_NAME">PARAM_VALUE</parameter>
<!-- Additional parameters as needed -->
</invoke>
</function_calls>"""


def feed(buffer: ToolUseBuffer, text: str, *, index: int = 0, tool_id: str = "toolu_1") -> None:
    for character in text:
        assert buffer.handle_content_block_delta(index, character, tool_id) is True


def test_a_partial_command_is_never_handed_out() -> None:
    """Problem Statement: `in`, a piece of a command, was run as one."""
    for cut in range(1, len(COMMAND)):
        buffer = ToolUseBuffer()
        feed(buffer, COMMAND[:cut])
        assert buffer.handle_content_block_stop(0) is None
        assert buffer.last_error


def test_a_block_is_handed_out_when_it_stops() -> None:
    """1, ToolUseBuffer Class: pieces by index, the id kept, the whole call at the stop."""
    buffer = ToolUseBuffer()
    assert (buffer.attempt_count, buffer.max_attempts) == (0, 3)
    assert buffer.handle_content_block_delta(0, '{"command"', tool_id="toolu_1") is True
    assert buffer.handle_content_block_delta(0, ': "ls"}') is True
    use = buffer.handle_content_block_stop(0)
    assert use is not None
    assert (use["id"], use["input"]) == ("toolu_1", {"command": "ls"})


def test_a_block_that_never_began_is_nothing() -> None:
    """1, ToolUseBuffer Class: the stop of a block of text, say."""
    buffer = ToolUseBuffer()
    assert buffer.handle_content_block_stop(7) is None
    assert (buffer.attempt_count, buffer.last_error) == (0, None)


def test_the_structure_that_the_prompt_asks_for() -> None:
    """2, XML Function Prompt: written as told, with its comment, it is one call."""
    buffer = ToolUseBuffer()
    feed(buffer, PROMPTED)
    assert buffer.handle_content_block_stop(0) == {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "TOOL_NAME",
        "input": {"PARAM_NAME": "PARAM_VALUE"},
    }


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "bash", "input": {"command": "ls"}}',
        '<invoke name="bash"><parameter name="command">ls</parameter></invoke>',
    ],
    ids=["JSON", "XML"],
)
def test_dual_format_support(text: str) -> None:
    """Implementation Features, 1: the same call, in either format."""
    buffer = ToolUseBuffer()
    feed(buffer, text)
    use = buffer.handle_content_block_stop(0)
    assert use is not None
    assert (use["name"], use["input"]) == ("bash", {"command": "ls"})


def test_ids_are_tracked_by_block() -> None:
    """Implementation Features, 3: each block keeps its own id, in whatever order they stop."""
    buffer = ToolUseBuffer()
    feed(buffer, '{"a": 1}', index=0, tool_id="toolu_0")
    feed(buffer, '{"b": 2}', index=1, tool_id="toolu_1")
    uses = [buffer.handle_content_block_stop(index) for index in (1, 0)]
    assert [use and use["id"] for use in uses] == ["toolu_1", "toolu_0"]


def test_an_endless_loop_is_stopped() -> None:
    """Implementation Features, 5: after so many failures, one after the other."""
    buffer = ToolUseBuffer()
    seen = []
    for _ in range(buffer.max_attempts):
        seen.append(buffer.exhausted)
        feed(buffer, '{"command": "l')
        buffer.handle_content_block_stop(0)
    assert seen == [False, False, False]
    assert buffer.exhausted


def test_the_buffer_is_reset_after_execution() -> None:
    """Implementation Features, 6: what was begun and what failed is forgotten."""
    buffer = ToolUseBuffer()
    feed(buffer, '{"command": "l')
    buffer.handle_content_block_stop(0)
    feed(buffer, '{"command": "l', index=1)
    buffer.reset()
    assert (buffer.attempt_count, buffer.last_error) == (0, None)
    assert buffer.handle_content_block_stop(1) is None


# ── The streaming loop ──────────────────────────────────────────────────────────────

BASH = {
    "name": "bash",
    "input_schema": {
        "type": "object",
        "properties": {"command": {"type": "string"}},
        "required": ["command"],
    },
}


def block(index: int, *pieces: str) -> list[dict[str, Any]]:
    """The events of a tool use in Anthropic's stream."""
    begun = {"type": "tool_use", "id": f"toolu_{index}", "name": "bash", "input": {}}
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return [
        {"type": "content_block_start", "index": index, "content_block": begun},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def say(index: int, text: str) -> list[dict[str, Any]]:
    delta = {"type": "text_delta", "text": text}
    return [
        {"type": "content_block_start", "index": index, "content_block": {"type": "text"}},
        {"type": "content_block_delta", "index": index, "delta": delta},
        {"type": "content_block_stop", "index": index},
    ]


def read(*blocks: list[dict[str, Any]]) -> list[Event]:
    reader = Reader("anthropic", [BASH])
    stop = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}
    stream = [each for events in blocks for each in events]
    told = [
        event for each in [*stream, stop, {"type": "message_stop"}] for event in reader.feed(each)
    ]
    return told + reader.end()


def commands(events: list[Event]) -> list[object]:
    return [event.call.arguments["command"] for event in events if isinstance(event, Released)]


def test_the_steps_of_the_pattern() -> None:
    """Solution: The Buffer Pattern: accumulated at each delta, executed when it is whole."""
    events = read(block(0, "", '{"comm', 'and": "find . -name in', '.txt"}'))
    assert commands(events) == ["find . -name in.txt"]


def test_multiple_commands_in_one_response() -> None:
    """Testing the Implementation, 1 and 2: each with its parameters, in order."""
    events = read(block(0, '{"command": "ls"}'), block(1, '{"command"', ': "pwd"}'))
    assert commands(events) == ["ls", "pwd"]


def test_the_response_goes_on_after_a_call() -> None:
    """Implementation Features, 4; Testing, 3: the text on both sides of a call is kept."""
    events = read(say(0, "Let me see. "), block(1, '{"command": "ls"}'), say(2, "Done."))
    assert "".join(event.text for event in events if isinstance(event, Text)) == "Let me see. Done."
    assert commands(events) == ["ls"]


# what is wrong, the input, the reason, a part of what is said
INVALID: list[tuple[str, str, str, str]] = [
    ("no parameters", "{}", "schema", "$.command is missing"),
    ("a parameter of the wrong type", '{"command": ["ls"]}', "schema", "$.command must be"),
    ("a block that stops inside its input", '{"command": "l', "truncated", "cut off"),
    ("no JSON", "{command}", "bad_json", "not valid JSON"),
]


@pytest.mark.parametrize("row", INVALID, ids=[row[0] for row in INVALID])
def test_parameters_are_validated_before_execution(row: tuple[str, str, str, str]) -> None:
    """Implementation Features, 2; Testing, 4; Future Improvements, 1: refused, and told why."""
    _, text, reason, words = row
    events = read(block(0, text))
    assert commands(events) == []
    (rejected,) = [event for event in events if isinstance(event, Rejected)]
    assert rejected.reason.value == reason
    assert words in rejected.detail


# ── Limitations and future improvements ─────────────────────────────────────────────

SCRIPT = 'if a < b && c > d; then\n  echo "</para>"\nfi'


def test_the_construction_of_a_call_can_be_watched() -> None:
    """Future Improvements, 2: opened, growing, released."""
    events = read(block(0, '{"comm', 'and": ', '"ls"}'))
    kinds = [type(event) for event in events if isinstance(event, Opened | Grew | Released | Ended)]
    assert kinds == [Opened, Grew, Grew, Grew, Released, Ended]


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ('{"a": {"b": [{"c": "}{"}]}, "d": "\\"\\\\"}', {"a": {"b": [{"c": "}{"}]}, "d": '"\\'}),
        (
            f'<invoke name="bash"><parameter name="script">{SCRIPT}</parameter></invoke>',
            {"script": SCRIPT},
        ),
    ],
    ids=["JSON", "XML"],
)
def test_complex_structures(text: str, given: dict[str, Any]) -> None:
    """Known Limitations, 3; Future Improvements, 3: marks of the format inside of values."""
    buffer = ToolUseBuffer()
    feed(buffer, text)
    use = buffer.handle_content_block_stop(0)
    assert use is not None
    assert use["input"] == given


def test_a_large_output_is_one_call() -> None:
    """Known Limitations, 1; Future Improvements, 5: a hundred thousand pieces, read once."""
    buffer = ToolUseBuffer()
    buffer.handle_content_block_delta(0, '{"text": "', "toolu_1")
    for _ in range(100_000):
        buffer.handle_content_block_delta(0, "abcd")
    buffer.handle_content_block_delta(0, '"}')
    use = buffer.handle_content_block_stop(0)
    assert use is not None
    assert len(use["input"]["text"]) == 400_000
