"""Events of MCP servers, for logs and metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from wholecall.tools.mcp.pins import Changed


@dataclass(frozen=True, slots=True)
class Refused:
    """A tool that cannot be offered, whatever its pin says."""

    server: str
    tool: str
    reason: str


@dataclass(frozen=True, slots=True)
class ServerStarted:
    """A server is there, for the first time or again."""

    server: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsListed:
    """A server has named its tools, and they are not what they were before."""

    server: str
    offered: tuple[str, ...]
    """By the names that the server gives them."""
    changed: tuple[Changed, ...] = ()
    refused: tuple[Refused, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLost:
    """A server ended, or did not start. It is tried again after `delay` seconds."""

    server: str
    reason: str
    stderr: str
    """The end of what its process wrote to its standard error."""
    delay: float


McpEvent: TypeAlias = ServerStarted | ToolsListed | ServerLost
