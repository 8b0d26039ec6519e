"""However an answer ends, its connection is kept for the next one or closed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
from aiohttp import web

from upstreams.fake_endpoint import (
    ANSWER,
    FIRST,
    REQUEST,
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
    serving,
)
from wholecall.errors import UpstreamError
from wholecall.proxy.handlers.passthrough import UpstreamPipe, UpstreamRequest, read_whole
from wholecall.upstreams.connection_pool import ConnectionPool
from wholecall.upstreams.endpoint import Endpoint
from wholecall.upstreams.http import HttpSettings, Pools

Ask = Callable[[str], Awaitable[Pools]]


async def ask_upstream(url: str) -> Pools:
    """Read an answer to its end, whichever that is."""
    async with asking(url) as upstream:
        with suppress(UpstreamError):
            await read_all(upstream)
        await check(upstream._pools)
    return upstream._pools


async def ask_pipe(url: str) -> Pools:
    settings = HttpSettings(retry=Pauses().retry(0), environ={})
    pipe = UpstreamPipe(Endpoint("openai-chat", url), settings)
    letter = UpstreamRequest(content=b"{}", model="m", stream=False)
    with suppress(UpstreamError):
        async with pipe.send(letter) as response:
            await read_whole(pipe, response, most_bytes=100_000)
    await check(pipe._pools)
    with suppress(UpstreamError):
        await pipe.fetch_models()
    await check(pipe._pools)
    await pipe.close()
    return pipe._pools


async def check(pools: Pools) -> None:
    """Nothing is under way any more."""
    pool = await pools.current()
    assert isinstance(pool, ConnectionPool)
    while set(pool._idle) != pool._open:
        await asyncio.sleep(0)


async def endless(request: web.BaseRequest) -> web.StreamResponse:
    response = await begin(request, "application/json")
    while True:
        await response.write(b"{" + b" " * 65536)


async def cut(request: web.BaseRequest) -> web.StreamResponse:
    response = await begin(request)
    await response.write(FIRST)
    hang_up(request)
    return response


async def slow_refusal(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse(status=500)
    await response.prepare(request)
    while True:
        await response.write(b"no! " * 16384)


HANDLERS: dict[str, Handler] = {
    "good": good,
    "whole": always(lambda: web.json_response(ANSWER)),
    "refused": always(lambda: web.json_response({"error": {"message": "no"}}, status=400)),
    "refused without end": slow_refusal,
    "a web page": always(lambda: web.Response(text="<html>", content_type="text/html")),
    "without end": endless,
    "cut": cut,
}


@pytest.mark.parametrize("ask", [ask_upstream, ask_pipe], ids=["checked", "passed through"])
@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS)
@in_loop
async def test_no_connection_is_left_behind(ask: Ask, handler: Handler) -> None:
    async with serving(handler) as server:
        await ask(server.url)


@in_loop
async def test_what_was_closed_on_this_side_is_not_asked_again() -> None:
    asked = asyncio.Event()

    async def silent(_request: web.BaseRequest) -> web.StreamResponse:
        asked.set()
        await forever()
        return web.Response()

    async with serving(silent) as server, asking(server.url, retry=Pauses().retry()) as upstream:
        reading = asyncio.create_task(read_all(upstream, WHOLE_REQUEST))
        await asked.wait()
        await upstream.close()
        with pytest.raises(UpstreamError, match="closed on this side"):
            await reading
        assert len(server.requests) == 1


@in_loop
async def test_what_passes_through_fails_as_what_is_checked() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        heard.append(writer)
        writer.write(b"220 mail.example ESMTP\r\n\r\n")
        writer.close()

    heard: list[asyncio.StreamWriter] = []
    mail = await asyncio.start_server(talk, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{mail.sockets[0].getsockname()[1]}"
    settings = HttpSettings(retry=Pauses().retry(), environ={})
    pipe = UpstreamPipe(Endpoint("openai-chat", url), settings)
    async with mail, asking(url, retry=Pauses().retry()) as upstream:
        with pytest.raises(UpstreamError, match="does not speak HTTP") as checked:
            await read_all(upstream, REQUEST)
        with pytest.raises(UpstreamError, match="does not speak HTTP") as passed:
            await pipe.open(UpstreamRequest(content=b"{}", model="m", stream=True))
        assert (checked.value.code, checked.value.attempts) == ("connection", 1)
        assert (passed.value.code, passed.value.attempts) == ("connection", 1)
    await pipe.close()
