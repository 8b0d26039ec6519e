"""The samples of "Tool Call Handling Implementation", run against `ToolCallBuffer`.

Each docstring names the section of the document. Of its test suite, "Complex Structures",
"Valid Arguments" and "Buffer Operations" are rows of tests/test_stream.py.
"""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from wholecall import (
    Outcome,
    Rejected,
    Released,
    Start,
    ToolCallBuffer,
    ToolSpec,
    assemble_response,
    feedback,
)
from wholecall.errors import IncompleteArguments
from wholecall.protocols.reader import Reader

WHOLE = '{"query": "python async", "limit": 10}'
CUT = '{"query": "python", "limit": 10'

# section, the call as the sample adds it, what `parse_arguments` returns
PARSED: list[tuple[str, tuple[str, str, Any], dict[str, Any]]] = [
    ("Empty/None Arguments: None", ("call_1", "get_time", None), {}),
    ("Empty/None Arguments: empty", ("call_2", "ping", ""), {}),
    ("Empty/None Arguments: white space", ("call_3", "status", "   \n\t  "), {}),
    ("Already-Parsed Dict", ("call_4", "calculate", {"x": 5, "y": 10}), {"x": 5, "y": 10}),
    ("Valid JSON String", ("call_5", "search", WHOLE), {"query": "python async", "limit": 10}),
]


@pytest.mark.parametrize(
    ("call", "parsed"), [row[1:] for row in PARSED], ids=[row[0] for row in PARSED]
)
def test_edge_cases_handled(call: tuple[str, str, Any], parsed: dict[str, Any]) -> None:
    """Edge Cases Handled, 1 to 3: what may stand in `arguments` is parsed to one dict."""
    id, name, arguments = call
    buffer = ToolCallBuffer()
    buffer.add_tool_call(id, name, arguments=arguments)
    assert buffer.parse_arguments(id) == parsed
    assert buffer.is_complete(id)


def test_truncated_json_is_found_and_never_parsed() -> None:
    """Edge Cases Handled, 4: the error names the tool, the call and what came."""
    buffer = ToolCallBuffer()
    buffer.add_tool_call("call_6", "search", arguments=CUT)
    assert not buffer.is_complete("call_6")
    assert list(buffer.get_incomplete_tool_calls()) == ["call_6"]
    with pytest.raises(ValueError, match=r"'search' \(call 'call_6'\).*query") as raised:
        buffer.parse_arguments("call_6")
    assert isinstance(raised.value, IncompleteArguments)


def test_the_data_structure_of_an_entry() -> None:
    """Solution Architecture, 1: the arguments in an entry are in their original format."""
    buffer = ToolCallBuffer()
    buffer.add_tool_call("call_abc123", "search", '{"query": "python"}')
    assert buffer.get_all_complete_tool_calls() == {
        "call_abc123": {
            "id": "call_abc123",
            "name": "search",
            "arguments": '{"query": "python"}',
            "type": "function",
            "complete": True,
        }
    }


# ── The flow ────────────────────────────────────────────────────────────────────────


def tool_call(id: str, name: str, *, arguments: Any) -> SimpleNamespace:
    """A call as a client library hands it out."""
    function = SimpleNamespace(name=name, arguments=arguments)
    return SimpleNamespace(id=id, type="function", function=function)


def fill(tool_calls: list[SimpleNamespace]) -> ToolCallBuffer:
    buffer = ToolCallBuffer()
    for each in tool_calls:
        buffer.add_tool_call(
            tool_call_id=each.id,
            tool_name=each.function.name,
            arguments=each.function.arguments,
        )
    return buffer


def test_only_the_complete_calls_of_a_response_are_executed() -> None:
    """Code Changes, After; Example Usage: the cut call is told apart and skipped."""
    answered = [
        tool_call("call_1", "search", arguments=WHOLE),
        tool_call("call_2", "search", arguments=CUT),
        tool_call("call_3", "get_time", arguments=None),
    ]
    buffer = fill(answered)
    executed = [
        (tool_data["name"], buffer.parse_arguments(call_id))
        for call_id, tool_data in buffer.get_all_complete_tool_calls().items()
    ]
    assert executed == [("search", {"query": "python async", "limit": 10}), ("get_time", {})]
    assert list(buffer.get_incomplete_tool_calls()) == ["call_2"]


def test_without_a_complete_call_nothing_is_executed() -> None:
    """Processing Flow, 7: then the response goes back as it is."""
    assert fill([tool_call("call_1", "search", arguments=CUT)]).get_all_complete_tool_calls() == {}


@pytest.mark.parametrize("arguments", ['{"x": 5, "y": 10}', {"x": 5, "y": 10}])
def test_nothing_is_parsed_twice(arguments: Any) -> None:
    """Code Changes, Before: a dict and its text are the same arguments."""
    buffer = fill([tool_call("call_1", "calculate", arguments=arguments)])
    assert buffer.parse_arguments("call_1") == {"x": 5, "y": 10}


def test_the_buffer_is_used_again_in_the_next_iteration() -> None:
    """Performance Considerations, 4: cleared, it knows nothing of the calls before."""
    buffer = fill([tool_call("call_1", "search", arguments=CUT)])
    buffer.clear()
    assert (len(buffer), "call_1" in buffer) == (0, False)
    buffer.add_tool_call("call_1", "search", WHOLE)
    assert buffer.is_complete("call_1")


def test_a_parsing_error_is_told_to_the_model() -> None:
    """Error Handling, 1 and 3: what the model is told names the tool and how to go on."""
    outcome = answer([tool_call("call_1", "search", arguments=CUT)], "length")
    (rejected,) = outcome.rejected
    told = feedback(rejected, SEARCH)
    assert '"search"' in told
    assert "cut off" in told


# ── Future enhancements ─────────────────────────────────────────────────────────────

SEARCH = ToolSpec(
    "search",
    {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["query"],
    },
    start=Start.CLOSED,
)


def answer(tool_calls: list[SimpleNamespace], finish_reason: str) -> Outcome:
    message = SimpleNamespace(role="assistant", content=None, tool_calls=tool_calls)
    choice = SimpleNamespace(index=0, message=message, finish_reason=finish_reason)
    return assemble_response("openai-chat", SimpleNamespace(choices=[choice]), tools=[SEARCH])


def chunks(*pieces: tuple[int, str]) -> Iterator[dict[str, Any]]:
    """Chunks of a stream: the index of a call and a piece of its arguments."""
    begun: set[int] = set()
    for index, text in pieces:
        function = {"arguments": text} | ({} if index in begun else {"name": "search"})
        head = {} if index in begun else {"id": f"call_{index}"}
        begun.add(index)
        call = {"index": index, **head, "function": function}
        yield {"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}]}


def test_streaming_support() -> None:
    """Future Enhancements, 1: a call is complete with its last piece, and not before."""
    buffer = ToolCallBuffer()
    buffer.add_tool_call("call_1", "search")
    for character in WHOLE[:-1]:
        buffer.append_arguments("call_1", character)
        assert not buffer.is_complete("call_1")
    buffer.append_arguments("call_1", WHOLE[-1])
    assert buffer.parse_arguments("call_1") == {"query": "python async", "limit": 10}


def test_partial_execution() -> None:
    """Future Enhancements, 2: a complete call may run while another one is incomplete."""
    reader = Reader("openai-chat", [SEARCH])
    told = [event for chunk in chunks((0, WHOLE), (1, CUT)) for event in reader.feed(chunk)]
    assert [event.call.id for event in told if isinstance(event, Released)] == ["call_0"]
    ended = reader.end()
    assert [event.id for event in ended if isinstance(event, Rejected)] == ["call_1"]
    assert not any(isinstance(event, Released) for event in ended)


def test_retry_logic_knows_that_the_call_was_cut() -> None:
    """Future Enhancements, 3: a cut call has another reason than a broken one."""
    broken = tool_call("call_2", "search", arguments='{"query": "a" "limit": 1}')
    reasons = [
        answer([tool_call("call_1", "search", arguments=CUT)], "length").rejected[0].reason.value,
        answer([broken], "tool_calls").rejected[0].reason.value,
    ]
    assert reasons == ["truncated", "bad_json"]


def test_metrics_can_be_counted() -> None:
    """Future Enhancements, 4: each call of a response is a call or a rejection, once."""
    outcome = answer(
        [
            tool_call("call_1", "search", arguments=WHOLE),
            tool_call("call_2", "search", arguments=CUT),
            tool_call("call_3", "search", arguments={"query": "x"}),
        ],
        "tool_calls",
    )
    assert (len(outcome.calls), len(outcome.rejected)) == (2, 1)


# what holds, the arguments, the paths of the problems
SCHEMA: list[tuple[str, str, list[str]]] = [
    ("a parameter is missing", '{"limit": 3}', ["$.query"]),
    ("a parameter has the wrong type", '{"query": "x", "limit": "ten"}', ["$.limit"]),
]


@pytest.mark.parametrize(
    ("arguments", "paths"), [row[1:] for row in SCHEMA], ids=[row[0] for row in SCHEMA]
)
def test_argument_schema_validation(arguments: str, paths: list[str]) -> None:
    """Future Enhancements, 5: arguments that do not fit the tool's schema are refused by path."""
    outcome = answer([tool_call("call_1", "search", arguments=arguments)], "tool_calls")
    assert outcome.calls == ()
    assert [problem.path for problem in outcome.rejected[0].problems] == paths
