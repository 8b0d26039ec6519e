"""Upstreams over HTTP when something goes wrong: refusals, silence, broken connections."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from upstreams.http1.talking import Talk, in_loops, listening, serving_context
from upstreams.serving import (
    ANSWER,
    FIRST,
    KEY,
    REQUEST,
    SECOND,
    WHOLE_REQUEST,
    Handler,
    Pauses,
    always,
    asking,
    begin,
    forever,
    good,
    hang_up,
    in_loop,
    read_all,
    read_outcome,
    serving,
    stream,
)
from wholecall.core.conversation import Request
from wholecall.errors import UpstreamError
from wholecall.upstreams import http
from wholecall.upstreams.http import HttpSettings, HttpUpstream
from wholecall.upstreams.http1.base import Timeouts
from wholecall.upstreams.retry import RetryPolicy

# ── Streams that break ──────────────────────────────────────────────────────────────


async def cut(request: web.BaseRequest) -> web.StreamResponse:
    response = await begin(request)
    await response.write(FIRST)
    hang_up(request)  # without the last, empty chunk of HTTP
    return response


async def polite(request: web.BaseRequest) -> web.StreamResponse:
    return await stream(request, FIRST)


@pytest.mark.parametrize("handler", [cut, polite])
@in_loop
async def test_a_dropped_connection_ends_the_chunks_and_the_reader_says_so(
    handler: Handler,
) -> None:
    async with serving(handler) as server, asking(server.url) as upstream:
        outcome = await read_outcome(upstream)
    assert outcome.text == "Hello"
    assert outcome.error == "stream_dropped"


@in_loop
async def test_a_reset_ends_the_chunks_as_well() -> None:
    read = asyncio.Event()

    async def reset(request: web.BaseRequest) -> web.StreamResponse:
        response = await begin(request)
        await response.write(FIRST)
        await read.wait()  # a reset takes along what nobody has read
        hang_up(request, rudely=True)
        return response

    received = []
    async with (
        serving(reset) as server,
        asking(server.url) as upstream,
        upstream.answer(REQUEST) as answer,
    ):
        async for chunk in answer.chunks:
            received.append(chunk)
            read.set()
    assert received == [FIRST]


@in_loop
async def test_who_hangs_up_rudely_behind_the_end_has_answered() -> None:
    async def rude(request: web.BaseRequest) -> web.StreamResponse:
        response = await begin(request)
        await response.write(FIRST + SECOND)
        hang_up(request)
        return response

    async with serving(rude) as server, asking(server.url) as upstream:
        assert (await read_outcome(upstream)).error is None


@pytest.mark.parametrize(
    ("asked", "kind", "said"),
    [
        (REQUEST, b"text/event-stream", FIRST),
        (WHOLE_REQUEST, b"application/json", json.dumps(ANSWER).encode()[:-1]),
    ],
    ids=["stream", "whole"],
)
@in_loops
async def test_who_cuts_a_safe_connection_cannot_feign_the_end_of_an_answer(
    *, asked: Request, kind: bytes, said: bytes, authority: Path
) -> None:
    """Neither loop tells an end of TLS from a cut. But an answer says itself when it is over."""

    async def cut_off(talk: Talk) -> None:
        await talk.hear()
        await talk.say(b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\n\r\n" % kind, said)
        talk.hang_up(rudely=True)

    trust = {"SSL_CERT_FILE": str(authority)}
    settings = HttpSettings(retry=RetryPolicy(retries=0), environ=trust)
    async with listening(cut_off, serving_context(authority)) as server:
        upstream = HttpUpstream("openai-chat", str(server.url.origin()), settings=settings)
        outcome = await read_outcome(upstream, asked)
        await upstream.close()
    assert outcome.error is not None
    assert outcome.finish_reason is None


@pytest.mark.parametrize("before", [b"", b'{"object": "chat.comp'])
@in_loop
async def test_a_whole_answer_that_is_cut_is_an_error(before: bytes) -> None:
    async def half(request: web.BaseRequest) -> web.StreamResponse:
        response = await begin(request, "application/json")
        if before:
            await response.write(before)
        hang_up(request)
        return response

    async with serving(half) as server, asking(server.url) as upstream:
        with pytest.raises(UpstreamError) as caught:
            await read_all(upstream, WHOLE_REQUEST)
        assert caught.value.code == "connection"


@in_loop
async def test_an_answer_that_goes_on_and_on_is_refused() -> None:
    piece = b" " * (1024 * 1024)

    async def endless(request: web.BaseRequest) -> web.StreamResponse:
        response = await begin(request, "application/json")
        await response.write(b"{")
        while True:
            await response.write(piece)

    async with serving(endless) as server, asking(server.url) as upstream:
        with pytest.raises(UpstreamError, match=f"more than {http.MOST_BODY_BYTES}") as caught:
            await read_all(upstream, WHOLE_REQUEST)
        assert caught.value.code == "limit"


# ── Waiting ─────────────────────────────────────────────────────────────────────────


async def before_headers(_request: web.BaseRequest) -> web.StreamResponse:
    await forever()
    return web.Response()


async def before_the_first_byte(request: web.BaseRequest) -> web.StreamResponse:
    response = await begin(request)
    await forever()
    return response


async def in_the_midst(request: web.BaseRequest) -> web.StreamResponse:
    response = await begin(request)
    await response.write(FIRST)
    await forever()
    return response


@pytest.mark.parametrize(
    ("handler", "timeouts", "said"),
    [
        (before_headers, Timeouts(first_byte=0.05), "did not begin to answer within 0.05 s"),
        (before_the_first_byte, Timeouts(first_byte=0.05), "did not begin to answer"),
        (in_the_midst, Timeouts(between_chunks=0.05), "fell silent for 0.05 s"),
    ],
)
@pytest.mark.parametrize("asked", [REQUEST, WHOLE_REQUEST], ids=["stream", "whole"])
@in_loop
async def test_silence_has_a_limit_in_each_phase(
    *,
    handler: Handler,
    timeouts: Timeouts,
    said: str,
    asked: Request,
) -> None:
    pauses = Pauses()
    async with (
        serving(handler) as server,
        asking(server.url, timeouts=timeouts, retry=pauses.retry()) as upstream,
    ):
        with pytest.raises(UpstreamError, match=said) as caught:
            await read_all(upstream, asked)
        assert caught.value.code == "timeout"
        assert len(server.requests) == 1, "who has waited long is not made to wait again"


@in_loop
async def test_what_was_read_before_the_silence_was_handed_on() -> None:
    async with (
        serving(in_the_midst) as server,
        asking(server.url, timeouts=Timeouts(between_chunks=0.05)) as upstream,
        upstream.answer(REQUEST) as answer,
    ):
        assert await anext(answer.chunks) == FIRST
        with pytest.raises(UpstreamError):
            await anext(answer.chunks)


@pytest.fixture
def deaf_port() -> Iterator[int]:
    """A port whose queue of connections is full: the next one gets no answer."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = []
        for _ in range(8):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
            waiting.append(client)
        yield listener.getsockname()[1]
        for client in waiting:
            client.close()


@in_loop
async def test_a_connection_that_does_not_come_about_is_tried_again(deaf_port: int) -> None:
    pauses = Pauses()
    timeouts = Timeouts(connect=0.05)
    url = f"http://127.0.0.1:{deaf_port}"
    async with asking(url, timeouts=timeouts, retry=pauses.retry()) as upstream:
        with pytest.raises(UpstreamError, match=r"no connection .* within 0\.05 s") as caught:
            await read_all(upstream)
    assert caught.value.code == "connection"
    assert pauses.seconds == [0.5, 1.0]


# ── Refusals and asking again ───────────────────────────────────────────────────────


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
@in_loop
async def test_a_passing_trouble_is_waited_out(status: int) -> None:
    async def troubled(request: web.BaseRequest) -> web.StreamResponse:
        if len(server.requests) <= 2:
            return web.json_response({"error": {"message": "busy"}}, status=status)
        return await good(request)

    pauses = Pauses()
    async with serving(troubled) as server, asking(server.url, retry=pauses.retry()) as upstream:
        assert await read_all(upstream) == FIRST + SECOND
        assert len(server.requests) == 3
        assert pauses.seconds == [0.5, 1.0]
        assert len(set(server.bodies)) == 1


@pytest.mark.parametrize(
    ("status", "headers", "attempts"),
    [
        (400, {}, 1),
        (401, {}, 1),
        (403, {}, 1),
        (404, {}, 1),
        (413, {}, 1),
        (422, {}, 1),
        (429, {}, 3),
        (500, {}, 3),
        (529, {}, 3),
        (500, {"x-should-retry": "false"}, 1),
        (400, {"x-should-retry": "true"}, 3),
    ],
)
@in_loop
async def test_a_refusal_is_raised_after_the_attempts_that_make_sense(
    *, status: int, headers: dict[str, str], attempts: int
) -> None:
    body = {"error": {"message": "no", "code": "because"}}
    refuse = always(lambda: web.json_response(body, status=status, headers=headers))
    async with (
        serving(refuse) as server,
        asking(server.url, retry=Pauses().retry()) as upstream,
    ):
        with pytest.raises(UpstreamError, match=f"status {status}: no$") as caught:
            await read_all(upstream)
        assert caught.value.status == status
        assert caught.value.code == "because"
        assert len(server.requests) == attempts


@in_loop
async def test_an_upstream_says_itself_how_long_to_wait() -> None:
    asked = iter([{"Retry-After": "7"}, {"retry-after-ms": "1500"}, {"Retry-After": "3600"}])

    busy = always(lambda: web.Response(status=429, headers=next(asked)))
    pauses = Pauses()
    async with serving(busy) as server, asking(server.url, retry=pauses.retry()) as upstream:
        with pytest.raises(UpstreamError) as caught:
            await read_all(upstream)
        assert pauses.seconds == [7.0, 1.5]
        assert caught.value.retry_after == 3600.0


@pytest.mark.parametrize("headers_first", [False, True])
@in_loop
async def test_a_connection_that_breaks_before_the_first_byte_is_tried_again(
    headers_first: bool,
) -> None:
    async def break_twice(request: web.BaseRequest) -> web.StreamResponse:
        if len(server.requests) > 2:
            return await good(request)
        response = await begin(request) if headers_first else web.StreamResponse()
        hang_up(request, rudely=True)
        return response

    pauses = Pauses()
    async with (
        serving(break_twice) as server,
        asking(server.url, retry=pauses.retry()) as upstream,
    ):
        assert await read_all(upstream) == FIRST + SECOND
        assert len(server.requests) == 3


@in_loop
async def test_who_closes_its_connections_without_a_word_is_asked_again_at_once() -> None:
    async def hang_up_on_the_second(request: web.BaseRequest) -> web.StreamResponse:
        if len(server.requests) == 2:
            hang_up(request)
        return await good(request)

    pauses = Pauses()
    async with (
        serving(hang_up_on_the_second) as server,
        asking(server.url, retry=pauses.retry()) as upstream,
    ):
        for _ in range(2):
            assert await read_all(upstream) == FIRST + SECOND
        assert len(server.requests) == 3
        assert pauses.seconds == [0.0]


@in_loop
async def test_after_the_first_byte_nothing_is_asked_again() -> None:
    async with serving(cut) as server, asking(server.url, retry=Pauses().retry()) as upstream:
        assert await read_all(upstream) == FIRST
        assert len(server.requests) == 1


@in_loop
async def test_nobody_listening_is_an_error_with_the_address() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    async with asking(url) as upstream:
        with pytest.raises(UpstreamError) as caught:
            await read_all(upstream)
    assert url in str(caught.value)
    assert caught.value.code == "connection"
    assert caught.value.status is None
    assert caught.value.__cause__ is not None


@in_loop
async def test_a_refusal_without_end_is_read_as_far_as_needed() -> None:
    async def endless(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(status=500)
        await response.prepare(request)
        while True:
            await response.write(b"no! " * 16384)

    async with serving(endless) as server, asking(server.url) as upstream:
        with pytest.raises(UpstreamError) as caught:
            await read_all(upstream)
        assert caught.value.status == 500
        assert len(str(caught.value)) < 1000
        assert len(caught.value.body) < 3000


@in_loop
async def test_a_refusal_whose_words_are_cut_keeps_its_status() -> None:
    async def half(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(status=503)
        await response.prepare(request)
        await response.write(b'{"error": ')
        hang_up(request)
        return response

    async with serving(half) as server, asking(server.url) as upstream:
        with pytest.raises(UpstreamError) as caught:
            await read_all(upstream)
        assert caught.value.status == 503


@in_loop
async def test_an_echoed_key_is_not_shown() -> None:
    async def echo(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=401, text=f"bad key: {request.headers['Authorization']}")

    async with serving(echo) as server, asking(server.url, api_key=KEY) as upstream:
        with pytest.raises(UpstreamError) as caught:
            await read_all(upstream)
        assert KEY not in f"{caught.value} {caught.value.body}"
        assert "bad key: Bearer ***" in str(caught.value)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@in_loop
async def test_a_redirect_is_not_followed(status: int) -> None:
    async with serving(good) as thief:
        headers = {"Location": f"{thief.url}/steal"}
        elsewhere = always(lambda: web.Response(status=status, headers=headers))
        async with serving(elsewhere) as server, asking(server.url, api_key=KEY) as upstream:
            with pytest.raises(UpstreamError, match="redirects to") as caught:
                await read_all(upstream)
        assert caught.value.status == status
        assert thief.requests == []


@in_loop
async def test_what_is_no_http_is_an_error() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"220 mail.example ESMTP\r\n\r\n")
        writer.close()

    mail = await asyncio.start_server(talk, "127.0.0.1", 0)
    port = mail.sockets[0].getsockname()[1]
    async with mail, asking(f"http://127.0.0.1:{port}", retry=Pauses().retry()) as upstream:
        with pytest.raises(UpstreamError, match="does not speak HTTP"):
            await read_all(upstream)
