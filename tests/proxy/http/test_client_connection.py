"""Writing to a client over ASGI."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.types import Message

from proxy_server import in_loop
from wholecall.proxy.http.client_connection import ClientSink, ResponseBody


class Wire:
    """What a server would send."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.written = asyncio.Event()

    async def send(self, message: Message) -> None:
        self.messages.append(message)
        self.written.set()

    @property
    def bodies(self) -> list[bytes]:
        return [each["body"] for each in self.messages if each["type"] == "http.response.body"]

    @property
    def start(self) -> Any:
        return self.messages[0]


@in_loop
async def test_frames_go_out_in_one_piece_behind_the_headers() -> None:
    wire = Wire()
    sink = ClientSink(wire.send)
    begun: list[bool] = []
    sink.on_begin = lambda: begun.append(sink.begun)
    sink.add_headers(((b"x-kept", b"1"),))
    await sink.flush()
    assert not wire.messages
    sink.put(b"")
    sink.put(b"data: 1\n\n")
    sink.put(b"data: 2\n\n")
    assert not sink.begun
    await sink.flush()
    sink.put(b"data: 3\n\n")
    await sink.close()
    assert wire.start["status"] == 200
    assert dict(wire.start["headers"])[b"x-kept"] == b"1"
    assert dict(wire.start["headers"])[b"content-type"].startswith(b"text/event-stream")
    assert wire.bodies == [b"data: 1\n\ndata: 2\n\n", b"data: 3\n\n"]
    assert wire.messages[-1]["more_body"] is False
    assert begun == [True]


@in_loop
async def test_an_answer_in_one_piece_has_a_length() -> None:
    wire = Wire()
    sink = ClientSink(wire.send)
    sink.on_begin = lambda: wire.messages.append({"type": "never"})
    await sink.send_body(ResponseBody(404, b"{}", ((b"retry-after", b"1"),)))
    headers = dict(wire.start["headers"])
    assert (wire.start["status"], headers[b"content-length"]) == (404, b"2")
    assert headers[b"retry-after"] == b"1"
    assert wire.bodies == [b"{}"]


@in_loop
async def test_what_nobody_flushes_is_sent_when_it_is_woken() -> None:
    wire = Wire()
    sink = ClientSink(wire.send)
    sink.put(b"data: 1\n\n")
    sink.wake()
    while not wire.bodies:
        await asyncio.sleep(0)
    assert wire.bodies == [b"data: 1\n\n"]


@in_loop
async def test_a_silence_is_broken_between_frames_only() -> None:
    wire = Wire()
    sink = ClientSink(wire.send, beat_seconds=0.01)
    sink.beat = lambda: b": alive\n\n"
    sink.start_beating()
    await wire.written.wait()
    assert wire.bodies[0] == b": alive\n\n"
    sink.put(b"data: in the midst of")
    await sink.flush()
    count = len(wire.bodies)
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    loop.call_later(0.05, over.set_result, None)
    await over
    assert len(wire.bodies) == count
    sink.put(b" a frame\n\n")
    wire.written.clear()
    await sink.flush()
    wire.written.clear()
    await wire.written.wait()
    assert wire.bodies[-1] == b": alive\n\n"
    sink.stop()
    sink.stop()


@pytest.mark.parametrize("streamed", [True, False])
@in_loop
async def test_a_sign_of_life_that_comes_to_its_turn_behind_the_end_is_not_sent(
    streamed: bool,
) -> None:
    wire = Wire()
    sink = ClientSink(wire.send, beat_seconds=0.0)
    sink.beat = lambda: b": alive\n\n"
    sink._tick()  # its time has come, and the task that says so is about to begin
    await (sink.close() if streamed else sink.send_body(ResponseBody(200, b"{}")))
    for _ in range(3):
        await asyncio.sleep(0)
    assert wire.messages[-1]["more_body"] is False
    assert len(wire.messages) == 2
