"""Upstreams over HTTP that refuse: who is asked again, and what is told of the others."""

from __future__ import annotations

import asyncio
import socket

import pytest
from aiohttp import web

from upstreams.fake_endpoint import (
    FIRST,
    KEY,
    SECOND,
    Pauses,
    always,
    asking,
    begin,
    good,
    hang_up,
    in_loop,
    read_all,
    serving,
)
from wholecall.errors import UpstreamError


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
