"""Puts an answer on the wire, faults of the connection included."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from aiohttp import web

from wholecall.faults.script import Act, Answer, Drop, Hang, Pause, Reset
from wholecall.faults.wire.whole import fold
from wholecall.faults.wire.writer import Writer

_ACTS = (Drop, Hang, Reset)
_NO_LINGER = struct.pack("ii", 1, 0)
_STREAM_HEADERS = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
_JSON_HEADERS = {"content-type": "application/json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer of the script, and in which form it is wanted."""

    answer: Answer
    writer: Writer
    streamed: bool


class AnswerSender:
    """Sends answers; hangs at most so long, and not beyond the server's end."""

    def __init__(self, hang_seconds: float) -> None:
        self._hang_seconds = hang_seconds
        self._closing = asyncio.Event()

    def close(self) -> None:
        """Let go whatever hangs."""
        self._closing.set()

    async def send(self, request: web.Request, reply: Reply) -> web.StreamResponse:
        """Send one answer of the script."""
        if reply.answer.body is not None:
            return web.Response(text=reply.answer.body, content_type="text/html")
        first = reply.answer.steps[0]
        if isinstance(first, _ACTS):
            await self._act(first, request)
            return web.StreamResponse()
        try:
            return await (self._stream if reply.streamed else self._send_whole)(request, reply)
        except ConnectionError:
            return web.StreamResponse()  # the client was faster

    async def _stream(self, request: web.Request, reply: Reply) -> web.StreamResponse:
        answer, writer = reply.answer, reply.writer
        response = web.StreamResponse(headers=_STREAM_HEADERS)
        await response.prepare(request)
        await response.write(writer.open().replace("\n", answer.newline).encode())
        for step in answer.steps:
            if isinstance(step, _ACTS):
                await self._act(step, request)
                break
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                continue
            for piece in _cut(writer.write(step), answer):
                await response.write(piece)
        return response

    async def _send_whole(self, request: web.Request, reply: Reply) -> web.StreamResponse:
        steps = reply.answer.steps
        body = json.dumps(reply.writer.encode(fold(steps)), ensure_ascii=False).encode()
        act = next((step for step in steps if isinstance(step, _ACTS)), None)
        if act is None:
            return web.Response(body=body, headers=_JSON_HEADERS)
        half = body[: len(body) // 2]
        if isinstance(act, Drop):
            return web.Response(body=half, headers=_JSON_HEADERS)
        response = web.StreamResponse(headers=_JSON_HEADERS)
        response.content_length = len(body)
        await response.prepare(request)
        await response.write(half)
        await self._act(act, request)
        return response

    # ── Acts ────────────────────────────────────────────────────────────────────────

    async def _act(self, act: Act, request: web.Request) -> None:
        await _ACT[type(act)](self, request)

    async def _drop(self, _: web.Request) -> None:
        """Say nothing more: HTTP ends the answer well."""

    async def _hang(self, request: web.Request) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), self._hang_seconds)
        await self._reset(request)

    async def _reset(self, request: web.Request) -> None:
        transport = request.transport
        if transport is None:
            return  # the client was faster
        # Without lingering the kernel says RST, not FIN: the client sees a reset, not an end.
        connection = transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        transport.abort()


def _cut(text: str, answer: Answer) -> Iterator[bytes]:
    content = text.replace("\n", answer.newline).encode()
    size = answer.cut or max(1, len(content))
    return (content[begin : begin + size] for begin in range(0, len(content), size))


_ACT: dict[type[Act], Callable[[AnswerSender, web.Request], Awaitable[None]]] = {
    Drop: AnswerSender._drop,
    Hang: AnswerSender._hang,
    Reset: AnswerSender._reset,
}
