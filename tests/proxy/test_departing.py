"""Clients that leave."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message

from proxying import in_loop
from wholecall.proxy.departing import ClientGone, UntilGone, read_body


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


@in_loop
async def test_a_body_is_read_in_pieces() -> None:
    client = Client(_piece(b"ab", more=True), {"type": "http.request", "more_body": True})
    client._messages.append({"type": "http.request", "body": b"c"})
    assert await read_body(client.receive) == b"abc"


@in_loop
async def test_a_client_may_leave_before_it_has_said_all() -> None:
    client = Client(_piece(b"ab", more=True))
    client.leaves.set()
    with pytest.raises(ClientGone):
        await read_body(client.receive)


@in_loop
async def test_what_is_done_for_a_client_ends_when_it_leaves() -> None:
    client = Client(_piece(b"", more=False))
    ended = asyncio.Event()
    told: list[bool] = []

    async def work() -> None:
        with UntilGone(client.receive, lambda: told.append(ended.is_set())):
            asyncio.get_running_loop().call_soon(client.leaves.set)
            try:
                # Were it not broken off, this would end in another way.
                await asyncio.wait_for(asyncio.Event().wait(), 5.0)
            finally:
                ended.set()

    with pytest.raises(ClientGone):
        await work()
    assert ended.is_set()
    assert told == [False]  # what is broken off knows why
    # It was our own cancellation, and it leaves no trace.
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


@in_loop
async def test_what_is_done_comes_to_its_end_while_the_client_waits() -> None:
    with UntilGone(Client().receive, pytest.fail):
        done = True
    assert done


@in_loop
async def test_the_servers_own_cancellation_goes_on() -> None:
    client = Client()
    inside = asyncio.Event()

    async def work() -> None:
        with UntilGone(client.receive, pytest.fail):
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
