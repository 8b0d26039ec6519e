"""Clients that leave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from starlette.types import Message

from proxy_server import in_loop
from wholecall.proxy.http.client_connection import (
    ClientDisconnected,
    DisconnectWatcher,
    UntilDisconnect,
    read_body,
)


class Client:
    """Says what it is told to say, then waits."""

    def __init__(self, *messages: Message) -> None:
        self._messages = list(messages)
        self.leaves = asyncio.Event()

    async def receive(self) -> Message:
        if self._messages:
            return self._messages.pop(0)
        await self.leaves.wait()
        return {"type": "http.disconnect"}


def _piece(body: bytes, *, more: bool) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


def until_gone(
    client: Client, tell: Callable[[], None], *, disconnects: DisconnectWatcher | None = None
) -> UntilDisconnect:
    """A block that is watched as soon as possible."""
    return UntilDisconnect(
        client.receive, tell, disconnects=disconnects or DisconnectWatcher(seconds=0.0)
    )


async def wait_in_vain() -> None:
    # Were it not broken off, this would end in another way.
    await asyncio.wait_for(asyncio.Event().wait(), 5.0)


@in_loop
async def test_a_body_is_read_in_pieces() -> None:
    client = Client(_piece(b"ab", more=True), {"type": "http.request", "more_body": True})
    client._messages.append({"type": "http.request", "body": b"c"})
    assert await read_body(client.receive) == b"abc"


@in_loop
async def test_a_client_may_leave_before_it_has_said_all() -> None:
    client = Client(_piece(b"ab", more=True))
    client.leaves.set()
    with pytest.raises(ClientDisconnected):
        await read_body(client.receive)


@in_loop
async def test_what_is_done_for_a_client_ends_when_it_leaves() -> None:
    client = Client(_piece(b"", more=False))
    ended = asyncio.Event()
    told: list[bool] = []

    async def work() -> None:
        with until_gone(client, lambda: told.append(ended.is_set())):
            asyncio.get_running_loop().call_soon(client.leaves.set)
            try:
                await wait_in_vain()
            finally:
                ended.set()

    with pytest.raises(ClientDisconnected):
        await work()
    assert ended.is_set()
    assert told == [False]  # what is broken off knows why
    # It was our own cancellation, and it leaves no trace.
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


@in_loop
async def test_what_is_done_comes_to_its_end_while_the_client_waits() -> None:
    with until_gone(Client(), pytest.fail):
        done = True
    assert done


@in_loop
async def test_the_servers_own_cancellation_goes_on() -> None:
    client = Client()
    inside = asyncio.Event()

    async def work() -> None:
        with until_gone(client, pytest.fail):
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# ── Who is watched ──────────────────────────────────────────────────────────────────


async def leave(disconnects: DisconnectWatcher) -> None:
    """A client comes, is watched, and leaves."""
    client = Client()
    client.leaves.set()
    with (
        pytest.raises(ClientDisconnected),
        until_gone(client, lambda: None, disconnects=disconnects),
    ):
        await wait_in_vain()


class Heard(Client):
    """Counts how often anybody listens to it."""

    heard = 0

    async def receive(self) -> Message:
        self.heard += 1
        return await super().receive()


@in_loop
async def test_who_is_answered_at_once_is_not_watched() -> None:
    client, disconnects = Heard(), DisconnectWatcher(seconds=0.0)
    with until_gone(client, pytest.fail, disconnects=disconnects):
        pass
    await leave(disconnects)
    assert client.heard == 0


@in_loop
async def test_many_are_watched_at_a_time_and_each_once() -> None:
    disconnects, inside = DisconnectWatcher(seconds=0.0), asyncio.Event()
    clients = [Heard() for _ in range(3)]

    async def work(client: Client) -> None:
        with until_gone(client, pytest.fail, disconnects=disconnects):
            await inside.wait()

    works = [asyncio.create_task(work(client)) for client in clients]
    while not all(client.heard for client in clients):
        await asyncio.sleep(0)
    await leave(disconnects)
    inside.set()
    await asyncio.gather(*works)
    assert [client.heard for client in clients] == [1, 1, 1]


@in_loop
async def test_who_comes_after_a_pause_is_watched_too() -> None:
    disconnects = DisconnectWatcher(seconds=0.0)
    for _ in range(3):
        await leave(disconnects)
        for _ in range(5):  # rounds at which nobody is there
            await asyncio.sleep(0)


def test_a_loop_that_ended_in_between_is_no_hindrance() -> None:
    disconnects, client = DisconnectWatcher(seconds=0.05), Client()

    async def enter() -> None:
        with until_gone(client, pytest.fail, disconnects=disconnects):
            pass

    asyncio.run(enter())  # its next round never comes
    asyncio.run(leave(disconnects))
