"""What an upstream sent is kept as a case that can be played again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from quotations import FIRST as ASKED
from quotations import HERMES, MAIL, OTHER, TOOLS, Conversation, read_by_call
from scripted import calls, says
from upstreams.fake_endpoint import (
    ANSWER,
    FIRST,
    KEY,
    REQUEST,
    SECOND,
    WHOLE_REQUEST,
    asking,
    good,
    in_loop,
    serving,
)
from wholecall.agent.api import ask
from wholecall.agent.turn import sender_for
from wholecall.cli.recordings import load
from wholecall.dialects.emulation.emulate import emulate
from wholecall.dialects.rescue import encode
from wholecall.errors import RunFailed, UpstreamError
from wholecall.events import JSON, Text, collect
from wholecall.inspector.captured_answer import decode_case
from wholecall.messages import Choice, Message, Mode, Request, Role, ToolSpec
from wholecall.protocols.reader import Reader
from wholecall.protocols.registry import decode_request
from wholecall.tools.function_tool import tool
from wholecall.upstreams.base import Answer, once
from wholecall.upstreams.replay import Reaction, RecordingUpstream, ReplayUpstream, ScriptedAnswer

STREAM = FIRST + SECOND
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


def chunk(text: str) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}}]}


async def record(
    turn: Reaction, request: Request = REQUEST, *, secrets: tuple[str, ...] = ()
) -> Any:
    """The case that is written, and the chunks that the reader got."""
    lines: list[str] = []
    ticks: Iterator[int] = count()
    upstream = RecordingUpstream(
        ReplayUpstream([turn]), lines.append, secrets=secrets, clock=lambda: next(ticks)
    )
    async with upstream.answer(request) as answer:
        received = [chunk async for chunk in answer.chunks]
    await upstream.close()
    [line] = lines
    assert line.endswith("\n")
    assert line.count("\n") == 1
    return json.loads(line), received


def cut(data: bytes, size: int) -> tuple[bytes, ...]:
    return tuple(data[start : start + size] for start in range(0, len(data), size))


@pytest.mark.parametrize("size", [1, 2, 7, 50, 1000])
@in_loop
async def test_a_stream_is_kept_in_whole_lines_and_handed_on_as_it_came(size: int) -> None:
    stream = FIRST.replace(b"Hello", "Hellø €".encode()) + SECOND
    pieces = cut(stream, size)
    case, received = await record(ScriptedAnswer(chunks=pieces))
    assert tuple(received) == pieces
    assert "".join(case["events"]).encode() == stream
    assert all(event.endswith("\n") for event in case["events"])
    assert len(case["pauses"]) == len(case["events"])
    assert all(pause > 0 for pause in case["pauses"])


@pytest.mark.parametrize("end", range(0, len(STREAM), 5))
@in_loop
async def test_what_is_played_again_is_what_came(end: int, tmp_path: Path) -> None:
    """A stream that was cut anywhere is as cut as it was."""
    pieces = cut(STREAM[:end], 11)
    case, _ = await record(ScriptedAnswer(chunks=pieces))
    file = tmp_path / "case.jsonl"
    file.write_text(json.dumps(case) + "\n")
    [recording] = load(file)
    played = collect(chain.from_iterable(recording.play()))
    reader = Reader("openai-chat")
    events = [event for piece in pieces for event in reader.feed(piece)]
    assert played == collect([*events, *reader.end()])


@in_loop
async def test_text_and_payloads_are_kept_as_well() -> None:
    case, _ = await record(ScriptedAnswer(chunks=(chunk("a"), SimpleNamespace(choices=[]))))
    assert case["events"] == [chunk("a"), {"choices": []}]
    half = chunk("half of a pair: \ud83d")
    case, _ = await record(ScriptedAnswer(chunks=(half,)))
    assert case["events"] == [half]
    case, _ = await record(ScriptedAnswer(chunks=("data: 1\n", "\n", "data")))
    assert case["events"] == ["data: 1\n", "\n", "data"]


@pytest.mark.parametrize("body", [chunk("a"), chunk("half of a pair: \ud83d"), {}])
@in_loop
async def test_a_whole_answer_is_kept_as_one(body: dict[str, Any]) -> None:
    case, received = await record(ScriptedAnswer(body=body, protocol="ollama"))
    assert received == [body]
    assert case == {"title": "m: hi", "tools": None, "protocol": "ollama", "response": body}


WORDS = b"data: 1\n"


async def read_into(received: list[object], upstream: RecordingUpstream) -> None:
    async with upstream.answer(REQUEST) as answer:
        async for chunk in answer.chunks:
            received.append(chunk)  # noqa: PERF401  # what came before an error counts


@pytest.mark.parametrize(
    ("turn", "kept"),
    [
        (ScriptedAnswer(chunks=(WORDS, WORDS, WORDS)), ["data: 1\n", "data: 1\n"]),
        (ScriptedAnswer(chunks=(b"data: ", b"never", b" an end of line")), ["\ndata: never"]),
        (ScriptedAnswer(chunks=("data: €", "data: €")), ["\ndata: €"]),
        (ScriptedAnswer(chunks=({"a": 1}, {"b": 2}, {"c": 3})), [{"a": 1}, {"b": 2}]),
    ],
    ids=["lines", "one line", "text", "payloads"],
)
@in_loop
async def test_what_is_longer_than_a_recording_may_be_is_told_and_kept_as_cut(
    turn: ScriptedAnswer, kept: list[Any]
) -> None:
    lines: list[str] = []
    upstream = RecordingUpstream(ReplayUpstream([turn]), lines.append, most_bytes=16)
    received: list[object] = []
    with pytest.raises(RunFailed, match=r"more than 16 bytes.*what came before is kept"):
        await read_into(received, upstream)
    [line] = lines
    assert json.loads(line)["events"] == kept
    assert received == list(turn.chunks)[: len(received)]
    assert len(received) == len(turn.chunks) - 1


@in_loop
async def test_a_whole_answer_that_is_too_long_is_told_and_not_kept_as_an_empty_one() -> None:
    lines: list[str] = []
    turn = ScriptedAnswer(body=chunk("a" * 100))
    upstream = RecordingUpstream(ReplayUpstream([turn]), lines.append, most_bytes=100)
    with pytest.raises(RunFailed, match=r"more than 100 bytes.*nothing of it is kept"):
        await read_into([], upstream)
    assert lines == []


@in_loop
async def test_a_limit_is_of_one_answer_and_may_be_reached() -> None:
    lines: list[str] = []
    turns = [ScriptedAnswer(chunks=(WORDS, WORDS))] * 2
    upstream = RecordingUpstream(ReplayUpstream(turns), lines.append, most_bytes=2 * len(WORDS))
    for _ in turns:
        async with upstream.answer(REQUEST) as answer:
            assert [each async for each in answer.chunks] == [WORDS, WORDS]
    assert len(lines) == 2


@in_loop
async def test_a_run_says_what_ran_before_its_recording_was_full() -> None:
    long = "x" * 2000
    upstream = RecordingUpstream(
        ReplayUpstream([calls(("note", {"text": "a"})), says(long)]), list, most_bytes=1000
    )

    @tool
    async def note(text: str) -> str:
        return text

    with pytest.raises(RunFailed, match="more than 1000 bytes") as failed:
        await ask("m", "Go", tools=[note], upstream=upstream)
    assert [call.name for call in failed.value.ran] == ["note"]


@in_loop
async def test_the_case_says_what_was_asked() -> None:
    prompt = "What is the\n weather " + "in Oslo " * 20
    request = replace(
        REQUEST,
        messages=(Message(Role.USER, (Text(prompt),)),),
        tools=(ToolSpec("weather", SCHEMA, "Of a city."), ToolSpec("now")),
    )
    case, _ = await record(ScriptedAnswer(chunks=(STREAM,)), request)
    assert case["title"].startswith("m: What is the weather in Oslo in")
    assert len(case["title"]) < 100
    assert case["tools"] == [
        {
            "type": "function",
            "function": {"name": "weather", "description": "Of a city.", "parameters": SCHEMA},
        },
        {
            "type": "function",
            "function": {"name": "now", "parameters": {"type": "object", "properties": {}}},
        },
    ]
    case, _ = await record(ScriptedAnswer(), replace(REQUEST, messages=()))
    assert case["title"] == "m"
    assert case["tools"] is None


@in_loop
async def test_the_case_says_how_many_tokens_the_answer_might_have() -> None:
    for request in (REQUEST, emulate(replace(REQUEST, tools=(ToolSpec("now"),)), "hermes").request):
        case, _ = await record(ScriptedAnswer(), replace(request, max_tokens=100))
        assert case["max_tokens"] == 100


@in_loop
async def test_the_case_says_what_stood_in_the_prompt() -> None:
    request = replace(REQUEST, tools=(ToolSpec("now"),), choice=Choice(Mode.REQUIRED))
    emulated = emulate(request, "hermes", constrain="prefill")
    case, _ = await record(ScriptedAnswer(chunks=(STREAM,)), emulated.request)
    assert [tool["function"]["name"] for tool in case["tools"]] == ["now"]
    said = case["dialect"], case["tool_choice"], case["beginning"]
    assert said == ("hermes", "required", emulated.beginning)
    assert emulated.beginning


# how the tools are offered, what was said before, the answer, how many calls of it run
QUOTED: list[tuple[str, Conversation, dict[str, JSON], int]] = [
    ("native", read_by_call(HERMES), MAIL, 0),
    ("native", read_by_call(HERMES), OTHER, 1),
    ("native", ASKED, MAIL, 1),
    ("hermes", read_by_call(HERMES), MAIL, 0),
    ("hermes", read_by_call(HERMES), OTHER, 1),
    ("hermes", ASKED, MAIL, 1),
]


@pytest.mark.parametrize(("emulation", "messages", "call", "runs"), QUOTED)
@in_loop
async def test_a_case_is_decided_as_its_request_was(
    *, tmp_path: Path, emulation: str, messages: Conversation, call: dict[str, JSON], runs: int
) -> None:
    said = encode("hermes", [("send_mail", call)])
    asked = decode_request("openai-chat", {"model": "m", "messages": messages, "tools": TOOLS})
    sent = sender_for("m", asked.messages, emulation=emulation)(asked)
    case, received = await record(says(said), sent.request)
    reader = sent.make_reader(Answer(protocol="openai-chat", chunks=once({}), streamed=True))
    live = collect([*chain.from_iterable(map(reader.feed, received)), *reader.end()])
    assert len(live.calls) == runs
    file = tmp_path / "case.jsonl"
    file.write_text(json.dumps(case) + "\n")
    [recording] = load(file)
    played = collect(chain.from_iterable(recording.play()))
    assert [each.arguments for each in played.calls] == [each.arguments for each in live.calls]
    assert played.text == live.text
    released = [
        event
        for each in decode_case(json.dumps(case))["chunks"]
        for event in each["events"]
        if event.startswith("Released")
    ]
    assert len(released) == runs


@pytest.mark.parametrize(
    "key",
    [
        "my-own-secret",
        "sk-proj-abcdefghijklmnop1234",
        "sk-ant-api03-abcdefghijklmnop",
        "gsk_abcdefghijklmnopqrstuv",
        "AIzaSyA1234567890abcdefghijklmnopqrstuv",
        "Bearer abcdefghijklmnop.qrstuv==",
    ],
)
@pytest.mark.parametrize("size", [3, 1000])
@in_loop
async def test_keys_are_hidden_however_they_were_cut(key: str, size: int) -> None:
    pieces = cut(FIRST.replace(b"Hello", key.encode()), size)
    case, received = await record(ScriptedAnswer(chunks=pieces), secrets=("my-own-secret", ""))
    assert b"".join(received) == b"".join(pieces)
    assert key not in json.dumps(case)
    assert "***" in case["events"][0]


@in_loop
async def test_what_is_no_key_stays() -> None:
    words = b"the task-force asks: sk-short, hf_1, Bearer of news"
    case, _ = await record(ScriptedAnswer(chunks=(FIRST.replace(b"Hello", words),)))
    assert words.decode() in case["events"][0]


@in_loop
async def test_a_refusal_is_no_recording() -> None:
    with pytest.raises(UpstreamError):
        await record(UpstreamError("no"))


@in_loop
async def test_a_whole_answer_of_several_lines_is_one_answer() -> None:
    lines: list[str] = []
    whole = json.dumps(ANSWER, indent=2)

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text=whole, content_type="application/json")

    async with (
        serving(answer) as server,
        asking(server.url) as behind,
        RecordingUpstream(behind, lines.append).answer(WHOLE_REQUEST) as answered,
    ):
        assert [chunk async for chunk in answered.chunks] == [whole.encode()]
    assert json.loads(lines[0])["response"] == ANSWER


@in_loop
async def test_what_was_read_before_the_reader_left_is_kept() -> None:
    lines: list[str] = []
    turn = ScriptedAnswer(chunks=(FIRST, SECOND))
    upstream = RecordingUpstream(ReplayUpstream([turn]), lines.append)
    assert upstream.protocol == "openai-chat"
    async with upstream.answer(REQUEST) as answer:
        assert await anext(answer.chunks) == FIRST
    [line] = lines
    assert json.loads(line)["events"] == [FIRST.decode()]


@in_loop
async def test_a_real_stream_is_recorded_without_its_key() -> None:
    async def echo(request: web.BaseRequest) -> web.StreamResponse:
        body = {"choices": [{"message": {"content": request.headers["Authorization"]}}]}
        return web.json_response(body)

    for handler in (good, echo):
        lines: list[str] = []
        async with serving(handler) as server, asking(server.url, api_key=KEY) as behind:
            upstream = RecordingUpstream(behind, lines.append, secrets=behind.endpoint.secrets)
            async with upstream.answer(REQUEST) as answer:
                received = [chunk async for chunk in answer.chunks]
        assert received
        assert KEY not in lines[0]
