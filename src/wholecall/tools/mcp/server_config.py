"""The configuration of an MCP server: how it is reached, and how far it is trusted."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import urlsplit

_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")


@dataclass(frozen=True, slots=True)
class McpServer:
    """An MCP server: a command that is started, or the address of a streamable HTTP endpoint.

    `McpServer("time", command="uvx", args=("mcp-server-time",))`
    `McpServer("search", url="https://mcp.example.com/mcp", headers={"Authorization": "…"})`

    A command runs with the rights of this process: take it from your own configuration, and
    never from a request. What may hold secrets is not shown by `repr`.
    """

    name: str
    """Up to 32 letters, digits, underscores and hyphens; the tools' names begin with it."""
    command: str = field(default="", kw_only=True)
    args: tuple[str, ...] = field(default=(), kw_only=True, repr=False)
    env: Mapping[str, str] = field(default_factory=dict, kw_only=True, repr=False)
    """Added to a small environment (PATH, HOME, …); the rest of our environment is not passed
    on."""
    cwd: str | Path | None = field(default=None, kw_only=True)
    url: str = field(default="", kw_only=True, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, kw_only=True, repr=False)
    trusted: bool = field(default=False, kw_only=True)
    """Trust its annotations: a tool that says that it is read-only may start early and be retried.
    Every tool of another server counts as one with side effects."""
    required: bool = field(default=True, kw_only=True)
    """Wait for it at the start. False: its tools appear when it is connected."""
    timeout: float | None = field(default=None, kw_only=True)
    """Seconds of one call; None: the run's default."""
    start_timeout: float = field(default=30.0, kw_only=True)
    """Seconds until it must have started and named its tools."""
    message_bytes: int = field(default=16 * 1024 * 1024, kw_only=True)
    """Bytes of its largest message. A call with a larger answer fails."""
    concurrency: int | None = field(default=None, kw_only=True)
    """Calls of all its tools that may run at a time in this process."""
    prefix: str | None = field(default=None, kw_only=True)
    """The prefix of the tools' names, instead of the server's name; empty: no prefix."""
    allow: tuple[str, ...] = field(default=("*",), kw_only=True)
    """Tools that are offered, by the server's names; `*` is a wildcard."""
    deny: tuple[str, ...] = field(default=(), kw_only=True)
    """Tools that are not, although `allow` names them."""
    elicitation: bool = field(default=True, kw_only=True)
    """Let it ask the user while it runs a call."""

    def __post_init__(self) -> None:
        for holds, complaint in self._rules():
            if not holds:
                raise ValueError(f"MCP server {self.name!r}: {complaint}")

    def _rules(self) -> tuple[tuple[bool, str], ...]:
        return (
            (_NAME.fullmatch(self.name) is not None, "the name must match [A-Za-z0-9_-]{1,32}"),
            (bool(self.command) != bool(self.url), "give either a command or a url"),
            (not (self.url and (self.args or self.env)), "args and env belong to a command"),
            (not (self.command and self.headers), "headers belong to a url"),
            (not self.url or is_http(self.url), "the url must be that of an HTTP endpoint"),
            (
                not any(isinstance(given, str) for given in (self.args, self.allow, self.deny)),
                "args, allow and deny are tuples of strings",
            ),
            (self.timeout is None or self.timeout > 0, "the timeout must be more than 0 seconds"),
            (self.start_timeout > 0, "the start_timeout must be more than 0 seconds"),
            (self.message_bytes > 0, "message_bytes must be 1 or more"),
            (self.concurrency is None or self.concurrency > 0, "the concurrency must be 1 or more"),
        )

    @property
    def written_prefix(self) -> str:
        """The prefix of its tools' names."""
        prefix = self.name if self.prefix is None else self.prefix
        return f"{prefix}__" if prefix else ""

    def offers(self, tool: str) -> bool:
        """Return True if the operator allows this tool."""
        return _matches(tool, self.allow) and not _matches(tool, self.deny)


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def is_http(url: str) -> bool:
    """Return True for the address of a page or an endpoint."""
    try:
        address = urlsplit(url)
    except ValueError:
        return False
    return address.scheme in {"http", "https"} and bool(address.hostname)


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """The pause before a server that ended is started again.

    It is retried for ever: a service that is down for an hour comes back. Only the pause grows, up
    to `longest_delay`.
    """

    first_delay: float = 0.5
    """Seconds before the first attempt; twice as many before each further one."""
    longest_delay: float = 60.0
    steady: float = 60.0
    """Seconds after which a server counts as healthy, and the pauses begin anew."""
    jitter: Callable[[], float] = random.random  # noqa: S311 - it spreads delays, it keeps no secret
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def delay(self, failures: int) -> float:
        """Seconds to wait after this many failures in a row."""
        # Beyond 2**30 the longest delay has long been reached, and floats would overflow.
        longest: float = min(self.first_delay * 2 ** min(failures - 1, 30), self.longest_delay)
        return longest * (1 + self.jitter()) / 2
