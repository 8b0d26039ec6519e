"""A call of one tool, with ears for its events and for its waiting."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from executor_calls import Ear, make_call
from wholecall.agent.budget import RunLimits
from wholecall.agent.call_runner import CallOutcome, CallRunner, ExecutorSettings
from wholecall.events import Call
from wholecall.tools.tool import Tool


class Case:
    """A call of one tool, with ears for its events and for its waiting."""

    def __init__(
        self,
        tool: Tool,
        *,
        call: Call | None = None,
        limits: RunLimits | None = None,
        settings: ExecutorSettings | None = None,
    ) -> None:
        self.ear = Ear()
        self.slept: list[float] = []
        self.settings = replace(
            settings or ExecutorSettings(run_id="r", user="ann", grace=0.0), sleep=self._sleep
        )
        self.calling = CallRunner(
            call or make_call(tool.name),
            tool,
            limits=limits or RunLimits(),
            settings=self.settings,
            emit=self.ear,
        )

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def run(self) -> CallOutcome:
        return asyncio.run(self.calling.run())


async def fails_later() -> None:
    raise ValueError("bad")


def says_much() -> str:
    return "a" * 100
