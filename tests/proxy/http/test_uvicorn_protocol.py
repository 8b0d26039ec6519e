"""Connections that do not wait forever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from proxy_server import in_loop
from wholecall.proxy.config.schema import ServerLimits
from wholecall.proxy.http.client_request import BODY_CAME
from wholecall.proxy.http.uvicorn_protocol import HeadHolder


class App:
    """Answers with more than a socket takes at once, if it is asked to."""

    limits = ServerLimits(header_seconds=0.1, write_seconds=0.1)

    def __init__(self) -> None:
        self.left = asyncio.Event()
        self.begun = asyncio.Event()
        self.ends = False
        self.came: list[bool] = []
        self.headers: list[list[bytes]] = []
        self.bodies: list[bytes] = []

    def leave(self) -> None:
        self.ends = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: PLR0917 - ASGI
        assert scope["type"] == "http"
        self.came.append(BODY_CAME in scope)
        if scope["path"] == "/unread":
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"no"})
            return
        message = await receive()
        body = message.get("body", b"")
        while message.get("more_body"):
            self.came.append(BODY_CAME in scope)
            message = await receive()
            body += message.get("body", b"")
        self.headers.append([name for name, _ in scope["headers"]])
        self.bodies.append(body)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if scope["path"] in {"/inspector/api/live", "/slow"}:
            await send({"type": "http.response.body", "body": b"begun", "more_body": True})
            self.begun.set()
            await receive()
            self.left.set()
            return
        if scope["path"] == "/much":
            for _ in range(200):
                chunk = {"type": "http.response.body", "body": b"x" * 100_000, "more_body": True}
                await send(chunk)
            await receive()
            self.left.set()
            return
        await send({"type": "http.response.body", "body": b"ok"})


@asynccontextmanager
async def listening(app: App) -> AsyncIterator[int]:
    config = uvicorn.Config(
        app,
        port=0,
        http="wholecall.proxy.http.uvicorn_protocol:TimedProtocol",
        ws="none",
        lifespan="off",
        log_config=None,
        proxy_headers=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await task


async def talk(port: int, said: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect, and say this."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**16)
    writer.write(said)
    await writer.drain()
    return reader, writer


@in_loop
async def test_headers_that_do_not_come_end_the_connection() -> None:
    async with listening(App()) as port:
        for said in (b"", b"POST / HTTP/1.1\r\nhost: a\r\n"):
            reader, writer = await talk(port, said)
            assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
            writer.close()


@pytest.mark.parametrize("said", [b"x:a\r\n" * 100, b"x: " + b"a" * 500], ids=["many", "long"])
@in_loop
async def test_headers_without_an_end_are_not_collected(said: bytes) -> None:
    app = App()
    app.limits = ServerLimits(header_seconds=30.0, header_bytes=1024)
    async with listening(app) as port:
        reader, writer = await talk(port, b"POST / HTTP/1.1\r\nhost: a\r\n")
        for _ in range(20):
            writer.write(said)
        assert (await reader.read()).startswith(b"HTTP/1.1 431 ")
        writer.close()


@in_loop
async def test_a_body_is_no_header() -> None:
    app = App()
    app.limits = ServerLimits(header_seconds=30.0, header_bytes=1024)
    head = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5000\r\n\r\n"
    async with listening(app) as port:
        reader, writer = await talk(port, head + b"x" * 5000)
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200 ")
        writer.close()


@in_loop
async def test_the_application_knows_whether_all_of_a_body_has_come() -> None:
    app = App()
    head = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n"
    async with listening(app) as port:
        reader, writer = await talk(port, head + b"xx")
        assert await reader.readuntil(b"ok")
        writer.write(head + b"x")
        while len(app.came) < 3:
            await asyncio.sleep(0)
        writer.write(b"x")
        assert await reader.readuntil(b"ok")
        writer.close()
    assert app.came == [True, False, False]


@in_loop
async def test_a_second_request_has_to_be_as_quick_as_the_first() -> None:
    request = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
    async with listening(App()) as port:
        reader, writer = await talk(port, request)
        assert await reader.readuntil(b"ok")
        writer.write(request)
        assert await reader.readuntil(b"ok")
        writer.write(request[:20])
        assert b"HTTP/1.1 408 " in await reader.read()
        writer.close()


@pytest.mark.parametrize(
    "body", [b"content-length: 9\r\n\r\nx", b"transfer-encoding: chunked\r\n\r\n1\r\nx\r\n"]
)
@in_loop
async def test_the_rest_of_a_request_that_was_answered_has_to_come_in_time(body: bytes) -> None:
    app = App()
    app.limits = ServerLimits(body_seconds=0.05)
    async with listening(app) as port:
        reader, writer = await talk(port, b"POST /unread HTTP/1.1\r\nhost: a\r\n" + body)
        assert (await reader.readuntil(b"0\r\n\r\n")).startswith(b"HTTP/1.1 401 ")
        writer.write(b"1\r\nx\r\n" if b"chunked" in body else b"x")
        assert await reader.read() == b""
        writer.close()


@in_loop
async def test_behind_the_rest_of_a_request_that_was_answered_another_may_come() -> None:
    head = b"POST /unread HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n"
    async with listening(App()) as port:
        reader, writer = await talk(port, head)
        for rest in (b"x", b"x" + head, b"xx"):
            writer.write(rest)
        writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        for answer in (b"no", b"no", b"ok"):
            assert await reader.readuntil(answer)
        writer.close()


@in_loop
async def test_a_client_that_does_not_read_is_given_up() -> None:
    app = App()
    async with listening(app) as port:
        _, writer = await talk(port, b"GET /much HTTP/1.1\r\nhost: a\r\n\r\n")
        await app.left.wait()
        writer.transport.abort()


@in_loop
async def test_a_client_that_reads_slowly_but_steadily_gets_all_of_it() -> None:
    async with listening(App()) as port:
        reader, writer = await talk(port, b"GET /much HTTP/1.1\r\nhost: a\r\n\r\n")
        size = 0
        while size < 200 * 100_000:
            piece = await reader.read(2**20)
            assert piece, f"it was given up after {size} bytes"
            size += len(piece)
        writer.close()


@pytest.mark.parametrize(("path", "let_go"), [("/inspector/api/live", True), ("/slow", False)])
@in_loop
async def test_when_the_server_ends_a_page_that_looks_on_is_let_go_and_answers_are_not(
    path: str, *, let_go: bool
) -> None:
    app = App()
    async with listening(app) as port:
        _, writer = await talk(port, f"GET {path} HTTP/1.1\r\nhost: a\r\n\r\n".encode())
        await app.begun.wait()
    # The page saw its connection end; the answer had its time, and was broken off after it.
    assert app.left.is_set() is let_go
    assert app.ends
    writer.close()


# ── Heads ───────────────────────────────────────────────────────────────────────────

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


class Wire(asyncio.Transport):
    """What was sent, in the pieces in which it was."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed
        self.sent.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed


def _close(holder: HeadHolder, _: Wire) -> None:
    holder.close()


def _abort(holder: HeadHolder, _: Wire) -> None:
    holder.abort()


def _break(_: HeadHolder, wire: Wire) -> None:
    wire.close()


def _go_on(_: HeadHolder, __: Wire) -> None:
    """Nothing more in this step."""


@pytest.mark.parametrize(
    ("written", "then", "sent"),
    [
        ([HEAD, b"body"], _go_on, [HEAD + b"body"]),
        ([HEAD, b"body", b"more"], _go_on, [HEAD + b"body", b"more"]),
        ([HEAD], _go_on, [HEAD]),
        ([HEAD], _close, [HEAD]),
        ([HEAD], _abort, []),
        ([HEAD], _break, []),
        ([b"body", HEAD, HEAD], _go_on, [b"body", HEAD + HEAD]),
    ],
    ids=["with its body", "and more", "alone", "closed", "aborted", "broken", "two"],
)
@in_loop
async def test_a_head_waits_for_what_follows_it_in_the_same_step(
    written: list[bytes], then: Callable[[HeadHolder, Wire], None], *, sent: list[bytes]
) -> None:
    wire = Wire()
    holder = HeadHolder(wire)
    for each in written:
        holder.write(each)
    then(holder, wire)
    await asyncio.sleep(0)
    assert wire.sent == sent
    assert holder.is_closing() is wire.closed


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\n"], ids=["nothing", "half"])
@in_loop
async def test_who_has_connected_when_the_server_ends_may_still_ask(said: bytes) -> None:
    app = App()
    app.limits = ServerLimits(header_seconds=30.0)
    request = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
    answers: list[bytes] = []

    async def ask_late(port: int) -> None:
        reader, writer = await talk(port, said)
        connected.set()
        while not app.ends:
            await asyncio.sleep(0.01)
        writer.write(request[len(said) :])
        answers.append(await reader.read())  # it is closed after the answer
        writer.close()

    connected = asyncio.Event()
    async with listening(app) as port:
        asking = asyncio.create_task(ask_late(port))
        await connected.wait()
    await asking
    assert answers[0].startswith(b"HTTP/1.1 200 ")
    assert b"connection: close" in answers[0].lower()


@in_loop
async def test_who_says_nothing_when_the_server_ends_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("wholecall.proxy.http.uvicorn_protocol._SILENT_SECONDS", 0.01)
    app = App()
    app.limits = ServerLimits(header_seconds=30.0)
    async with listening(app) as port:
        reader, writer = await talk(port, b"")
    assert await reader.read() == b""
    writer.close()


@pytest.mark.parametrize(
    "said",
    [
        b"GET http://[/ HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET \xff HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET / HTTP/3.7\r\nhost: a\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET a:b:c HTTP/1.1\r\nhost: a\r\n\r\n",
    ],
)
@in_loop
async def test_an_address_that_cannot_be_read_is_refused(
    said: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(App()) as port:
        reader, writer = await talk(port, said)
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
        writer.close()
    assert not [record for record in caplog.records if record.exc_info]
