"""Keep one MCP server running: start it, list its tools, restart it when it ends."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import anyio
import httpx2
from mcp import MCPError
from mcp_types import CONNECTION_CLOSED

from wholecall.arguments.describe import cut
from wholecall.errors import ToolServerFailed
from wholecall.tools.mcp.server_config import McpServer, Restart
from wholecall.tools.mcp.session import McpSession, ServerNews, Signs, connect
from wholecall.tools.mcp.tool_definitions import (
    McpEvent,
    ServerLost,
    ServerNoise,
    ServerStarted,
    ToolListing,
    choose,
)

CLOSING_SECONDS = 5.0
"""For a server to hear that we are leaving. A process has its own times: it is asked to end
by closing its input, then terminated, then killed, two seconds apart."""
_REASON = 500
"""Characters of an error that are passed on."""
# What the SDK and its transports raise when a server cannot be started or reached, or speaks
# in no way that they understand. Task groups wrap it.
_TROUBLE = (OSError, ValueError, RuntimeError, MCPError, httpx2.HTTPError, ExceptionGroup)


OnListed: TypeAlias = Callable[[str, ToolListing], None]


class Keeper:
    """One server, its connection, and the task in which that lives."""

    def __init__(
        self,
        server: McpServer,
        restart: Restart,
        *,
        on_listed: OnListed,
        tap: Callable[[McpEvent], None],
    ) -> None:
        self.server = server
        self._restart = restart
        self._on_listed = on_listed
        self._tap = tap
        self._settled = asyncio.Event()
        self._connection: McpSession | None = None
        self._news = ServerNews(on_end=self._unsettle)
        self._scope = anyio.CancelScope()
        self._stopping = False
        self.failure: ToolServerFailed | None = None
        """The reason why the last start failed."""
        self.loop = asyncio.get_running_loop()
        self.task = asyncio.create_task(self._keep(), name=f"MCP server {server.name}")

    @property
    def is_connected(self) -> bool:
        """True if the server is connected."""
        return self._connection is not None

    async def wait_until_settled(self) -> None:
        """Wait until the server is there, or could not be started."""
        await self._settled.wait()

    async def find_connection(self) -> McpSession:
        """The connection, as soon as there is one.

        A server that has just ended is waited for. One that could not be started is not:
        `ToolServerFailed`.
        """
        await self._settled.wait()
        if self._connection is None:
            # The reason is for the operator. It may tell a model more than it should know.
            why = "cannot be reached at the moment; the call was not run"
            name = self.server.name
            raise ToolServerFailed(f"MCP server {name!r} {why}", server=name)
        return self._connection

    def stop(self) -> None:
        """Let the server end. `task` is done when it has."""
        self._stopping = True
        if self._connection is None:
            self._scope.cancel()
        else:
            self._scope.deadline = anyio.current_time() + CLOSING_SECONDS
            self._news.end()

    def _settle(self, connection: McpSession | None, failure: ToolServerFailed | None) -> None:
        self._connection = connection
        self.failure = failure
        self._settled.set()

    def _unsettle(self) -> None:
        """The server was there and will be again soon: calls that come now wait for it."""
        if self._connection is not None:
            self._connection = None
            self._settled.clear()

    # ── The task ────────────────────────────────────────────────────────────────────

    async def _keep(self) -> None:
        try:
            with self._scope:
                await self._serve_repeatedly()
        finally:
            self._settle(None, self.failure)

    async def _serve_repeatedly(self) -> None:
        failures = 0
        while True:
            began = self.loop.time()
            loss = await self._serve()
            if self._stopping:
                return
            steady = self.loop.time() - began >= self._restart.steady
            failures = 1 if steady else failures + 1
            delay = self._restart.delay(failures)
            name = self.server.name
            self._tap(ServerLost(server=name, reason=loss.reason, stderr=loss.stderr, delay=delay))
            await self._restart.sleep(delay)

    async def _serve(self) -> _Loss:
        """Start the server and serve it until it ends; why it did."""
        signs = Signs(on_noise=self._report_noise)
        news = self._news = ServerNews(on_end=self._unsettle)
        reason, started = "it ended", False
        try:
            with anyio.CancelScope(deadline=self._start_deadline()) as starting:
                async with connect(
                    self.server, news, signs=signs, sleep=self._restart.sleep
                ) as connection:
                    await self._list(connection)
                    starting.deadline = math.inf
                    started = True
                    self._settle(connection, None)
                    self._tap(ServerStarted(self.server.name))
                    await self._watch(connection, news)
            if starting.cancelled_caught:
                reason = f"it did not answer in {self.server.start_timeout:g} seconds"
        except _TROUBLE as error:
            reason = _describe(error, signs)
        self._unsettle()
        loss = _Loss(reason, await signs.stderr.finish())
        if not started:
            self._settle(None, self._complain(loss))
        return loss

    def _report_noise(self, line: str) -> None:
        self._tap(ServerNoise(self.server.name, line))

    def _start_deadline(self) -> float:
        return anyio.current_time() + self.server.start_timeout

    async def _watch(self, connection: McpSession, news: ServerNews) -> None:
        while await news.wait_for_change():
            with anyio.fail_after(self.server.start_timeout):
                await self._list(connection)

    async def _list(self, connection: McpSession) -> None:
        found = await connection.list_tools()
        self._on_listed(self.server.name, choose(self.server, found))

    def _complain(self, loss: _Loss) -> ToolServerFailed:
        name = self.server.name
        wrote = f"\nIt wrote:\n{loss.stderr}" if loss.stderr else ""
        message = f"MCP server {name!r} did not start: {loss.reason}{wrote}"
        return ToolServerFailed(message, server=name, stderr=loss.stderr)


class _Loss(NamedTuple):
    reason: str
    stderr: str


def _describe(error: BaseException, signs: Signs) -> str:
    """Describe the root cause."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    status = f" (HTTP {signs.refusal})" if signs.refusal else ""
    if isinstance(error, MCPError) and error.code == CONNECTION_CLOSED:
        return "it ended before it had answered" + status
    words = " ".join(str(error).split())
    return cut(f"{type(error).__name__}: {words}", _REASON) + status
