"""CPU of a run's turns and calls, and when a tool starts, against other agent loops, in one run.

    make .venv-peers/.installed                 once: the other libraries
    .venv/bin/python bench/loop.py              print the table
    .venv/bin/python bench/loop.py --write      and put it into docs/performance.md

All of them ask the same upstream: a process on loopback that streams chat completions from
memory. Each library runs in a process of its own, is built once, streams, has its tracing off
and gets the same asynchronous tool. What is measured is the CPU of its process, from the
question to the final answer, its HTTP client included; the best of several rounds counts, and
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
from importlib.metadata import distributions
from pathlib import Path
from typing import IO, NamedTuple, Self

from loops.work import PAUSE, SCENARIOS
from tables import markdown, write_section

HERE = Path(__file__).parent
PEERS = HERE.parent / ".venv-peers"
PYTHON = PEERS / "bin" / "python"
SECONDS = 120.0
"""For all rounds together."""
ROUNDS, FEWEST = 30, 5
RUNS = {"turns": 2, "one": 8, "parallel": 4}
"""Runs of one measurement: about as many turns each time."""
EARLY_ROUNDS = 3


class Contestant(NamedTuple):
    """A loop: the file in loops/ that runs it, and the package whose version is told."""

    module: str
    package: str | None = None


OURS = "wholecall"
CAREFUL = "wholecall, a tool with side effects"
CONTESTANTS = {
    OURS: Contestant("ours"),
    CAREFUL: Contestant("ours_careful"),
    "a loop by hand": Contestant("by_hand", "openai"),
    "pydantic-ai": Contestant("pydantic_ai_agent", "pydantic-ai-slim"),
    "openai-agents": Contestant("openai_agents_agent", "openai-agents"),
    "LangChain's `create_agent`": Contestant("langchain_agent", "langchain"),
}


class Worker:
    """One agent in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, scenario: str, *, runs: int) -> dict[str, float]:
        stdin, stdout = _pipes(self._process)
        stdin.write(f"{scenario} {runs}\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            raise SystemExit(f"{self._process.args!r} ended")
        measured: dict[str, float] = json.loads(line)
        return measured


class Figures(NamedTuple):
    """Least CPU seconds of a run by scenario, and seconds until the tool started."""

    cpu: dict[str, float]
    start: float
