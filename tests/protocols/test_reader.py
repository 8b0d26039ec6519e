"""Framing, decoding and assembling in one: what a reader makes of each kind of chunk."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from openai.types.chat import ChatCompletionChunk

from wholecall.arguments.limits import DEFAULT
from wholecall.errors import ProtocolError, UnknownProtocol
from wholecall.events import (
    Fault,
    FaultKind,
    OfChoice,
    Outcome,
    Reason,
    Released,
    Start,
    Text,
    collect,
)
from wholecall.messages import ToolSpec
from wholecall.protocols.reader import Reader


def chunk(finish: str | None = None, *, choice: int = 0, **delta: Any) -> dict[str, Any]:
    choices = [{"index": choice, "delta": delta, "finish_reason": finish}]
    frame = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return {**frame, "choices": choices}


def call(arguments: str, name: str | None = None, *, index: int = 0) -> dict[str, Any]:
    head = {"id": f"call_{index}"} if name else {}
    return {"index": index, **head, "function": {"name": name, "arguments": arguments}}


STREAM = [
    chunk(content="é "),
    chunk(tool_calls=[call('{"city": "Os', "weather")]),
    chunk(tool_calls=[call('lo"}')]),
    chunk(finish="tool_calls"),
]


def write_event(payload: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(payload, ensure_ascii=False).encode() + b"\n\n"


WIRE = b"".join(map(write_event, STREAM))
DONE = b"data: [DONE]\n\n"


def read(*chunks: Any, protocol: str = "openai-chat", **options: Any) -> Outcome:
    reader = Reader(protocol, **options)
    events = [event for each in chunks for event in reader.feed(each)]
    return collect(events + reader.end())


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([*STREAM, DONE], id="decoded payloads"),
        pytest.param([WIRE + DONE], id="all bytes at once"),
        pytest.param([bytes([byte]) for byte in WIRE + DONE], id="single bytes"),
        pytest.param((WIRE + DONE).decode().splitlines(), id="lines"),
        pytest.param([json.dumps(each) for each in STREAM], id="JSON texts"),
        pytest.param(
            [
                f"data: {json.dumps(STREAM[0])}",
                STREAM[1],
                f"data: {json.dumps(STREAM[2])}",
                STREAM[3],
                "data: [DONE]",
            ],
            id="lines without blank ones, and payloads between them",
        ),
        pytest.param(
            [ChatCompletionChunk.model_validate(each) for each in STREAM], id="the SDK's objects"
        ),
    ],
)
def test_every_form_of_a_stream_gives_the_same_outcome(chunks: list[Any]) -> None:
    outcome = read(*chunks)
    assert [(each.name, dict(each.arguments)) for each in outcome.calls] == [
        ("weather", {"city": "Oslo"})
    ]
    assert (outcome.text, outcome.finish_reason, outcome.error) == ("é ", "tool_calls", None)


def test_a_whole_answer_goes_the_same_way() -> None:
    message = {"content": "é ", "tool_calls": [call('{"city": "Oslo"}', "weather")]}
    reader = Reader("openai-chat")
    body = {"choices": [{"message": message, "finish_reason": "tool_calls"}]}
    outcome = collect([*reader.feed_response(body), *reader.end()])
    assert outcome.calls[0].arguments == {"city": "Oslo"}
    assert outcome.inconsistencies == ()


def test_a_whole_answer_may_leave_out_what_only_a_stream_needs() -> None:
    calls = [None, {"id": "a", "function": {"name": "ping"}}, {**call("{}", "ping", index=7)}]
    body = {"choices": [{"message": {"tool_calls": calls}}, {"finish_reason": "stop"}]}
    reader = Reader("openai-chat")
    outcome = collect([*reader.feed_response(body), *reader.end()])
    assert [each.name for each in outcome.calls] == ["ping", "ping"]
    assert "slot_missing" not in {odd.oddity.value for odd in outcome.inconsistencies}


def test_choices_are_kept_apart() -> None:
    outcome = read(
        chunk(tool_calls=[call('{"city": "Os', "weather")]),
        chunk(choice=1, tool_calls=[call('{"city": "Ro', "weather")]),
        chunk(choice=2, content="neither"),
        chunk(tool_calls=[call('lo"}')]),
        chunk(choice=1, tool_calls=[call('me"}')]),
        DONE,
    )
    assert outcome.calls[0].arguments == {"city": "Oslo"}
    assert outcome.choices[1].calls[0].arguments == {"city": "Rome"}
    assert outcome.choices[2].text == "neither"
    assert [each.error for each in outcome.choices.values()] == [None, None]


def test_the_end_and_a_failure_concern_every_choice() -> None:
    reader = Reader("openai-chat")
    reader.feed(chunk(choice=1, tool_calls=[call('{"city": "Rome"}', "weather")]))
    failed = reader.feed({"error": {"message": "gone"}})
    assert [event.value for event in failed if isinstance(event, OfChoice)] == [failed[0]]
    outcome = collect(reader.end())
    assert outcome.error == "upstream_error"
    assert outcome.choices[1].rejected[0].reason is Reason.STREAM_DROPPED


LATE = chunk(tool_calls=[call('{"city": "Rome"}', "weather")])
LATE_CHOICE = chunk(choice=1, tool_calls=[call('{"city": "Rome"}', "weather")])


@pytest.mark.parametrize("late", [LATE, LATE_CHOICE], ids=["the same choice", "another one"])
@pytest.mark.parametrize("as_bytes", [False, True])
def test_a_call_behind_the_terminator_is_none(late: dict[str, Any], as_bytes: bool) -> None:
    chunks = [chunk(content="a", finish="stop"), late]
    first, last = map(write_event, chunks) if as_bytes else chunks
    outcome = read(first, DONE, last, last)
    assert (outcome.text, outcome.calls, outcome.choices) == ("a", (), {})
    assert [odd.oddity.value for odd in outcome.inconsistencies] == ["after_end"]


def test_a_payload_behind_a_line_comes_behind_it() -> None:
    outcome = read(chunk(content="a", finish="stop"), "data: [DONE]", LATE)
    assert (outcome.text, outcome.calls) == ("a", ())
    assert [odd.oddity.value for odd in outcome.inconsistencies] == ["after_end"]


def test_bytes_behind_a_payload_mean_what_it_made_of_them() -> None:
    def piece(text: str) -> bytes:
        delta = {"type": "input_json_delta", "partial_json": text}
        return write_event({"type": "content_block_delta", "delta": delta})

    def block(id: str) -> dict[str, Any]:
        content = {"type": "tool_use", "id": id, "name": "weather", "input": {}}
        return {"type": "content_block_start", "content_block": content}

    stop = {"type": "content_block_stop"}
    one = [write_event(block("a")), *map(piece, ('{"day": ', "1", "}")), stop]
    other = [block("b"), *map(piece, ('{"day": ', "2", "}")), stop]
    outcome = read(*one, *other, {"type": "message_stop"}, protocol="anthropic")
    assert [dict(each.arguments) for each in outcome.calls] == [{"day": 1}, {"day": 2}]


def test_a_stream_that_breaks_the_framings_limit_is_a_fault() -> None:
    reader = Reader("openai-chat")
    events = reader.feed(b"data: " + b"x" * (9 * 1024 * 1024))
    assert isinstance(events[0], Fault)
    assert events[0].kind is FaultKind.PROTOCOL
    assert reader.feed(WIRE + DONE) == []
    assert collect(reader.end()).error == "protocol"


def test_nothing_is_released_early_once_the_stream_has_failed() -> None:
    tools = [ToolSpec("weather", start=Start.CLOSED)]
    opened = chunk(tool_calls=[call('{"city": "Os', "weather")])
    closed = chunk(tool_calls=[call('lo"}')])
    sound = Reader("openai-chat", tools)
    assert any(isinstance(each, Released) for each in [*sound.feed(opened), *sound.feed(closed)])
    for failure in ({"error": {"message": "gone"}}, chunk(finish="content_filter")):
        broken = Reader("openai-chat", tools)
        events = [*broken.feed(opened), *broken.feed(failure), *broken.feed(closed)]
        assert not any(isinstance(each, Released) for each in events + broken.end())


def test_an_event_that_wants_only_its_blank_line_is_read_at_the_end() -> None:
    assert read(WIRE + b"data: [DONE]").finish_reason == "tool_calls"
    assert read(b'data: {"choices": [{"delta": {"content": "a"}}]}\n').text == "a"


def test_text_is_passed_on_at_once() -> None:
    assert Reader("openai-chat").feed(chunk(content="a")) == [Text("a")]


def test_an_unknown_protocol_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownProtocol, match=r"'smtp'.*openai-chat"):
        Reader("smtp")


# ── Bare JSON, pieces of text, limits, the end ──────────────────────────────────────

ERROR = {"error": {"message": "over quota", "code": 429}}
PRETTY = json.dumps(ERROR, indent=2)
PART = {"candidates": [{"content": {"parts": [{"text": "é"}]}}]}
LAST = {"candidates": [{"content": {"parts": [{"text": "!"}]}, "finishReason": "STOP"}]}
ARRAY = "[" + json.dumps(PART, indent=2) + "\n,\r\n" + json.dumps(LAST) + "\n]"


def every_form(text: str) -> list[Any]:
    return [
        pytest.param([text], id="one text"),
        pytest.param(list(text), id="single characters"),
        pytest.param(text.splitlines(keepends=True), id="lines with their ends"),
        pytest.param([text.encode()], id="bytes"),
        pytest.param([bytes([byte]) for byte in text.encode()], id="single bytes"),
        pytest.param([bytearray(text.encode())], id="a bytearray"),
        pytest.param([memoryview(text.encode())], id="a memoryview"),
    ]


@pytest.mark.parametrize("chunks", every_form(PRETTY) + every_form(json.dumps(ERROR)))
def test_an_error_that_is_no_event_stream_is_read(chunks: list[Any]) -> None:
    reader = Reader("openai-chat")
    events = [event for each in chunks for event in reader.feed(each)] + reader.end()
    assert [each.message for each in events if isinstance(each, Fault)][:1] == ["over quota"]


@pytest.mark.parametrize("chunks", every_form(ARRAY))
def test_gemini_s_array_is_a_stream(chunks: list[Any]) -> None:
    outcome = read(*chunks, protocol="gemini")
    assert (outcome.text, outcome.error) == ("é!", None)


@pytest.mark.parametrize("chunks", every_form((WIRE + DONE).decode()))
def test_text_may_be_cut_anywhere(chunks: list[Any]) -> None:
    assert read(*chunks).calls[0].arguments == {"city": "Oslo"}


def test_a_whole_answer_may_be_a_buffer() -> None:
    reader = Reader("openai-chat")
    body = memoryview(b'{"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}')
    assert collect([*reader.feed_response(body), *reader.end()]).text == "a"


def test_more_choices_than_the_limit_are_one_fault_for_all() -> None:
    reader = Reader("openai-chat")
    for index in range(DEFAULT.choices):
        assert not any(isinstance(each, Fault) for each in reader.feed(chunk("stop", choice=index)))
    events = reader.feed(chunk(choice=500, content="a"))
    assert events[0] == Fault(FaultKind.PROTOCOL, "the answer has more than 128 choices")
    assert reader.feed(chunk(choice=501, content="a")) == []
    assert collect(reader.end()).error == "protocol"


def test_the_end_is_told_once_and_nothing_follows_it() -> None:
    reader = Reader("openai-chat")
    assert reader.end() != []
    assert reader.end() == []
    for late in (chunk(content="a"), DONE):
        with pytest.raises(ProtocolError, match="the stream is over: each answer needs a new Re"):
            reader.feed(late)


WHOLE = '{"q": "aurora", "n": 3}'
GROWING = [WHOLE[:at] for at in (1, 6, 12, len(WHOLE), len(WHOLE))]


def anthropic(pieces: list[str]) -> list[Any]:
    block = {"type": "tool_use", "id": "toolu_1", "name": "search", "input": {}}
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return [
        {"type": "content_block_start", "index": 0, "content_block": block},
        *({"type": "content_block_delta", "index": 0, "delta": each} for each in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    ]


def responses(pieces: list[str]) -> list[Any]:
    item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "search"}
    place = {"output_index": 0, "item_id": "fc_1"}
    said = "response.function_call_arguments"
    return [
        {"type": "response.output_item.added", **place, "item": {**item, "arguments": ""}},
        *({"type": f"{said}.delta", **place, "delta": piece} for piece in pieces),
        {"type": f"{said}.done", **place, "arguments": pieces[-1]},
        {"type": "response.output_item.done", **place, "item": {**item, "arguments": pieces[-1]}},
        {"type": "response.completed", "response": {"status": "completed", "output": []}},
    ]


@pytest.mark.parametrize("as_bytes", [False, True])
@pytest.mark.parametrize(
    ("protocol", "write"), [("anthropic", anthropic), ("openai-responses", responses)]
)
def test_all_of_the_text_so_far_in_each_chunk_is_read_as_that(
    protocol: str, write: Callable[[list[str]], list[Any]], *, as_bytes: bool
) -> None:
    def read(pieces: list[str]) -> list[dict[str, Any]]:
        chunks = write(pieces)
        lines = "".join(f"data: {json.dumps(each)}\n\n" for each in chunks)
        reader = Reader(protocol)
        fed = [lines.encode()] if as_bytes else chunks
        events = [event for chunk in fed for event in reader.feed(chunk)]
        return [dict(call.arguments) for call in collect(events + reader.end()).calls]

    assert read(GROWING) == [{"q": "aurora", "n": 3}]
    assert read(GROWING[:-2]) == []


@pytest.mark.parametrize(
    ("protocol", "end"),
    [
        ("openai-chat", "data: [DONE]\n\n"),
        ("anthropic", {"type": "message_stop"}),
        ("ollama", {"message": {"content": ""}, "done": True, "done_reason": "stop"}),
        ("openai-responses", {"type": "response.completed", "response": {"output": []}}),
    ],
)
def test_it_knows_when_an_answer_has_said_its_end(protocol: str, end: Any) -> None:
    reader = Reader(protocol)
    assert not reader.is_terminated
    reader.feed(end)
    assert reader.is_terminated


def test_a_finish_reason_is_not_the_end_of_a_stream() -> None:
    reader = Reader("gemini")
    reader.feed({"candidates": [{"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"}]})
    assert not reader.is_terminated
