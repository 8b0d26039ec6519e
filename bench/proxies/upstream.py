"""The upstream: as little as possible, so that it is not what is measured.

    PYTHONPATH=bench python -m proxies.upstream PORT

A stream of the kinds `slow-call` and `slow-plain` comes at 20 chunks a second; the others are
written at once.
"""

from __future__ import annotations

import asyncio
import sys
from typing import cast

import uvloop

from proxies.answers import DELTAS, call_frames, text_frames, whole_body

PACE = 20
SLOW_SECONDS = 30
_LENGTH = b"content-length:"


def _head(kind: str, *headers: str) -> bytes:
    return "\r\n".join(["HTTP/1.1 200 OK", f"content-type: {kind}", *headers, "", ""]).encode()


def _chunked(frames: list[bytes]) -> list[bytes]:
    return [b"%x\r\n%s\r\n" % (len(frame), frame) for frame in frames]


_STREAM = _head("text/event-stream; charset=utf-8", "transfer-encoding: chunked")
_WHOLE = _head("application/json", f"content-length: {len(whole_body())}") + whole_body()
_END = b"0\r\n\r\n"
_TEXT = _STREAM + b"".join(_chunked(text_frames(DELTAS))) + _END
_CALL = _STREAM + b"".join(_chunked(call_frames(DELTAS))) + _END
_AT_ONCE = {b"whole: ": _WHOLE, b"call: ": _CALL, b"text: ": _TEXT, b"plain: ": _TEXT}
_SLOWLY = {
    b"slow-call: ": _chunked(call_frames(PACE * SLOW_SECONDS)),
    b"slow-plain: ": _chunked(text_frames(PACE * SLOW_SECONDS)),
}


class Upstream(asyncio.Protocol):
    """One connection. Requests come one after the other."""

    def __init__(self) -> None:
        self._received = b""
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the interface
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, blank, body = self._received.partition(b"\r\n\r\n")
        if not blank:
            return
        lowered = head.lower()
        at = lowered.find(_LENGTH)
        length = int(lowered[at + len(_LENGTH) :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if len(body) < length:
            return
        self._received = body[length:]
        self._answer(body[:length])

    def _answer(self, body: bytes) -> None:
        assert self._transport is not None
        kind = body.partition(b'"content"')[2].partition(b'"')[2].partition(b" ")[0] + b" "
        if kind in _SLOWLY:
            self._task = asyncio.create_task(self._write_slowly(_SLOWLY[kind]))
        else:
            self._transport.write(_AT_ONCE.get(kind, _WHOLE))

    async def _write_slowly(self, frames: list[bytes]) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        self._write(_STREAM)
        for number, frame in enumerate(frames):
            await asyncio.sleep(begun + number / PACE - loop.time())
            self._write(frame)
        self._write(_END)

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)


async def main(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
