"""Client libraries as they are, through the proxy, with an upstream that fails behind it.

Each test is one library, and all scenarios at once: they differ in the name of the model.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from fault_agent import Agent
from peers.proxy_agents import CLIENTS, Client
from peers.tasks import Task
from proxying import Offer, Served, in_loop, proxying, upstream, within
from wholecall.faults.judging import Conduct, Judgement, Verdict, judge
from wholecall.faults.running import FaultServer
from wholecall.faults.scenarios import SCENARIOS, find_scenario
from wholecall.faults.script import FINAL_TEXT
from wholecall.faults.tools import TOOLS
from wholecall.proxy import failing
from wholecall.proxy.config.secret import Secret

# The libraries and what they import warn about themselves.
pytestmark = pytest.mark.filterwarnings("default")

UPSTREAMS = {"openai-chat": "openai", "openai-responses": "responses", "anthropic": "anthropic"}
HANGS = 0.5
"""Seconds until an upstream that hangs is cut off."""
SECONDS = 120.0
"""For all scenarios, which run at the same time: a client that needs longer hangs."""

# What every client library brings to a good end through the proxy.
GOOD = frozenset(
    {
        *("good", "parallel-calls", "two-steps", "ids-reused-over-turns", "no-arguments"),
        *("finish-stop", "finish-missing", "index-missing", "index-all-zero", "placeholder-first"),
        *("text-tagged-json", "type-that-fits", "reset-before-headers", "rate-limited"),
        "server-error",
    }
)


# An answer that is cut at its limit has the finish reason `length`, and no call in it. What a
# library makes of that is its own affair.
TRUNCATED = frozenset(
    {name for name in SCENARIOS if name.startswith("truncated-")}
    | {"blank-flood", "text-truncated"}
)
# The SDKs wait as long as they are told: a minute, which is what the proxy makes of the hour. So
# it has a test of its own, in which a minute is shorter.
LATE = "rate-limited-for-an-hour"
EVERY = tuple(name for name in SCENARIOS if name != LATE)


def allowed(scenario: str) -> frozenset[Verdict]:
    """The right calls, or an error that the client sees."""
    if scenario in GOOD:
        return frozenset({Verdict.SAFE})
    if scenario in TRUNCATED:
        return frozenset({Verdict.SAFE, Verdict.CRASH, Verdict.LOST})
    return frozenset({Verdict.SAFE, Verdict.CRASH})


@asynccontextmanager
async def serving(protocol: str, offer: Offer) -> AsyncIterator[Served]:
    """The proxy in front of the scenarios, in one protocol; the model is the scenario's name."""
    async with FaultServer(hang_seconds=HANGS) as faults:
        base_url = faults.address if protocol == "anthropic" else faults.base_url
        mode = "run" if offer.tools else "gate"
        model = upstream(f"{UPSTREAMS[protocol]}/*", base_url, mode=mode)
        async with proxying(replace(offer, models={"*": model})) as served:
            yield served


async def attempt(client: Client, task: Task) -> Judgement:
    """Let a client do its task."""
    code: int | None = 0
    complaint = ""
    try:
        async with asyncio.timeout(SECONDS):
            await client.run(task)
    except TimeoutError:
        code = None
    except Exception as error:  # noqa: BLE001 - whatever a library raises is an error that is seen
        code, complaint = 1, repr(error)
    expected = find_scenario(task.model).expect(client.form)
    return judge(expected, Conduct(ran=tuple(task.ran), exit_code=code, complaint=complaint))


@pytest.mark.parametrize("name", CLIENTS)
@within(2 * SECONDS)
async def test_a_client_runs_the_right_calls_or_sees_an_error(name: str) -> None:
    client = CLIENTS[name]
    async with serving(client.form.protocol, Offer()) as served:
        tasks = [
            Task(served=served, model=scenario)
            for scenario in EVERY
            if client.form in find_scenario(scenario).forms
        ]
        judgements = await asyncio.gather(*(attempt(client, task) for task in tasks))
    wrong = {
        task.model: (judgement, task.ran)
        for task, judgement in zip(tasks, judgements, strict=True)
        if judgement.verdict not in allowed(task.model)
    }
    assert not wrong


@pytest.mark.parametrize("name", CLIENTS)
@within(2 * SECONDS)
async def test_nobody_waits_for_an_hour(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failing, "LONGEST_RETRY_AFTER", 1.0)
    client = CLIENTS[name]
    async with serving(client.form.protocol, Offer()) as served:
        task = Task(served=served, model=LATE)
        judgement = await attempt(client, task)
    assert judgement.verdict in allowed(LATE), judgement
    assert task.ran == []


# ── Tools of the server ─────────────────────────────────────────────────────────────

RUNS = ("two-steps", "truncated-in-string")


@pytest.mark.parametrize("name", CLIENTS)
@in_loop
async def test_the_servers_tools_run_once_for_every_client(name: str, tmp_path: Path) -> None:
    client = CLIENTS[name]
    agent = Agent()
    offer = Offer(tools=tuple(agent.tools()), folder=tmp_path)
    async with serving(client.form.protocol, offer) as served:
        for scenario in RUNS:
            agent.ran.clear()
            assert await client.run(Task(served=served, model=scenario, specs=())) == FINAL_TEXT
            assert agent.ran == list(find_scenario(scenario).expect(client.form).runs), scenario
        # The SDKs repeat a failed request by themselves: what ran must not run again.
        agent.ran.clear()
        task = Task(served=served, model="server-error-after-call", specs=(), ran=agent.ran)
        judgement = await attempt(client, task)
    assert judgement.verdict in {Verdict.SAFE, Verdict.CRASH}, judgement
    assert len(agent.ran) == 1


@pytest.mark.parametrize("name", CLIENTS)
@in_loop
async def test_tools_of_both_sides_run_once_each(name: str, tmp_path: Path) -> None:
    """The model calls get_weather twice (the server's) and list_items (the client's)."""
    client = CLIENTS[name]
    agent = Agent()
    ours = tuple(tool for tool in agent.tools() if tool.name == "get_weather")
    theirs = tuple(spec for spec in TOOLS if spec.name == "list_items")
    async with serving(client.form.protocol, Offer(tools=ours, folder=tmp_path)) as served:
        task = Task(served=served, model="parallel-calls", specs=theirs)
        assert await client.run(task) == FINAL_TEXT
    expected = find_scenario("parallel-calls").expected_runs
    assert task.ran == [run for run in expected if run.tool == "list_items"]
    assert sorted(map(str, agent.ran)) == sorted(
        str(run) for run in expected if run.tool == "get_weather"
    )


# ── LiteLLM behind the proxy ────────────────────────────────────────────────────────


@pytest.mark.usefixtures("_litellm")
@pytest.mark.parametrize("name", ["openai-stream", "openai-responses", "anthropic-stream"])
@in_loop
async def test_litellm_as_upstream(name: str) -> None:
    client = CLIENTS[name]
    async with FaultServer() as faults:
        models = {
            scenario: upstream(
                f"litellm/openai/{scenario}", faults.base_url, api_key=Secret("sk-of-nobody")
            )
            for scenario in ("good", "two-steps", "truncated-but-stop")
        }
        async with proxying(Offer(models)) as served:
            tasks = {name: Task(served=served, model=name) for name in models}
            judgements = {name: await attempt(client, task) for name, task in tasks.items()}
    assert judgements["good"].verdict is Verdict.SAFE, judgements
    assert judgements["two-steps"].verdict is Verdict.SAFE, judgements
    assert judgements["truncated-but-stop"].verdict is not Verdict.UNSAFE
    assert tasks["truncated-but-stop"].ran == []
