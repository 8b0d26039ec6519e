"""Who gets a connection, and when: one that is free, or a new one."""

from __future__ import annotations

import asyncio
import gc
import socket
from typing import Any, cast

import pytest
from aiohappyeyeballs import AddrInfoType
from yarl import URL

from upstreams.fake_endpoint import PATIENCE
from upstreams.http_peer import HELLO, Talk, ask, greet, in_loops, listening, pooling, wait_until
from wholecall.upstreams import connection_pool as pool_module
from wholecall.upstreams.connection_pool import ConnectionPool, open_socket
from wholecall.upstreams.http_connection import ConnectTimeout, NotHttp, PoolClosed, Timeouts


@in_loops
async def test_whose_connection_fails_makes_room_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool_module, "MOST_CONNECTIONS", 1)
    refused = iter([True, False])

    def refuse_first(address: AddrInfoType) -> socket.socket:
        if next(refused):
            raise ConnectionRefusedError("not now")
        return open_socket(address)

    async with listening(greet) as server:
        pool = ConnectionPool(server.url, timeouts=Timeouts(), open_socket=refuse_first)
        asking = (ask(pool, server.url) for _ in range(2))
        first, second = await asyncio.gather(*asking, return_exceptions=True)
        assert isinstance(first, ConnectionRefusedError)
        assert second == b"hello"
        await pool.close()


@in_loops
async def test_who_comes_late_waits_for_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "MOST_CONNECTIONS", 2)
    async with listening(greet) as server, pooling(server.url) as pool:
        bodies = await asyncio.gather(*(ask(pool, server.url) for _ in range(20)))
        assert bodies == [b"hello"] * 20
        assert server.connections == 2


@in_loops
async def test_a_place_is_free_again_after_whatever_happened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool_module, "MOST_CONNECTIONS", 1)
    turns = iter(["hang up", "noise", "hold", "good"])
    held = asyncio.Event()

    async def moody(talk: Talk) -> None:
        await talk.hear()
        match next(turns):
            case "hang up":
                talk.hang_up(rudely=True)
            case "noise":
                await talk.say(b"noise")
            case "hold":
                held.set()
                await talk.wait_for_silence()
            case "good":
                await talk.say(HELLO)
                await greet(talk)

    async with listening(moody) as server, pooling(server.url) as pool:
        asking = [asyncio.create_task(ask(pool, server.url)) for _ in range(5)]
        await held.wait()
        asking[2].cancel()
        results = await asyncio.gather(*asking, return_exceptions=True)
    kinds = [type(each) for each in results]
    assert kinds == [ConnectionResetError, NotHttp, asyncio.CancelledError, bytes, bytes]


@in_loops
async def test_who_is_called_and_gone_passes_the_place_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "MOST_CONNECTIONS", 1)
    go_on = asyncio.Event()

    async def wait(talk: Talk) -> None:
        while True:
            await talk.hear()
            await go_on.wait()
            await talk.say(HELLO)

    async with listening(wait) as server, pooling(server.url) as pool:
        first = asyncio.create_task(ask(pool, server.url))
        while not pool._open:
            await asyncio.sleep(0)
        second, third = (asyncio.create_task(ask(pool, server.url)) for _ in range(2))
        while len(pool._waiting) != 2:
            await asyncio.sleep(0)
        place = pool._waiting[0]
        place.add_done_callback(lambda _: second.cancel())
        go_on.set()
        assert await first == b"hello"
        assert await third == b"hello"
        assert second.cancelled()


@in_loops
async def test_who_comes_first_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if somebody gives up, or asks again just when a connection gets free."""
    monkeypatch.setattr(pool_module, "MOST_CONNECTIONS", 1)
    heard: list[bytes] = []
    go_on = asyncio.Event()

    async def note(talk: Talk) -> None:
        while True:
            heard.append((await talk.hear())[-1:])
            await go_on.wait()
            await talk.say(HELLO)

    async with listening(note) as server, pooling(server.url) as pool:

        async def ask_twice(name: bytes) -> None:
            await ask(pool, server.url, body=name)
            await ask(pool, server.url, body=name)

        asking = [asyncio.create_task(ask_twice(b"%d" % number)) for number in range(4)]
        await wait_until(lambda: len(pool._waiting) == 3 and bool(heard))
        asking[3].cancel()
        await asyncio.wait([asking[3]])
        pool._call_next()  # something was free, and is gone again
        await wait_until(lambda: not pool._waiting[0].done())
        go_on.set()
        await asyncio.gather(*asking[:3])
    assert b"".join(heard) == b"012012"


@in_loops
async def test_who_waits_for_a_place_is_told_of_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "MOST_CONNECTIONS", 1)

    async def forever(talk: Talk) -> None:
        await talk.wait_for_silence()

    async with listening(forever) as server, pooling(server.url) as pool:
        asking = [asyncio.create_task(ask(pool, server.url)) for _ in range(5)]
        await wait_until(lambda: len(pool._waiting) == 4 and bool(pool._open))
        await pool.close()
        errors = await asyncio.gather(*asking, return_exceptions=True)
        assert [type(error) for error in errors] == [PoolClosed] * 5
        assert server.connections == 1
        with pytest.raises(PoolClosed):
            await ask(pool, server.url)


@in_loops
async def test_the_last_place_does_not_come_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "MOST_CONNECTIONS", 1)

    async def forever(talk: Talk) -> None:
        await talk.wait_for_silence()

    timeouts = Timeouts(connect=0.05)
    async with listening(forever) as server, pooling(server.url, timeouts) as pool:
        first = asyncio.create_task(ask(pool, server.url))
        while not pool._open:
            await asyncio.sleep(0)
        with pytest.raises(ConnectTimeout):
            await ask(pool, server.url)
        assert not pool._waiting
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)


@in_loops
async def test_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = URL(f"http://127.0.0.1:{free.getsockname()[1]}")
    async with pooling(url) as pool:
        with pytest.raises(ConnectionRefusedError):
            await ask(pool, url)
        assert pool._connecting == 0


class AskedLoop(asyncio.SelectorEventLoop):
    """Counts how often it looks up a name, and waits with the answer."""

    def __init__(self) -> None:
        super().__init__()
        self.lookups = 0
        self.go_on = asyncio.Event()

    async def getaddrinfo(self, *args: Any, **options: Any) -> Any:
        self.lookups += 1
        await self.go_on.wait()
        return await super().getaddrinfo(*args, **options)


def test_who_needs_a_name_at_the_same_time_waits_for_one_look_at_it() -> None:
    async def meet(loop: AskedLoop) -> None:
        async with listening(greet) as server, pooling(server.url) as pool:
            asking = [asyncio.create_task(ask(pool, server.url)) for _ in range(5)]
            await wait_until(lambda: pool._connecting == 5)
            asking[0].cancel()
            await asyncio.wait(asking[:1])
            loop.go_on.set()
            assert await asyncio.gather(*asking[1:]) == [b"hello"] * 4
            assert loop.lookups == 1
            assert asking[0].cancelled()

    with asyncio.Runner(loop_factory=AskedLoop) as runner:
        loop = cast(AskedLoop, runner.get_loop())
        runner.run(asyncio.wait_for(meet(loop), PATIENCE))


def test_a_name_that_nobody_waits_for_any_more_may_be_none() -> None:
    complaints: list[object] = []

    async def leave(loop: AskedLoop) -> None:
        async with pooling(URL("http://nobody.invalid:1")) as pool:
            asking = asyncio.create_task(ask(pool, URL("http://nobody.invalid:1")))
            await wait_until(lambda: pool._connecting == 1)
            asking.cancel()
            await asyncio.wait([asking])
            loop.go_on.set()
            await wait_until(lambda: pool._looking is None)
        gc.collect()

    with asyncio.Runner(loop_factory=AskedLoop) as runner:
        loop = cast(AskedLoop, runner.get_loop())
        loop.set_exception_handler(lambda _, complaint: complaints.append(complaint))
        runner.run(asyncio.wait_for(leave(loop), PATIENCE))
    assert complaints == []


def test_a_look_at_a_name_ends_with_its_pool() -> None:
    async def close(_: AskedLoop) -> None:
        url = URL("http://nobody.invalid:1")
        before = asyncio.all_tasks()
        async with pooling(url) as pool:
            asking = [asyncio.create_task(ask(pool, url)) for _ in range(2)]
            await wait_until(lambda: pool._connecting == 2)
            await pool.close()
            assert asyncio.all_tasks() <= {*before, *asking}
            for one in await asyncio.gather(*asking, return_exceptions=True):
                assert isinstance(one, PoolClosed)
            assert pool._connecting == 0

    with asyncio.Runner(loop_factory=AskedLoop) as runner:
        loop = cast(AskedLoop, runner.get_loop())
        runner.run(asyncio.wait_for(close(loop), PATIENCE))


@in_loops
async def test_a_handshake_ends_with_its_pool() -> None:
    opened: list[socket.socket] = []

    def remember(address: AddrInfoType) -> socket.socket:
        opened.append(open_socket(address))
        return opened[-1]

    async def be_silent(talk: Talk) -> None:
        await talk.wait_for_silence()

    async with listening(be_silent) as server:
        url = server.url.with_scheme("https")
        pool = ConnectionPool(url, timeouts=Timeouts(connect=None), open_socket=remember)
        asking = asyncio.create_task(ask(pool, url))
        await wait_until(lambda: server.connections == 1)
        await pool.close()
        assert [each.fileno() for each in opened] == [-1]
        with pytest.raises(PoolClosed):
            await asking


@in_loops
async def test_who_was_cancelled_while_the_pool_closed_is_cancelled() -> None:
    async def be_silent(talk: Talk) -> None:
        await talk.wait_for_silence()

    async with listening(be_silent) as server:
        url = server.url.with_scheme("https")
        pool = ConnectionPool(url, timeouts=Timeouts())
        asking = asyncio.create_task(ask(pool, url))
        await wait_until(lambda: server.connections == 1)
        asking.cancel()
        await pool.close()
        await asyncio.wait([asking])
        assert asking.cancelled()


@in_loops
async def test_nobody_has_that_name() -> None:
    url = URL("http://nobody.invalid:1")
    async with pooling(url) as pool:
        with pytest.raises(socket.gaierror):
            await ask(pool, url)
