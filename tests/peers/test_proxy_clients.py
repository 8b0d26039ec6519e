"""Client libraries as they are, with an upstream that fails: directly, and through the proxy.

Each test is one library, and all scenarios: they differ in the name of the model.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from example_counts import IN_CI
from fault_agent import Agent
from peers.figures import EVERY, LATE, SECONDS, Figures, attempt, serving, try_all
from peers.proxy_agents import CLIENTS
from peers.tasks import Task
from proxy_server import Offer, in_loop, proxying, upstream, within
from wholecall.faults.fault_server import FaultServer
from wholecall.faults.scenarios import find_scenario
from wholecall.faults.score import Verdict
from wholecall.faults.script import FINAL_TEXT, TOOLS
from wholecall.proxy.config.schema import Secret
from wholecall.proxy.handlers import response_writer

# The libraries and what they import warn about themselves.
pytestmark = pytest.mark.filterwarnings("default")

# What every client library brings to a good end through the proxy.
GOOD = frozenset(
    {
        *("good", "parallel-calls", "two-steps", "ids-reused-over-turns", "no-arguments"),
        *("finish-stop", "finish-missing", "index-missing", "index-all-zero", "placeholder-first"),
        *("text-tagged-json", "type-that-fits", "reset-before-headers", "rate-limited"),
        "server-error",
    }
)


def allowed(scenario: str) -> frozenset[Verdict]:
    """The right calls, or an error that the client sees."""
    if scenario in GOOD:
        return frozenset({Verdict.SAFE})
    return frozenset({Verdict.SAFE, Verdict.CRASH})


# What a client answers directly and not through the proxy: a content filter stopped the answer, and
# the client ran its calls all the same.
FEWER = frozenset({"content-filter"})


# A form takes a minute, in which it mostly waits between its retries. CI tries one of each library
# and protocol, `make test-clients` all of them. smolagents does not
# finish on a busy machine, perhaps because its threads starve the proxy in the same process: it is
# not in CI.
ONE_OF_EACH = (
    *("openai-chat", "openai-responses-stream", "anthropic-stream", "agents-chat"),
    *("pydantic-ai-messages-stream", "langchain-chat", "llm-chat-stream"),
    *("ai-sdk-chat", "ai-sdk-responses-stream", "ai-sdk-messages-stream"),
)
TRIED = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(not CLIENTS[name].installed, reason="npm is not on this machine"),
    )
    for name in (ONE_OF_EACH if IN_CI else CLIENTS)
]


@pytest.mark.parametrize("name", TRIED)
@within(4 * SECONDS)
async def test_no_client_is_worse_off_with_the_proxy(name: str) -> None:
    client = CLIENTS[name]
    directly = await try_all(client, EVERY, through_proxy=False)
    proxied = await try_all(client, EVERY, through_proxy=True)
    wrong = {
        scenario: tried
        for scenario, tried in proxied.items()
        if tried.judgement.verdict not in allowed(scenario)
    }
    assert not wrong
    figures = Figures.of(proxied)
    assert (figures.unsafe, figures.lost, figures.hung) == (0, 0, 0)
    assert figures.answered >= Figures.of(directly).answered
    fewer = {each for each, tried in directly.items() if tried.answered > proxied[each].answered}
    assert fewer <= FEWER, {each: proxied[each] for each in fewer - FEWER}


@pytest.mark.parametrize("name", TRIED)
@within(2 * SECONDS)
async def test_nobody_waits_for_an_hour(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_writer, "LONGEST_RETRY_AFTER", 1.0)
    client = CLIENTS[name]
    async with serving(client.form.protocol, Offer()) as served, client.start() as run:
        task = Task(served=served, model=LATE)
        tried = await attempt(run, client.form, task=task)
    assert tried.judgement.verdict in allowed(LATE), tried
    assert task.ran == []


# ── Tools of the server ─────────────────────────────────────────────────────────────

RUNS = ("two-steps", "truncated-in-string")


@pytest.mark.parametrize("name", TRIED)
@within(SECONDS)
async def test_the_servers_tools_run_once_for_every_client(name: str, tmp_path: Path) -> None:
    client = CLIENTS[name]
    agent = Agent()
    offer = Offer(tools=tuple(agent.tools()), folder=tmp_path)
    async with serving(client.form.protocol, offer) as served, client.start() as run:
        for scenario in RUNS:
            agent.ran.clear()
            assert await run(Task(served=served, model=scenario, specs=())) == FINAL_TEXT
            assert agent.ran == list(find_scenario(scenario).expect(client.form).runs), scenario
        # The SDKs repeat a failed request by themselves: what ran must not run again.
        agent.ran.clear()
        task = Task(served=served, model="server-error-after-call", specs=(), ran=agent.ran)
        tried = await attempt(run, client.form, task=task)
    assert tried.judgement.verdict in {Verdict.SAFE, Verdict.CRASH}, tried
    assert len(agent.ran) == 1


@pytest.mark.parametrize("name", TRIED)
@within(SECONDS)
async def test_tools_of_both_sides_run_once_each(name: str, tmp_path: Path) -> None:
    """The model calls get_weather twice (the server's) and list_items (the client's)."""
    client = CLIENTS[name]
    agent = Agent()
    ours = tuple(tool for tool in agent.tools() if tool.name == "get_weather")
    theirs = tuple(spec for spec in TOOLS if spec.name == "list_items")
    offer = Offer(tools=ours, folder=tmp_path)
    async with serving(client.form.protocol, offer) as served, client.start() as run:
        task = Task(served=served, model="parallel-calls", specs=theirs)
        assert await run(task) == FINAL_TEXT
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
        async with proxying(Offer(models)) as served, client.start() as run:
            tasks = {name: Task(served=served, model=name) for name in models}
            tried = {
                name: await attempt(run, client.form, task=task) for name, task in tasks.items()
            }
    assert tried["good"].judgement.verdict is Verdict.SAFE, tried
    assert tried["two-steps"].judgement.verdict is Verdict.SAFE, tried
    assert tried["truncated-but-stop"].judgement.verdict is not Verdict.UNSAFE, tried
