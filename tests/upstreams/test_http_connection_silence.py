"""How long an upstream may be silent, by a clock that can be put forward."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from yarl import URL

from upstreams.http_peer import (
    HEADERS,
    HELLO,
    Talk,
    ask,
    emptied,
    in_jumping_loop,
    jump,
    listening,
    pooling,
    read_all,
    wait_until,
)
from wholecall.upstreams.connection_pool import ConnectionPool
from wholecall.upstreams.http_connection import MOST_UNREAD_BYTES, Timeouts, TookTooLong


@asynccontextmanager
async def hearing(
    timeouts: Timeouts,
) -> AsyncIterator[tuple[ConnectionPool, URL, asyncio.Queue[bytes]]]:
    """A server that says what is put into a queue."""
    saying: asyncio.Queue[bytes] = asyncio.Queue()

    async def say_all(talk: Talk) -> None:
        await talk.hear()
        while said := await saying.get():
            await talk.say(said)
        await talk.wait_for_silence()

    async with listening(say_all) as server, pooling(server.url, timeouts) as pool:
        yield pool, server.url, saying


@in_jumping_loop
async def test_silence_is_counted_from_what_came_last() -> None:
    timeouts = Timeouts(first_byte=100.0, between_chunks=100.0)
    async with hearing(timeouts) as (pool, url, saying):
        await saying.put(HELLO[:-5])
        response = await pool.post(url, body=b"", headers=HEADERS)
        for byte in HELLO[-5:-1]:
            await jump(60.0)
            await saying.put(bytes([byte]))
            assert await response.read() == bytes([byte])
        reading = asyncio.create_task(response.read())
        await jump(99.0)
        assert not reading.done()
        await jump(2.0)
        with pytest.raises(TimeoutError, match="nothing came for 100 s"):
            await reading
        await emptied(pool)


@pytest.mark.parametrize(
    ("timeouts", "patience"),
    [
        (Timeouts(first_byte=10.0, between_chunks=None), 10.0),
        (Timeouts(first_byte=10.0, between_chunks=300.0), 10.0),
        (Timeouts(first_byte=600.0, between_chunks=10.0), 600.0),
        (Timeouts(first_byte=None, between_chunks=10.0, total=None), None),
        (Timeouts(first_byte=None, between_chunks=None, total=None), None),
    ],
)
@in_jumping_loop
async def test_the_first_byte_has_a_limit_of_its_own(
    timeouts: Timeouts, patience: float | None
) -> None:
    async with hearing(timeouts) as (pool, url, saying):
        asking = asyncio.create_task(ask(pool, url))
        await wait_until(lambda: bool(pool._open))
        for _ in range(int((patience or 5000.0) // 5) - 1):
            await jump(5.0)
        assert not asking.done()
        await jump(5.1)
        if patience is None:
            await saying.put(HELLO)
            assert await asking == b"hello"
        else:
            with pytest.raises(TimeoutError, match=f"nothing came for {patience:g} s"):
                await asking


@in_jumping_loop
async def test_after_the_first_byte_another_silence_is_allowed() -> None:
    async with hearing(Timeouts(first_byte=600.0, between_chunks=10.0)) as (pool, url, saying):
        await saying.put(HELLO[:-5])
        response = await pool.post(url, body=b"", headers=HEADERS)
        await jump(500.0)
        await saying.put(HELLO[-5:-2])
        assert await response.read() == b"hel"
        await jump(9.0)
        await saying.put(HELLO[-2:-1])
        assert await response.read() == b"l"
        await jump(10.1)
        with pytest.raises(TimeoutError, match="nothing came for 10 s"):
            await response.read()


@in_jumping_loop
async def test_who_reads_slowly_is_not_told_that_the_upstream_is_silent() -> None:
    size = 8 * MOST_UNREAD_BYTES
    async with hearing(Timeouts(first_byte=10.0, between_chunks=10.0)) as (pool, url, saying):
        await saying.put(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + bytes(size))
        response = await pool.post(url, body=b"", headers=HEADERS)
        await wait_until(lambda: response.incoming.untaken > MOST_UNREAD_BYTES)
        for _ in range(10):
            await jump(9.0)
        assert len(await read_all(response)) == size


@in_jumping_loop
async def test_who_takes_in_a_request_bit_by_bit_is_not_silent() -> None:
    size, bit = 64 * 1024 * 1024, 8 * 1024 * 1024

    async def slowly(talk: Talk) -> None:
        await talk.reader.readuntil(b"\r\n\r\n")
        for _ in range(size // bit):
            await jump(60.0)
            await talk.reader.readexactly(bit)
        await talk.say(HELLO)

    async with listening(slowly) as server, pooling(server.url, Timeouts(first_byte=100.0)) as pool:
        assert await ask(pool, server.url, body=bytes(size)) == b"hello"


@in_jumping_loop
async def test_between_two_requests_nobody_counts() -> None:
    async with hearing(Timeouts(first_byte=10.0, between_chunks=10.0)) as (pool, url, saying):
        await saying.put(HELLO)
        assert await ask(pool, url) == b"hello"
        await jump(15.0)
        assert len(pool._idle) == 1
        await saying.put(HELLO)
        assert await ask(pool, url) == b"hello"
        assert len(pool._open) == 1


@in_jumping_loop
async def test_an_answer_that_goes_on_for_ever_has_an_end() -> None:
    body = b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n"
    async with hearing(Timeouts()) as (pool, url, saying):
        await saying.put(body)
        response = await pool.post(url, body=b"", headers=HEADERS)
        for _ in range(17):
            await jump(100.0)
            await saying.put(b"x")
            assert await response.read() == b"x"
        await jump(99.0)
        await saying.put(b"x")
        assert await response.read() == b"x"
        await jump(2.0)
        with pytest.raises(TookTooLong, match="not over after 1800 s"):
            await response.read()
        await emptied(pool)
