"""Requests that come one behind the other, and what stands around them."""

from __future__ import annotations

import asyncio

import pytest

from proxy.http.test_uvicorn_protocol import App, listening, talk
from proxy_server import in_loop
from wholecall.proxy.config.schema import ServerLimits
from wholecall.proxy.http.uvicorn_protocol import MOST_WAITING

SLOW = b"GET /slow HTTP/1.1\r\nhost: a\r\n\r\n"
QUICK = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\nxx\r\n0\r\n"
BEGUN = b"5\r\nbegun\r\n"


async def talk_to_end(port: int) -> None:
    """Ask something else, and wait for the answer."""
    reader, writer = await talk(port, QUICK)
    await reader.readuntil(b"0\r\n\r\n")
    writer.close()


@pytest.mark.parametrize("behind", [b"", QUICK, QUICK * 3], ids=["none", "one", "three"])
@in_loop
async def test_a_client_that_leaves_is_missed_whatever_waits_behind_its_request(
    behind: bytes,
) -> None:
    app = App()
    async with listening(app) as port:
        reader, writer = await talk(port, SLOW)
        await reader.readuntil(BEGUN)
        writer.write(behind)
        await writer.drain()
        writer.close()
        await app.left.wait()


@in_loop
async def test_requests_in_line_are_answered_in_turn() -> None:
    async with listening(App()) as port:
        reader, writer = await talk(port, QUICK * MOST_WAITING)
        for _ in range(MOST_WAITING):
            assert (await reader.readuntil(b"0\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        writer.close()


@pytest.mark.parametrize("piece", [1, 7], ids=["one by one", "several at a time"])
@in_loop
async def test_few_requests_wait_in_line(piece: int) -> None:
    app = App()
    async with listening(app) as port:
        reader, writer = await talk(port, SLOW)
        await reader.readuntil(BEGUN)
        for _ in range(MOST_WAITING // piece + 2):
            writer.write(QUICK * piece)
            await writer.drain()
            await asyncio.sleep(0)
        assert len(app.came) == 1  # none of them was begun
        writer.close()
        await app.left.wait()


@pytest.mark.parametrize("more", [0, 1, 100])
@in_loop
async def test_after_one_too_many_those_let_in_are_answered_and_the_connection_closes(
    more: int,
) -> None:
    app = App()
    async with listening(app) as port:
        reader, writer = await talk(port, QUICK * (MOST_WAITING + 2) + QUICK * more)
        said = await reader.read()
        assert said.count(b"HTTP/1.1 200 ") == MOST_WAITING + 1
        assert said.endswith(b"0\r\n\r\n")
        assert len(app.came) == MOST_WAITING + 1
        writer.close()


@in_loop
async def test_a_late_request_does_not_cut_the_answer_before_it() -> None:
    async with listening(App()) as port:
        reader, writer = await talk(port, SLOW)
        await reader.readuntil(BEGUN)
        writer.write(b"G")
        other, other_writer = await talk(port, b"G")  # its time is over later
        assert (await other.read()).startswith(b"HTTP/1.1 408 ")
        other_writer.close()
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()


@in_loop
async def test_what_is_no_request_ends_the_answer_before_it_without_a_word() -> None:
    async with listening(App()) as port:
        reader, writer = await talk(port, SLOW)
        await reader.readuntil(BEGUN)
        writer.write(b"no request\r\n\r\n")
        assert await reader.read() == b""
        writer.close()


@in_loop
async def test_what_is_wrong_with_a_body_is_told() -> None:
    async with listening(App()) as port:
        reader, writer = await talk(port, CHUNKED.replace(b"2\r\nxx", b"no number"))
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
        writer.close()


@in_loop
async def test_trailers_are_no_headers() -> None:
    app = App()
    async with listening(app) as port:
        reader, writer = await talk(port, CHUNKED + b"authorization: Bearer x\r\n\r\n" + QUICK)
        assert await reader.readuntil(b"ok")
        assert await reader.readuntil(b"ok")
        writer.close()
    assert app.headers == [[b"host", b"transfer-encoding"], [b"host"]]


@pytest.mark.parametrize("said", [b"x:a\r\n" * 100, b"a" * 500], ids=["many", "long"])
@in_loop
async def test_trailers_without_an_end_are_not_collected(said: bytes) -> None:
    app = App()
    app.limits = ServerLimits(header_bytes=1024)
    async with listening(app) as port:
        reader, writer = await talk(port, CHUNKED + b"x: ")
        await talk_to_end(port)
        for _ in range(20):
            writer.write(said)
        assert (await reader.read()).startswith(b"HTTP/1.1 431 ")
        writer.close()


WISH = b"connection: Upgrade, HTTP2-Settings\r\nhttp2-settings: AAEAAEAA\r\nupgrade: h2c\r\n"


@pytest.mark.parametrize("cut", [None, 30, -5, -1], ids=["whole", "in its head", "behind", "last"])
@pytest.mark.parametrize(
    "body",
    [
        b"content-length: 5\r\n\r\nhello",
        b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ],
    ids=["with a length", "in chunks"],
)
@in_loop
async def test_who_would_rather_speak_another_protocol_is_answered_in_this_one(
    body: bytes, cut: int | None
) -> None:
    app = App()
    request = b"POST / HTTP/1.1\r\nhost: a\r\n" + WISH + body
    async with listening(app) as port:
        reader, writer = await talk(port, request[:cut])
        if cut is not None:
            await writer.drain()
            await talk_to_end(port)  # by now it was read
            writer.write(request[cut:])
        assert (await reader.readuntil(b"0\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        writer.write(QUICK)
        assert (await reader.readuntil(b"0\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        writer.close()
    assert [body for body in app.bodies if body] == [b"hello"]


@in_loop
async def test_who_asks_for_a_tunnel_is_answered_once() -> None:
    app = App()
    async with listening(app) as port:
        reader, writer = await talk(port, b"CONNECT / HTTP/1.1\r\nhost: a\r\n\r\n" + QUICK)
        assert (await reader.readuntil(b"0\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        writer.close()
    assert len(app.bodies) == 1


@in_loop
async def test_a_tunnel_to_somewhere_is_refused() -> None:
    async with listening(App()) as port:
        reader, writer = await talk(port, b"CONNECT a:80 HTTP/1.1\r\nhost: a\r\n" + WISH + b"\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
        writer.close()
