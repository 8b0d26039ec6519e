"""The same over TLS, and who is not who it should be."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from upstreams.http_peer import Talk, ask, greet, in_loops, listening, pooling, serving_context
from wholecall.upstreams.http_connection import ConnectTimeout, Timeouts, Unsafe


@in_loops
async def test_a_handshake_that_does_not_come_in_time() -> None:
    async def silent(talk: Talk) -> None:
        await talk.wait_for_silence()

    async with listening(silent) as server:
        url = server.url.with_scheme("https")
        async with pooling(url, Timeouts(connect=0.1)) as pool:
            with pytest.raises(ConnectTimeout):
                await ask(pool, url)
            assert pool._connecting == 0


@in_loops
async def test_over_tls_it_is_the_same(authority: Path) -> None:
    def trust() -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(authority))

    context = serving_context(authority)
    async with listening(greet, context) as server, pooling(server.url, trust=trust) as pool:
        for _ in range(3):
            assert await ask(pool, server.url, body=bytes(1_000_000)) == b"hello"
        assert server.connections == 1


@in_loops
async def test_who_hangs_up_in_the_handshake() -> None:
    async def leave(talk: Talk) -> None:
        await talk.reader.read(65536)

    async with listening(leave) as server:
        url = server.url.with_scheme("https")
        async with pooling(url) as pool:
            with pytest.raises(ConnectionError, match="in the handshake"):
                await ask(pool, url)


@in_loops
async def test_plain_text_where_tls_should_be() -> None:
    async def speak(talk: Talk) -> None:
        await talk.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with listening(speak) as server:
        url = server.url.with_scheme("https")
        async with pooling(url) as pool:
            with pytest.raises(Unsafe):
                await ask(pool, url)
