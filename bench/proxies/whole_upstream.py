"""An upstream that takes requests of any size, and answers as their last message says.

    PYTHONPATH=bench python -m proxies.whole_upstream PORT

`{"tool": "name", "arguments": {…}}` calls a tool, `"long": 5` with arguments of 5 MB;
`{"say": 20}` says 20 MB. After a result, and to anything else, the answer is one word.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import uvloop

from proxies.processes import start_process
from proxies.subjects import BENCH, free_port

_LENGTH = b"content-length:"
_PIECE = 2000


class Upstream(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._needed = 0
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._needed:
            end = self._received.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self._received[:end]).lower()
            length = head.partition(_LENGTH)[2].split(b"\r\n", 1)[0]
            self._needed = end + 4 + int(length or 0)
        if len(self._received) >= self._needed:
            body = bytes(self._received[self._received.find(b"\r\n\r\n") + 4 : self._needed])
            del self._received[: self._needed]
            self._needed = 0
            self._answer(body)

    def _answer(self, body: bytes) -> None:
        # Only the end is read: the last message, and whether a stream is wanted.
        stream = b'"stream":true' in body[:200] + body[-200:]
        wish = _read_wish(body)
        message: dict[str, Any] = {"role": "assistant", "content": "sunny"}
        if "tool" in wish:
            given = dict(wish.get("arguments", {}))
            if "long" in wish:
                given = {"city": "x" * (wish["long"] * 1_000_000)}
            function = {"name": wish["tool"], "arguments": json.dumps(given)}
            call = {"index": 0, "id": "call_big", "type": "function", "function": function}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        elif "say" in wish:
            message["content"] = "word " * (wish["say"] * 200_000)
        finish = "tool_calls" if "tool" in wish else "stop"
        self._write_stream(message, finish) if stream else self._write_whole(message, finish)

    def _write_whole(self, message: dict[str, Any], finish: str) -> None:
        choice = {"index": 0, "message": message, "finish_reason": finish}
        answer = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "bench"}
        body = json.dumps({**answer, "choices": [choice]}).encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        self._transport.write(head.encode() + b"\r\n\r\n" + body)

    def _write_stream(self, message: dict[str, Any], finish: str) -> None:
        head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked"
        frames = [_frame(delta, None) for delta in _cut(message)] + [_frame({}, finish)]
        wire = b"".join(frames) + b"data: [DONE]\n\n"
        self._transport.write(head.encode() + b"\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(wire), wire))


def _read_wish(body: bytes) -> dict[str, Any]:
    """What the last message of the user asks for, unless a result follows it."""
    if b'"role":"tool"' in body:
        return {}
    for mark in (b'{\\"tool\\"', b'{\\"say\\"'):
        at = body.find(mark)
        if at >= 0:
            text = body[at : body.find(b'"}', at)].decode().replace('\\"', '"')
            wish: dict[str, Any] = json.loads(text)
            return wish
    return {}


def _cut(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A message in pieces."""
    if message["content"] is not None:
        text = message["content"]
        yield from ({"content": text[at : at + 20]} for at in range(0, len(text), 20))
        return
    call = message["tool_calls"][0]
    text = call["function"]["arguments"]
    yield {"tool_calls": [{**call, "function": {"name": call["function"]["name"]}}]}
    for at in range(0, len(text), _PIECE):
        piece = {"index": 0, "function": {"arguments": text[at : at + _PIECE]}}
        yield {"tool_calls": [piece]}


def _frame(delta: dict[str, Any], finish: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    answer = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"data: " + json.dumps({**answer, "choices": [choice]}).encode() + b"\n\n"


@contextmanager
def run_whole_upstream() -> Iterator[int]:
    """The upstream, until the context is left; yields its port."""
    port = free_port()
    command = [sys.executable, "-m", "proxies.whole_upstream", str(port)]
    with start_process(command, port=port, environ={"PYTHONPATH": str(BENCH)}):
        yield port


async def main(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
