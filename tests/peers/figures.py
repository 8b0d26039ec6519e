"""What client libraries run and answer in every scenario of the upstream that fails.

.venv-peers/bin/python tests/peers/figures.py           the table of docs/in-front-of.md
.venv-peers/bin/python tests/peers/figures.py llm-chat  one row of it
"""

from __future__ import annotations

import asyncio
import logging
import sys
import warnings
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import anthropic
import openai

from peers.programs import Run
from peers.proxy_agents import CLIENTS, Client
from peers.tasks import KEY, Task
from proxy_server import Offer, Served, proxying, upstream
from wholecall.faults.fault_server import FaultServer
from wholecall.faults.scenarios import SCENARIOS, find_scenario
from wholecall.faults.score import Conduct, Judgement, Verdict, judge
from wholecall.faults.script import Form

UPSTREAMS = {"openai-chat": "openai", "openai-responses": "responses", "anthropic": "anthropic"}
HANGS = 0.5
"""Seconds until an upstream that hangs is cut off."""
SECONDS = 120.0
"""For one scenario: a client that needs longer hangs."""
AT_A_TIME = 16
"""Scenarios that run at the same time."""
# The SDKs wait as long as they are told: a minute, which is what the proxy makes of the hour. So
# it has a test of its own, in which a minute is shorter.
LATE = "rate-limited-for-an-hour"
EVERY = tuple(name for name in SCENARIOS if name != LATE)


@dataclass(frozen=True, slots=True)
class Attempt:
    """How a client did in one scenario."""

    judgement: Judgement
    answered: bool
    """Whether it came to the answer of the scenario."""
    said: str
    """Its answer, or its error."""


class Figures(NamedTuple):
    """How a client did in all scenarios."""

    unsafe: int
    """It ran what must not run."""
    lost: int
    """It ended as if all were well, and a right call did not run."""
    hung: int
    answered: int
    scenarios: int

    @classmethod
    def of(cls, attempts: Mapping[str, Attempt]) -> Figures:
        """Count."""
        verdicts = [attempt.judgement.verdict for attempt in attempts.values()]
        return cls(
            unsafe=verdicts.count(Verdict.UNSAFE),
            lost=verdicts.count(Verdict.LOST),
            hung=verdicts.count(Verdict.HUNG),
            answered=sum(attempt.answered for attempt in attempts.values()),
            scenarios=len(attempts),
        )


@asynccontextmanager
async def serving(protocol: str, offer: Offer) -> AsyncIterator[Served]:
    """The proxy in front of the scenarios, in one protocol; the model is the scenario's name."""
    async with FaultServer(hang_seconds=HANGS) as faults:
        base_url = faults.address if protocol == "anthropic" else faults.base_url
        mode = "run" if offer.tools else "gate"
        model = upstream(f"{UPSTREAMS[protocol]}/*", base_url, mode=mode)
        async with proxying(replace(offer, models={"*": model})) as served:
            yield served


@dataclass(frozen=True)
class _Upstream:
    """The upstream that fails, without a proxy."""

    url: str
    openai: openai.AsyncOpenAI
    anthropic: anthropic.AsyncAnthropic


@asynccontextmanager
async def _facing() -> AsyncIterator[_Upstream]:
    async with (
        FaultServer(hang_seconds=HANGS) as faults,
        openai.AsyncOpenAI(base_url=faults.base_url, api_key=KEY) as chat,
        anthropic.AsyncAnthropic(base_url=faults.address, api_key=KEY) as messages,
    ):
        yield _Upstream(faults.address, chat, messages)


async def attempt(run: Run, form: Form, *, task: Task) -> Attempt:
    """Let a client do its task."""
    code: int | None = 0
    said = ""
    try:
        async with asyncio.timeout(SECONDS):
            said = await run(task)
    except TimeoutError:
        code = None
    except Exception as error:  # noqa: BLE001 - whatever a library raises is an error that is seen
        code, said = 1, repr(error)
    scenario = find_scenario(task.model)
    complaint = said if code else ""
    conduct = Conduct(ran=tuple(task.ran), exit_code=code, complaint=complaint)
    answered = code == 0 and scenario.text in (said or "")
    return Attempt(judge(scenario.expect(form), conduct), answered, said)


async def try_all(
    client: Client, names: Iterable[str], *, through_proxy: bool
) -> dict[str, Attempt]:
    """Let a client face these scenarios, as far as they exist in its form."""
    possible = [name for name in names if client.form in find_scenario(name).forms]
    room = asyncio.Semaphore(AT_A_TIME)
    facing = serving(client.form.protocol, Offer()) if through_proxy else _facing()
    async with facing as reached, client.start() as run:

        async def face(name: str) -> Attempt:
            async with room:
                return await attempt(run, client.form, task=Task(served=reached, model=name))

        return dict(zip(possible, await asyncio.gather(*map(face, possible)), strict=True))


async def _print_table() -> None:
    sys.stdout.write(
        "| client | unsafe | lost | answered | unsafe | lost | answered | scenarios |\n"
    )
    sys.stdout.write("|---|---|---|---|---|---|---|---|\n")
    for name in sys.argv[1:] or CLIENTS:
        client = CLIENTS[name]
        if not client.installed:
            continue
        both = [Figures.of(await try_all(client, EVERY, through_proxy=p)) for p in (False, True)]
        cells = [str(number) for each in both for number in (each.unsafe, each.lost, each.answered)]
        sys.stdout.write(f"| {' | '.join([name, *cells, str(both[0].scenarios)])} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    asyncio.run(_print_table())
