"""A real HTTP server on loopback for the tests of upstreams, and what they ask it."""

from __future__ import annotations

import asyncio
import functools
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ParamSpec

from aiohttp import web

from wholecall.events import Outcome, Text, collect
from wholecall.messages import Message, Request, Role
from wholecall.protocols.reader import Reader
from wholecall.upstreams.base import Answer
from wholecall.upstreams.http import HttpSettings, HttpUpstream
from wholecall.upstreams.http_connection import Timeouts
from wholecall.upstreams.retry import RetryPolicy

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
_Arguments = ParamSpec("_Arguments")

REQUEST = Request(model="m", messages=(Message(Role.USER, (Text("hi"),)),))
WHOLE_REQUEST = replace(REQUEST, stream=False)
FIRST = b'data: {"choices":[{"index":0,"delta":{"content":"Hello"}}]}\n\n'
SECOND = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
ANSWER = {
    "object": "chat.completion",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}
    ],
}
KEY = "sk-secret-key"
# Long enough for a busy machine; a test that waits for it has failed.
PATIENCE = 20.0


@dataclass
class Pauses:
    """Remembers how long it was asked to wait, and does not."""

    seconds: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)

    def retry(self, retries: int = 2) -> RetryPolicy:
        return RetryPolicy(retries=retries, jitter=lambda: 1.0, sleep=self.sleep)


@dataclass
class Server:
    """What it was asked, and by how many connections."""

    handler: Handler
    url: str = ""
    requests: list[web.BaseRequest] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    connections: set[object] = field(default_factory=set)

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(request)
        self.connections.add(request.transport)
        self.bodies.append(await request.content.read())
        return await self.handler(request)


@asynccontextmanager
async def serving(handler: Handler, certificate: Path | None = None) -> AsyncIterator[Server]:
    context = None
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)
    server = Server(handler)
    # A handler is cancelled when its client is gone, so that a test can see it go.
    runner = web.ServerRunner(
        web.Server(server.serve, handler_cancellation=True), shutdown_timeout=0.1
    )
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    server.url = site.name
    try:
        yield server
    finally:
        await runner.cleanup()


@asynccontextmanager
async def asking(  # noqa: PLR0913 - the settings of an upstream
    url: str,
    *,
    protocol: str = "openai-chat",
    api_key: str = "",
    timeouts: Timeouts | None = None,
    retry: RetryPolicy | None = None,
    answer_bytes: int = 1_000_000_000,
) -> AsyncIterator[HttpUpstream]:
    """An upstream that knows no environment, and by default asks once."""
    settings = HttpSettings(
        timeouts=timeouts or Timeouts(),
        retry=retry or RetryPolicy(retries=0),
        environ={},
        answer_bytes=answer_bytes,
    )
    upstream = HttpUpstream(protocol, url, api_key=api_key, settings=settings)
    try:
        yield upstream
    finally:
        await upstream.close()


async def read_all(upstream: HttpUpstream, request: Request = REQUEST) -> bytes:
    """All bytes of an answer."""
    async with upstream.answer(request) as answer:
        return b"".join(await received(answer))


async def received(answer: Answer) -> list[bytes]:
    """The chunks of an answer, which all are bytes."""
    chunks = [chunk async for chunk in answer.chunks]
    assert all(isinstance(chunk, bytes) for chunk in chunks)
    return [chunk for chunk in chunks if isinstance(chunk, bytes)]


async def read_outcome(upstream: HttpUpstream, request: Request = REQUEST) -> Outcome:
    """What a reader makes of an answer."""
    reader = Reader(upstream.protocol)
    async with upstream.answer(request) as answer:
        feed = reader.feed if answer.streamed else reader.feed_response
        events = [event async for chunk in answer.chunks for event in feed(chunk)]
    return collect([*events, *reader.end()])


def in_loop(test: Callable[_Arguments, Awaitable[None]]) -> Callable[_Arguments, None]:
    """A test that runs in a loop of its own, bounded in time."""

    @functools.wraps(test)
    def run(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(PATIENCE):
                await test(*args, **kwargs)

        asyncio.run(bounded())

    return run


def hang_up(request: web.BaseRequest, *, rudely: bool = False) -> None:
    """Close the connection in the middle of an answer; rudely: with a reset."""
    assert request.transport is not None
    (request.transport.abort if rudely else request.transport.close)()


def always(make: Callable[[], web.StreamResponse]) -> Handler:
    """Answer every request in the same way."""

    async def handler(_request: web.BaseRequest) -> web.StreamResponse:
        return make()

    return handler


async def good(request: web.BaseRequest) -> web.StreamResponse:
    """Answer well."""
    return await stream(request, FIRST, SECOND)


async def stream(request: web.BaseRequest, *pieces: bytes) -> web.StreamResponse:
    """A stream of server-sent events that ends well."""
    response = await begin(request)
    for piece in pieces:
        await response.write(piece)
    return response


async def begin(request: web.BaseRequest, kind: str = "text/event-stream") -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": kind})
    await response.prepare(request)
    return response


async def forever() -> None:
    """Until somebody cancels it."""
    await asyncio.get_running_loop().create_future()
