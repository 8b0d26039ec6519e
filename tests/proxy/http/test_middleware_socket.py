"""The outermost layer on a real socket: bodies as they come over the wire."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from asgi_calls import SECONDS
from wholecall.proxy.config.schema import Config, ServerLimits
from wholecall.proxy.http.middleware import ProxyMiddleware


async def count(request: Request) -> Response:
    try:
        return JSONResponse({"bytes": len(await request.body())})
    except ClientDisconnect:
        return Response("nobody hears this")


ROUTES = [Route(path, count, methods=["POST"]) for path in ("/v1/messages", "/v1/responses")]


def make_edge(config: Config) -> ProxyMiddleware:
    return ProxyMiddleware(Starlette(routes=ROUTES), config)


@asynccontextmanager
async def serve(edge: ProxyMiddleware) -> AsyncIterator[str]:
    """A real server, on a port that the system chooses."""
    config = uvicorn.Config(edge, log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            async with asyncio.timeout(SECONDS):
                yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            await task


SMALL = Config(limits=ServerLimits(body_bytes=100_000))
HASTY = Config(limits=ServerLimits(body_seconds=0.2))


@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize(("size", "status"), [(100_000, 200), (100_001, 413), (900_000, 413)])
def test_bodies_are_counted_on_the_wire(size: int, status: int, *, chunked: bool) -> None:
    async def produce() -> AsyncIterator[bytes]:
        for start in range(0, size, 50_000):
            yield b"x" * min(50_000, size - start)

    async def run() -> tuple[int, Any]:
        async with serve(make_edge(SMALL)) as url, aiohttp.ClientSession() as session:
            body = produce() if chunked else b"x" * size
            async with session.post(f"{url}/v1/messages", data=body) as response:
                return response.status, await response.json()

    got, body = asyncio.run(run())
    assert got == status
    assert body.get("bytes", size) == size
    if status == 413:
        assert body["error"]["type"] == "request_too_large"


@pytest.mark.parametrize(
    ("config", "head", "body", "status"),
    [
        # A body that goes on, one that was announced, and one that does not come.
        (SMALL, b"Transfer-Encoding: chunked", b"186a1\r\n" + b"x" * 100_001 + b"\r\n", 413),
        (SMALL, b"Content-Length: 9999999999", b"x" * 200_000, 413),
        (HASTY, b"Content-Length: 50", b"x", 408),
    ],
)
def test_a_body_that_does_not_end_is_answered_and_the_connection_closed(
    config: Config, head: bytes, *, body: bytes, status: int
) -> None:
    async def run() -> bytes:
        async with serve(make_edge(config)) as url:
            port = int(url.rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            start = b"POST /v1/responses HTTP/1.1\r\nHost: localhost\r\n"
            writer.write(start + head + b"\r\n\r\n" + body)
            try:
                return await reader.read()
            finally:
                writer.close()

    answered = asyncio.run(run())
    assert answered.startswith(b"HTTP/1.1 %d " % status)
    assert b"connection: close" in answered.lower()
    assert json.loads(answered.partition(b"\r\n\r\n")[2])["error"]["message"]
