"""The tools of MCP servers, for as long as the servers are wanted.

async with McpTools(McpServer("time", command="uvx", args=("mcp-server-time",))) as tools:
    await wholecall.ask("openai/gpt-x", "What time is it in Tokyo?", tools=[*tools])
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Self

from wholecall.core.conversation import Result
from wholecall.core.values import JSON
from wholecall.errors import ToolServerFailed
from wholecall.tools.mcp.definitions import Definition
from wholecall.tools.mcp.events import McpEvent, Refused, ToolsListed
from wholecall.tools.mcp.names import Origin, name_tools
from wholecall.tools.mcp.pins import Changed, Pins
from wholecall.tools.mcp.server import McpServer, Restart
from wholecall.tools.places import Places
from wholecall.tools.signals import Failed
from wholecall.tools.tool import Context, Tool

if TYPE_CHECKING:
    from wholecall.tools.mcp.keeper import Keeper, Listing

_WITHDRAWN = "its server has changed or withdrawn it; nobody has accepted the change yet"


class McpTools:
    """Starts servers, keeps them running, and offers their tools.

    Iterate over it for the tools of the moment. A run keeps those that it was given; a call
    of one that has changed since is refused.
    """

    def __init__(
        self,
        *servers: McpServer,
        pins: Pins | None = None,
        restart: Restart | None = None,
        tap: Callable[[McpEvent], None] = lambda _: None,
    ) -> None:
        names = [server.name for server in servers]
        if len(set(names)) < len(names):
            raise ValueError(f"MCP servers need names that differ: {', '.join(names)}")
        self._servers = servers
        self.pins = pins or Pins()
        """What each tool was when it was first seen. Keep them, and give them back next time."""
        self._restart = restart or Restart()
        self._tap = tap
        self._keepers: dict[str, Keeper] = {}
        self._shelves: dict[str, _Shelf] = {}

    async def __aenter__(self) -> Self:
        """Start every server; `ToolServerFailed` if one that is required does not."""
        # Importing the SDK takes more than a second; those who use no MCP do not wait for it.
        keeping = import_module("wholecall.tools.mcp.keeper")
        for server in self._servers:
            self._shelves[server.name] = _Shelf(server)
            self._keepers[server.name] = keeping.Keeper(
                server, self._restart, on_listed=self._put, tap=self._tap
            )
        try:
            for keeper in self._keepers.values():
                await keeper.wait_until_settled()
            self._demand_required()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._close()

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that may be used now."""
        origins = {
            Origin(shelf.server.name, shelf.server.written_prefix, definition.name): definition
            for shelf in self._shelves.values()
            for definition in shelf.offered.values()
        }
        names = name_tools(origins)
        return tuple(
            self._make_tool(definition, origin, name=names[origin])
            for origin, definition in origins.items()
        )

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    @property
    def changed(self) -> tuple[Changed, ...]:
        """Tools that are not offered, because they are not what they were."""
        return tuple(change for shelf in self._shelves.values() for change in shelf.changed)

    @property
    def refused(self) -> tuple[Refused, ...]:
        """Tools that cannot be offered."""
        return tuple(tool for shelf in self._shelves.values() for tool in shelf.refused)

    def accept(self, *changes: Changed) -> None:
        """Offer these tools as they are described in the changes. Keep `pins` afterwards."""
        self.pins = self.pins.accept(*changes)
        for shelf in self._shelves.values():
            self._sort(shelf)

    # ── Servers ─────────────────────────────────────────────────────────────────────

    def _demand_required(self) -> None:
        for keeper in self._keepers.values():
            if keeper.server.required and keeper.failure is not None:
                raise keeper.failure

    async def _close(self) -> None:
        """End every server. It is finished, even if we are cancelled meanwhile."""
        for keeper in self._keepers.values():
            keeper.stop()
        pending = {keeper.task for keeper in self._keepers.values()}
        cancelled: asyncio.CancelledError | None = None
        while pending:
            try:
                _, pending = await asyncio.wait(pending)
            except asyncio.CancelledError as error:
                cancelled = error
                pending = {task for task in pending if not task.done()}
        if cancelled is not None:
            raise cancelled

    # ── Tools ───────────────────────────────────────────────────────────────────────

    def _put(self, server: str, listing: Listing) -> None:
        """A server has named its tools."""
        shelf = self._shelves[server]
        shelf.listed, shelf.refused = listing.definitions, listing.refused
        before = shelf.event
        self._sort(shelf)
        if shelf.event != before:
            self._tap(shelf.event)

    def _sort(self, shelf: _Shelf) -> None:
        self.pins, changed = self.pins.compare(shelf.server.name, shelf.listed)
        withheld = {change.tool for change in changed}
        shelf.changed = tuple(changed)
        shelf.offered = {
            definition.name: definition
            for definition in shelf.listed
            if definition.name not in withheld
        }
'''.replace if False else '''
