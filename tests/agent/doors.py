"""An executor whose tools wait behind doors that the test opens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from executor_calls import Ear, make_call, until
from wholecall.agent.budget import RunLimits
from wholecall.agent.call_runner import ExecutorSettings
from wholecall.agent.executor import Executor
from wholecall.messages import CallResult
from wholecall.tools.function_tool import make_tool
from wholecall.tools.tool import Tool
from wholecall.tools.toolbox import Toolbox


class Doors:
    """Tools that wait behind doors which the test opens, by the call's number."""

    def __init__(self) -> None:
        self.inside: list[int] = []
        self.most = 0
        self._open: dict[int, asyncio.Event] = {}

    def open(self, *numbers: int) -> None:
        for number in numbers:
            self._open.setdefault(number, asyncio.Event()).set()

    async def enter(self, door: int) -> str:
        self.inside.append(door)
        self.most = max(self.most, len(self.inside))
        try:
            await self._open.setdefault(door, asyncio.Event()).wait()
        finally:
            self.inside.remove(door)
        return f"door {door}"

    def tool(self, name: str, **rules: object) -> Tool:
        return replace(make_tool(self.enter, name=name), **rules)  # type: ignore[arg-type]


class House:
    """An executor over doors, with an ear at its events."""

    def __init__(
        self,
        *,
        limits: RunLimits | None = None,
        settings: ExecutorSettings | None = None,
        also: tuple[Tool, ...] = (),
    ) -> None:
        self.doors = Doors()
        self.ear = Ear()
        tools = [
            self.doors.tool("look", read_only=True),
            self.doors.tool("write"),
            self.doors.tool("alone", barrier=True),
            self.doors.tool("single", concurrency=1),
            self.doors.tool("pay", approve=True),
        ]
        self.executor = Executor(
            Toolbox([*tools, *also]),
            emit=self.ear,
            limits=limits,
            settings=settings or ExecutorSettings(grace=0.0),
        )

    def start(self, *names: str) -> None:
        for number, name in enumerate(names):
            self.executor.start(make_call(name, number, door=number))

    async def inside(self, *numbers: int) -> None:
        """Wait until exactly these are inside, and nobody else comes."""
        await until(lambda: sorted(self.doors.inside) == sorted(numbers))
        for _ in range(20):
            await asyncio.sleep(0)
        assert sorted(self.doors.inside) == sorted(numbers)


Scenario = Callable[[House], Awaitable[None]]


def play(scenario: Scenario, **options: RunLimits | ExecutorSettings) -> House:
    house = House(**options)  # type: ignore[arg-type]

    async def run() -> None:
        async with asyncio.timeout(60):
            await scenario(house)
        assert len(asyncio.all_tasks()) == 1, "no task is left behind"

    asyncio.run(run())
    return house


def texts(results: tuple[CallResult, ...]) -> list[str]:
    return [result.result.text for result in results]
