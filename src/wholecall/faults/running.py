"""Start the upstream that fails, inside of your own program or test."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from wholecall.faults.http_server import HttpServer
from wholecall.faults.memory import Memory, Received, Reported
from wholecall.faults.sending import AnswerSender
from wholecall.faults.server import ScriptedUpstream

_HOST = "127.0.0.1"
_CLOSING_SECONDS = 1.0
"""For answers that are under way when the server ends; what hangs is let go at once."""


class FaultServer:
    """The upstream on loopback: `async with FaultServer() as server: … server.base_url`.

    `hang_seconds` is how long a scenario that hangs does so; then the connection is reset.
    """

    def __init__(self, *, port: int = 0, hang_seconds: float = 60.0) -> None:
        self._port = port
        self._hang_seconds = hang_seconds
        self._memory = Memory()
        self._sender: AnswerSender | None = None
        self._server: HttpServer | None = None

    async def __aenter__(self) -> FaultServer:
        self._sender = AnswerSender(self._hang_seconds)
        self._server = HttpServer(ScriptedUpstream(self._memory, self._sender).handle)
        self._port = await self._server.start(_HOST, self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._sender is not None and self._server is not None:
            self._sender.close()
            await self._server.close(_CLOSING_SECONDS)

    @property
    def address(self) -> str:
        """The listening address: the base URL for Anthropic's clients."""
        return f"http://{_HOST}:{self._port}"

    @property
    def base_url(self) -> str:
        """The base URL for OpenAI's clients."""
        return f"{self.address}/v1"

    @property
    def received(self) -> tuple[Received, ...]:
        """The requests that came, oldest first."""
        return tuple(self._memory.received)

    @property
    def reported(self) -> tuple[Reported, ...]:
        """The tools that agents say they ran, oldest first."""
        return tuple(self._memory.reported)

    def forget(self) -> None:
        """Begin anew: no request has come, no attempt has been counted."""
        self._memory.forget()


@contextmanager
def start_in_thread(*, port: int = 0, hang_seconds: float = 60.0) -> Iterator[FaultServer]:
    """The same for programs that are not asynchronous: the server has a thread of its own."""
    server = FaultServer(port=port, hang_seconds=hang_seconds)
    with _loop_in_thread() as loop:
        asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result()
        try:
            yield server
        finally:
            asyncio.run_coroutine_threadsafe(server.__aexit__(), loop).result()


@contextmanager
def _loop_in_thread() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="wholecall-faults", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
