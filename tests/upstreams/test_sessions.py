"""One pool of connections for each event loop."""

from __future__ import annotations

import asyncio
import threading

import aiohttp

from upstreams.serving import PATIENCE, in_loop
from wholecall.upstreams.sessions import Sessions


@in_loop
async def test_one_loop_has_one_session() -> None:
    sessions = Sessions(aiohttp.ClientSession)
    session = await sessions.current()
    assert await sessions.current() is session
    await sessions.close()
    assert session.closed
    await sessions.close()


@in_loop
async def test_after_closing_there_is_a_new_one() -> None:
    sessions = Sessions(aiohttp.ClientSession)
    first = await sessions.current()
    await sessions.close()
    assert await sessions.current() is not first
    await sessions.close()


def test_the_session_of_a_dead_loop_is_replaced_and_closed() -> None:
    sessions = Sessions(aiohttp.ClientSession)

    async def current() -> aiohttp.ClientSession:
        return await sessions.current()

    async def replace(dead: aiohttp.ClientSession) -> None:
        assert await sessions.current() is not dead
        assert dead.closed
        await sessions.close()

    asyncio.run(replace(asyncio.run(current())))


def test_a_loop_in_another_thread_closes_its_own() -> None:
    sessions = Sessions(aiohttp.ClientSession)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        there = asyncio.run_coroutine_threadsafe(sessions.current(), loop).result(PATIENCE)

        async def use_and_close() -> aiohttp.ClientSession:
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
