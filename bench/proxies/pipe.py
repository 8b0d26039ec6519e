"""A bare pipe of the same stack: it parses and re-writes each chunk, and checks nothing.

UPSTREAM=http://… uvicorn --app-dir bench proxies.pipe:app
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import aiohttp
import orjson

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_URL = os.environ.get("UPSTREAM", "") + "/v1/chat/completions"
_JSON = [(b"content-type", b"application/json")]
_EVENTS = [(b"content-type", b"text/event-stream; charset=utf-8")]
_DONE = b"data: [DONE]"
_sessions: list[aiohttp.ClientSession] = []


async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:  # noqa: PLR0917 - ASGI
    if scope["type"] == "lifespan":
        await _live(receive, send)
    elif scope["path"] == "/health":
        await _answer(send, b"{}")
    else:
        await _forward(await _read(receive), send)


async def _live(receive: Receive, send: Send) -> None:
    await receive()
    connector = aiohttp.TCPConnector(limit=0)
    _sessions.append(aiohttp.ClientSession(connector=connector))
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await _sessions.pop().close()
    await send({"type": "lifespan.shutdown.complete"})


async def _read(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


async def _forward(body: bytes, send: Send) -> None:
    request = orjson.loads(body)
    headers = {"content-type": "application/json"}
    async with _sessions[0].post(_URL, data=orjson.dumps(request), headers=headers) as response:
        if not request.get("stream"):
            await _answer(send, orjson.dumps(orjson.loads(await response.read())))
            return
        await send({"type": "http.response.start", "status": 200, "headers": _EVENTS})
        rest = b""
        async for read in response.content.iter_any():
            *frames, rest = (rest + read).split(b"\n\n")
            written = b"".join(map(_rewrite, frames))
            await send({"type": "http.response.body", "body": written, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def _rewrite(frame: bytes) -> bytes:
    if frame == _DONE:
        return _DONE + b"\n\n"
    return b"data: " + orjson.dumps(orjson.loads(frame[6:])) + b"\n\n"


async def _answer(send: Send, body: bytes) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": _JSON})
    await send({"type": "http.response.body", "body": body})
