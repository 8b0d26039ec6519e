"""A server that says over its socket what a test tells it to, byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeAlias

import uvloop
from yarl import URL

from upstreams.fake_endpoint import PATIENCE
from wholecall.upstreams.connection_pool import ConnectionPool
from wholecall.upstreams.http_connection import HttpResponse, Timeouts

_Arguments = ParamSpec("_Arguments")


class JumpingLoop(asyncio.SelectorEventLoop):
    """A loop whose clock can be put forward, so that nobody has to wait."""

    _ahead = 0.0

    def time(self) -> float:
        return super().time() + self._ahead

    def jump(self, seconds: float) -> None:
        self._ahead += seconds


async def jump(seconds: float) -> None:
    """So much time is over, and whoever waited for it has run."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, JumpingLoop)
    loop.jump(seconds)
    for _ in range(5):
        await asyncio.sleep(0)


def in_loops(test: Callable[_Arguments, Awaitable[None]]) -> Callable[_Arguments, None]:
    """A test that runs in a loop of asyncio's and in one of uvloop's, bounded in time."""

    @functools.wraps(test)
    def run(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(PATIENCE):
                await test(*args, **kwargs)

        for make in (asyncio.SelectorEventLoop, uvloop.new_event_loop):
            with asyncio.Runner(loop_factory=make) as runner:
                runner.run(bounded())

    return run


def in_jumping_loop(
    test: Callable[_Arguments, Coroutine[Any, Any, None]],
) -> Callable[_Arguments, None]:
    """A test in such a loop."""

    @functools.wraps(test)
    def run(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> None:
        with asyncio.Runner(loop_factory=JumpingLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run


HEADERS: Mapping[str, str] = {"x-test": "1"}
HELLO = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"


class Talk:
    """One connection, as the server sees it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def hear(self) -> bytes:
        """All of the next request."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        return head + await self.reader.readexactly(int(length or 0))

    async def say(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    def hang_up(self, *, rudely: bool = False) -> None:
        if rudely:
            self.writer.transport.abort()
        self.writer.close()

    async def wait_for_silence(self) -> None:
        """Until the client is gone."""
        while await self.reader.read(65536):
            pass


Handle: TypeAlias = Callable[[Talk], Awaitable[None]]


class Listener:
    """The server: how often somebody connected, and where."""

    def __init__(self) -> None:
        self.connections = 0
        self.url = URL()


@asynccontextmanager
async def listening(
    handle: Handle, context: ssl.SSLContext | None = None
) -> AsyncIterator[Listener]:
    listener = Listener()
    tasks = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        listener.connections += 1
        task = asyncio.current_task()
        tasks.add(task)
        try:
            await handle(Talk(reader, writer))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client is gone
        finally:
            tasks.discard(task)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    scheme = "http" if context is None else "https"
    port = server.sockets[0].getsockname()[1]
    listener.url = URL(f"{scheme}://127.0.0.1:{port}/path?a=b")
    try:
        yield listener
    finally:
        server.close()
        for task in list(tasks):
            if task is not None:
                task.cancel()
        await asyncio.gather(*(task for task in tasks if task), return_exceptions=True)


@asynccontextmanager
async def pooling(
    url: URL,
    timeouts: Timeouts | None = None,
    *,
    trust: Callable[[], ssl.SSLContext] = ssl.create_default_context,
) -> AsyncIterator[ConnectionPool]:
    pool = ConnectionPool(url.origin(), timeouts=timeouts or Timeouts(), trust=trust)
    try:
        yield pool
    finally:
        await pool.close()


async def emptied(pool: ConnectionPool) -> None:
    """Return when its connections are closed. That they are is a matter of steps, not of time."""
    while pool._open:
        await asyncio.sleep(0)


async def wait_until(heard: Callable[[], bool]) -> None:
    while not heard():
        await asyncio.sleep(0)


async def read_all(response: HttpResponse) -> bytes:
    pieces = []
    while piece := await response.read():
        pieces.append(piece)
    return b"".join(pieces)


async def ask(pool: ConnectionPool, url: URL, *, body: bytes = b"hi") -> bytes:
    """The body of an answer."""
    return await read_all(await pool.post(url, body=body, headers=HEADERS))


async def greet(talk: Talk) -> None:
    """Answer every request."""
    while True:
        await talk.hear()
        await talk.say(HELLO)


def serving_context(certificate: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context
