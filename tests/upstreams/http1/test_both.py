"""Both clients, directly and through a proxy, against the same servers: the same comes out."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

import pytest
from yarl import URL

from upstreams.http1.talking import (
    HEADERS,
    HELLO,
    Talk,
    greet,
    in_loops,
    listening,
    serving_context,
)
from wholecall.upstreams.http1.base import (
    ConnectTimeout,
    NotHttp,
    Pool,
    PoolClosed,
    ProxyRefused,
    Timeouts,
    Unsafe,
    read_some,
)
from wholecall.upstreams.http1.direct import DirectPool, open_socket
from wholecall.upstreams.http1.proxied import ProxiedPool

Make = Callable[[URL, Timeouts], Pool]


def make_pool(url: URL, timeouts: Timeouts) -> Pool:
    trust = ssl.create_default_context
    return DirectPool(url.origin(), timeouts=timeouts, trust=trust, open_socket=open_socket)


def make_proxied(url: URL, timeouts: Timeouts) -> Pool:
    """A proxy is asked for plain addresses as a server is, so that the server can play it."""
    trust = ssl.create_default_context
    return ProxiedPool(url.origin(), timeouts=timeouts, trust=trust, open_socket=open_socket)


both = pytest.mark.parametrize("make", [make_pool, make_proxied], ids=["directly", "by a proxy"])


@asynccontextmanager
async def using(client: Pool) -> AsyncIterator[Pool]:
    try:
        yield client
    finally:
        await client.close()
        assert client.closed


async def ask(client: Pool, url: URL) -> bytes:
    response = await client.post(url, body=b"hi", headers=HEADERS)
    with contextlib.closing(response):
        return await read_some(response, 1000)


@both
@pytest.mark.parametrize("size", [0, 10, 3_000_000])
@in_loops
async def test_a_request_and_its_answer(make: Make, size: int) -> None:
    heard: list[bytes] = []

    async def answer(talk: Talk) -> None:
        heard.append(await talk.hear())
        await talk.say(b"HTTP/1.1 200 OK\r\nContent-Type: a/B; c\r\nX-A: b\r\n", HELLO[17:])
        heard.append(await talk.hear())
        await talk.say(HELLO)

    async with listening(answer) as server, using(make(server.url, Timeouts())) as client:
        response = await client.post(server.url, body=bytes(size), headers=HEADERS)
        assert response.status == 200
        assert response.content_type == "a/b"
        assert response.headers["x-a"] == "b"
        assert (b"x-a", b"b") in response.raw_headers
        assert await read_some(response, 1000) == b"hello"
        response.close()
        page = await client.get(server.url, headers=HEADERS)
        assert await read_some(page, 1000) == b"hello"
        assert server.connections == 1
    assert heard[0].endswith(bytes(size))
    assert heard[1].startswith(b"GET ")


@both
@pytest.mark.parametrize(
    ("said", "error"),
    [
        (b"", ConnectionError),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello", ConnectionError),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel", ConnectionError),
        (b"220 mail.example ESMTP\r\n\r\n", NotHttp),
        (None, TimeoutError),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", TimeoutError),
    ],
)
@in_loops
async def test_what_goes_wrong_is_the_same_error(
    *, make: Make, said: bytes | None, error: type[OSError]
) -> None:
    async def answer(talk: Talk) -> None:
        await talk.hear()
        await talk.say(said or b"")
        if error is TimeoutError:
            await talk.wait_for_silence()

    timeouts = Timeouts(first_byte=0.1)
    async with listening(answer) as server, using(make(server.url, timeouts)) as client:
        with pytest.raises(error) as caught:
            await ask(client, server.url)
        assert isinstance(caught.value, TimeoutError) == (error is TimeoutError)


@both
@in_loops
async def test_another_silence_has_another_limit(make: Make) -> None:
    async def half(talk: Talk) -> None:
        await talk.hear()
        await talk.say(HELLO[:-1])
        await talk.wait_for_silence()

    timeouts = Timeouts(between_chunks=0.05)
    async with listening(half) as server, using(make(server.url, timeouts)) as client:
        response = await client.post(server.url, body=b"", headers=HEADERS)
        assert await response.read() == b"hell"
        with pytest.raises(TimeoutError):
            await response.read()
        response.close()


@both
@in_loops
async def test_a_redirect_is_not_followed(make: Make) -> None:
    async def elsewhere(talk: Talk) -> None:
        await talk.hear()
        location = b"location: http://127.0.0.1:9/\r\ncontent-length: 0\r\n\r\n"
        await talk.say(b"HTTP/1.1 307 Elsewhere\r\n" + location)
        await talk.hear()

    async with listening(elsewhere) as server, using(make(server.url, Timeouts())) as pool:
        response = await pool.post(server.url, body=b"secret", headers=HEADERS)
        assert response.status == 307
        response.close()


@both
@in_loops
async def test_what_was_closed_is_not_used(make: Make) -> None:
    async with listening(greet) as server:
        pool = make(server.url, Timeouts())
        await pool.close()
        with pytest.raises(PoolClosed):
            await ask(pool, server.url)


@both
@in_loops
async def test_nobody_listens(make: Make) -> None:
    async with listening(greet) as server:
        pass
    async with using(make(server.url, Timeouts())) as client:
        with pytest.raises(ConnectionError):
            await ask(client, server.url)


# ── Tunnels ─────────────────────────────────────────────────────────────────────────


async def tunnel(talk: Talk) -> None:
    """A proxy that connects to whomever it is told."""
    asked = (await talk.hear()).split(b" ")[1].decode()
    host, _, port = asked.rpartition(":")
    there, back = await asyncio.open_connection(host, int(port))
    await talk.say(b"HTTP/1.1 200 Connection established\r\n\r\n")

    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                target.write(data)
        finally:
            target.close()

    await asyncio.gather(copy(talk.reader, back), copy(there, talk.writer))


@pytest.mark.parametrize("trusted", [True, False])
@in_loops
async def test_a_safe_connection_goes_through_a_proxy_in_a_tunnel(
    trusted: bool, authority: Path
) -> None:
    def trust() -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(authority) if trusted else None)

    expected = nullcontext() if trusted else pytest.raises(Unsafe, match="verify failed")
    async with listening(greet, serving_context(authority)) as server, listening(tunnel) as proxy:
        url = proxy.url.origin()
        client = ProxiedPool(url, timeouts=Timeouts(), trust=trust, open_socket=open_socket)
        async with using(client):
            with expected:
                assert await ask(client, server.url) == b"hello"


@in_loops
async def test_a_proxy_that_opens_no_tunnel_says_why() -> None:
    async def refuse(talk: Talk) -> None:
        await talk.hear()
        await talk.say(b"HTTP/1.1 403 Not You\r\ncontent-length: 0\r\n\r\n")

    async with listening(refuse) as proxy, using(make_proxied(proxy.url, Timeouts())) as client:
        with pytest.raises(ProxyRefused, match="status 403: Not You") as caught:
            await ask(client, URL("https://127.0.0.1:1"))
        assert caught.value.status == 403


@in_loops
async def test_a_proxy_that_opens_none_in_time() -> None:
    async def silent(talk: Talk) -> None:
        await talk.wait_for_silence()

    timeouts = Timeouts(connect=0.1)
    async with listening(silent) as proxy, using(make_proxied(proxy.url, timeouts)) as client:
        with pytest.raises(ConnectTimeout):
            await ask(client, URL("https://127.0.0.1:1"))
