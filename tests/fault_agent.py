"""Our own loop as the agent of the fault scenarios: four real tools that write down their runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from wholecall.agent.api import run
from wholecall.agent.run import RunResult
from wholecall.agent.run_events import RunEvent
from wholecall.errors import RunFailed, UpstreamError
from wholecall.events import JSON, Start, Text
from wholecall.faults.fault_server import FaultServer
from wholecall.faults.script import TOOLS, Form, Scenario, ToolRun
from wholecall.messages import Result
from wholecall.tools.tool import Context, Runner, Tool
from wholecall.upstreams.http import HttpSettings, HttpUpstream
from wholecall.upstreams.http_connection import Timeouts
from wholecall.upstreams.retry import RetryPolicy

SILENCE = 1.0
"""Seconds after which a silent upstream counts as hanging. The others answer at once."""


async def no_wait(_: float) -> None:
    await asyncio.sleep(0)


@dataclass
class Agent:
    """What happened in one run."""

    ran: list[ToolRun] = field(default_factory=list)
    events: list[RunEvent] = field(default_factory=list)
    result: RunResult | None = None
    error: Exception | None = None

    def tools(self) -> list[Tool]:
        return [
            Tool(
                spec=spec,
                run=self._runner(spec.name),
                read_only=spec.start is Start.CLOSED,
            )
            for spec in TOOLS
        ]

    def _runner(self, name: str) -> Runner:
        async def run_tool(arguments: Mapping[str, JSON], _: Context) -> Result:
            self.ran.append(ToolRun(name, arguments))
            return Result((Text(f"{name} is done"),))

        return run_tool

    async def go(
        self, server: FaultServer, scenario: Scenario, *, form: Form, choice: str = "auto"
    ) -> None:
        base_url = server.address if form.protocol == "anthropic" else server.base_url
        settings = HttpSettings(
            timeouts=Timeouts(first_byte=SILENCE, between_chunks=SILENCE),
            retry=RetryPolicy(sleep=no_wait),
            environ={},
        )
        upstream = HttpUpstream(form.protocol, base_url, api_key="key", settings=settings)
        started = run(
            scenario.name,
            scenario.prompt,
            tools=self.tools(),
            upstream=upstream,
            stream=form.streamed,
            tool_choice=choice,
            rescue="all",
        )
        try:
            async for event in started:
                self.events.append(event)
            self.result = await started.result()
        except (RunFailed, UpstreamError) as error:
            self.error = error
        finally:
            await upstream.close()
