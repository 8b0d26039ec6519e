"""Client libraries as they are, through the proxy, with an upstream that fails behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from peers.proxy_agents import CLIENTS, Client, Task
from proxying import Offer, in_loop, proxying, upstream
from wholecall.faults.judging import Conduct, Judgement, Verdict, judge
from wholecall.faults.running import FaultServer
from wholecall.faults.scenarios import find_scenario

# The libraries and what they import warn about themselves.
pytestmark = pytest.mark.filterwarnings("default")

UPSTREAMS = {"openai-chat": "openai", "openai-responses": "responses", "anthropic": "anthropic"}
PATIENCE = 20.0


@asynccontextmanager
async def serving(protocol: str, **settings: Any) -> AsyncIterator[tuple[str, FaultServer]]:
    """The proxy in front of the scenarios, in one protocol; the model is the scenario's name."""
    async with FaultServer(hang_seconds=0.5) as faults:
        base_url = faults.address if protocol == "anthropic" else faults.base_url
        model = upstream(f"{UPSTREAMS[protocol]}/*", base_url, **settings)
        async with proxying(Offer({"*": model})) as served:
            yield served.url, faults


async def try_one(client: Client, task: Task) -> Judgement:
    code: int | None = 0
    complaint = ""
    try:
        async with asyncio.timeout(PATIENCE):
            await client.run(task)
    except TimeoutError:
        code = None
    except Exception as error:  # noqa: BLE001 - an error of whatever library is a fine end
        code, complaint = 1, repr(error)[:200]
    expected = find_scenario(task.model).expect(client.form)
    return judge(expected, Conduct(ran=tuple(task.ran), exit_code=code, complaint=complaint))


SCENARIOS = (
    "good", "text-and-call", "parallel-calls", "two-steps", "ids-reused-over-turns", "no-arguments",
    "truncated-in-string", "truncated-after-member", "truncated-before-first-byte", "truncated-second-call", "truncated-but-stop", "truncated-but-tool-calls",
    "dropped-in-call", "dropped-after-call", "dropped-always", "reset-in-call", "reset-before-headers", "error-in-call", "malformed-event",
    "content-filter", "finish-stop", "finish-missing", "finish-unknown", "finish-twice", "index-missing", "index-all-zero", "id-shared", "id-missing",
    "placeholder-first", "text-tagged-json", "text-truncated", "text-xml", "unknown-tool", "wrong-type", "type-that-fits", "broken-json",
    "rate-limited", "server-error", "server-error-always", "overloaded", "unauthorized",
)


@pytest.mark.parametrize("name", CLIENTS)
@in_loop
async def test_explore(name: str) -> None:
    client = CLIENTS[name]
    bad = {}
    async with serving(client.form.protocol, reask=2) as (url, _):
        chosen = [s for s in SCENARIOS if client.form in find_scenario(s).forms]
        tasks = [Task(url=url, model=s) for s in chosen]
        for task, j in zip(tasks, await asyncio.gather(*(try_one(client, t) for t in tasks))):
            if j.verdict is not Verdict.SAFE:
                bad[task.model] = (j, task.ran)
    assert not bad
