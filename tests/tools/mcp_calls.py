"""Servers for the tests of MCP, and an ear for what becomes of them."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from wholecall.events import JSON
from wholecall.messages import Result
from wholecall.tools.mcp.server_config import McpServer, Restart
from wholecall.tools.mcp.tool_definitions import McpEvent
from wholecall.tools.mcp.toolset import McpTools
from wholecall.tools.tool import Blocking, Context, Tool

HERE = Path(__file__).parent
PATIENCE = 60
"""Seconds that a test may take on a busy machine."""
_Arguments = ParamSpec("_Arguments")
_Event = TypeVar("_Event")

SCHEMA: dict[str, Any] = {"type": "object"}


def in_loop(test: Callable[_Arguments, Awaitable[None]]) -> Callable[_Arguments, None]:
    """A test that runs in a loop of its own, bounded in time."""

    @functools.wraps(test)
    def run(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(PATIENCE):
                await test(*args, **kwargs)

        asyncio.run(bounded())

    return run


def define(name: str, **more: Any) -> dict[str, Any]:
    """A tool as a server lists it."""
    return {"name": name, "inputSchema": SCHEMA, **more}


def scripted(*tools: dict[str, Any] | str, **script: Any) -> tuple[str, ...]:
    """The arguments of a scripted server with these tools on one page."""
    page = [define(tool) if isinstance(tool, str) else tool for tool in tools]
    return (str(HERE / "mcp_script.py"), json.dumps({"pages": [page], **script}))


def make_server(args: tuple[str, ...], **options: Any) -> McpServer:
    """A server that Python runs."""
    return McpServer("s", command=sys.executable, args=args, **options)


SDK_SERVER = (str(HERE / "mcp_server.py"),)


class Ear:
    """Hears what becomes of servers, and lets a test wait for it."""

    def __init__(self) -> None:
        self.events: list[McpEvent] = []
        self._heard = asyncio.Event()

    def __call__(self, event: McpEvent) -> None:
        self.events.append(event)
        self._heard.set()

    async def wait_for(self, kind: type[_Event], count: int = 1) -> _Event:
        """The event of this kind with this number, as soon as it is there."""
        while True:
            found = [event for event in self.events if isinstance(event, kind)]
            if len(found) >= count:
                return found[count - 1]
            self._heard.clear()
            await self._heard.wait()


class Pauses:
    """Remembers how long it was asked to wait, and does not."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0)

    @property
    def restart(self) -> Restart:
        return Restart(jitter=lambda: 1.0, sleep=self.sleep)


@asynccontextmanager
async def opened(
    *servers: McpServer, tap: Callable[[McpEvent], None] = lambda _: None
) -> AsyncIterator[McpTools]:
    """Servers that are restarted at once."""
    async with McpTools(*servers, tap=tap, restart=Pauses().restart) as tools:
        yield tools


def find(tools: McpTools, name: str) -> Tool:
    """The tool of this name."""
    return {tool.name: tool for tool in tools}[name]


def make_context(report: Callable[[JSON], None] = lambda _: None) -> Context:
    return Context(call_id="c", run_id="r", idempotency_key="r:c", report=report)


async def call(tools: McpTools, name: str, /, **arguments: JSON) -> Result:
    """Run a tool as the executor would."""
    return await run(find(tools, name), **arguments)


async def run(tool: Tool, /, **arguments: JSON) -> Result:
    assert tool.run is not None
    assert not isinstance(tool.run, Blocking)
    return await tool.run(arguments, make_context())


class Words:
    """What a server's process tells us on loopback."""

    def __init__(self) -> None:
        self.port = 0
        self._heard: asyncio.Queue[str] = asyncio.Queue()

    async def hear(self) -> str:
        """The next word."""
        return await self._heard.get()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection is one word."""
        self._heard.put_nowait((await reader.read()).decode())
        writer.close()


@asynccontextmanager
async def hearing() -> AsyncIterator[Words]:
    """Listen on a port that servers are told of."""
    words = Words()
    listener = await asyncio.start_server(words.take, "127.0.0.1", 0)
    words.port = listener.sockets[0].getsockname()[1]
    async with listener:
        yield words


def is_running(process: int) -> bool:
    """Whether a process is there; one that ended and waits for its parent is not."""
    stat = Path(f"/proc/{process}/stat")
    try:
        os.kill(process, 0)
        state = stat.read_text("utf-8") if stat.exists() else ""
    except (ProcessLookupError, FileNotFoundError):  # the latter: it went between two looks
        return False
    return state.rpartition(")")[2].split()[:1] != ["Z"]
