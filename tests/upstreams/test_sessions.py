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

from upstreams.serving import PATIENCE, in_loop
from wholecall.faults.running import start_in_thread
from wholecall.upstreams.http1.base import Client, Timeouts, read_some
from wholecall.upstreams.http1.pool import OpenSocket, Pool
from wholecall.upstreams.sessions import Sessions


def make(open_socket: OpenSocket, address: str = "http://127.0.0.1:1") -> Pool:
    return Pool(URL(address), timeouts=Timeouts(), open_socket=open_socket)


@in_loop
async def test_one_loop_has_one_session() -> None:
    sessions = Sessions(make)
    session = await sessions.current()
    assert await sessions.current() is session
    await sessions.close()
    assert session.closed
    await sessions.close()


@in_loop
async def test_after_closing_there_is_a_new_one() -> None:
    sessions = Sessions(make)
    first = await sessions.current()
    await sessions.close()
    assert await sessions.current() is not first
    await sessions.close()


def test_the_session_of_a_dead_loop_is_replaced_and_closed() -> None:
    sessions = Sessions(make)

    async def current() -> Client:
        return await sessions.current()

    async def replace(dead: Client) -> None:
        assert await sessions.current() is not dead
        assert dead.closed
        await sessions.close()

    asyncio.run(replace(asyncio.run(current())))


def test_two_who_find_a_dead_loop_share_the_new_session() -> None:
    made: list[Client] = []

    def count(open_socket: OpenSocket) -> Client:
        made.append(make(open_socket))
        return made[-1]

    sessions = Sessions(count)
    dead = asyncio.new_event_loop()
    dead.run_until_complete(sessions.current())
    dead.close()

    async def both() -> None:
        one, other = await asyncio.gather(sessions.current(), sessions.current())
        assert one is other
        await sessions.close()

    asyncio.run(both())
    assert len(made) == 2


def test_a_loop_in_another_thread_closes_its_own() -> None:
    sessions = Sessions(make)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        there = asyncio.run_coroutine_threadsafe(sessions.current(), loop).result(PATIENCE)

        async def use_and_close() -> Client:
            here = await sessions.current()
            await sessions.close()
            return here

        here = asyncio.run(use_and_close())
        assert here is not there
        assert here.closed
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(PATIENCE)
        assert there.closed
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()


# ── What becomes of the connections of a loop that has ended ────────────────────────


class Asking:
    """Asks a server, and remembers the sockets of its connections."""

    def __init__(self, url: str) -> None:
        self.sockets: list[socket.socket] = []
        self.sessions = Sessions(self._make)
        self._url = url

    def _make(self, open_socket: OpenSocket) -> Client:
        def remember(address: AddrInfoType) -> socket.socket:
            self.sockets.append(open_socket(address))
            return self.sockets[-1]

        return make(remember, self._url)

    async def ask(self) -> Client:
        session = await self.sessions.current()
        await read_some(await session.get(URL(self._url), headers={}), 1_000_000)
        assert self.sockets[-1].fileno() >= 0, "the connection is not kept"
        return session

    @property
    def left_open(self) -> int:
        return sum(each.fileno() >= 0 for each in self.sockets)


@contextmanager
def without_collection() -> Iterator[None]:
    """Whatever is freed in here, it is not freed by chance."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        with warnings.catch_warnings():
            # asyncio says that a transport was never closed: its loop was closed before.
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


Run = Callable[[Coroutine[Any, Any, Client]], Client]


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
            session = run(asking.ask())
            assert asking.left_open == left
            assert session.closed == (left == 0)
        asyncio.run(asking.sessions.close())
        assert asking.left_open == 0
        assert len(asking.sockets) == 3


def test_what_is_dropped_without_being_closed_is_closed_by_its_loop() -> None:
    async def forget(url: str) -> None:
        sessions = Sessions(lambda open_socket: make(open_socket, url))
        session = await sessions.current()
        await read_some(await session.get(URL(url), headers={}), 1_000_000)
        del sessions
        while not session.closed:
            await asyncio.sleep(0)

    with start_in_thread() as server, without_collection():
        asyncio.run(asyncio.wait_for(forget(f"{server.base_url}/models"), PATIENCE))
