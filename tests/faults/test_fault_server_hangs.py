"""What hangs is let go: by the limit, by the client, by the end of the server."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

import aiohttp
import pytest
from yarl import URL

from wholecall.faults.fault_server import FaultServer

HANGING = ["hang-before-headers", "hang-in-call"]
LONG = 600.0


async def ask(server: FaultServer, model: str) -> bytes:
    body = {"model": model, "messages": [], "stream": True}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{server.base_url}/chat/completions", json=body) as answer,
    ):
        return await answer.read()


async def until_received(server: FaultServer) -> None:
    while not server.received:
        await asyncio.sleep(0)


@pytest.mark.parametrize("model", HANGING)
def test_the_end_of_the_server_lets_go_what_hangs(model: str) -> None:
    async def scenario() -> None:
        async with FaultServer(hang_seconds=LONG) as server:
            asking = asyncio.create_task(ask(server, model))
            await until_received(server)
        with pytest.raises((aiohttp.ClientError, ConnectionError)):
            await asking

    asyncio.run(asyncio.wait_for(scenario(), 30))


@pytest.mark.parametrize("model", HANGING)
def test_a_client_that_is_gone_is_not_answered(model: str) -> None:
    async def scenario() -> int:
        async with FaultServer(hang_seconds=LONG) as server:
            asking = asyncio.create_task(ask(server, model))
            await until_received(server)
            before = len(asyncio.all_tasks())
            asking.cancel()
            with suppress(asyncio.CancelledError):
                await asking
            while len(asyncio.all_tasks()) > before - 2:
                await asyncio.sleep(0)
            return len(server.received)

    assert asyncio.run(asyncio.wait_for(scenario(), 30)) == 1


@pytest.mark.parametrize("model", HANGING)
def test_a_limit_ends_what_hangs(model: str) -> None:
    async def scenario() -> None:
        async with FaultServer(hang_seconds=0.01) as server:
            await ask(server, model)

    with pytest.raises((aiohttp.ClientError, ConnectionError)):
        asyncio.run(asyncio.wait_for(scenario(), 30))


def test_a_page_comes_instead_of_an_answer() -> None:
    async def scenario() -> bytes:
        async with FaultServer() as server:
            return await ask(server, "page-instead")

    page = asyncio.run(asyncio.wait_for(scenario(), 30))
    assert page.startswith(b"<html>")
    with pytest.raises(ValueError, match="Expecting value"):
        json.loads(page)


def test_a_client_that_leaves_at_once_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    body = json.dumps({"model": "good", "messages": [], "stream": True}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: {len(body)}\r\n\r\n"

    async def scenario() -> None:
        async with FaultServer() as server:
            address = URL(server.base_url)
            for count in range(1, 21):
                _, writer = await asyncio.open_connection(address.host, address.port)
                writer.write(head.encode() + body)
                writer.transport.abort()
                while len(server.received) < count:
                    await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(scenario(), 30))
    assert not [record.getMessage() for record in caplog.records]
