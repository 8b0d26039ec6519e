"""Puts an answer on the wire, faults of the connection included."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from wholecall.faults.http_server import HttpExchange
from wholecall.faults.script import Act, Answer, Drop, Hang, Pause, Reset
from wholecall.faults.wire.whole import fold
from wholecall.faults.wire.writer import Writer

_ACTS = (Drop, Hang, Reset)
_STREAM_HEADERS = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
_JSON_HEADERS = {"content-type": "application/json"}
_PAGE_HEADERS = {"content-type": "text/html; charset=utf-8"}


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

    async def send(self, exchange: HttpExchange, reply: Reply) -> None:
        """Send one answer of the script."""
        if reply.answer.body is not None:
            await exchange.send(reply.answer.body.encode(), headers=_PAGE_HEADERS)
        elif isinstance(reply.answer.steps[0], _ACTS):
            await self._act(reply.answer.steps[0], exchange)
            await exchange.send(b"")
        elif reply.streamed:
            await self._stream(exchange, reply)
        else:
            await self._send_whole(exchange, reply)

    async def _stream(self, exchange: HttpExchange, reply: Reply) -> None:
        answer, writer = reply.answer, reply.writer
        await exchange.begin(_STREAM_HEADERS)
        await exchange.write(writer.open().replace("\n", answer.newline).encode())
        for step in answer.steps:
            if isinstance(step, _ACTS):
                await self._act(step, exchange)
                break
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                continue
            for piece in _cut(writer.write(step), answer):
                await exchange.write(piece)
        await exchange.finish()

    async def _send_whole(self, exchange: HttpExchange, reply: Reply) -> None:
        steps = reply.answer.steps
        body = json.dumps(reply.writer.encode(fold(steps)), ensure_ascii=False).encode()
        act = next((step for step in steps if isinstance(step, _ACTS)), None)
        half = body[: len(body) // 2]
        if act is None or isinstance(act, Drop):
            await exchange.send(body if act is None else half, headers=_JSON_HEADERS)
            return
        await exchange.begin(_JSON_HEADERS, length=len(body))
        await exchange.write(half)
        await self._act(act, exchange)

    # ── Acts ────────────────────────────────────────────────────────────────────────

    async def _act(self, act: Act, exchange: HttpExchange) -> None:
        await _ACT[type(act)](self, exchange)

    async def _drop(self, _: HttpExchange) -> None:
        """Say nothing more: HTTP ends the answer well."""

    async def _hang(self, exchange: HttpExchange) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), self._hang_seconds)
        exchange.reset()

    async def _reset(self, exchange: HttpExchange) -> None:
        exchange.reset()


def _cut(text: str, answer: Answer) -> Iterator[bytes]:
    content = text.replace("\n", answer.newline).encode()
    size = answer.cut or max(1, len(content))
    return (content[begin : begin + size] for begin in range(0, len(content), size))


_ACT: dict[type[Act], Callable[[AnswerSender, HttpExchange], Awaitable[None]]] = {
    Drop: AnswerSender._drop,
    Hang: AnswerSender._hang,
    Reset: AnswerSender._reset,
}
