"""Which connections are kept for the next request, and which are closed."""

from __future__ import annotations

import asyncio
import socket
import ssl
import weakref
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from yarl import URL

from upstreams.collected_chunks import without_collector
from upstreams.fake_endpoint import PATIENCE
from upstreams.http_peer import (
    HEADERS,
    HELLO,
    Talk,
    ask,
    emptied,
    greet,
    in_jumping_loop,
    in_loops,
    jump,
    listening,
    pooling,
    read_all,
    serving_context,
)
from wholecall.upstreams.connection_pool import KEEP_ALIVE_SECONDS, ConnectionPool, open_socket
from wholecall.upstreams.http_connection import PoolClosed


@in_loops
async def test_one_after_the_other_share_a_connection_and_both_at_once_have_two() -> None:
    async with listening(greet) as server, pooling(server.url) as pool:
        for _ in range(3):
            assert await ask(pool, server.url) == b"hello"
        assert server.connections == 1
        await asyncio.gather(*(ask(pool, server.url) for _ in range(2)))
        assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        HELLO.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"),
        HELLO + b"noise",
        HELLO + HELLO,
    ],
    ids=["said so", "noise", "a second answer"],
)
@in_loops
async def test_a_connection_that_is_not_clean_is_not_used_again(answer: bytes) -> None:
    async def once(talk: Talk) -> None:
        await talk.hear()
        await talk.say(answer)
        await talk.wait_for_silence()

    async with listening(once) as server, pooling(server.url) as pool:
        assert await ask(pool, server.url) == b"hello"
        assert await ask(pool, server.url) == b"hello"
        assert server.connections == 2


@in_loops
async def test_noise_between_two_requests_is_no_answer() -> None:
    noisy, made = asyncio.Event(), asyncio.Event()

    async def chatter(talk: Talk) -> None:
        await talk.hear()
        await talk.say(HELLO)
        await noisy.wait()
        await talk.say(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil")
        await talk.wait_for_silence()
        made.set()

    async with listening(chatter) as server, pooling(server.url) as pool:
        assert await ask(pool, server.url) == b"hello"
        noisy.set()
        await made.wait()  # the connection was closed for it
        assert await ask(pool, server.url) == b"hello"
        assert server.connections == 2


class EagerLoop(asyncio.SelectorEventLoop):
    """Hands out a connection when the server has spoken on it, as uvloop does."""

    async def create_connection(self, *args: Any, **options: Any) -> Any:
        made = await super().create_connection(*args, **options)
        while not made[1]._early:
            await asyncio.sleep(0)
        return made


@pytest.mark.parametrize("noise", [b"", b"noise"])
def test_who_answers_before_it_is_asked_is_heard(noise: bytes) -> None:
    async def full(talk: Talk) -> None:
        await talk.say(b"HTTP/1.1 503 Full\r\ncontent-length: 2\r\n\r\nno" + noise)
        await talk.wait_for_silence()

    async def meet() -> None:
        async with listening(full) as server, pooling(server.url) as pool:
            response = await pool.post(server.url, body=b"hi", headers=HEADERS)
            assert response.status == 503
            assert await read_all(response) == b"no"
            assert len(pool._idle) == (0 if noise else 1)

    with asyncio.Runner(loop_factory=EagerLoop) as runner:
        runner.run(asyncio.wait_for(meet(), PATIENCE))


@in_loops
async def test_a_connection_that_the_server_closed_meanwhile_is_not_used() -> None:
    closed = asyncio.Event()

    async def once(talk: Talk) -> None:
        await talk.hear()
        await talk.say(HELLO)
        talk.hang_up()
        closed.set()

    async with listening(once) as server, pooling(server.url) as pool:
        for _ in range(3):
            closed.clear()
            assert await ask(pool, server.url) == b"hello"
            await closed.wait()
            await emptied(pool)
        assert server.connections == 3


@pytest.mark.parametrize("safe", [False, True], ids=["plain", "TLS"])
@in_loops
async def test_an_answer_before_all_was_sent_is_read_and_the_connection_closed(
    safe: bool, authority: Path
) -> None:
    gone = asyncio.Event()

    async def refuse(talk: Talk) -> None:
        await talk.reader.readuntil(b"\r\n\r\n")
        await talk.say(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno")
        await gone.wait()  # it stays, and never reads the rest

    def trust() -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(authority))

    context = serving_context(authority) if safe else None
    async with listening(refuse, context) as server, pooling(server.url, trust=trust) as pool:
        response = await pool.post(server.url, body=bytes(64 * 1024 * 1024), headers=HEADERS)
        assert response.status == 413
        assert await read_all(response) == b"no"
        await emptied(pool)
        gone.set()


@in_loops
async def test_an_answer_ends_with_what_comes_although_not_all_was_sent() -> None:
    gone = asyncio.Event()

    async def refuse(talk: Talk) -> None:
        await talk.reader.readuntil(b"\r\n\r\n")
        await talk.say(b"HTTP/1.1 413 Too Large\r\n\r\nno")
        talk.writer.write_eof()
        await gone.wait()

    async with listening(refuse) as server, pooling(server.url) as pool:
        assert await ask(pool, server.url, body=bytes(64 * 1024 * 1024)) == b"no"
        await emptied(pool)
        gone.set()


@in_loops
async def test_who_hangs_up_early_closes_the_connection() -> None:
    gone = asyncio.Event()

    async def forever(talk: Talk) -> None:
        await talk.hear()
        await talk.say(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhe")
        await talk.wait_for_silence()
        gone.set()

    async with listening(forever) as server, pooling(server.url) as pool:
        response = await pool.post(server.url, body=b"", headers=HEADERS)
        assert await response.read() == b"he"
        response.close()
        await gone.wait()
        with pytest.raises(ConnectionError):
            await response.read()


@pytest.mark.parametrize("by", ["its reader", "the pool"])
@in_loops
async def test_what_is_closed_on_this_side_is_no_end_of_a_body(by: str) -> None:
    """A body without a length ends with the connection, but not if nobody wanted the rest."""

    async def forever(talk: Talk) -> None:
        await talk.hear()
        await talk.say(b"HTTP/1.1 200 OK\r\n\r\nhe")
        await talk.wait_for_silence()

    async with listening(forever) as server, pooling(server.url) as pool:
        response = await pool.post(server.url, body=b"", headers=HEADERS)
        assert await response.read() == b"he"
        if by == "the pool":
            await pool.close()
        else:
            response.close()
        for _ in range(2):
            with pytest.raises(OSError, match="on this side"):
                await response.read()


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\n"])
@in_loops
async def test_who_is_cancelled_while_it_waits_closes_the_connection(head: bytes) -> None:
    heard, gone = asyncio.Event(), asyncio.Event()

    async def forever(talk: Talk) -> None:
        await talk.hear()
        await talk.say(head)
        heard.set()
        await talk.wait_for_silence()
        gone.set()

    async with listening(forever) as server, pooling(server.url) as pool:
        asking = asyncio.create_task(ask(pool, server.url))
        await heard.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await gone.wait()
        await emptied(pool)


@in_loops
async def test_the_one_that_was_used_last_is_taken_first() -> None:
    async with listening(greet) as server, pooling(server.url) as pool:
        await asyncio.gather(*(ask(pool, server.url) for _ in range(3)))
        oldest = pool._idle[0]
        for _ in range(5):
            await ask(pool, server.url)
        assert pool._idle[0] is oldest


@in_jumping_loop
async def test_idle_connections_grow_old_and_those_in_use_do_not() -> None:
    async with listening(greet) as server, pooling(server.url) as pool:
        await asyncio.gather(*(ask(pool, server.url) for _ in range(3)))
        await jump(0.7 * KEEP_ALIVE_SECONDS)
        assert await ask(pool, server.url) == b"hello"
        await jump(0.7 * KEEP_ALIVE_SECONDS)
        while len(pool._open) > 1:
            await asyncio.sleep(0)
        assert await ask(pool, server.url) == b"hello"
        assert server.connections == 3
        await jump(1.1 * KEEP_ALIVE_SECONDS)
        await emptied(pool)
        assert await ask(pool, server.url) == b"hello"
        assert server.connections == 4


@in_loops
async def test_what_cannot_be_written_takes_no_connection() -> None:
    async with listening(greet) as server, pooling(server.url) as pool:
        assert await ask(pool, server.url) == b"hello"
        with pytest.raises(UnicodeEncodeError):
            await pool.post(server.url, body=b"", headers={"x-a": "half of a character: \udc80"})
        assert len(pool._idle) == 1


@in_loops
async def test_closing_closes_what_is_idle_and_what_is_under_way() -> None:
    async def first_only(talk: Talk) -> None:
        await talk.hear()
        await talk.say(HELLO)
        await talk.hear()
        await talk.wait_for_silence()

    async with listening(first_only) as server, pooling(server.url) as pool:
        await asyncio.gather(*(ask(pool, server.url) for _ in range(2)))
        under_way = asyncio.create_task(ask(pool, server.url))
        await asyncio.sleep(0)
        await asyncio.gather(pool.close(), pool.close())
        assert pool.closed
        assert not pool._open
        with pytest.raises(PoolClosed):
            await under_way


@in_loops
async def test_what_comes_about_after_the_end_is_closed() -> None:
    async with listening(greet) as server, pooling(server.url) as pool:
        late = asyncio.create_task(ask(pool, server.url))
        while not pool._connecting:
            await asyncio.sleep(0)
        await pool.close()
        with pytest.raises(PoolClosed):
            await late


@pytest.mark.parametrize(
    "said",
    [
        HELLO,
        HELLO[:-1],
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\nno\r\n",
    ],
    ids=["good", "cut", "no HTTP"],
)
@in_loops
async def test_an_answer_leaves_nothing_for_the_collector(said: bytes) -> None:
    async def answer(talk: Talk) -> None:
        await talk.hear()
        await talk.say(said)

    async def ask_once(pool: ConnectionPool, url: URL) -> weakref.ref[object]:
        response = await pool.post(url, body=b"", headers=HEADERS)
        with closing(response), suppress(OSError):
            await read_all(response)
        return weakref.ref(response.incoming)

    async with listening(answer) as server, pooling(server.url) as pool:
        with without_collector():
            left = await ask_once(pool, server.url)
            assert left() is None


def test_a_silent_connection_is_kept_alive_by_the_system() -> None:
    with open_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 1))) as opened:
        assert opened.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        if hasattr(socket, "TCP_KEEPIDLE"):
            assert opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
