"""The HTTP client to upstreams beside aiohttp: CPU of a small request, and of a chunk alone.

    .venv/bin/python bench/http_client.py              print the table
    .venv/bin/python bench/http_client.py --write      and put it into docs/performance.md

Both ask the same upstream on loopback in turns, in one process and on uvloop. The floor is the
least that a program can do: a socket's bytes through llhttp, nothing checked, nothing kept.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeAlias, cast

import aiohttp
import uvloop
from httptools import HttpResponseParser
from yarl import URL

from proxies.answers import request_body
from proxies.subjects import run_upstream
from tables import markdown, write_section
from wholecall.upstreams.connection_pool import ConnectionPool
from wholecall.upstreams.http_connection import Timeouts

REQUESTS = 20
"""In one turn."""
STREAMS = 60
"""At a model's pace, at a time."""
WINDOW = 3.0
"""Seconds of one turn at a model's pace."""
BEGINNING = 0.5
"""Seconds until all of them have begun."""
_HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer none"}
Read: TypeAlias = Callable[[bytes], AsyncIterator[bytes]]
"""Sends a body, and gives each piece of the answer."""


class Floor(asyncio.Protocol):
    """One connection, for one request after the other."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._over = False
        self._waiter: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def on_body(self, data: bytes) -> None:
        self._pieces.append(data)

    def on_message_complete(self) -> None:
        self._over = True

    async def read(self, body: bytes) -> AsyncIterator[bytes]:
        self._parser, self._over = HttpResponseParser(self), False
        lines = ["POST /v1/chat/completions HTTP/1.1", "Host: 127.0.0.1"]
        lines += [f"{name}: {value}" for name, value in _HEADERS.items()]
        head = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""])
        self._transport.write(head.encode() + body)
        while True:
            if self._pieces:
                piece = b"".join(self._pieces)
                self._pieces.clear()
                yield piece
            elif self._over:
                return
            else:
                self._waiter = asyncio.get_running_loop().create_future()
                await self._waiter


@asynccontextmanager
async def by_floor(url: URL) -> AsyncIterator[Read]:
    idle: list[Floor] = []

    async def read(body: bytes) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        floor = (
            idle.pop()
            if idle
            else (await loop.create_connection(Floor, "127.0.0.1", url.port or 0))[1]
        )
        async for piece in floor.read(body):
            yield piece
        idle.append(floor)

    yield read


@asynccontextmanager
async def by_aiohttp(url: URL) -> AsyncIterator[Read]:
    timeout = aiohttp.ClientTimeout(connect=10.0, sock_read=600.0)
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        timeout=timeout,
        cookie_jar=aiohttp.DummyCookieJar(),
    ) as session:

        async def read(body: bytes) -> AsyncIterator[bytes]:
            response = await session.post(url, data=body, headers=_HEADERS, allow_redirects=False)
            while piece := await response.content.readany():
                yield piece
            response.close()

        yield read


@asynccontextmanager
async def by_ours(url: URL) -> AsyncIterator[Read]:
    pool = ConnectionPool(url, timeouts=Timeouts())

    async def read(body: bytes) -> AsyncIterator[bytes]:
        response = await pool.post(url, body=body, headers=_HEADERS)
        while piece := await response.read():
            yield piece
        response.close()

    yield read
    await pool.close()


WAYS = {"floor: llhttp on a socket": by_floor, "wholecall": by_ours, "aiohttp": by_aiohttp}


async def ask(read: Read) -> float:
    """Microseconds of a request."""
    body = request_body("whole")
    before = time.process_time()
    for _ in range(REQUESTS):
        _ = [piece async for piece in read(body)]
    return (time.process_time() - before) / REQUESTS * 1e6


async def listen(read: Read) -> float:
    """Microseconds of a chunk, of streams that are cut when the time is over."""
    body, came = request_body("slow-plain"), 0

    async def count() -> None:
        nonlocal came
        async for _ in read(body):
            came += 1

    tasks = [asyncio.create_task(count()) for _ in range(STREAMS)]
    await asyncio.sleep(BEGINNING)
    before, came = time.process_time(), 0
    await asyncio.sleep(WINDOW)
    spent = (time.process_time() - before) / came * 1e6
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return spent


async def measure(url: URL, *, turns: int, rounds: int) -> dict[str, tuple[float, float]]:
    """The best of all turns, for each way: of a request, of a chunk."""
    requests: dict[str, list[float]] = {name: [] for name in WAYS}
    chunks: dict[str, list[float]] = {name: [] for name in WAYS}
    async with AsyncExitStack() as stack:
        reads = {name: await stack.enter_async_context(way(url)) for name, way in WAYS.items()}
        for _ in range(turns):
            for name, read in reads.items():
                requests[name].append(await ask(read))
        for _ in range(rounds):
            for name, read in reads.items():
                chunks[name].append(await listen(read))
    return {name: (min(requests[name]), min(chunks[name])) for name in WAYS}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--write", action="store_true", help="put the table into docs/performance.md"
    )
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with run_upstream() as upstream:
        url = URL(f"http://127.0.0.1:{upstream.port}/v1/chat/completions")
        measured = uvloop.run(measure(url, turns=given.turns, rounds=given.rounds))
    rows = [[name, f"{whole:.0f}", f"{chunk:.1f}"] for name, (whole, chunk) in measured.items()]
    table = markdown(
        ["µs CPU", "a request of 1 KB", "a chunk, 20 a second in each of 60 streams"], rows
    )
    print(table)
    if given.write:
        write_section("http-client", table)


if __name__ == "__main__":
    main()
