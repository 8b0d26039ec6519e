"""Requests go directly, through a proxy or through its tunnel: the same comes out."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from aiohappyeyeballs import AddrInfoType
from yarl import URL

from upstreams.http_peer import (
    HEADERS,
    HELLO,
    Handle,
    Listener,
    Talk,
    ask,
    emptied,
    greet,
    in_loops,
    listening,
    read_all,
    serving_context,
    wait_until,
)
from wholecall.upstreams.connection_pool import (
    ConnectionPool,
    ConnectionRoute,
    OpenSocket,
    open_socket,
)
from wholecall.upstreams.http_connection import (
    MOST_HEAD_BYTES,
    ConnectTimeout,
    NotHttp,
    PoolClosed,
    ProxyRefused,
    Stale,
    Timeouts,
    Unsafe,
)

TARGET = URL("https://upstream.example/v1")


class Way(NamedTuple):
    """Whether the upstream speaks TLS, and the scheme of the proxy."""

    safe: bool
    proxy: str = ""


WAYS = {
    "direct": Way(safe=False),
    "direct, TLS": Way(safe=True),
    "http proxy": Way(safe=False, proxy="http"),
    "https proxy": Way(safe=False, proxy="https"),
    "tunnel of an http proxy": Way(safe=True, proxy="http"),
    "tunnel of an https proxy": Way(safe=True, proxy="https"),
}
every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


async def tunnel(talk: Talk) -> None:
    """Connect to the place that the client names, as a proxy does."""
    asked = (await talk.hear()).split(b" ")[1].decode()
    host, _, port = asked.rpartition(":")
    await join(talk, URL.build(host=host, port=int(port)))


async def join(talk: Talk, place: URL, *answer: bytes) -> None:
    """Open a tunnel to this place."""
    there, back = await asyncio.open_connection(place.host, place.port)

    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                target.write(data)
        finally:
            target.close()

    try:
        await talk.say(*(answer or (ESTABLISHED,)))
        await asyncio.gather(copy(talk.reader, back), copy(there, talk.writer))
    finally:
        back.close()


@asynccontextmanager
async def pooling(
    url: URL,
    *,
    proxy: URL | None = None,
    timeouts: Timeouts | None = None,
    trusted: Path | None = None,
    opening: OpenSocket = open_socket,
) -> AsyncIterator[ConnectionPool]:
    def trust() -> ssl.SSLContext:
        return ssl.create_default_context(cafile=None if trusted is None else str(trusted))

    pool = ConnectionPool(
        url, proxy=proxy, timeouts=timeouts or Timeouts(), trust=trust, open_socket=opening
    )
    try:
        yield pool
    finally:
        await pool.close()
        assert pool.closed


@asynccontextmanager
async def reached(
    way: Way, handle: Handle, *, authority: Path
) -> AsyncIterator[tuple[Listener, URL]]:
    """Run an upstream, and a proxy if the way has one. A proxy is asked for plain addresses as a
    server is, so that there the server plays it. Yield the upstream, and the proxy's address."""
    context = serving_context(authority)
    if not way.proxy:
        async with listening(handle, context if way.safe else None) as server:
            yield server, URL()
    elif not way.safe:
        async with listening(handle, context if way.proxy == "https" else None) as server:
            proxy, server.url = server.url.origin(), server.url.with_scheme("http")
            yield server, proxy
    else:
        outer = context if way.proxy == "https" else None
        async with listening(handle, context) as server, listening(tunnel, outer) as proxying:
            yield server, proxying.url.origin()


@asynccontextmanager
async def reaching(
    way: Way, handle: Handle, *, authority: Path, timeouts: Timeouts | None = None
) -> AsyncIterator[tuple[Listener, ConnectionPool]]:
    async with (
        reached(way, handle, authority=authority) as (server, proxy),
        pooling(server.url, proxy=proxy or None, timeouts=timeouts, trusted=authority) as pool,
    ):
        yield server, pool


# ── The same by every way ───────────────────────────────────────────────────────────


@every_way
@pytest.mark.parametrize("size", [0, 10, 3_000_000])
@in_loops
async def test_a_request_and_its_answer(*, way: Way, size: int, authority: Path) -> None:
    heard: list[bytes] = []

    async def answer(talk: Talk) -> None:
        heard.append(await talk.hear())
        await talk.say(b"HTTP/1.1 200 OK\r\nContent-Type: a/B; c\r\nX-A: b\r\n", HELLO[17:])
        heard.append(await talk.hear())
        await talk.say(HELLO)

    async with reaching(way, answer, authority=authority) as (server, pool):
        response = await pool.post(server.url, body=bytes(size), headers=HEADERS)
        assert response.status == 200
        assert response.content_type == "a/b"
        assert response.headers["x-a"] == "b"
        assert (b"x-a", b"b") in response.raw_headers
        assert await read_all(response) == b"hello"
        response.close()
        page = await pool.get(server.url, headers=HEADERS)
        assert await read_all(page) == b"hello"
        assert server.connections == 1
    assert heard[0].endswith(bytes(size))
    target = str(server.url) if way.proxy and not way.safe else server.url.raw_path_qs
    assert heard[0].startswith(f"POST {target} HTTP/1.1\r\n".encode())
    assert heard[1].startswith(f"GET {target} HTTP/1.1\r\n".encode())


@every_way
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
    *, way: Way, said: bytes | None, error: type[OSError], authority: Path
) -> None:
    async def answer(talk: Talk) -> None:
        await talk.hear()
        await talk.say(said or b"")
        if error is TimeoutError:
            await talk.wait_for_silence()

    timeouts = Timeouts(first_byte=0.1)
    async with reaching(way, answer, authority=authority, timeouts=timeouts) as (server, pool):
        with pytest.raises(error) as caught:
            await ask(pool, server.url)
        assert isinstance(caught.value, TimeoutError) == (error is TimeoutError)


@every_way
@in_loops
async def test_another_silence_has_another_limit(way: Way, authority: Path) -> None:
    async def half(talk: Talk) -> None:
        await talk.hear()
        await talk.say(HELLO[:-1])
        await talk.wait_for_silence()

    timeouts = Timeouts(between_chunks=0.05)
    async with reaching(way, half, authority=authority, timeouts=timeouts) as (server, pool):
        response = await pool.post(server.url, body=b"", headers=HEADERS)
        assert await response.read() == b"hell"
        with pytest.raises(TimeoutError):
            await response.read()
        response.close()


@every_way
@in_loops
async def test_a_redirect_is_not_followed(way: Way, authority: Path) -> None:
    async def elsewhere(talk: Talk) -> None:
        await talk.hear()
        location = b"location: http://127.0.0.1:9/\r\ncontent-length: 0\r\n\r\n"
        await talk.say(b"HTTP/1.1 307 Elsewhere\r\n" + location)
        await talk.hear()

    async with reaching(way, elsewhere, authority=authority) as (server, pool):
        response = await pool.post(server.url, body=b"secret", headers=HEADERS)
        assert response.status == 307
        response.close()


@every_way
@in_loops
async def test_a_kept_connection_that_is_gone_is_stale(way: Way, authority: Path) -> None:
    async def once(talk: Talk) -> None:
        await talk.hear()
        await talk.say(HELLO)
        await talk.hear()

    async with reaching(way, once, authority=authority) as (server, pool):
        assert await ask(pool, server.url) == b"hello"
        with pytest.raises(Stale):
            await ask(pool, server.url)


@every_way
@in_loops
async def test_a_reader_that_leaves_closes_the_connection(way: Way, authority: Path) -> None:
    gone = asyncio.Event()

    async def endless(talk: Talk) -> None:
        await talk.hear()
        await talk.say(b"HTTP/1.1 200 OK\r\n\r\nhe")
        with contextlib.suppress(OSError):
            await talk.wait_for_silence()
        gone.set()

    async with reaching(way, endless, authority=authority) as (server, pool):
        response = await pool.post(server.url, body=b"", headers=HEADERS)
        assert await response.read() == b"he"
        response.close()
        await gone.wait()
        await emptied(pool)


@every_way
@in_loops
async def test_what_was_closed_is_not_used(way: Way, authority: Path) -> None:
    async with reaching(way, greet, authority=authority) as (server, pool):
        await pool.close()
        with pytest.raises(PoolClosed):
            await ask(pool, server.url)


@pytest.mark.parametrize("way", [way for way in WAYS.values() if way.proxy], ids=str)
@in_loops
async def test_a_proxy_that_cannot_be_reached_is_named(way: Way, authority: Path) -> None:
    async with reaching(way, greet, authority=authority) as (_, pool):
        pass
    proxy = pool._route.first_hop
    async with pooling(TARGET.with_scheme("https" if way.safe else "http"), proxy=proxy) as pool:
        with pytest.raises(ConnectionError, match=r"^the proxy cannot be reached: Connection ref"):
            await ask(pool, TARGET)


@in_loops
async def test_closing_the_pool_while_the_proxys_name_is_looked_up() -> None:
    async with pooling(TARGET, proxy=URL("http://localhost:1")) as pool:
        asking = asyncio.create_task(ask(pool, TARGET))
        while pool._looking is None:
            await asyncio.sleep(0)
        await pool.close()
        with pytest.raises(PoolClosed):
            await asking


@every_way
@in_loops
async def test_a_request_cancelled_at_any_step_leaves_no_socket(way: Way, authority: Path) -> None:
    opened: list[socket.socket] = []

    def remember(address: AddrInfoType) -> socket.socket:
        opened.append(open_socket(address))
        return opened[-1]

    async def is_answered_in_time(steps: int) -> bool:
        async with pooling(
            server.url, proxy=proxy or None, trusted=authority, opening=remember
        ) as pool:
            asking = asyncio.create_task(ask(pool, server.url))
            await wait_until(lambda: bool(opened))  # before, a thread is at work
            for _ in range(steps):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.wait([asking])
            assert await ask(pool, server.url) == b"hello"
        return not asking.cancelled()

    async with reached(way, greet, authority=authority) as (server, proxy):
        steps = 0
        while not await is_answered_in_time(steps):
            assert {each.fileno() for each in opened} == {-1}
            opened.clear()
            steps += 1


# ── Who is trusted ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("way", "whom"),
    [
        (Way(safe=True), ""),
        (Way(safe=False, proxy="https"), "the proxy: "),
        (Way(safe=True, proxy="http"), ""),
        (Way(safe=True, proxy="https"), "the proxy: "),
    ],
    ids=str,
)
@in_loops
async def test_an_unknown_certificate_is_refused(*, way: Way, whom: str, authority: Path) -> None:
    heard: list[bytes] = []

    async def note(talk: Talk) -> None:
        heard.append(await talk.hear())

    async with (
        reached(way, note, authority=authority) as (server, proxy),
        pooling(server.url, proxy=proxy or None) as pool,
    ):
        with pytest.raises(Unsafe, match=f"^{whom}.*certificate verify failed"):
            await ask(pool, server.url)
        assert pool._connecting == 0
    assert heard == []


@in_loops
async def test_a_tunnel_proves_no_name(authority: Path) -> None:
    """The proxy may lead anywhere: whoever answers there has to be the upstream."""

    async def mislead(talk: Talk) -> None:
        await talk.hear()
        await join(talk, server.url)

    async with (
        listening(greet, serving_context(authority)) as server,
        listening(mislead) as proxy,
        pooling(TARGET, proxy=proxy.url.origin(), trusted=authority) as pool,
    ):
        with pytest.raises(Unsafe, match=r"upstream\.example"):
            await ask(pool, TARGET)


# ── What a proxy is told ────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("origin", "proxy", "said"),
    [
        (
            "https://upstream.example",
            "http://proxy:1",
            ["CONNECT upstream.example:443 HTTP/1.1", "Host: upstream.example:443"],
        ),
        (
            "https://[::1]:8443",
            "http://:word@proxy:1",
            [
                "CONNECT [::1]:8443 HTTP/1.1",
                "Host: [::1]:8443",
                "Proxy-Authorization: Basic OndvcmQ=",
            ],
        ),
        (
            "https://user:key@bücher.example",
            "http://us%20er:word@proxy:1",
            [
                "CONNECT xn--bcher-kva.example:443 HTTP/1.1",
                "Host: xn--bcher-kva.example:443",
                "Proxy-Authorization: Basic dXMgZXI6d29yZA==",
            ],
        ),
    ],
)
def test_a_tunnel_is_asked_for_with_nothing_of_the_upstreams(
    *, origin: str, proxy: str, said: list[str]
) -> None:
    route = ConnectionRoute(URL(origin), proxy=URL(proxy), trust=ssl.create_default_context)
    lines = [*said[:2], "User-Agent: wholecall", *said[2:], "", ""]
    assert route._write_connect().decode() == "\r\n".join(lines)


@pytest.mark.parametrize(
    ("url", "proxy", "headers", "lines"),
    [
        (
            "http://up.example/a%20b?c=d#e",
            "http://p:1",
            {},
            ["POST http://up.example/a%20b?c=d HTTP/1.1", "Host: up.example"],
        ),
        (
            "http://u:k@[::1]:8000/a",
            "https://user:word@p:1",
            {"A": "b"},
            [
                "POST http://[::1]:8000/a HTTP/1.1",
                "Host: [::1]:8000",
                "Authorization: Basic dTpr",
                "Proxy-Authorization: Basic dXNlcjp3b3Jk",
                "A: b",
            ],
        ),
        (
            "http://up.example/",
            "http://user:word@p:1",
            {"proxy-authorization": "Bearer mine", "host": "there"},
            [
                "POST http://up.example/ HTTP/1.1",
                "proxy-authorization: Bearer mine",
                "host: there",
            ],
        ),
        (
            "https://up.example/",
            "http://user:word@p:1",
            {},
            ["POST / HTTP/1.1", "Host: up.example"],
        ),
    ],
)
def test_a_request_names_the_whole_address_only_to_a_proxy(
    *, url: str, proxy: str, headers: dict[str, str], lines: list[str]
) -> None:
    route = ConnectionRoute(URL(url).origin(), proxy=URL(proxy), trust=ssl.create_default_context)
    head = route.write_head("POST", URL(url), headers=headers, length=2)
    assert head.decode() == "\r\n".join([*lines, "Content-Length: 2", "", ""])


# ── What a proxy answers to CONNECT ─────────────────────────────────────────────────


Cut = Callable[[bytes], Sequence[bytes]]
CUTS: dict[str, Cut] = {
    "whole": lambda said: [said],
    "by bytes": lambda said: [bytes([each]) for each in said],
    "halves": lambda said: [said[: len(said) // 2], said[len(said) // 2 :]],
}


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 Connection established\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nproxy-agent: squid\r\n\r\n",
        b"HTTP/1.1 200\r\n\r\n",
        b"HTTP/1.1 200 OK\n\n",
        b"HTTP/1.1 204 Fine\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    ],
)
@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
@in_loops
async def test_a_tunnel_opens(*, said: bytes, cut: Cut, authority: Path) -> None:
    async def open_tunnel(talk: Talk) -> None:
        await talk.hear()
        await join(talk, server.url, *cut(said))

    async with (
        listening(greet, serving_context(authority)) as server,
        listening(open_tunnel) as proxy,
        pooling(server.url, proxy=proxy.url.origin(), trusted=authority) as pool,
    ):
        assert await ask(pool, server.url) == b"hello"


@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        (
            b"HTTP/1.1 403 Not You\r\ncontent-length: 0\r\n\r\n",
            ProxyRefused,
            "the proxy answered with status 403: Not You",
        ),
        (b"HTTP/1.1 407 \x1b[1mNo\x07\r\n\r\n<html>", ProxyRefused, "status 407: [1mNo"),
        (b"HTTP/1.1 503\r\n\r\n", ProxyRefused, "status 503"),
        (b"HTTP/1.1 302 " + b"x" * 999 + b"\r\n\r\n", ProxyRefused, "x" * 200),
        (b"SSH-2.0-OpenSSH\r\n\r\n", NotHttp, "the proxy's answer to CONNECT is not HTTP"),
        (b"HTTP/1.1 200 OK\r\n\r\nnoise", NotHttp, "more than an answer to CONNECT"),
        (b"x" * (MOST_HEAD_BYTES + 1), NotHttp, "the proxy sent a head of more than 65536 bytes"),
        (b"HTTP/1.1 200 O", ConnectionResetError, "hung up without an answer to CONNECT"),
        (b"HTTP/1.1 200 OK\r\n\r\n", ConnectionResetError, "hung up"),
    ],
)
@in_loops
async def test_a_tunnel_does_not_open(*, said: bytes, error: type[OSError], words: str) -> None:
    async def answer(talk: Talk) -> None:
        await talk.hear()
        await talk.say(said)

    async with (
        listening(answer) as proxy,
        pooling(TARGET, proxy=proxy.url.origin()) as pool,
    ):
        with pytest.raises(error, match=re.escape(words)) as caught:
            await ask(pool, TARGET)
        assert len(str(caught.value)) < 300
        assert pool._connecting == 0
        if isinstance(caught.value, ProxyRefused):
            assert caught.value.status == int(said.split(b" ")[1][:3])


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n"])
@in_loops
async def test_a_tunnel_that_does_not_open_in_time(said: bytes) -> None:
    async def silent(talk: Talk) -> None:
        await talk.hear()
        await talk.say(said)
        await talk.wait_for_silence()

    timeouts = Timeouts(connect=0.1)
    async with (
        listening(silent) as proxy,
        pooling(TARGET, proxy=proxy.url.origin(), timeouts=timeouts) as pool,
    ):
        with pytest.raises(ConnectTimeout):
            await ask(pool, TARGET)
        assert pool._connecting == 0


@in_loops
async def test_a_proxy_that_leaves_before_it_is_asked_leaves_no_trace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def leave(talk: Talk) -> None:
        talk.hang_up(rudely=True)

    async def ask_once() -> None:
        async with pooling(TARGET, proxy=proxy.url.origin()) as pool:
            with pytest.raises(OSError, match=r"."):
                await ask(pool, TARGET)

    async with listening(leave) as proxy:
        for _ in range(20):
            await ask_once()
    gc.collect()
    assert caplog.records == []
