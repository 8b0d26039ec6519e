"""The server of the fault upstream: framing, limits, and clients that leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from wholecall.faults import http_server
from wholecall.faults.http_server import Handle, HttpExchange, HttpServer, _ServerConnection

Asked = Callable[[bytes], Sequence[bytes]]
CUTS: dict[str, Asked] = {
    "whole": lambda said: [said],
    "by bytes": lambda said: [bytes([each]) for each in said],
    "halves": lambda said: [said[: len(said) // 2], said[len(said) // 2 :]],
}
TWO = (
    b"POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\nhi"
    b"POST /2 HTTP/1.1\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    b"1\r\nx\r\n2\r\nyz\r\n0\r\n\r\n"
)
every_cut = pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)


async def echo(exchange: HttpExchange) -> None:
    """Answer with what was understood."""
    query = ",".join(f"{name}={value}" for name, value in exchange.query.items())
    asked = f"{exchange.method} {exchange.path} {query} {exchange.headers.get('x-a', '-')} "
    await exchange.send(asked.encode() + exchange.body)


async def stream(exchange: HttpExchange) -> None:
    await exchange.begin({"content-type": "a/b"})
    for piece in (b"one", b"", b"two"):
        await exchange.write(piece)
    await exchange.finish()


async def cut_off(exchange: HttpExchange) -> None:
    await exchange.begin({}, length=9)
    await exchange.write(b"half")
    exchange.reset()
    exchange.reset()
    await exchange.finish()


@asynccontextmanager
async def serving(handle: Handle) -> AsyncIterator[int]:
    server = HttpServer(handle)
    port = await server.start("127.0.0.1", 0)
    try:
        yield port
    finally:
        await server.close(1.0)


async def talk(port: int, pieces: Sequence[bytes]) -> bytes:
    """Say this, and return all that comes until the server hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        return await reader.read()
    finally:
        writer.close()


def run(work: Awaitable[bytes]) -> bytes:
    async def bounded() -> bytes:
        async with asyncio.timeout(30):
            return await work

    return asyncio.run(bounded())


def ask(handle: Handle, pieces: Sequence[bytes]) -> bytes:
    async def asking() -> bytes:
        async with serving(handle) as port:
            return await talk(port, pieces)

    return run(asking())


class Wire(asyncio.Transport):
    """The client's side of a connection, without a socket."""

    def __init__(self) -> None:
        super().__init__()
        self.said = b""
        self._closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.said += data

    def close(self) -> None:
        self._closing = True

    def abort(self) -> None:
        self._closing = True

    def is_closing(self) -> bool:
        return self._closing


def feed(pieces: Sequence[bytes]) -> Wire:
    """Have the server read this before it answers anything."""

    async def feeding() -> Wire:
        wire, connection = Wire(), _ServerConnection(echo, set())
        connection.connection_made(wire)
        for piece in pieces:
            connection.data_received(piece)
        closed, wire._closing = wire.is_closing(), True
        connection.connection_lost(None)
        await asyncio.gather(connection.task, return_exceptions=True)
        wire._closing = closed
        return wire

    return asyncio.run(feeding())


@every_cut
@pytest.mark.parametrize(
    ("asked", "bodies"),
    [
        (b"GET /a%20b?c=d&e HTTP/1.0\r\n\r\n", ["GET /a b c=d - "]),
        (b"GET http://host/a HTTP/1.1\r\nX-A: 1\r\nconnection: close\r\n\r\n", ["GET /a  1 "]),
        (
            TWO,
            ["POST /  - hi", "POST /2  - xyz"],
        ),
    ],
)
def test_a_request_is_understood(*, asked: bytes, cut: Asked, bodies: list[str]) -> None:
    said = [
        f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode() for body in bodies
    ]
    assert ask(echo, cut(asked)) == b"".join(said)


@pytest.mark.parametrize(
    ("version", "headers", "body"),
    [
        ("1.0", "connection: close", "onetwo"),
        ("1.1", "transfer-encoding: chunked", "3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"),
    ],
)
def test_a_stream_is_chunked_where_the_client_knows_chunks(
    *, version: str, headers: str, body: str
) -> None:
    asked = f"GET / HTTP/{version}\r\nconnection: close\r\n\r\n".encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: a/b\r\n{headers}\r\n\r\n"
    assert ask(stream, [asked]).decode() == head + body


def test_a_client_that_waits_for_a_go_ahead_gets_it() -> None:
    async def asking() -> bytes:
        async with serving(echo) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"PUT / HTTP/1.0\r\nexpect: 100-Continue\r\ncontent-length: 2\r\n\r\n")
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(b"hi")
            answer = await reader.read()
            writer.close()
            return answer

    assert run(asking()).endswith(b"PUT /  - hi")


def test_a_reset_is_seen_as_one() -> None:
    with pytest.raises(ConnectionResetError):
        ask(cut_off, [b"GET / HTTP/1.1\r\n\r\n"])


def test_a_status_without_a_phrase() -> None:
    async def overloaded(exchange: HttpExchange) -> None:
        await exchange.send_json({}, status=529, headers={"retry-after": "1"})

    answer = ask(overloaded, [b"GET / HTTP/1.0\r\n\r\n"])
    assert answer.startswith(b"HTTP/1.1 529 \r\n")
    assert b"retry-after: 1\r\n" in answer


@every_cut
@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (b"nonsense\r\n\r\n", b"400 Bad Request"),
        (b"GET //[ HTTP/1.1\r\n\r\n", b"400 Bad Request"),
        (b"CONNECT a:1 HTTP/1.1\r\n\r\n", b"501 Not Implemented"),
        (b"GET /aaaaaaaaaaaaaaaaaaaaaaaaa HTTP/1.1\r\n", b"431 Request Header Fields Too Large"),
        (b"GET / HTTP/1.1\r\nname-of-it: value of it\r\n\r\n", b"431 Request Header Fields Too"),
        (b"PUT / HTTP/1.1\r\ncontent-length: 5\r\n\r\nabcde", b"413 Request Entity Too Large"),
    ],
)
def test_what_is_too_large_or_not_http_is_refused(
    *, asked: bytes, cut: Asked, status: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "MOST_HEADER_BYTES", 20)
    monkeypatch.setattr(http_server, "MOST_BODY_BYTES", 4)
    said = feed(cut(asked)).said
    assert said.startswith(b"HTTP/1.1 " + status)
    assert said.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize(("count", "closed"), [(32, False), (33, True)])
def test_so_many_requests_wait_and_not_more(count: int, closed: bool) -> None:
    assert feed([b"GET / HTTP/1.1\r\n\r\n" * count]).is_closing() == closed


@pytest.mark.parametrize("leaves", [True, False])
def test_an_answer_that_is_not_read_is_not_written_on(leaves: bool) -> None:
    """It waits, until its client leaves or the server ends."""
    ended = asyncio.Event()

    async def endless(exchange: HttpExchange) -> None:
        try:
            await exchange.begin({})
            while True:
                await exchange.write(bytes(1024 * 1024))
        finally:
            ended.set()

    async def asking() -> bytes:
        server = HttpServer(endless)
        port = await server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        begun = await reader.readuntil(b"\r\n")
        if leaves:
            writer.transport.abort()
            await ended.wait()
        await server.close(0.01)
        await ended.wait()
        writer.close()
        return begun

    assert run(asking()) == b"HTTP/1.1 200 OK\r\n"
