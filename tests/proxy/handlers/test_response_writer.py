"""Events become a stream or one body."""

from __future__ import annotations

import json

import pytest

from proxy.collected_events import KeptSink
from proxy_server import in_loop
from wholecall.errors import UpstreamError
from wholecall.events import Ended, Event, Fault, FaultKind, Text, Usage
from wholecall.protocols.response_base import Failure, ResponseHead, ResponseStyle
from wholecall.proxy.handlers.response_writer import StreamedResponse, WholeResponse

HEAD = ResponseHead(id="a1", model="m", created=1)
STYLE = ResponseStyle(upstream="openai-chat")
END = Ended("stop", None, "stop", None)
CUT = Ended(None, None, None, "stream_dropped")
FAULT = Fault(FaultKind.UPSTREAM_ERROR, "overloaded")
FAILURE = Failure(message="no", status=502, request_id="r")


def streamed(sink: KeptSink, *, progress: bool = False) -> StreamedResponse:
    return StreamedResponse(
        sink,
        "openai-chat",
        make_head=lambda: HEAD,
        style=ResponseStyle(usage=False),
        progress=progress,
    )


def whole(sink: KeptSink) -> WholeResponse:
    return WholeResponse(sink, "openai-chat", make_head=lambda: HEAD, style=STYLE)


def said(frames: bytes) -> str:
    chunks = [json.loads(line[6:]) for line in frames.splitlines() if line.startswith(b"data: {")]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk.get("choices")]
    return "".join(delta.get("content") or "" for delta in deltas)


@in_loop
async def test_a_stream_begins_with_the_first_event_and_ends_once() -> None:
    sink = KeptSink()
    answer = streamed(sink)
    assert sink.beat() == b": keep-alive\n\n"
    await answer.flush()
    assert sink.frames == b""
    answer.put(Text("Hi"))
    await answer.flush()
    assert sink.flushed
    assert sink.beat() == b": keep-alive\n\n"
    answer.put(END)
    await answer.finish()
    assert said(sink.frames) == "Hi"
    assert sink.frames.endswith(b"data: [DONE]\n\n")
    assert sink.closed


@in_loop
async def test_the_texts_of_two_turns_stand_apart() -> None:
    rows = [("One.", "Two.", "One.\n\nTwo."), ("One.\n", "Two.", "One.\nTwo.")]
    for first, second, joined in rows:
        sink = KeptSink()
        answer = streamed(sink)
        answer.begin_turn(void=False)
        answer.put(Text(first))
        answer.put(Text(""))
        answer.begin_turn(void=True)
        answer.put(Text(second))
        answer.put(Text("!"))
        assert said(sink.frames) == f"{joined}!"


@in_loop
async def test_progress_is_for_those_who_asked() -> None:
    silent, told = KeptSink(), KeptSink()
    streamed(silent).report({"turn": 1})
    streamed(told, progress=True).report({"turn": 1})
    assert silent.frames == b""
    assert b'"wholecall":{"turn":1}' in told.frames


@in_loop
async def test_a_failure_before_the_first_byte_has_a_status() -> None:
    sink = KeptSink()
    answer = streamed(sink)
    answer.put(Text("Hi"))
    await answer.fail(FAILURE, ((b"x-should-retry", b"false"),))
    assert sink.body is not None
    assert sink.body.status == 502
    assert sink.body.headers == ((b"x-should-retry", b"false"),)


@pytest.mark.parametrize("event", [None, Usage(1, 2), Text("Hi"), CUT, FAULT])
@in_loop
async def test_a_stream_that_does_not_end_well_is_an_error_and_not_ended(
    event: Event | None,
) -> None:
    sink = KeptSink()
    answer = streamed(sink)
    if event is not None:
        answer.put(event)
    with pytest.raises(UpstreamError):
        await answer.finish()
    assert not sink.closed
    # As long as nothing was sent, it has a status of its own.
    await answer.fail(FAILURE)
    assert sink.body is not None


@in_loop
async def test_a_failure_in_a_stream_ends_it_without_a_terminator() -> None:
    sink = KeptSink()
    sink.begun = True
    await streamed(sink).fail(FAILURE)
    assert b'"error"' in sink.frames
    assert b"[DONE]" not in sink.frames
    assert sink.closed


@in_loop
async def test_a_whole_answer_is_one_body() -> None:
    sink = KeptSink()
    answer = whole(sink)
    for event in (Usage(1, 2), Text("void")):
        answer.put(event)
    answer.report({"turn": 1})
    answer.report({"rejected": [{"name": "dig"}]})
    answer.begin_turn(void=True)
    answer.put(Text("One."))
    answer.begin_turn(void=False)
    answer.put(Text("Two."))
    answer.put(END)
    await answer.flush()
    await answer.finish()
    assert sink.body is not None
    assert sink.body.headers == ((b"x-wholecall-rejected", b"1"),)
    body = json.loads(sink.body.content)
    assert body["choices"][0]["message"]["content"] == "One.\n\nTwo."
    assert body["usage"]["prompt_tokens"] == 1


@in_loop
async def test_what_is_half_of_a_character_breaks_neither_an_answer_nor_an_error() -> None:
    sink = KeptSink()
    answer = whole(sink)
    for event in (Text("a\ud83d"), Text("\ude00b\ud83d"), END):
        answer.put(event)
    await answer.finish()
    assert sink.body is not None
    assert "a😀b\ufffd" in sink.body.content.decode()
    await whole(sink).fail(Failure(message="no \ud83d", status=502))
    assert "no \ufffd" in sink.body.content.decode()


@in_loop
async def test_a_whole_answer_that_was_cut_is_none() -> None:
    answer = whole(KeptSink())
    answer.put(Text("One"))
    with pytest.raises(UpstreamError):
        await answer.finish()
    sink = KeptSink()
    await whole(sink).fail(FAILURE)
    assert sink.body is not None
    assert json.loads(sink.body.content)["error"]["message"] == "no"
