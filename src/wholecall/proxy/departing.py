"""Notice that a client is gone while its answer is being made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import Receive


class ClientGone(Exception):
    """The client hung up: nobody waits for the answer any more."""


async def read_body(receive: Receive) -> bytes:
    """The body of a request. Its size is the edge's concern."""
    pieces: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        pieces.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(pieces)


@asynccontextmanager
async def until_gone(receive: Receive) -> AsyncIterator[None]:
    """Break off the block when the client hangs up; it ends with `ClientGone` then."""
    task = asyncio.current_task()
    gone = False

    async def watch() -> None:
        nonlocal gone
        while (await receive())["type"] != "http.disconnect":
            pass
        gone = True
        if task is not None:
            task.cancel()

    watcher = asyncio.create_task(watch(), name="watch for the client's departure")
    try:
        yield
    except asyncio.CancelledError:
        # Our own cancellation is taken back; that of the server goes on.
        if not gone or task is None or task.uncancel() > 0:
            raise
        raise ClientGone from None
    finally:
        watcher.cancel()
