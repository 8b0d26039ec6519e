"""Answers that somebody else fetched: recorded, whole, or as they stream in."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from wholecall.errors import UnknownProtocol
from wholecall.events import Ended, Event, Released, collect
from wholecall.protocols.reader import Chunk, Tools
from wholecall.stream import (
    ToolCallBuffer,
    ToolUseBuffer,
    assemble,
    assemble_response,
    events,
    events_sync,
    should_execute_tool_calls,
)

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "search",
            "parameters": {
                "type": "object",
                "properties": {"q": {"type": "string"}},
                "required": ["q"],
            },
        },
    }
]


def chunk(finish_reason: str | None = None, **call: Any) -> dict[str, Any]:
    delta = {"tool_calls": [{"index": 0, **call}]} if call else {}
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


STREAM = [
    chunk(id="call_1", function={"name": "search", "arguments": '{"q": '}),
    chunk(function={"arguments": '"tést"}'}),
    chunk("tool_calls"),
]
LINES = [line for each in STREAM for line in (f"data: {json.dumps(each)}", "")]
BYTES = "\n".join([*LINES, "data: [DONE]", "", ""]).encode()
FORMS: dict[str, list[Chunk]] = {
    "decoded payloads": [*STREAM],
    "raw lines": [*LINES, "data: [DONE]", ""],
    "payloads and raw lines": [*STREAM, "data: [DONE]"],
    "raw bytes": [BYTES],
    "raw bytes, one by one": [bytes([byte]) for byte in BYTES],
    "until the connection closed": [*STREAM, "!EOF", chunk(function={"arguments": "more"})],
}


def assert_searched(calls: Iterable[Any]) -> None:
    assert [(call.id, call.name, call.arguments) for call in calls] == [
        ("call_1", "search", {"q": "tést"})
    ]


@pytest.mark.parametrize("form", FORMS)
def test_a_recorded_stream_is_assembled_in_whatever_form(form: str) -> None:
    outcome = assemble("openai-chat", FORMS[form], tools=TOOLS)
    assert_searched(outcome.calls)
    assert (outcome.finish_reason, outcome.error, outcome.rejected) == ("tool_calls", None, ())


def test_what_comes_after_the_connection_closed_is_not_read() -> None:
    outcome = assemble("openai-chat", [STREAM[0], "!EOF", *STREAM[1:]])
    assert (outcome.calls, outcome.error) == ((), "stream_dropped")
    assert [rejected.reason.value for rejected in outcome.rejected] == ["stream_dropped"]


async def replay(chunks: Iterable[Chunk]) -> AsyncIterator[Chunk]:
    for each in chunks:
        yield each


def events_awaited(
    chunks: Iterable[Chunk], *, protocol: str, tools: Tools | None = None
) -> Iterator[Event]:
    async def collect() -> list[Event]:
        return [event async for event in events(replay(chunks), protocol=protocol, tools=tools)]

    return iter(asyncio.run(collect()))


@pytest.mark.parametrize("read", [events_sync, events_awaited])
def test_the_events_of_a_stream_come_in_order_and_end(
    read: Callable[..., Iterator[Event]],
) -> None:
    seen = list(read(STREAM, protocol="openai-chat", tools=TOOLS))
    assert_searched(event.call for event in seen if isinstance(event, Released))
    assert isinstance(seen[-1], Ended)
    kinds = [type(event).__name__ for event in seen]
    assert kinds.index("Opened") < kinds.index("Grew") < kinds.index("Released")


def test_both_twins_tell_the_same() -> None:
    read_both = [
        list(read([BYTES], protocol="openai-chat", tools=TOOLS))
        for read in (events_sync, events_awaited)
    ]
    assert read_both[0] == read_both[1]


def test_events_are_told_as_soon_as_their_chunk_is_read() -> None:
    taken: list[int] = []

    def chunks() -> Iterator[Chunk]:
        for number, each in enumerate(STREAM):
            taken.append(number)
            yield each

    first = next(events_sync(chunks(), protocol="openai-chat"))
    assert type(first).__name__ == "Opened"
    assert taken == [0]


def test_a_protocol_that_is_not_known_is_named() -> None:
    with pytest.raises(UnknownProtocol, match="carrier-pigeon"):
        assemble("carrier-pigeon", [])
    with pytest.raises(UnknownProtocol, match="carrier-pigeon"):
        assemble_response("carrier-pigeon", {})


# ── Whole answers: the samples of "finish_reason analysis" ──────────────────────────

SEARCH = {"id": "call_1", "function": {"name": "search", "arguments": '{"q": "test"}'}}
CUT = {"id": "call_1", "function": {"name": "search", "arguments": '{"q": "test", "lim'}}
EMPTY = {"id": "call_1", "function": {"name": "search", "arguments": ""}}


def response(finish_reason: str | None, tool_calls: list[Any] | None) -> dict[str, Any]:
    message = {"role": "assistant", "content": None, "tool_calls": tool_calls}
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish_reason}]}


def as_object(value: Any) -> Any:
    """The same as the attributes of objects, as client libraries hand it out."""
    if isinstance(value, dict):
        return SimpleNamespace(**{name: as_object(each) for name, each in value.items()})
    return [as_object(each) for each in value] if isinstance(value, list) else value


FORMS_OF_A_BODY: list[Callable[[Any], Any]] = [
    lambda body: body,
    json.dumps,
    lambda body: json.dumps(body).encode(),
    as_object,
]
RESPONSES: dict[str, tuple[str | None, list[Any] | None, bool]] = {
    "calls, and finish_reason says stop": ("stop", [SEARCH], True),
    "calls, and finish_reason says so": ("tool_calls", [SEARCH], True),
    "calls, and no finish_reason": (None, [SEARCH], True),
    "calls, and a finish_reason that nobody knows": ("tool_call", [SEARCH], True),
    "a whole call although the limit was reached": ("length", [SEARCH], True),
    "no arguments in an answer that ended well": ("tool_calls", [EMPTY], True),
    "finish_reason says calls, and there are none": ("tool_calls", None, False),
    "finish_reason says calls, and the list is empty": ("tool_calls", [], False),
    "a call that the limit cut": ("length", [CUT], False),
    "a cut call, whatever finish_reason says": ("tool_calls", [CUT], False),
    "a call whose arguments never began": ("length", [EMPTY], False),
    "a call that a filter stopped": ("content_filter", [SEARCH], False),
    "an answer in words": ("stop", None, False),
}


@pytest.mark.parametrize("form", FORMS_OF_A_BODY)
@pytest.mark.parametrize("title", RESPONSES)
def test_calls_are_executed_by_what_is_there(title: str, form: Callable[[Any], Any]) -> None:
    finish_reason, tool_calls, executes = RESPONSES[title]
    assert should_execute_tool_calls(form(response(finish_reason, tool_calls))) is executes


def test_one_whole_call_beside_a_cut_one_is_executed() -> None:
    cut = {**CUT, "id": "call_2"}
    outcome = assemble_response("openai-chat", response("length", [SEARCH, cut]), tools=TOOLS)
    assert [call.id for call in outcome.calls] == ["call_1"]
    assert [rejected.reason.value for rejected in outcome.rejected] == ["truncated"]


def test_the_buffer_of_the_seed_sees_the_cut_too() -> None:
    buffer = ToolCallBuffer(finish_reason="length")
    buffer.add_tool_call("call_1", "search", '{"q": "test", "lim')
    assert not buffer.is_complete("call_1")
    assert not buffer.validate_completion_state()


def test_a_whole_answer_of_another_protocol() -> None:
    body = {
        "type": "message",
        "content": [
            {"type": "text", "text": "Looking."},
            {"type": "tool_use", "id": "toolu_1", "name": "search", "input": {"q": "x"}},
        ],
        "stop_reason": "tool_use",
    }
    outcome = assemble_response("anthropic", body, tools=TOOLS)
    assert [(call.name, call.arguments) for call in outcome.calls] == [("search", {"q": "x"})]
    assert (outcome.text, outcome.finish_reason) == ("Looking.", "tool_calls")


XML = """<function_calls>
<invoke name="bash">
<parameter name="command">ls -la && echo "<done>"</parameter>
</invoke>
</function_calls>"""


def read_block(text: str, tool_id: str | None = None) -> tuple[dict[str, Any] | None, str | None]:
    buffer = ToolUseBuffer()
    for character in text:
        assert buffer.handle_content_block_delta(0, character, tool_id)
    return buffer.handle_content_block_stop(0), buffer.last_error


def test_a_block_of_xml_is_a_tool_use_when_it_stops() -> None:
    use, error = read_block(XML, "toolu_1")
    assert use == {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "bash",
        "input": {"command": 'ls -la && echo "<done>"'},
    }
    assert error is None


def test_a_block_of_json_is_one_too() -> None:
    use, _ = read_block('{"name": "bash", "input": {"command": "ls"}}')
    assert use is not None
    assert (use["name"], use["input"]) == ("bash", {"command": "ls"})


@pytest.mark.parametrize("at", range(1, len(XML) - len("</invoke>\n</function_calls>")))
def test_a_cut_block_of_xml_is_none(at: int) -> None:
    use, error = read_block(XML[:at])
    assert use is None
    assert error


@pytest.mark.parametrize(("text", "why"), [(XML + XML, "several"), ("<b>bold</b>", "no call")])
def test_a_block_is_one_tool_use(text: str, why: str) -> None:
    use, error = read_block(text)
    assert use is None
    assert why in str(error)


# ── The limit of the request ────────────────────────────────────────────────────────


def test_every_way_to_read_an_answer_knows_the_limit_of_its_request() -> None:
    entry = {"index": 0, "id": "c", "function": {"name": "search", "arguments": {"q": "a"}}}
    said = {"tool_calls": [entry]}
    usage = {"completion_tokens": 9}
    body = {"choices": [{"message": said, "finish_reason": "tool_calls"}], "usage": usage}
    stream: list[Any] = [
        {"choices": [{"index": 0, "delta": said}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
        {"choices": [], "usage": usage},
        "data: [DONE]",
    ]

    async def chunks() -> AsyncIterator[Chunk]:
        for each in stream:
            yield each

    async def read_all(max_tokens: int | None) -> list[Event]:
        options: Any = {"protocol": "openai-chat", "tools": TOOLS, "max_tokens": max_tokens}
        return [event async for event in events(chunks(), **options)]

    for max_tokens, count, reason in ((9, 0, "length"), (10, 1, "tool_calls"), (None, 1, None)):
        options: Any = {"tools": TOOLS, "max_tokens": max_tokens}
        outcomes = [
            assemble("openai-chat", stream, **options),
            assemble_response("openai-chat", body, **options),
            collect(events_sync(stream, protocol="openai-chat", **options)),
            collect(asyncio.run(read_all(max_tokens))),
        ]
        assert [len(outcome.calls) for outcome in outcomes] == [count] * 4
        assert {outcome.finish_reason for outcome in outcomes} == {reason or "tool_calls"}
