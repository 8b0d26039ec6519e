"""Notice that a client is gone while its answer is being made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any

from starlette.types import Receive

AT_ONCE_SECONDS = 0.1
"""An answer that takes no longer is not broken off."""


class ClientDisconnected(Exception):
    """The client disconnected: no one waits for the answer any more."""


async def read_body(receive: Receive) -> bytes:
    """The body of a request. Its size is the edge's concern."""
    pieces: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        pieces.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(pieces)


class DisconnectWatcher:
    """Has those clients watched whose answers take long.

    It goes round every `seconds` while anybody is answered; who is there at two rounds takes long.
    A timer for each of them would be started and stopped with every request.
    """

    def __init__(self, seconds: float = AT_ONCE_SECONDS) -> None:
        self._seconds = seconds
        self._new: set[UntilDisconnect] = set()
        self._seen: set[UntilDisconnect] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop of its timer."""

    def enter(self, client: UntilDisconnect) -> None:
        """A client is being answered."""
        self._new.add(client)
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            loop.call_later(self._seconds, self._go_round, loop)

    def leave(self, client: UntilDisconnect) -> None:
        """Its answer is over."""
        self._new.discard(client)
        self._seen.discard(client)

    def _go_round(self, loop: asyncio.AbstractEventLoop) -> None:
        for client in self._seen:
            client.watch()
        self._seen, self._new = self._new, set()
        if self._seen:
            loop.call_later(self._seconds, self._go_round, loop)
        else:
            self._loop = None


class UntilDisconnect:
    """Cancels its block when the client disconnects; it then ends with `ClientDisconnected`.

    `describe_failure` is called before: the cancelled code may ask why.

    A quick answer is not watched at all: waiting for a disconnect takes a task of its own, which
    costs more than many an answer.
    """

    __slots__ = ("_gone", "_lookout", "_receive", "_task", "_tell", "_watcher")

    def __init__(
        self, receive: Receive, tell: Callable[[], None], *, lookout: DisconnectWatcher
    ) -> None:
        self._receive = receive
        self._tell = tell
        self._lookout = lookout
        self._gone = False
        self._task: asyncio.Task[Any] | None = None
        self._watcher: asyncio.Task[None] | None = None

    def __enter__(self) -> None:
        self._task = asyncio.current_task()
        self._lookout.enter(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        task, watcher = self._task, self._watcher
        self._lookout.leave(self)
        if watcher is not None:
            watcher.cancel()
        # They hold this, and only the collector could free them if this held them, too.
        self._watcher = self._task = None
        # Our own cancellation is taken back; the server's is passed on.
        ours = self._gone and isinstance(error, asyncio.CancelledError)
        if ours and task is not None and task.uncancel() == 0:
            raise ClientDisconnected from None

    def watch(self) -> None:
        """Wait for the client's departure from now on."""
        self._watcher = asyncio.create_task(self._watch(), name="watch for the client's departure")

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        self._tell()
        if self._task is not None:
            self._task.cancel()
