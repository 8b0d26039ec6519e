"""The tools of MCP servers, for as long as the servers are wanted.

async with McpTools(McpServer("time", command="uvx", args=("mcp-server-time",))) as tools:
    await wholecall.ask("openai/gpt-x", "What time is it in Tokyo?", tools=[*tools])
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Self

from wholecall.errors import ToolServerFailed, require_extra
from wholecall.events import JSON
from wholecall.messages import Result
from wholecall.tools.mcp.server_config import McpServer, Restart
from wholecall.tools.mcp.tool_definitions import (
    Changed,
    Definition,
    McpEvent,
    Origin,
    PinnedListing,
    Pins,
    ToolListing,
    ToolRefused,
    ToolsListed,
    arrange,
    name_tools,
)
from wholecall.tools.tool import Context, Failed, Places, Tool, notify

if TYPE_CHECKING:
    from wholecall.tools.mcp.session import Keeper

_WITHDRAWN = "its server has changed it or withdrawn it since it was offered"


@dataclass(slots=True)
class _Member:
    """One of the servers, with what it offers."""

    server: McpServer
    keeper: Keeper
    places: Places | None
    listing: ToolListing
    pinned: PinnedListing


def _join(server: McpServer, keeper: Keeper) -> _Member:
    places = None if server.concurrency is None else Places(server.concurrency)
    return _Member(server, keeper, places, ToolListing(), PinnedListing())


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
        self._restart = restart or Restart()
        self._tap = partial(_show, tap)
        self._members: dict[str, _Member] = {}
        self.pins = pins or Pins()
        """Each tool's definition when it was first seen. Keep them, and pass them in next time."""

    async def __aenter__(self) -> Self:
        """Start every server, and wait for those that are required.

        `ToolServerFailed` if a required one does not start.
        """
        if any(not member.keeper.task.done() for member in self._members.values()):
            raise RuntimeError("these MCP servers are running already")
        require_extra("MCP servers", "mcp")
        # Importing the SDK takes more than a second. Programs without MCP do not wait for it, and
        # the event loop continues meanwhile.
        keeping = await asyncio.to_thread(import_module, "wholecall.tools.mcp.session")
        for server in self._servers:
            keeper = keeping.Keeper(server, self._restart, on_listed=self._put, tap=self._tap)
            self._members[server.name] = _join(server, keeper)
        try:
            await self._wait_for_required()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that may be used now."""
        members = {
            Origin(server, member.server.written_prefix, tool): member
            for server, member in self._members.items()
            for tool in member.pinned.offered
        }
        names = name_tools(members)
        return tuple(
            _make_tool(member, member.pinned.offered[origin.tool], name=names[origin])
            for origin, member in members.items()
        )

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    @property
    def changed(self) -> tuple[Changed, ...]:
        """Tools that are not offered, because they are not what they were."""
        return tuple(tool for member in self._members.values() for tool in member.pinned.changed)

    @property
    def refused(self) -> tuple[ToolRefused, ...]:
        """Tools that cannot be offered."""
        return tuple(tool for member in self._members.values() for tool in member.pinned.refused)

    @property
    def reached(self) -> Mapping[str, bool]:
        """For each server, whether it is there at the moment."""
        return {name: member.keeper.is_connected for name, member in self._members.items()}

    @property
    def is_ready(self) -> bool:
        """True if every required server is connected."""
        members = self._members.values()
        return all(member.keeper.is_connected for member in members if member.server.required)

    def accept(self, *changes: Changed) -> None:
        """Offer these tools as the changes describe them. Keep `pins` afterwards."""
        self.pins = self.pins.accept(*changes)
        for server in {change.server for change in changes}:
            self._put(server, self._members[server].listing)

    def _put(self, server: str, listing: ToolListing) -> None:
        """A server has named its tools."""
        member = self._members[server]
        pinned, self.pins = arrange(server, listing, pins=self.pins)
        before, member.listing, member.pinned = member.pinned, listing, pinned
        if pinned != before:
            self._tap(_describe(server, pinned))

    # ── Servers ─────────────────────────────────────────────────────────────────────

    async def _wait_for_required(self) -> None:
        required = [member.keeper for member in self._members.values() if member.server.required]
        for keeper in required:
            await keeper.wait_until_settled()
        for keeper in required:
            if keeper.failure is not None:
                raise keeper.failure

    async def _close(self) -> None:
        """End every server. This is finished even if we are cancelled meanwhile."""
        tasks = [member.keeper.task for member in self._members.values()]
        for member in self._members.values():
            member.keeper.stop()
        cancelled: asyncio.CancelledError | None = None
        while pending := [task for task in tasks if not task.done()]:
            try:
                await asyncio.wait(pending)
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled
        for task in tasks:
            task.result()


def _show(tap: Callable[[McpEvent], None], event: McpEvent) -> None:
    notify(event, tap, of="MCP servers")


# ── Tools ───────────────────────────────────────────────────────────────────────────


def _describe(server: str, pinned: PinnedListing) -> ToolsListed:
    return ToolsListed(
        server=server, offered=tuple(pinned.offered), changed=pinned.changed, refused=pinned.refused
    )


def _make_tool(member: _Member, definition: Definition, *, name: str) -> Tool:
    server = member.server
    read_only = server.trusted and definition.read_only
    idempotent = server.trusted and definition.idempotent
    return Tool(
        spec=definition.make_spec(name, trusted=server.trusted),
        run=_Runner(member, definition),
        read_only=read_only,
        idempotent=idempotent,
        timeout=server.timeout,
        # A server that ended is started again, and what may be repeated is asked once more.
        retries=1 if read_only or idempotent else 0,
        places=member.places,
    )


@dataclass(frozen=True, slots=True)
class _Runner:
    """Runs the calls of one tool, from any event loop."""

    member: _Member
    definition: Definition

    async def __call__(self, arguments: Mapping[str, JSON], context: Context) -> Result:
        keeper = self.member.keeper
        if keeper.task.done():
            name = keeper.server.name
            raise ToolServerFailed(f"MCP server {name!r} was stopped", server=name)
        if asyncio.get_running_loop() is keeper.loop:
            return await self._run(arguments, context)
        # The connection lives in one loop. A call from another is run there.
        running = asyncio.run_coroutine_threadsafe(self._run(arguments, context), keeper.loop)
        return await asyncio.wrap_future(running)

    async def _run(self, arguments: Mapping[str, JSON], context: Context) -> Result:
        connection = await self.member.keeper.find_connection()
        # It is looked up after the wait: a server that was started again has been listed again.
        if self.member.pinned.offered.get(self.definition.name) != self.definition:
            raise Failed(_WITHDRAWN)
        report, elicit = context.report, context.elicit
        return await connection.call(self.definition, arguments, report=report, elicit=elicit)
