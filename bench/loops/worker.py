"""Runs one agent on demand: `worker.py AGENT URL`.

It prints the version of its library. Then, for each line `SCENARIO RUNS` that comes in, a line
of JSON goes out: the CPU seconds of one run, and how long after it was sent its first call
began to run.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import sys
import time
from importlib.metadata import version

from loops.work import ANSWER, CITIES, SCENARIOS, Agent, started


async def measure(agent: Agent, scenario: str, *, runs: int) -> dict[str, float]:
    gc.collect()
    begun = time.process_time()
    for _ in range(runs):
        await _run(agent, scenario)
    return {"cpu": (time.process_time() - begun) / runs, "start": started[CITIES[0]]}


async def _run(agent: Agent, scenario: str) -> None:
    started.clear()
    text = await agent(scenario)
    turns, calls = SCENARIOS[scenario]
    assert text == ANSWER, text
    assert list(started) == CITIES[: turns * calls], started


async def main(name: str, url: str) -> None:
    module = importlib.import_module(f"loops.{name}")
    print(version(module.PACKAGE), flush=True)
    async with module.open_agent(url) as agent:
        # Between two measurements there is nothing else to do, so waiting may block.
        for line in iter(sys.stdin.readline, ""):
            scenario, runs = line.split()
            print(json.dumps(await measure(agent, scenario, runs=int(runs))), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
