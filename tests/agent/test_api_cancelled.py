"""Cancel a run at every step while it talks over a real connection: the upstream sees it go."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web

from upstreams.fake_endpoint import Server, asking, begin, forever, in_loop, serving
from wholecall.agent.api import run
from wholecall.agent.run_events import RunEvent, ToolStarted
from wholecall.errors import RunCancelled
from wholecall.tools.function_tool import tool

ENOUGH = 10
"""Steps on either side of the call."""
CALL = {"index": 0, "id": "a", "function": {"name": "peek", "arguments": '{"door": 1}'}}


def write(delta: dict[str, Any]) -> bytes:
    return b"data: %s\n\n" % json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode()


class Endless:
    """Answers with a call, and then neither goes on nor hangs up."""

    def __init__(self) -> None:
        self.open = 0
        self.changed = asyncio.Condition()

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        await self._count(1)
        try:
            response = await begin(request)
            await response.write(write({"tool_calls": [CALL]}))
            await response.write(write({"content": "Hm"}))
            await forever()
        finally:
            await self._count(-1)
        return response

    async def _count(self, change: int) -> None:
        async with self.changed:
            self.open += change
            self.changed.notify_all()

    async def gone(self) -> None:
        """Wait until every client is gone. A test that waits in vain fails by its time."""
        async with self.changed:
            await self.changed.wait_for(lambda: self.open == 0)


@in_loop
async def test_cancelled_at_any_step_the_connection_is_closed() -> None:
    upstream = Endless()
    early = late = 0
    async with serving(upstream) as server:
        while late < ENOUGH:
            ran = await cancel_after(early + late, server)
            await upstream.gone()
            early, late = early + (not ran), late + ran
    # From before the first byte to behind the call, which ran while the upstream spoke on.
    assert early > ENOUGH


async def cancel_after(steps: int, server: Server) -> int:
    """How many tools had begun by then."""
    inside: list[int] = []

    @tool(read_only=True)
    async def peek(door: int) -> str:
        """Look through a door."""
        inside.append(door)
        return "nothing"

    events: list[RunEvent] = []
    async with asking(server.url) as upstream:
        started = run("m", "Go", tools=[peek], upstream=upstream, taps=[events.append])
        result = asyncio.create_task(started.result())
        for _ in range(steps):
            await asyncio.sleep(0)
        begun = sum(isinstance(event, ToolStarted) for event in events)
        await started.cancel()
        with pytest.raises(RunCancelled):
            await result
        assert len(inside) <= sum(isinstance(event, ToolStarted) for event in events) == begun
        names = [task.get_name() for task in asyncio.all_tasks()]
        assert not [name for name in names if name.startswith(("wholecall run", "call "))]
    return len(inside)
