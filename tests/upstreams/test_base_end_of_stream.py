"""Servers that do not end their stream behind the end of their answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from proxy_server import Offer, in_loop, proxying, upstream
from upstreams.fake_endpoint import FIRST, SECOND, Handler, begin, forever, serving
from upstreams.http_peer import in_jumping_loop, jump
from wholecall.errors import UpstreamError
from wholecall.protocols.reader import Reader
from wholecall.upstreams import base
from wholecall.upstreams.base import EndOfStream
from wholecall.upstreams.http_connection import Timeouts

SEARCH = {"type": "function", "function": {"name": "search"}}
ASKED: dict[str, Any] = {
    "model": "m",
    "stream": True,
    "messages": [{"role": "user", "content": "hi"}],
}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "PATIENCE_SECONDS", 0.01)


def staying(*pieces: bytes) -> Handler:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = await begin(request)
        for piece in pieces:
            await response.write(piece)
        await forever()
        return response

    return handler


@pytest.mark.parametrize("more", [{}, {"tools": [SEARCH]}], ids=["forward", "gate"])
@in_loop
async def test_an_answer_that_said_its_end_is_over(more: dict[str, Any]) -> None:
    async with (
        serving(staying(FIRST, SECOND)) as behind,
        proxying(Offer({"m": upstream("openai/x", behind.url)})) as served,
    ):
        status, stream, _ = await served.post("/v1/chat/completions", {**ASKED, **more})
    frames = [line[6:] for line in stream.splitlines() if line.startswith("data: ")]
    assert (status, frames[-1]) == (200, "[DONE]")
    assert json.loads(frames[-2])["choices"][0]["finish_reason"] == "stop"


def waits(chunks: list[bytes]) -> AsyncIterator[bytes]:
    async def give() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk
        await asyncio.Event().wait()

    return give()


async def read(chunks: list[bytes], *, seconds: float | None = None) -> list[bytes]:
    reader, seen = Reader("openai-chat"), []
    async with asyncio.timeout(seconds):
        with EndOfStream() as end:
            async for chunk in waits(chunks):
                events = reader.feed(chunk)
                seen.append(chunk)
                end.look(reader, events)
    return seen


@in_loop
async def test_what_comes_behind_the_end_does_not_make_it_later() -> None:
    assert await read([FIRST, SECOND, b": alive\n\n"]) == [FIRST, SECOND, b": alive\n\n"]


@in_loop
async def test_an_answer_without_its_end_is_waited_for() -> None:
    with pytest.raises(TimeoutError):
        await read([FIRST], seconds=0.05)


@in_loop
async def test_other_clocks_are_not_ours() -> None:
    with pytest.raises(TimeoutError, match="theirs"), EndOfStream():
        raise TimeoutError("theirs")
    for chunks in ([FIRST], [FIRST, SECOND]):
        task = asyncio.create_task(read(chunks))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@in_loop
async def test_who_is_cancelled_while_the_time_runs_out_stays_cancelled() -> None:
    """Both requests reach the task together; the other one is not swallowed."""
    reader = Reader("openai-chat")

    async def wait() -> None:
        with EndOfStream() as end:
            end.look(reader, reader.feed(FIRST + SECOND))
            end.expire()
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await forever()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(wait())


@in_loop
async def test_each_of_many_streams_has_its_own_time() -> None:
    first = asyncio.create_task(read([FIRST, SECOND]))
    await asyncio.sleep(0)
    rest = [asyncio.create_task(read([FIRST, SECOND])) for _ in range(5)]
    assert await first == [FIRST, SECOND]
    assert await asyncio.gather(*rest) == [[FIRST, SECOND]] * 5
    assert await read([FIRST, SECOND]) == [FIRST, SECOND]


@in_loop
async def test_a_connection_whose_stream_ends_is_kept() -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = await begin(request)
        await response.write(FIRST + SECOND)
        return response

    async with (
        serving(handler) as behind,
        proxying(Offer({"m": upstream("openai/x", behind.url)})) as served,
    ):
        for _ in range(3):
            await served.post("/v1/chat/completions", ASKED)
    assert len(behind.connections) == 1


# Chunks that say nothing, in each protocol.
QUIET = [
    ("openai-chat", b": alive\n\n"),
    ("openai-chat", b'data: {"choices":[{"index":0,"delta":{}}]}\n\n'),
    ("openai-chat", b'data: {"choices":[{"index":0,"delta":{"content":""}}]}\n\n'),
    ("openai-chat", b'data: {"choices":[]}\n\n'),
    ("anthropic", b'event: ping\ndata: {"type":"ping"}\n\n'),
    ("openai-responses", b": alive\n\n"),
]


@pytest.mark.parametrize(("protocol", "chunk"), QUIET)
@in_jumping_loop
async def test_a_sign_of_life_does_not_break_a_silence(protocol: str, chunk: bytes) -> None:
    reader = Reader(protocol)
    with EndOfStream(silence=10.0) as end:
        for _ in range(5):
            end.look(reader, reader.feed(chunk))
            await jump(2.4)
        with pytest.raises(UpstreamError, match="signs of life"):
            end.look(reader, reader.feed(chunk))


@in_jumping_loop
async def test_a_word_breaks_it() -> None:
    reader = Reader("openai-chat")
    with EndOfStream(silence=10.0) as end:
        for _ in range(9):
            end.look(reader, reader.feed(FIRST))
            end.look(reader, reader.feed(b": alive\n\n"))
            await jump(9.0)
            end.look(reader, reader.feed(b": alive\n\n"))


@pytest.mark.parametrize("more", [{}, {"tools": [SEARCH]}], ids=["forward", "gate"])
@in_loop
async def test_an_answer_of_comments_alone_ends_with_an_error(more: dict[str, Any]) -> None:
    async def comment(request: web.BaseRequest) -> web.StreamResponse:
        response = await begin(request)
        await response.write(FIRST)
        while True:
            await response.write(b": alive\n\n")

    settings = {"timeouts": Timeouts(between_chunks=0.05)}
    async with (
        serving(comment) as behind,
        proxying(Offer({"m": upstream("openai/x", behind.url, **settings)})) as served,
    ):
        _, stream, _ = await served.post("/v1/chat/completions", {**ASKED, **more})
    assert '"code":"timeout"' in stream
    assert "[DONE]" not in stream
