"""A proxy between a client and one upstream, and what tests wait for in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from proxy_server import Offer, Served, proxying, upstream
from upstreams.fake_endpoint import Server, begin, serving
from wholecall.proxy.observe.taps import Exchange, ExchangeEnded, Reading, Reads
from wholecall.tools.function_tool import make_tool
from wholecall.tools.tool import Tool

TEXT = (
    b'data: {"id":"up-1","choices":[{"index":0,"delta":{"content":"Hello"}}],"extra":{"a":1}}\n\n'
)
STOP = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
CALL = (
    b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c0","function":'
    b'{"name":"work","arguments":"{\\"what\\": \\"dig\\"}"}}]}}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}\n\ndata: [DONE]\n\n'
)
ASKED: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
STREAMED = {**ASKED, "stream": True}
PATH = "/v1/chat/completions"
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def between(
    handler: Handler, folder: Path, *, tools: tuple[Tool, ...] = (), **settings: Any
) -> AsyncIterator[tuple[Served, Server]]:
    """A proxy in front of one upstream."""
    async with serving(handler) as behind:
        mode = "run" if tools else "gate"
        model = upstream("openai/theirs", f"{behind.url}/v1", mode=mode, **settings)
        async with proxying(Offer({"m": model}, tools=tools, folder=folder)) as served:
            yield served, behind


def answering(*pieces: bytes) -> Handler:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = await begin(request)
        for piece in pieces:
            await response.write(piece)
        return response

    return handler


class Gate:
    """Something a test can wait for, and let go."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def pass_through(self) -> None:
        self.reached.set()
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


class Ends:
    """A tap that tells how exchanges end."""

    def __init__(self) -> None:
        self.told: asyncio.Queue[ExchangeEnded] = asyncio.Queue()

    def open(self, _: Exchange) -> Reading:
        return self.told, Reads({ExchangeEnded: asyncio.Queue.put_nowait})


class Digging:
    """A tool that counts, and an upstream that calls it once in each run."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.times = 0

    def tools(self) -> tuple[Tool, ...]:
        async def work(what: str) -> str:
            self.times += 1
            await self.gate.pass_through()
            return f"{what}: done"

        return (make_tool(work),)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        body = self.bodies[-1]
        response = await begin(request)
        over = b'"role":"tool"' in body or b'"role": "tool"' in body
        for piece in (TEXT, STOP) if over else (CALL,):
            await response.write(piece)
        return response

    bodies: list[bytes]


@asynccontextmanager
async def digging(folder: Path) -> AsyncIterator[tuple[Served, Digging]]:
    work = Digging()
    async with between(work.answer, folder, tools=work.tools()) as (served, behind):
        work.bodies = behind.bodies
        yield served, work
