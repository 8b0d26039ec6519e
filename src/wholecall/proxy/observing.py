"""The taps of a proxy: its log, its figures, its traces and its inspector."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterable
from typing import TextIO

from structlog.typing import FilteringBoundLogger

from wholecall.proxy.config.settings import Config
from wholecall.proxy.figures import Figures
from wholecall.proxy.hiding import Hiding
from wholecall.proxy.inspecting import ApprovalGiven, Inspecting
from wholecall.proxy.lines import LogWriter
from wholecall.proxy.logs import LogTap, log_approval, log_refusal, log_server_event
from wholecall.proxy.metrics import MetricsTap, Names
from wholecall.proxy.reply import Refusal
from wholecall.proxy.serving import Served
from wholecall.proxy.taps import Tap
from wholecall.proxy.traces import find_trace_tap
from wholecall.tools.mcp.events import McpEvent
from wholecall.tools.tool import Tool


class Observing:
    """The log, the metrics and the traces."""

    def __init__(
        self,
        config: Config,
        *,
        models: Callable[[], Container[str]],
        tools: Callable[[], Iterable[Tool]],
        stream: TextIO | None = None,
    ) -> None:
        self._hiding = Hiding()
        self._writer = LogWriter(config.log, stream or sys.stderr, hiding=self._hiding)
        log_tap = LogTap(self._writer.log, bodies=lambda: self._writer.bodies)
        names = Names(
            models=models,
            tools=lambda: frozenset(tool.name for tool in tools()),
        )
        self.figures = Figures() if config.metrics.enabled else None
        inspected = config.inspector.enabled
        self.inspecting = (
            Inspecting(config, hides=self._hiding, on_approval=self.take_approval)
            if inspected
            else None
        )
        found: tuple[Tap | None, ...] = (
            log_tap,
            None if self.figures is None else MetricsTap(names, self.figures),
            find_trace_tap(),
            self.inspecting,
        )
        self.taps = tuple(tap for tap in found if tap is not None)

    @property
    def log(self) -> FilteringBoundLogger:
        """For what happens outside of any request."""
        return self._writer.log

    def learn(self, models: Iterable[Served]) -> None:
        """Never write down the secrets of these models."""
        for served in models:
            if served.pipe is not None:
                self._hiding.learn(served.pipe.endpoint.secrets)
        if self.inspecting is not None:
            self.inspecting.forget_names()

    def take_refusal(self, refusal: Refusal) -> None:
        """A request was turned away at the door."""
        log_refusal(self.log, refusal)
        if self.figures is not None:
            self.figures.count("refusals", str(refusal.status), refusal.code)

    def take_approval(self, given: ApprovalGiven) -> None:
        """A person answered for a pending call."""
        log_approval(self.log, given)

    def take_server_event(self, event: McpEvent) -> None:
        """Something became of an MCP server."""
        log_server_event(self.log, event)

    def take_pin_trouble(self, error: OSError) -> None:
        """Log that the pins of MCP tools cannot be written."""
        self.log.warning("the pins of MCP tools cannot be kept", error=str(error))

    def reload(self, config: Config) -> None:
        """Go by other settings."""
        self._writer.reload(config.log)
        if self.inspecting is not None:
            self.inspecting.reload(config)

    async def close(self) -> None:
        """Write down what is left."""
        if self.inspecting is not None:
            await self.inspecting.close()
