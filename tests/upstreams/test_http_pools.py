"""One pool of connections for each event loop."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from aiohappyeyeballs import AddrInfoType
from yarl import URL

from upstreams.collected_chunks import without_collector
from upstreams.fake_endpoint import PATIENCE, in_loop
from wholecall.faults.fault_server import start_in_thread
from wholecall.upstreams import http as pools_module
from wholecall.upstreams.connection_pool import ConnectionPool, OpenSocket
from wholecall.upstreams.http import Pools
from wholecall.upstreams.http_connection import Timeouts, read_some


def make(open_socket: OpenSocket, address: str = "http://127.0.0.1:1") -> ConnectionPool:
    return ConnectionPool(URL(address), timeouts=Timeouts(), open_socket=open_socket)


@in_loop
async def test_one_loop_has_one_session() -> None:
    pools = Pools(make)
    pool = await pools.current()
    assert await pools.current() is pool
    await pools.close()
    assert pool.closed
    await pools.close()


@in_loop
async def test_after_closing_there_is_a_new_one() -> None:
    pools = Pools(make)
    first = await pools.current()
    await pools.close()
    assert await pools.current() is not first
    await pools.close()


def test_the_session_of_a_dead_loop_is_replaced_and_closed() -> None:
    pools = Pools(make)

    async def current() -> ConnectionPool:
        return await pools.current()

    async def replace(dead: ConnectionPool) -> None:
        assert await pools.current() is not dead
        assert dead.closed
        await pools.close()

    asyncio.run(replace(asyncio.run(current())))


def test_two_who_find_a_dead_loop_share_the_new_session() -> None:
    made: list[ConnectionPool] = []

    def count(open_socket: OpenSocket) -> ConnectionPool:
        made.append(make(open_socket))
        return made[-1]

    pools = Pools(count)
    dead = asyncio.new_event_loop()
    dead.run_until_complete(pools.current())
    dead.close()

    async def both() -> None:
        one, other = await asyncio.gather(pools.current(), pools.current())
        assert one is other
        await pools.close()

    asyncio.run(both())
    assert len(made) == 2


@contextmanager
def looping() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that runs in another thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()


class SlowPool(ConnectionPool):
    """Needs some steps of its loop to close."""

    gone = False

    async def close(self) -> None:
        await super().close()
        for _ in range(20):
            await asyncio.sleep(0)
        self.gone = True


def make_slow(open_socket: OpenSocket) -> SlowPool:
    return SlowPool(URL("http://127.0.0.1:1"), timeouts=Timeouts(), open_socket=open_socket)


def test_a_loop_in_another_thread_closes_its_own_and_is_waited_for() -> None:
    pools = Pools(make_slow)
    with looping() as loop:
        there = asyncio.run_coroutine_threadsafe(pools.current(), loop).result(PATIENCE)

        async def use_and_close() -> ConnectionPool:
            here = await pools.current()
            await pools.close()
            assert isinstance(there, SlowPool)
            assert there.gone
            return here

        here = asyncio.run(use_and_close())
        assert here is not there
        assert here.closed


def test_a_loop_that_stands_still_is_not_waited_for() -> None:
    pools = Pools(make)
    still = asyncio.new_event_loop()
    there = still.run_until_complete(pools.current())
    asyncio.run(asyncio.wait_for(pools.close(), PATIENCE))
    still.run_until_complete(asyncio.sleep(0))
    assert there.closed
    still.run_until_complete(still.shutdown_asyncgens())
    still.close()


def test_a_loop_that_is_busy_is_waited_for_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools_module, "OTHER_LOOP_SECONDS", 0.0)
    pools = Pools(make)
    with looping() as loop:
        there = asyncio.run_coroutine_threadsafe(pools.current(), loop).result(PATIENCE)
        free = threading.Event()
        loop.call_soon_threadsafe(free.wait, PATIENCE)
        asyncio.run(pools.close())
        assert not there.closed
        free.set()
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(PATIENCE)
        assert there.closed


# ── What becomes of the connections of a loop that has ended ────────────────────────


class Asking:
    """Asks a server, and remembers the sockets of its connections."""

    def __init__(self, url: str) -> None:
        self.sockets: list[socket.socket] = []
        self.pools = Pools(self._make)
        self._url = url

    def _make(self, open_socket: OpenSocket) -> ConnectionPool:
        def remember(address: AddrInfoType) -> socket.socket:
            self.sockets.append(open_socket(address))
            return self.sockets[-1]

        return make(remember, self._url)

    async def ask(self) -> ConnectionPool:
        pool = await self.pools.current()
        await read_some(await pool.get(URL(self._url), headers={}), 1_000_000)
        assert self.sockets[-1].fileno() >= 0, "the connection is not kept"
        return pool

    @property
    def left_open(self) -> int:
        return sum(each.fileno() >= 0 for each in self.sockets)


@contextmanager
def without_collection() -> Iterator[None]:
    """The same; asyncio says at its end that transports were not closed: their loop was before."""
    with without_collector():
        yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


Run = Callable[[Coroutine[Any, Any, ConnectionPool]], ConnectionPool]


def run_and_just_close(asking: Coroutine[Any, Any, Any]) -> Any:
    loop = asyncio.new_event_loop()
    given = loop.run_until_complete(asking)
    loop.close()
    return given


@pytest.mark.parametrize(
    ("run", "left"), [(asyncio.run, 0), (run_and_just_close, 1)], ids=["run", "just closed"]
)
def test_loop_after_loop_leaves_no_socket_open(run: Run, left: int) -> None:
    with start_in_thread() as server, without_collection():
        asking = Asking(f"{server.base_url}/models")
        for _ in range(3):
            pool = run(asking.ask())
            assert asking.left_open == left
            assert pool.closed == (left == 0)
        asyncio.run(asking.pools.close())
        assert asking.left_open == 0
        assert len(asking.sockets) == 3


def test_what_is_dropped_without_being_closed_is_closed_by_its_loop() -> None:
    async def forget(url: str) -> None:
        pools = Pools(lambda open_socket: make(open_socket, url))
        pool = await pools.current()
        await read_some(await pool.get(URL(url), headers={}), 1_000_000)
        del pools
        while not pool.closed:
            await asyncio.sleep(0)

    with start_in_thread() as server, without_collection():
        asyncio.run(asyncio.wait_for(forget(f"{server.base_url}/models"), PATIENCE))
