"""Bytes that pass through: cuts, limits, and troubles of the connection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from proxy.collected_events import Collected, KeptSink
from proxy_server import in_loop
from upstreams.fake_endpoint import Handler, Pauses, always, begin, forever, hang_up, serving
from wholecall.errors import UpstreamError
from wholecall.events import Ended, Text
from wholecall.proxy.handlers.passthrough import (
    MOST_HELD,
    Passthrough,
    UpstreamPipe,
    UpstreamRequest,
)
from wholecall.proxy.observe.taps import (
    Exchange,
    ExchangeEnded,
    ExchangeWatch,
    Fate,
    Reading,
    Reads,
    UpstreamAnswered,
)
from wholecall.upstreams.endpoint import Endpoint
from wholecall.upstreams.http import HttpSettings
from wholecall.upstreams.http_connection import Timeouts

TEXT = b'data: {"choices":[{"index":0,"delta":{"content":"Hello"}}]}'
STOP = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'
ERROR = b'data: {"error": {"message": "overloaded"}}\n\n'
KEY = "sk-ours-and-no-one-elses"
STREAM = UpstreamRequest(content=b"{}", model="m", stream=True)
WHOLE = UpstreamRequest(content=b"{}", model="m", stream=False)


class Seen:
    """A tap that keeps what it sees."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def open(self, _: Exchange) -> Reading:
        kinds = (Text, Ended, UpstreamAnswered, ExchangeEnded)
        return self.events, Reads(dict.fromkeys(kinds, list.append))


@asynccontextmanager
async def forwarding(
    handler: Handler, seen: Seen | None = None, **timeouts: float
) -> AsyncIterator[tuple[Passthrough, KeptSink, Collected]]:
    settings = HttpSettings(timeouts=Timeouts(**timeouts), retry=Pauses().retry(1), environ={})
    async with serving(handler) as behind:
        pipe = UpstreamPipe(Endpoint("openai-chat", behind.url, api_key=KEY), settings)
        watch = ExchangeWatch(Exchange(request_id="r"), [] if seen is None else [seen])
        sink, collected = KeptSink(), Collected()
        try:
            yield Passthrough(pipe, sink, writer=collected, watch=watch), sink, collected
        finally:
            await pipe.close()


def writing(*pieces: bytes, rudely: bool | None = None) -> Handler:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = await begin(request)
        for piece in pieces:
            await response.write(piece)
        if rudely is not None:
            hang_up(request, rudely=rudely)
        return response

    return handler


LINE_ENDS: dict[str, bytes] = {"LF": b"\n\n", "CRLF": b"\r\n\r\n", "CR": b"\r\r"}


@pytest.mark.parametrize("blank", LINE_ENDS.values(), ids=LINE_ENDS)
@in_loop
async def test_frames_are_kept_whole_whatever_ends_their_lines(blank: bytes) -> None:
    sent = TEXT + blank + STOP + blank + b"data: [DONE]" + blank
    async with forwarding(writing(sent[:30], sent[30:-10], sent[-10:])) as (passing, sink, _):
        await passing.run(STREAM)
    assert sink.frames == sent
    assert sink.closed


@in_loop
async def test_a_last_frame_without_its_end_gets_one() -> None:
    sent = TEXT + b"\n\n" + STOP + b"\n\ndata: [DONE]\n"
    async with forwarding(writing(sent)) as (passing, sink, _):
        await passing.run(STREAM)
    assert sink.frames == sent + b"\n\n"


@pytest.mark.parametrize("cut", [b"data: [DON", b'data: {"usage": {"prompt_tok', b": keep-al"])
@in_loop
async def test_of_a_frame_that_was_cut_behind_the_finish_reason_nothing_is_sent(cut: bytes) -> None:
    sent = TEXT + b"\n\n" + STOP + b"\n\n"
    async with forwarding(writing(sent + cut)) as (passing, sink, _):
        await passing.run(STREAM)
    assert sink.frames == sent
    assert sink.closed


@in_loop
async def test_a_stream_in_a_coding_that_nobody_asked_for_is_named() -> None:
    headers = {"content-type": "text/event-stream", "content-encoding": "br"}
    packed = always(lambda: web.Response(body=b"\x0b\x02", headers=headers))
    async with forwarding(packed) as (passing, sink, _):
        with pytest.raises(UpstreamError, match="encoded as 'br'"):
            await passing.run(STREAM)
    assert not sink.begun


@in_loop
async def test_a_frame_that_does_not_end_is_sent_in_pieces() -> None:
    long = b'data: {"choices":[{"index":0,"delta":{"content":"' + b"x" * 1_500_000
    async with forwarding(writing(long, b'"}}]}\n\n', STOP + b"\n\n")) as (passing, sink, _):
        await passing.run(STREAM)
    assert sink.frames.startswith(long)


@pytest.mark.parametrize("rudely", [True, False])
@in_loop
async def test_what_is_cut_is_an_error(rudely: bool) -> None:
    async with forwarding(writing(TEXT + b"\n\n" + STOP[:20], rudely=rudely)) as (passing, sink, _):
        with pytest.raises(UpstreamError) as caught:
            await passing.run(STREAM)
    assert caught.value.code == "stream_dropped"
    assert sink.frames == TEXT + b"\n\n"
    assert not sink.closed


@pytest.mark.parametrize("cut", [0, 30, len(TEXT) + 2], ids=["at once", "anywhere", "between"])
@in_loop
async def test_an_upstreams_own_error_is_passed_on_and_no_second_one_is_made(cut: int) -> None:
    sent, seen = TEXT + b"\n\n" + ERROR, Seen()
    async with forwarding(writing(sent[:cut], sent[cut:]), seen) as (passing, sink, _):
        await passing.run(STREAM)
    assert sink.frames == sent
    end = seen.events[-1]
    assert (end.fate, end.status, end.code) == (Fate.FAILED, 502, "upstream_error")


@in_loop
async def test_an_upstreams_own_error_has_a_status_if_nothing_came_before_it() -> None:
    whole = always(lambda: web.json_response({"error": {"message": "overloaded"}}))
    for handler, outgoing in ((writing(ERROR), STREAM), (whole, STREAM), (whole, WHOLE)):
        async with forwarding(handler) as (passing, sink, _):
            with pytest.raises(UpstreamError, match="overloaded") as caught:
                await passing.run(outgoing)
        assert caught.value.code == "upstream_error"
        assert not sink.begun


STRANGERS: dict[str, tuple[int, str, str]] = {
    "no content": (204, "", "status 204 and an empty body"),
    "nothing": (200, "", "status 200 and an empty body"),
    "a page": (200, "<html><title>Sign in</title></html>", "a web page"),
    "prose": (200, "It works!", "plain text"),
}


@pytest.mark.parametrize("outgoing", [STREAM, WHOLE], ids=["streamed", "whole"])
@pytest.mark.parametrize(("status", "body", "said"), STRANGERS.values(), ids=STRANGERS)
@in_loop
async def test_what_no_model_said_is_an_error_before_anything_is_sent(
    status: int, body: str, *, said: str, outgoing: UpstreamRequest
) -> None:
    stranger = always(lambda: web.Response(status=status, text=body))
    async with forwarding(stranger) as (passing, sink, _):
        with pytest.raises(UpstreamError, match=said) as caught:
            await passing.run(outgoing)
    assert caught.value.code == "protocol"
    assert not sink.begun


@in_loop
async def test_a_silence_in_a_stream_is_an_error() -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = await begin(request)
        await response.write(TEXT + b"\n\n")
        await forever()
        return response

    async with forwarding(handler, between_chunks=0.1) as (passing, _, _):
        with pytest.raises(UpstreamError, match="fell silent") as caught:
            await passing.run(STREAM)
    assert caught.value.code == "timeout"


@in_loop
async def test_taps_see_what_passes() -> None:
    seen = Seen()
    sent = [TEXT + b"\n\n", STOP + b"\n\n"]
    async with forwarding(writing(*sent), seen) as (passing, _, _):
        await passing.run(STREAM)
    kinds: Sequence[type] = [type(event) for event in seen.events]
    assert kinds == [UpstreamAnswered, Text, Ended]


@in_loop
async def test_a_whole_answer_keeps_its_type_and_what_is_left_of_the_account() -> None:
    said = b'{"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}'
    headers = {"X-RateLimit-Limit": "9", "openai-organization": "ours", "content-type": "text/x"}
    async with forwarding(always(lambda: web.Response(body=said, headers=headers))) as all_three:
        passing, sink, _ = all_three
        await passing.run(WHOLE)
    assert sink.body is not None
    assert (sink.body.content, sink.body.media_type) == (said, b"text/x")
    assert sink.body.headers == ((b"x-ratelimit-limit", b"9"),)


@in_loop
async def test_an_echoed_key_does_not_reach_a_client() -> None:
    said = b'{"choices": [{"message": {"content": "%s"}, "finish_reason": "stop"}]}' % KEY.encode()
    async with forwarding(always(lambda: web.Response(body=said))) as (passing, sink, _):
        await passing.run(WHOLE)
    assert sink.body is not None
    assert sink.body.content == said.replace(KEY.encode(), b"***")


@in_loop
async def test_a_whole_answer_that_is_cut_is_an_error() -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-length": "100"})
        await response.prepare(request)
        await response.write(b'{"choices"')
        hang_up(request)
        return response

    async with forwarding(handler) as (passing, _, _):
        with pytest.raises(UpstreamError) as caught:
            await passing.run(WHOLE)
    assert caught.value.code == "connection"


@in_loop
async def test_an_answer_in_one_piece_is_told_as_events_where_a_stream_was_asked_for() -> None:
    answer = {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}
    async with forwarding(always(lambda: web.json_response(answer))) as (passing, _, collected):
        await passing.run(STREAM)
    assert collected.text == "hi"
    assert [ended.finish_reason for ended in collected.of(Ended)] == ["stop"]


@in_loop
async def test_an_error_behind_half_a_frame_stands_apart() -> None:
    half = b"data: " + b"x" * (MOST_HELD + 1)
    async with forwarding(writing(half, rudely=True)) as (forwarded, sink, _):
        with pytest.raises(UpstreamError):
            await forwarded.run(STREAM)
    assert sink.frames.endswith(b"x\n\n")


@in_loop
async def test_what_cannot_be_read_is_not_passed_on_to_a_good_end() -> None:
    broken = b"data: {broken\n\n"
    async with forwarding(writing(TEXT + b"\n\n", broken + STOP + b"\n\n")) as (forwarded, sink, _):
        with pytest.raises(UpstreamError) as raised:
            await forwarded.run(STREAM)
    assert raised.value.code == "protocol"
    assert b"stop" not in sink.frames


@in_loop
async def test_what_breaks_off_before_one_knows_what_it_is_is_an_error() -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = await begin(request, "text/plain")
        await response.write(b"da")
        hang_up(request, rudely=True)
        return response

    async with forwarding(handler) as (passing, sink, _):
        with pytest.raises(UpstreamError) as caught:
            await passing.run(STREAM)
    assert caught.value.code == "connection"
    assert not sink.frames
