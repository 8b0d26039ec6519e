"""An MCP server made with the SDK, for tests: over stdio, or over HTTP with `--http`."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from typing import Annotated, TypedDict

import uvicorn
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp.types import ToolAnnotations
from pydantic import BaseModel

READ_ONLY = ToolAnnotations(read_only_hint=True)
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c49444154789c63f8cfc000000301010018dd8db00000000049454e44ae426082"
)

server = MCPServer("tests")


class Sum(TypedDict):
    total: int


@server.tool(annotations=READ_ONLY)
def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool()
def add(one: int, other: int) -> Sum:
    """Add two numbers."""
    return {"total": one + other}


@server.tool(structured_output=False)
async def slow(ctx: Context) -> str:
    """Tell how far it is."""
    await ctx.report_progress(1, 2, "half of it")
    await ctx.report_progress(2, 2)
    return "done"


@server.tool()
def fails() -> str:
    """Fail."""
    raise ToolError("there is no such thing")


@server.tool()
def image() -> Image:
    """Show a pixel."""
    return Image(data=PIXEL, format="png")


@server.tool()
def dies() -> str:
    """End the process."""
    os._exit(3)


@server.tool()
async def hangs(port: int) -> str:
    """Wait for ever; tell a port on loopback when it begins and when it is broken off."""
    tell(port, "begun")
    try:
        await asyncio.Event().wait()
    finally:
        tell(port, "broken off")
    return ""


def tell(port: int, word: str) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(word.encode())


class Booking(BaseModel):
    day: str
    guests: int = 2


def ask_for_booking() -> Elicit[Booking]:
    return Elicit("Which day?", Booking)


@server.tool()
def book(booking: Annotated[Booking, Resolve(ask_for_booking)]) -> str:
    """Book a table; the user says when."""
    return f"{booking.guests} on {booking.day}"


@server.tool()
async def grow(ctx: Context) -> str:
    """Have another tool from now on."""
    server.add_tool(echo, name="grown")
    await ctx.notify_tools_changed()
    return "grown"


def serve_http() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)  # noqa: T201 - the test reads the port
        app = server.streamable_http_app(stateless_http="--stateless" in sys.argv)
        config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    if "--http" in sys.argv:
        serve_http()
    else:
        server.run("stdio")
