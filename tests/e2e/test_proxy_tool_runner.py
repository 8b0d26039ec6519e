"""The tool runner of Anthropic's SDK, in its newest version, through the proxy.

It offers the upstream a thread, so that it need not send the whole conversation again. The proxy
does not serve threads, because what they offer could not be checked; the runner then sends all
of it. tests/peers has the runner of an older version beside other libraries.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from anthropic.lib.tools import BetaAsyncFunctionTool

from fault_agent import Agent
from proxy_server import Offer, Served, in_loop, proxying, upstream
from wholecall.faults.fault_server import FaultServer
from wholecall.faults.scenarios import find_scenario
from wholecall.faults.script import FINAL_TEXT, TOOLS, Form

WAYS: dict[str, dict[str, Any]] = {
    "whole": {},
    "streamed": {"stream": True},
    "eager": {"stream": True, "run_tools_eagerly": True},
}


@asynccontextmanager
async def serving(folder: Path, agent: Agent, *, server: bool) -> AsyncIterator[Served]:
    """The proxy in front of the scenarios; the tools are the server's, or the client's."""
    tools = tuple(agent.tools()) if server else ()
    async with FaultServer() as faults:
        model = upstream("anthropic/*", faults.address, mode="run" if server else "gate")
        async with proxying(Offer({"*": model}, tools=tools, folder=folder)) as served:
            yield served


def _brought_along(ran: list[tuple[str, Any]]) -> list[Any]:
    def runner(name: str) -> Any:
        async def run(**arguments: Any) -> str:
            ran.append((name, arguments))
            return f"{name} is done"

        return run

    make_tool: Any = BetaAsyncFunctionTool  # its type wants parameters that are known
    return [
        make_tool(
            runner(spec.name),
            name=spec.name,
            description=spec.description,
            input_schema=dict(spec.parameters),
        )
        for spec in TOOLS
    ]


async def _ask(served: Served, scenario: str, *, tools: list[Any], way: str) -> str:
    runner: Any = served.anthropic.with_options(max_retries=2).beta.messages.tool_runner(
        model=scenario,
        max_tokens=1000,
        max_iterations=6,
        messages=[{"role": "user", "content": "Do it."}],
        tools=tools,
        **WAYS[way],
    )
    message = await runner.until_done()
    return "".join(block.text for block in message.content if block.type == "text")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("scenario", ["good", "two-steps", "parallel-calls", "no-arguments"])
@in_loop
async def test_the_clients_tools_run_once(tmp_path: Path, way: str, *, scenario: str) -> None:
    ran: list[tuple[str, Any]] = []
    async with serving(tmp_path, Agent(), server=False) as served:
        assert await _ask(served, scenario, tools=_brought_along(ran), way=way) == FINAL_TEXT
    expected = find_scenario(scenario).expect(Form("anthropic", streamed=way != "whole")).runs
    assert sorted(map(str, ran)) == sorted(str((run.tool, dict(run.arguments))) for run in expected)


@pytest.mark.parametrize("way", WAYS)
@in_loop
async def test_the_servers_tools_run_once(tmp_path: Path, way: str) -> None:
    agent = Agent()
    async with serving(tmp_path, agent, server=True) as served:
        assert await _ask(served, "two-steps", tools=[], way=way) == FINAL_TEXT
    form = Form("anthropic", streamed=way != "whole")
    assert agent.ran == list(find_scenario("two-steps").expect(form).runs)
