"""CPU of a run's turns and calls, and when a tool starts, against other agent loops, in one run.

    make .venv-peers/.installed                 once: the other libraries
    .venv/bin/python bench/loop.py              print the table
    .venv/bin/python bench/loop.py --write      and put it into docs/performance.md

All of them ask the same upstream: a process on loopback that streams chat completions from
memory. Each library runs in a process of its own, is built once, streams, has its tracing off
and gets the same asynchronous tool. What is measured is the CPU of its process, from the
question to the final answer, its HTTP client included. The best of several rounds counts, and
in each round all of them take their turn, so that a slow minute of the machine meets all alike.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from loops.work import PAUSE, SCENARIOS
from tables import markdown, write_section

HERE = Path(__file__).parent
PYTHON = HERE.parent / ".venv-peers" / "bin" / "python"
ROUNDS, EARLY_ROUNDS = 40, 3
MOST_SECONDS = 150.0
"""For the rounds of CPU. A slow machine does fewer of them."""
RUNS = {"turns": 2, "one": 8, "parallel": 4}
"""Runs of one measurement: the coarser the clock, the more."""

OURS = "wholecall"
AGENTS = {
    OURS: "ours",
    "wholecall, tool with side effects": "ours_careful",
    "loop by hand on the openai SDK": "by_hand",
    "pydantic-ai": "pydantic_ai_agent",
    "openai-agents": "openai_agents_agent",
    "LangChain's `create_agent`": "langchain_agent",
}
"""The file in loops/ that runs each of them."""


# ── Processes ───────────────────────────────────────────────────────────────────────


@contextmanager
def start(*command: str) -> Iterator[subprocess.Popen[str]]:
    """A Python process with the other libraries, which ends with the block."""
    environment = {**os.environ, "PYTHONPATH": str(HERE), "NO_PROXY": "127.0.0.1"}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [PYTHON, *command], stdin=pipe, stdout=pipe, text=True, env=environment
    ) as process:
        try:
            yield process
        finally:
            process.kill()


class Worker(NamedTuple):
    """An agent in a process of its own."""

    version: str
    stdin: IO[str]
    stdout: IO[str]

    def run(self, scenario: str, *, runs: int = 1) -> dict[str, float]:
        """Run a scenario so often; see worker.py for what is measured."""
        print(scenario, runs, file=self.stdin, flush=True)
        measured: dict[str, float] = json.loads(self.stdout.readline())
        return measured


def open_worker(process: subprocess.Popen[str]) -> Worker:
    assert process.stdin is not None
    assert process.stdout is not None
    return Worker(process.stdout.readline().strip(), process.stdin, process.stdout)


# ── Measuring ───────────────────────────────────────────────────────────────────────


class Figures(NamedTuple):
    """What was measured of one agent."""

    version: str
    cpu: dict[str, float]
    """Seconds of one run by scenario."""
    start: float
    """Seconds from the end of a call to the start of its tool."""

    @property
    def turn(self) -> float:
        """A turn with one call."""
        turns, _ = SCENARIOS["turns"]
        return self.cpu["turns"] / (turns + 1)

    @property
    def further_call(self) -> float:
        """Each further call in a turn that has one."""
        _, calls = SCENARIOS["parallel"]
        return (self.cpu["parallel"] - self.cpu["one"]) / (calls - 1)


def measure() -> dict[str, Figures]:
    with ExitStack() as stack:
        upstream = stack.enter_context(start(str(HERE / "loops" / "upstream.py")))
        assert upstream.stdout is not None
        url = f"http://127.0.0.1:{upstream.stdout.readline().strip()}/v1"
        script = str(HERE / "loops" / "worker.py")
        workers = {
            name: open_worker(stack.enter_context(start(script, module, url)))
            for name, module in AGENTS.items()
        }
        cpu = measure_cpu(workers)
        return {
            name: Figures(
                worker.version, cpu[name], min(run_early(worker) for _ in range(EARLY_ROUNDS))
            )
            for name, worker in workers.items()
        }


def measure_cpu(workers: dict[str, Worker]) -> dict[str, dict[str, float]]:
    """The least CPU seconds of a run, by agent and scenario."""
    least = {name: dict.fromkeys(RUNS, math.inf) for name in workers}
    begun = time.monotonic()
    for number in range(ROUNDS):
        for scenario, runs in RUNS.items():
            for name, worker in workers.items():
                seconds = worker.run(scenario, runs=runs)["cpu"]
                least[name][scenario] = min(least[name][scenario], seconds)
        print(f"round {number + 1} of {ROUNDS}", file=sys.stderr)
        if time.monotonic() - begun > MOST_SECONDS:
            break
    return least


def run_early(worker: Worker) -> float:
    return worker.run("early")["start"]


# ── Telling ─────────────────────────────────────────────────────────────────────────


def report(found: dict[str, Figures]) -> str:
    ours = found[OURS]
    header = [
        "ms of CPU",
        "a turn with one call",
        "a turn with 10 calls, and the answer",
        "each further call in a turn",
        f"the tool starts after ({PAUSE:.0f} s of stream to go)",
    ]
    rows = [
        [
            f"{name} ({figures.version})",
            _cell(figures.turn, ours.turn),
            _cell(figures.cpu["parallel"], ours.cpu["parallel"]),
            _cell(figures.further_call, ours.further_call),
            f"{figures.start:.3f} s",
        ]
        for name, figures in found.items()
    ]
    return markdown(header, rows)


def _cell(seconds: float, ours: float) -> str:
    return f"{seconds * 1e3:.2f} ({seconds / ours:.1f} ×)"


def main() -> None:
    if not PYTHON.exists():
        raise SystemExit("The other libraries are missing: make .venv-peers/.installed")
    table = report(measure())
    print(table)
    if "--write" in sys.argv:
        write_section("loop", table)


if __name__ == "__main__":
    main()
