"""The small front door: every behaviour that the documents ask for who wanted this buffer."""

import json
from typing import Any

import pytest

from recut import every_cutting
from wholecall.errors import IncompleteArguments
from wholecall.stream import ToolCallBuffer, is_complete_json

SEARCH = '{"query": "python async", "limit": 10}'
TRUNCATED = '{"query": "python", "limit": 10'


def buffer_of(arguments: Any = None, finish_reason: str | None = None) -> ToolCallBuffer:
    buffer = ToolCallBuffer(finish_reason=finish_reason)
    buffer.add_tool_call("call_1", "search", arguments)
    return buffer


def test_a_new_buffer_is_empty() -> None:
    buffer = ToolCallBuffer()
    assert len(buffer) == 0
    assert "call_1" not in buffer
    assert buffer.get_all_complete_tool_calls() == {}
    assert buffer.get_incomplete_tool_calls() == {}


# ── Arguments ───────────────────────────────────────────────────────────────────────

TYPES = {"s": "x", "i": 1, "f": 1.5, "t": True, "f2": False, "n": None, "a": [1, "b", None]}
NESTED = {"filter": {"and": [{"x": 1}, {"or": [{"y": {"z": []}}]}]}}
LARGE = {"items": [{"id": number, "name": f"item {number}"} for number in range(1000)]}

# what holds, the arguments, the dict
WHOLE = [
    ("a JSON string", SEARCH, {"query": "python async", "limit": 10}),
    ("a dict, which is not parsed again", {"x": 5, "y": 10}, {"x": 5, "y": 10}),
    ("every type is preserved", json.dumps(TYPES), TYPES),
    ("no arguments", None, {}),
    ("an empty string", "", {}),
    ("white space", "   \n\t  ", {}),
    ("nested objects", json.dumps(NESTED), NESTED),
    (
        "arrays and mixed types",
        '{"a": [1, "b", [3.0, {}], null]}',
        {"a": [1, "b", [3.0, {}], None]},
    ),
    ("a large structure", json.dumps(LARGE), LARGE),
    ("an empty object", "{}", {}),
    ("an empty dict", {}, {}),
    ("a dict with half a character", {"x": "\ud800"}, {"x": "\ufffd"}),
    ("JSON in JSON", json.dumps(SEARCH), json.loads(SEARCH)),
]


@pytest.mark.parametrize(
    ("arguments", "parsed"), [row[1:] for row in WHOLE], ids=[row[0] for row in WHOLE]
)
def test_whole_arguments_are_parsed_to_a_dict(arguments: Any, parsed: dict[str, Any]) -> None:
    buffer = buffer_of(arguments)
    assert buffer.is_complete("call_1")
    assert list(buffer.get_all_complete_tool_calls()) == ["call_1"]
    assert buffer.get_incomplete_tool_calls() == {}
    result = buffer.parse_arguments("call_1")
    assert type(result) is dict
    assert repr(result) == repr(parsed)


# what holds, the arguments, what the error says
PARTIAL = [
    ("truncated JSON", TRUNCATED, "cut off"),
    ("invalid JSON", "{invalid json}", "not valid JSON"),
    ("the first chunk of a stream", '{"ur', "cut off"),
    ("a later one", '{"urls": "htt', "cut off"),
    ("a lone brace", "{", "cut off"),
    ("a list", "[1, 2]", "not an array"),
    ("a list that is not text", [1, 2], "not an array"),
    ("a number", "42", "not a number"),
    ("a number that is not text", 42, "not a number"),
    ("a string", '"in"', "not a string"),
    ("a word", "null", "not null"),
    ("false", False, "not a boolean"),
    ("an empty list", [], "not an array"),
    ("two objects", '{"a": 1}{"a": 2}', "two different objects"),
]


@pytest.mark.parametrize(
    ("arguments", "message"), [row[1:] for row in PARTIAL], ids=[row[0] for row in PARTIAL]
)
def test_partial_arguments_are_never_handed_out(arguments: Any, message: str) -> None:
    buffer = buffer_of(arguments)
    assert not buffer.is_complete("call_1")
    assert buffer.get_all_complete_tool_calls() == {}
    assert list(buffer.get_incomplete_tool_calls()) == ["call_1"]
    with pytest.raises(IncompleteArguments, match=message):
        buffer.parse_arguments("call_1")


def test_the_error_names_the_tool_the_call_and_what_came() -> None:
    with pytest.raises(ValueError, match="cannot be used") as raised:
        buffer_of(TRUNCATED).parse_arguments("call_1")
    for culprit in ("'search'", "'call_1'", repr(TRUNCATED)):
        assert culprit in str(raised.value)


def test_the_error_shows_only_the_beginning_of_a_long_text() -> None:
    with pytest.raises(IncompleteArguments) as raised:
        buffer_of('{"text": "' + "x" * 10_000).parse_arguments("call_1")
    assert repr('{"text": "' + "x" * 90 + "…") in str(raised.value)
    assert len(str(raised.value)) < 300


# ── The buffer ──────────────────────────────────────────────────────────────────────


def test_calls_are_kept_by_id() -> None:
    buffer = ToolCallBuffer()
    buffer.add_tool_call("call_1", "get_time", arguments=None)
    buffer.add_tool_call(tool_call_id="call_2", tool_name="search", arguments=SEARCH)
    assert len(buffer) == 2
    assert "call_2" in buffer
    assert buffer.parse_arguments("call_1") == {}
    assert buffer.parse_arguments("call_2") == json.loads(SEARCH)


def test_complete_and_incomplete_calls_are_told_apart() -> None:
    buffer = ToolCallBuffer()
    buffer.add_tool_call("call_1", "search", SEARCH)
    buffer.add_tool_call("call_2", "search", TRUNCATED)
    buffer.add_tool_call("call_3", "calculate", {"x": 5})
    assert buffer.get_all_complete_tool_calls() == {
        "call_1": {
            "id": "call_1",
            "name": "search",
            "arguments": SEARCH,
            "type": "function",
            "complete": True,
        },
        "call_3": {
            "id": "call_3",
            "name": "calculate",
            "arguments": {"x": 5},
            "type": "function",
            "complete": True,
        },
    }
    assert buffer.get_incomplete_tool_calls() == {
        "call_2": {
            "id": "call_2",
            "name": "search",
            "arguments": TRUNCATED,
            "type": "function",
            "complete": False,
        },
    }


def test_a_cleared_buffer_is_empty() -> None:
    buffer = buffer_of(SEARCH)
    buffer.clear()
    assert len(buffer) == 0
    assert not buffer.is_complete("call_1")


def test_a_call_is_updated_by_adding_it_again() -> None:
    buffer = buffer_of(TRUNCATED)
    buffer.add_tool_call("call_1", "find", TRUNCATED + "}")
    assert len(buffer) == 1
    assert buffer.is_complete("call_1")
    assert buffer.get_all_complete_tool_calls()["call_1"]["name"] == "find"


def test_what_was_handed_out_is_the_caller_s_own() -> None:
    arguments = {"x": [1]}
    buffer = buffer_of(arguments)
    buffer.parse_arguments("call_1")["x"].append(2)
    assert arguments == {"x": [1]}
    assert buffer.parse_arguments("call_1") == {"x": [1]}


def test_arguments_may_be_appended_in_any_pieces() -> None:
    for pieces in every_cutting(SEARCH):
        buffer = buffer_of()
        for piece in pieces:
            buffer.append_arguments("call_1", piece)
            done = piece is pieces[-1]
            # Blank so far is no arguments; every other part is not whole.
            assert buffer.is_complete("call_1") is done
        assert buffer.parse_arguments("call_1") == json.loads(SEARCH)


def test_text_after_a_dict_must_say_the_same() -> None:
    buffer = buffer_of({"x": 1})
    buffer.append_arguments("call_1", '{"x": 1}')
    assert buffer.parse_arguments("call_1") == {"x": 1}
    buffer.append_arguments("call_1", "")
    assert buffer.is_complete("call_1")

    buffer = buffer_of({"x": 1})
    buffer.append_arguments("call_1", '{"y": 2}')
    assert not buffer.is_complete("call_1")


def test_an_unknown_id_is_named() -> None:
    buffer = ToolCallBuffer()
    assert not buffer.is_complete("call_9")
    with pytest.raises(KeyError, match="call_9"):
        buffer.parse_arguments("call_9")
    with pytest.raises(KeyError, match="call_9"):
        buffer.append_arguments("call_9", "{")


# ── Finish reasons ──────────────────────────────────────────────────────────────────

# what holds, the finish reason, the arguments of the calls, which are complete, whether all fits
STATES: list[tuple[str, str | None, list[str | None], list[int], bool]] = [
    ("`stop` with calls", "stop", ['{"q": "test"}'], [0], True),
    ("`tool_calls` without calls", "tool_calls", [], [], False),
    ("`length` with a truncated call", "length", ['{"q": "test", "lim'], [], False),
    ("`tool_calls` with calls", "tool_calls", ['{"q": "test"}'], [0], True),
    ("`length` with a whole call", "length", ['{"q": "test"}'], [0], True),
    ("`length` with one of each", "length", ['{"q": 1}', '{"q": '], [0], False),
    ("`length` before the first byte", "length", [None, "", " ", "{}"], [], False),
    ("`stop` with a truncated call", "stop", ['{"q": '], [], False),
    ("`stop` without calls", "stop", [], [], True),
    ("no finish reason", None, [None, '{"q": 1}'], [0, 1], True),
    ("an empty finish reason", "", [None], [0], True),
    ("nothing at all", None, [], [], True),
    ("Anthropic's word", "tool_use", [], [], False),
    ("Anthropic's limit", "max_tokens", [""], [], False),
    ("an unknown word", "banana", ['{"q": 1}'], [0], True),
    ("the filter lets nothing through", "content_filter", ['{"q": 1}'], [], False),
    ("nor does an error", "error", ['{"q": 1}'], [], False),
]


@pytest.mark.parametrize("row", STATES, ids=[row[0] for row in STATES])
def test_the_finish_reason_alone_proves_nothing(
    row: tuple[str, str | None, list[str | None], list[int], bool],
) -> None:
    _, finish_reason, calls, complete, fits = row
    buffer = ToolCallBuffer(finish_reason=finish_reason)
    for number, arguments in enumerate(calls):
        buffer.add_tool_call(f"call_{number}", "search", arguments)
    assert list(buffer.get_all_complete_tool_calls()) == [f"call_{number}" for number in complete]
    assert len(buffer.get_incomplete_tool_calls()) == len(calls) - len(complete)
    assert buffer.validate_completion_state() is fits


# ── The later, streaming form of the class that this one replaces ───────────────────


def test_a_call_is_finished_when_it_is_complete_and_the_finish_reason_came() -> None:
    buffer = ToolCallBuffer()
    buffer.add_tool_call("call_1", "search", '{"query":', "function")
    buffer.append_arguments("call_1", additional_arguments=' "python')
    buffer.append_arguments("call_1", None)
    assert (buffer.is_complete("call_1"), buffer.is_finished("call_1")) == (False, False)
    buffer.append_arguments("call_1", ' async"}')
    assert (buffer.is_complete("call_1"), buffer.is_finished("call_1")) == (True, False)
    assert list(buffer.get_unfinished_tool_calls()) == ["call_1"]
    buffer.mark_finished_by_finish_reason("tool_calls")
    assert buffer.is_finished("call_1")
    assert list(buffer.get_all_finished_tool_calls()) == ["call_1"]
    assert buffer.get_unfinished_tool_calls() == {}
    assert buffer.finish_reason == "tool_calls"


# what holds, what is marked, the calls that are finished
MARKED: list[tuple[str, tuple[Any, ...], dict[str, Any], list[str]]] = [
    ("no word means that the answer ended", (), {}, ["whole", "empty"]),
    ("a good reason", ("tool_calls",), {}, ["whole", "empty"]),
    ("by its name", (), {"reason": "stop"}, ["whole", "empty"]),
    ("an unknown reason", ("banana",), {}, ["whole", "empty"]),
    ("the limit proves only what a brace closed", ("length",), {}, ["whole"]),
    ("an error finishes nothing", ("error",), {}, []),
    ("a filter finishes nothing", ("content_filter",), {}, []),
    ("no reason yet finishes nothing", (None,), {}, []),
    ("one call by its id", ("whole",), {}, ["whole"]),
    ("one call by the name of the id", (), {"tool_call_id": "empty"}, ["empty"]),
    ("a cut call by its id", ("cut",), {}, []),
    ("an unknown id", (), {"tool_call_id": "call_9"}, []),
]


@pytest.mark.parametrize("row", MARKED, ids=[row[0] for row in MARKED])
def test_no_finish_reason_finishes_a_cut_call(
    row: tuple[str, tuple[Any, ...], dict[str, Any], list[str]],
) -> None:
    _, places, names, finished = row
    buffer = ToolCallBuffer()
    buffer.add_tool_call("whole", "search", SEARCH)
    buffer.add_tool_call("cut", "search", TRUNCATED)
    buffer.add_tool_call("empty", "ping", "")
    buffer.mark_finished_by_finish_reason(*places, **names)
    assert list(buffer.get_all_finished_tool_calls()) == finished
    unfinished = [id for id in ("whole", "cut", "empty") if id not in finished]
    assert list(buffer.get_unfinished_tool_calls()) == unfinished
    assert not buffer.is_complete("cut")
    assert not buffer.validate_completion_state()


def test_a_better_finish_reason_does_not_undo_a_worse_one() -> None:
    buffer = buffer_of("", finish_reason="length")
    buffer.mark_finished_by_finish_reason("tool_calls")
    assert (buffer.finish_reason, buffer.is_finished("call_1")) == ("length", False)
    assert buffer.finished_tool_ids == {"call_1"}


def test_the_buffer_is_a_mapping_that_cannot_be_changed() -> None:
    buffer = ToolCallBuffer()
    entries = buffer.buffer
    assert entries == {}
    buffer.add_tool_call("call_1", "search", SEARCH, tool_type="custom")
    entry: dict[str, Any] = {
        "id": "call_1",
        "name": "search",
        "arguments": SEARCH,
        "type": "custom",
    }
    entry |= {"complete": True}
    assert entries == {"call_1": entry}
    assert (len(entries), list(entries), "call_1" in entries) == (1, ["call_1"], True)
    assert repr(entries) == repr({"call_1": entry})
    assert buffer.get_tool_call("call_1") == entries["call_1"] == entry
    assert buffer.get_tool_call("call_9") is None
    with pytest.raises(TypeError):
        entries["call_1"] = entry  # type: ignore[index]
    entries["call_1"]["complete"] = False
    assert buffer.is_complete("call_1")


def test_a_call_that_is_added_again_keeps_what_the_second_time_left_out() -> None:
    buffer = buffer_of(SEARCH)
    buffer.mark_finished_by_finish_reason()
    buffer.add_tool_call("call_1", "", None)
    assert buffer.is_finished("call_1")
    assert buffer.buffer["call_1"]["name"] == "search"
    buffer.add_tool_call("call_1", "", '{"query": "x"}')
    assert buffer.buffer["call_1"]["name"] == "search"
    assert (buffer.is_complete("call_1"), buffer.is_finished("call_1")) == (True, False)
    buffer.clear()
    assert (len(buffer), buffer.finished_tool_ids) == (0, frozenset())


# ── Complete JSON ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", ["{}", SEARCH, ' {"a": {"b": []}} \n'])
def test_one_whole_object_is_complete(text: str) -> None:
    assert is_complete_json(text)


@pytest.mark.parametrize(
    "text", ["", " ", "{", '{"ur', TRUNCATED, "[1]", "1", '"x"', "null", "{}{}", "{'a': 1}", "{}}"]
)
def test_anything_else_is_not(text: str) -> None:
    assert not is_complete_json(text)


def test_a_repaired_call_is_handed_out_as_json() -> None:
    buffer = ToolCallBuffer()
    buffer.add_tool_call("call_1", "search", "{'q': True,}")
    entry = buffer.get_all_complete_tool_calls()["call_1"]
    assert json.loads(entry["arguments"]) == buffer.parse_arguments("call_1") == {"q": True}


def test_asking_while_the_object_is_open_looks_at_nothing_again() -> None:
    buffer = ToolCallBuffer()
    buffer.add_tool_call("call_1", "search", '{"q": "')
    answers = []
    for _ in range(1000):
        buffer.append_arguments("call_1", "x")
        answers.append(buffer.is_complete("call_1"))
    buffer.append_arguments("call_1", '"}')
    assert not any(answers)
    assert buffer.is_complete("call_1")
