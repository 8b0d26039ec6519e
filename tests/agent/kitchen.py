"""Runs in a kitchen: tools that write down what they did, and what came of a run."""

import asyncio
from dataclasses import dataclass
from typing import Unpack

from pydantic import BaseModel

from scripted import calls
from wholecall.agent.api import RunOptions, run
from wholecall.agent.run import RunResult
from wholecall.agent.run_events import RunEvent
from wholecall.errors import RunFailed, UpstreamError
from wholecall.messages import CallResult
from wholecall.tools.function_tool import tool
from wholecall.tools.tool import Failed
from wholecall.tools.toolbox import Offered
from wholecall.upstreams.replay import Reaction, ReplayUpstream, ScriptedAnswer


class Kitchen:
    """Tools that write down what they did."""

    def __init__(self) -> None:
        self.did: list[str] = []
        kitchen = self

        @tool
        async def cook(dish: str) -> str:
            """Cook a dish."""
            kitchen.did.append(f"cooked {dish}")
            return f"{dish} is ready"

        @tool(read_only=True)
        def look(shelf: int = 1) -> str:
            """Look at a shelf."""
            kitchen.did.append(f"looked at {shelf}")
            return "empty"

        @tool
        async def burn(dish: str) -> str:
            """Fail at a dish."""
            kitchen.did.append(f"burnt {dish}")
            raise Failed(f"{dish} is black")

        @tool(ends_run=True)
        async def serve(dish: str) -> dict[str, str]:
            """Serve a dish. The last thing to do."""
            return {"served": dish}

        self.tools: list[Offered] = [cook, look, burn, serve]


@dataclass
class Played:
    kitchen: Kitchen
    upstream: ReplayUpstream
    events: list[RunEvent]
    result: RunResult | None
    error: Exception | None

    @property
    def done(self) -> RunResult:
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result

    def told(self, turn: int) -> list[str]:
        """What the model read behind the caller's messages when it was asked for this turn."""
        parts = [
            part for message in self.upstream.requests[turn].messages for part in message.parts
        ]
        return [part.result.text for part in parts if isinstance(part, CallResult)]


def play(*turns: Reaction, output: object = None, **options: Unpack[RunOptions]) -> Played:
    async def go() -> Played:
        kitchen, upstream = Kitchen(), ReplayUpstream(turns)
        options.setdefault("tools", kitchen.tools)
        options["upstream"] = upstream
        started = run("m", "Dinner!", output=output, **options)
        played = Played(kitchen, upstream, [], None, None)
        try:
            async for event in started:
                played.events.append(event)
            played.result = await started.result()
        except (RunFailed, UpstreamError) as error:
            played.error = error
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"tasks are left over: {left}"
        return played

    async def bounded() -> Played:
        async with asyncio.timeout(30):
            return await go()

    return asyncio.run(bounded())


def looks(times: int) -> list[ScriptedAnswer]:
    return [calls(("look", {"shelf": at})) for at in range(times)]


class Menu(BaseModel):
    dishes: list[str]


WRONG = calls(("cook", {"pan": 1}))


DROPPED = "!EOF"
