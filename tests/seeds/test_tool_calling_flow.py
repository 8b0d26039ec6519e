"""The samples of "Tool Calling Flow Analysis - Root Cause Investigation".

The document follows one real failure: a tool ran with `{"ur`. Here the same stream, in the
same pieces, runs nothing before it is whole. Each docstring names the document's section.
"""

import json
from typing import Any

import pytest

from wholecall import Grew, Rejected, Released, Start, ToolCallBuffer, ToolSpec, is_complete_json
from wholecall.errors import IncompleteArguments
from wholecall.events import Event, Fault, Proved
from wholecall.protocols.reader import Reader

ID, NAME = "tooluse_tAFX6g_0Ru6Jz_qjTiETag", "scrape_webpage"
ARGUMENTS = '{"urls": "https://example.com/a, https://example.com/b"}'
# The first pieces are those of the document's log: `{"ur`, then `{"urls"`, and so on.
PIECES = ('{"ur', 'ls"', ': "https://', "example.com/a, https://example.com/b", '"}')
PARSED = {"urls": "https://example.com/a, https://example.com/b"}


def chunk(arguments: str, *, begins: bool = False) -> dict[str, Any]:
    head = {"id": ID, "type": "function"} if begins else {}
    function = {"arguments": arguments} | ({"name": NAME} if begins else {})
    delta = {"tool_calls": [{"index": 0, **head, "function": function}]}
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


CHUNKS = [chunk(piece, begins=number == 0) for number, piece in enumerate(PIECES)]
FINISH = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}


def read(start: Start) -> list[list[Event]]:
    """The events of each chunk, and of the end."""
    reader = Reader("openai-chat", [ToolSpec(NAME, start=start)])
    told = [reader.feed(each) for each in [*CHUNKS, FINISH, "data: [DONE]\n\n"]]
    return [*told, reader.end()]


def released(events: list[Event]) -> list[Any]:
    return [dict(event.call.arguments) for event in events if isinstance(event, Released)]


def test_the_pieces_are_those_of_the_whole() -> None:
    """Phase 2, Argument Accumulation: what the pieces add up to is what was sent."""
    assert "".join(PIECES) == ARGUMENTS
    assert json.loads(ARGUMENTS) == PARSED


def test_each_piece_is_shown_as_it_comes() -> None:
    """Phase 1, Chunk Reception: the pieces are told while the call is built."""
    events = [event for told in read(Start.CONFIRMED) for event in told]
    told = [event.text for event in events if isinstance(event, Grew)]
    assert "".join(told) == ARGUMENTS
    assert len(told) == len(PIECES)


def test_a_call_is_not_complete_while_it_accumulates() -> None:
    """Phase 3, Premature Completion Detection; Recommended Fix: keep accumulating."""
    buffer = ToolCallBuffer()
    buffer.add_tool_call(ID, NAME, PIECES[0])
    for piece in PIECES[1:]:
        assert not buffer.is_complete(ID)
        buffer.append_arguments(ID, piece)
    assert buffer.parse_arguments(ID) == PARSED


@pytest.mark.parametrize("cut", range(1, len(ARGUMENTS)))
def test_a_text_that_is_no_json_is_never_handed_back(cut: int) -> None:
    """Phase 3, `safe_json_parse`: an error, not the original string."""
    buffer = ToolCallBuffer()
    buffer.add_tool_call(ID, NAME, ARGUMENTS[:cut])
    with pytest.raises(IncompleteArguments, match=NAME):
        buffer.parse_arguments(ID)


@pytest.mark.parametrize("text", ['"{\\"ur"', '["https://example.com"]', "5", "true", '"x"'])
def test_what_is_parsed_but_no_dict_is_not_executed(text: str) -> None:
    """Phase 4, Tool Execution Triggered; Phase 5: never one argument in place of all."""
    buffer = ToolCallBuffer()
    buffer.add_tool_call(ID, NAME, text)
    assert not buffer.is_complete(ID)
    assert ID in buffer.get_incomplete_tool_calls()


def test_strict_validation_executes_on_the_brace_that_closes_the_object() -> None:
    """The Fix Strategy, Option 1: with the last piece, as a dict, and only once."""
    told = read(Start.CLOSED)
    assert [released(events) for events in told] == [[], [], [], [], [PARSED], [], [], []]
    assert any(isinstance(event, Proved) for event in told[4])


def test_waiting_for_the_stream_executes_at_its_end() -> None:
    """The Fix Strategy, Option 2: it is what a tool does that declares nothing."""
    assert ToolSpec(NAME).start is Start.CONFIRMED
    told = read(Start.CONFIRMED)
    assert [released(events) for events in told] == [[], [], [], [], [], [], [], [PARSED]]


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        (ARGUMENTS, True),
        ('{"ur', False),
        ('{"urls"', False),
        ('{"urls": "https://...', False),
        ('["a"]', False),
        ('"a"', False),
        ("", False),
    ],
)
def test_better_completion_detection(text: str, complete: bool) -> None:
    """The Fix Strategy, Option 3: one whole object is complete, and nothing else is."""
    assert is_complete_json(text) is complete


@pytest.mark.parametrize("start", Start)
@pytest.mark.parametrize("count", range(len(CHUNKS)))
def test_a_stream_that_breaks_off_executes_nothing(count: int, start: Start) -> None:
    """Phase 6, Tool Failure: the tool of the log would not have been called at all."""
    reader = Reader("openai-chat", [ToolSpec(NAME, start=start)])
    events = [event for each in CHUNKS[:count] for event in reader.feed(each)] + reader.end()
    assert released(events) == []
    assert any(isinstance(event, Fault) for event in events)
    assert sum(isinstance(event, Rejected) for event in events) == min(count, 1)
