"""Notice that a client is gone while its answer is being made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any

from starlette.types import Receive

AT_ONCE_SECONDS = 0.1
"""An answer that takes no longer is not broken off."""


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


class UntilGone:
    """Breaks off its block when the client hangs up; it ends with `ClientGone` then.

    `tell` is called before: what is broken off may ask why.

    Whoever is answered at once is not watched at all: to wait for a client's departure takes a
    task of its own, which costs more than many an answer.
    """

    __slots__ = ("_gone", "_receive", "_task", "_tell", "_timer", "_watcher")

    def __init__(self, receive: Receive, tell: Callable[[], None]) -> None:
        self._receive = receive
        self._tell = tell
        self._gone = False
        self._task: asyncio.Task[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._watcher: asyncio.Task[None] | None = None

    def __enter__(self) -> None:
        self._task = asyncio.current_task()
        self._timer = asyncio.get_running_loop().call_later(AT_ONCE_SECONDS, self._begin)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        task, watcher = self._task, self._watcher
        if self._timer is not None:
            self._timer.cancel()
        if watcher is not None:
            watcher.cancel()
        # They hold this, and only the collector could free them if this held them, too.
        self._timer = self._watcher = self._task = None
        # Our own cancellation is taken back; that of the server goes on.
        ours = self._gone and isinstance(error, asyncio.CancelledError)
        if ours and task is not None and task.uncancel() == 0:
            raise ClientGone from None

    def _begin(self) -> None:
        self._watcher = asyncio.create_task(self._watch(), name="watch for the client's departure")

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        self._tell()
        if self._task is not None:
            self._task.cancel()
