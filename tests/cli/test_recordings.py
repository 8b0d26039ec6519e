"""Every kind of recorded answer is read, and a file that is none says what is wrong with it."""

import io
import json
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from wholecall.cli import recordings
from wholecall.cli.recordings import STDIN, Recording, load, load_tools
from wholecall.errors import UnreadableRecording
from wholecall.events import Outcome, collect
from wholecall.protocols.sse_ndjson import LIMIT

SEARCH = {
    "type": "function",
    "function": {
        "name": "search",
        "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
    },
}
CALLS = [("search", {"query": "ferry\u2028line"})]


def chunk(arguments: str, **fields: str) -> dict[str, Any]:
    call = {"index": 0, "function": {"arguments": arguments, **fields}}
    return {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}


FINISH: dict[str, Any] = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
CHUNKS = [chunk('{"query": "fer', name="search"), chunk('ry\u2028line"}'), FINISH]
BODY = {
    "object": "chat.completion",
    "choices": [
        {
            "finish_reason": "tool_calls",
            "message": {
                "tool_calls": [
                    {
                        "id": "call_1",
                        "function": {"name": "search", "arguments": '{"query": "ferry\u2028line"}'},
                    }
                ]
            },
        }
    ],
}
CASE = {"id": "ferry", "protocol": "openai-chat", "events": CHUNKS}


def spell(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def sse(payloads: list[Any], end: str = "\n") -> str:
    lines = chain.from_iterable((f"data: {spell(payload)}", "") for payload in payloads)
    return end.join([*lines, "data: [DONE]", "", ""])


def json_lines(values: list[Any], end: str = "\n") -> str:
    return "".join(spell(value) + end for value in values)


def outcomes(recordings: list[Recording]) -> list[Outcome]:
    return [collect(chain.from_iterable(recording.play())) for recording in recordings]


Write = Callable[[str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(content: str | bytes) -> Path:
        path = tmp_path / "recorded"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


KINDS = {
    "a raw SSE dump": sse(CHUNKS),
    "a raw SSE dump that begins with a comment": ": keep-alive\n\n" + sse(CHUNKS),
    "a raw SSE dump with CRLF": sse(CHUNKS, "\r\n"),
    "a raw SSE dump behind blank lines": "\n\n" + sse(CHUNKS),
    "a raw SSE dump with a BOM": "\ufeff" + sse(CHUNKS),
    "JSON lines of payloads": json_lines(CHUNKS),
    "JSON lines with CRLF and blank lines between": json_lines(CHUNKS, "\r\n\r\n"),
    "JSON lines with a BOM": "\ufeff" + json_lines(CHUNKS),
    "JSON lines whose last newline is missing": json_lines(CHUNKS).rstrip(),
    "JSON lines of raw lines": json_lines(sse(CHUNKS).split("\n")),
    "one JSON array of payloads": json.dumps(CHUNKS, indent=2),
    "a case": spell(CASE),
    "a case with a whole answer": spell({"protocol": "openai-chat", "response": BODY}),
    "a whole answer": spell(BODY),
    "a whole answer over many lines": json.dumps(BODY, indent=2),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_recording_is_read(kind: str, write: Write) -> None:
    [outcome] = outcomes(load(write(KINDS[kind])))
    assert [(call.name, call.arguments) for call in outcome.calls] == CALLS
    assert (outcome.error, outcome.rejected) == (None, ())


def test_a_single_recording_is_titled_with_its_path(write: Write) -> None:
    path = write(KINDS["a whole answer"])
    assert [recording.title for recording in load(path)] == [str(path)]


def test_whole_answers_line_by_line_are_several(write: Write) -> None:
    path = write(json_lines([BODY, BODY]))
    recordings = load(path)
    assert [recording.title for recording in recordings] == [f"{path}, line 1", f"{path}, line 2"]
    assert [len(outcome.calls) for outcome in outcomes(recordings)] == [1, 1]


def test_cases_bring_their_titles_and_tools(write: Write) -> None:
    cases = [
        {**CASE, "title": "A ferry", "tools": [SEARCH]},
        {**CASE, "tools": None},
        {"protocol": "openai-chat", "events": []},
    ]
    path = write(json_lines(cases))
    first, second, third = load(path)
    assert (first.title, first.tools) == ("A ferry", (SEARCH,))
    assert (second.title, second.tools) == ("ferry", None)
    assert third.title == f"{path}, line 3"


def test_cases_bring_the_seconds_before_each_event(write: Write) -> None:
    cases = [{**CASE, "pauses": [0.5, 1, 0]}, CASE]
    pauses = [each.pauses for each in load(write(json_lines(cases)))]
    assert pauses == [(0.5, 1, 0), ()]


def test_cases_bring_the_limit_of_output_tokens(write: Write) -> None:
    cases = [{**CASE, "max_tokens": 100}, CASE]
    assert [each.max_tokens for each in load(write(json_lines(cases)))] == [100, None]


def test_cases_bring_the_conversation(write: Write) -> None:
    call = '<tool_call>{"name": "search", "arguments": {"query": "ferry to Oslo"}}</tool_call>'
    body = {"choices": [{"finish_reason": "stop", "message": {"content": call}}]}
    case = {"protocol": "openai-chat", "tools": [SEARCH], "response": body}
    quoted = {**case, "messages": [{"role": "user", "content": f"The page says {call}."}]}
    announced = {**quoted, "dialect": "hermes"}
    played = outcomes(load(write(json_lines([case, quoted, announced]))))
    assert [len(outcome.calls) for outcome in played] == [1, 0, 0]


def test_given_tools_replace_the_recorded_ones(write: Write) -> None:
    [recording] = load(write(spell({**CASE, "tools": [SEARCH]})))
    other = {**SEARCH, "function": {**SEARCH["function"], "name": "other"}}  # type: ignore[dict-item]  # a dict
    outcome = collect(chain.from_iterable(recording.play([other])))
    assert [rejected.reason.value for rejected in outcome.rejected] == ["unknown_tool"]


OTHER = {"name": "other", "parameters": {"type": "object"}}


def prompted(text: str, dialect: str = "constrained", **fields: Any) -> dict[str, Any]:
    """A case whose tools stood in the prompt."""
    body = {"choices": [{"finish_reason": "stop", "message": {"content": text}}]}
    case = {"protocol": "openai-chat", "tools": [SEARCH], "dialect": dialect, "response": body}
    return {**case, **fields}


def test_a_case_whose_tools_stood_in_the_prompt_is_read_in_its_dialect(write: Write) -> None:
    reply = '{"reply": "It sails."}'
    stream = [{"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in reply]
    calls = '{"calls": [{"name": "search", "arguments": {"query": "ferry"}}]}'
    cases = [prompted(reply), prompted("", events=[*stream, FINISH]), prompted(calls)]
    assert [
        (outcome.text, [call.name for call in outcome.calls])
        for outcome in outcomes(load(write(json_lines(cases))))
    ] == [("It sails.", []), ("It sails.", []), ("", ["search"])]


def test_given_tools_replace_those_of_the_prompt(write: Write) -> None:
    bare = '{"name": "search", "arguments": {"query": "ferry"}}'
    [recording] = load(write(spell(prompted(bare, "hermes", tools=[OTHER]))))
    for tools, count in ((None, 0), ([SEARCH], 1)):
        outcome = collect(chain.from_iterable(recording.play(tools)))
        assert len(outcome.calls) == count


def test_a_given_protocol_goes_before_what_the_file_says(write: Write) -> None:
    [recording] = load(write(spell(CASE)), "anthropic")
    assert recording.protocol == "anthropic"


CUT_STREAMS: dict[str, str | bytes] = {
    "a single chunk is no whole answer": json_lines(CHUNKS[:1]),
    "the last line of JSON was cut": json_lines(CHUNKS[:2]) + '{"choices": [{"del',
    "a case says where": spell({**CASE, "events": [*CHUNKS[:2], "!EOF", FINISH]}),
    "an SSE dump was cut in a character": sse(CHUNKS).encode().split(b"\xe2\x80\xa8")[0] + b"\xe2",
}


@pytest.mark.parametrize("title", CUT_STREAMS)
def test_a_recording_of_a_broken_stream_is_read_as_one(title: str, write: Write) -> None:
    [outcome] = outcomes(load(write(CUT_STREAMS[title])))
    assert (outcome.error, outcome.calls) == ("stream_dropped", ())
    assert [rejected.name for rejected in outcome.rejected] == ["search"]


def test_the_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(sse(CHUNKS).encode())))
    [recording] = load(STDIN)
    assert recording.title == "-"


DEEP = "[" * 100_000
UNREADABLE: dict[str, tuple[str | bytes, str]] = {
    "an empty file": ("", "recorded is empty: record something into it first"),
    "a blank file": (" \n\r\n", "recorded is empty"),
    "binary garbage": (b"\x00\x01\xff", "recorded is not UTF-8 text: a recording holds raw SSE"),
    "UTF-16": (spell(BODY).encode("utf-16"), "recorded is not UTF-8 text"),
    "prose": ("hello\nworld", "recorded, line 1, column 1 is not JSON (Expecting value): a rec"),
    "prose in one line": ("hello", "recorded, line 1, column 1 is not JSON"),
    "bytes that are no UTF-8": (b"\xff\xfe\xfd", "recorded, line 1, column 1 is not JSON"),
    "a broken line among good ones": (
        json_lines(CHUNKS[:1]) + '\n{"choices": nope}\n' + json_lines(CHUNKS[1:]),
        "recorded, line 3, column 13 is not JSON (Expecting value)",
    ),
    "a line that is nested too deep": (
        json_lines(CHUNKS) + DEEP + "\n",
        "recorded, line 4 cannot be read (maximum recursion",
    ),
    "a number that is too long": ("9" * 5_000 + "\n", "recorded, line 1 cannot be read (Exceeds"),
    "JSON that is nobody's": ('{"a": 1}\n{"b": 2}', "name one with --protocol"),
    "an empty array": ("[]", "no payload looks like a protocol that is known"),
    "SSE that is nobody's": ("data: hello\n\n", "no payload looks like a protocol"),
    "a case of an unknown protocol": (
        spell({"protocol": "carrier-pigeon", "events": []}),
        "recorded: protocol 'carrier-pigeon' is unknown; known are openai-chat, ",
    ),
    "a case without events": (spell({"protocol": "ollama"}), "recorded: a case is an object with"),
    "a case whose events are no list": (
        spell({"protocol": "ollama", "events": "none"}),
        "recorded: a case is an object with 'protocol' and either 'events', a list, or 'response'",
    ),
    "a payload among cases": (
        json_lines([CASE, FINISH]),
        "recorded, line 2: a case is an object with",
    ),
    "a case whose tools are no list": (
        json_lines([CASE, {**CASE, "tools": {"name": "search"}}]),
        "recorded, line 2: tools are a JSON array",
    ),
    "a case whose pauses are no seconds": (
        json_lines([CASE, {**CASE, "pauses": [0.1, -1]}]),
        "recorded, line 2: 'pauses' is a list of seconds",
    ),
    "a case whose limit is no number": (
        spell({**CASE, "max_tokens": "many"}),
        "recorded: 'max_tokens' is a whole number above 0",
    ),
    "a case whose pauses are no list": (
        spell({**CASE, "pauses": 0.1}),
        "recorded: 'pauses' is a list of seconds",
    ),
    "a case in a dialect that is not known": (
        json_lines([CASE, {**CASE, "dialect": "klingon"}]),
        "recorded, line 2: there is no dialect 'klingon'; did you mean 'inkling'",
    ),
    "a case with a choice that is none": (
        spell(prompted("", tool_choice="perhaps")),
        "recorded: tool_choice",
    ),
    "a case with a tool that is no object": (
        json.dumps([{**CASE, "tools": ["search"]}]),
        "recorded, element 1: tools[0] is 'search': write a ToolSpec or a definition",
    ),
}


@pytest.mark.parametrize("title", UNREADABLE)
def test_a_file_that_is_no_recording_says_what_is_wrong(title: str, write: Write) -> None:
    content, complaint = UNREADABLE[title]
    path = write(content)
    with pytest.raises(UnreadableRecording) as caught:
        load(path)
    assert complaint in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_protocol_that_is_not_known_is_named(write: Write) -> None:
    with pytest.raises(UnreadableRecording, match="--protocol: protocol 'x' is unknown; known are"):
        load(write(spell(BODY)), "x")


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableRecording, match="missing: No such file"):
        load(tmp_path / "missing")
    with pytest.raises(UnreadableRecording, match="Is a directory"):
        load(tmp_path)


def test_a_file_beyond_the_limit_is_refused(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    content = spell(BODY)
    monkeypatch.setattr(recordings, "MOST_BYTES", len(content.encode()))
    assert load(write(content))
    with pytest.raises(UnreadableRecording, match="has more than"):
        load(write(content + "\n"))


def test_a_line_beyond_the_limit_of_the_protocol_is_a_fault_of_the_stream(write: Write) -> None:
    [outcome] = outcomes(load(write(sse(CHUNKS[:1]) + "data: " + "x" * LIMIT + "\n\n")))
    assert (outcome.error, outcome.calls) == ("protocol", ())


def test_tools_are_read(write: Write) -> None:
    assert load_tools(write(json.dumps([SEARCH], indent=2))) == (SEARCH,)


BROKEN_TOOLS: dict[str, tuple[str, str]] = {
    "an empty file": ("", "recorded is empty"),
    "broken JSON": ('[\n  {"name": }\n]', "recorded, line 2, column 12 is not JSON"),
    "one tool, no array": (spell(SEARCH), "recorded: tools are a JSON array of tool definitions"),
    "names only": ('["search"]', "recorded: tools[0] is 'search': write a ToolSpec"),
    "a name that is no text": ('[{"name": 5}]', "recorded: tools[0].name is 5: write the name"),
    "a schema that is none": (
        '[{"name": "a b"}, {"name": "search", "parameters": {"type": "nonsense"}}]',
        '"search": the schema',
    ),
}


@pytest.mark.parametrize("title", BROKEN_TOOLS)
def test_a_file_that_holds_no_tools_says_what_is_wrong(title: str, write: Write) -> None:
    content, complaint = BROKEN_TOOLS[title]
    with pytest.raises(UnreadableRecording) as caught:
        load_tools(write(content))
    assert complaint in str(caught.value)
