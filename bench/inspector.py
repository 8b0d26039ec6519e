"""What the inspector adds to the processor time of a chunk.

    .venv/bin/python bench/inspector.py              print the table
    .venv/bin/python bench/inspector.py --write      and put it into docs/performance.md

The same proxy five times, all started at once: without the inspector, with it, with a page that
looks, and both again with bodies kept (texts, arguments and every chunk). At a model's pace all
of them are under load at the same time. At full speed they take turns of a twentieth of a second,
each time in another order. What counts is the median of the ratios within each round, so that a
slow minute of the machine hits all alike. All are started anew several times: two processes of the
same program differ by some percent for as long as they live. Processor time is what the kernel
counted for the proxy's process, to the nanosecond, writing to the file included.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

import uvloop

from proxies.answers import DELTAS
from proxies.clocks import cpu_seconds
from proxies.load import Address, Client, complain, connect
from proxies.subjects import BENCH, Place, Running, Subject, run, run_upstream
from proxies.upstream import PACE, SLOW_SECONDS
from tables import markdown, write_section

CONNECTIONS = 16
STREAMS = 50
"""At a model's pace, for each of the proxies."""
CHUNKS = DELTAS + 3
"""Chunks of a fast stream: its opening, its deltas, its finish and `[DONE]`."""
FAST = {"call": "a tool call", "text": "text, a tool offered", "plain": "text, no tools"}
TURN = 0.05
"""Seconds at full speed until it is the next proxy's turn."""
WINDOW = 5.0
"""Seconds of one round at a model's pace."""
SETTLE = 1.5
"""Seconds after a round in which the inspector writes down what is left."""
_WHOLECALL = Path(sys.executable).parent / "wholecall"


@dataclass(frozen=True)
class Variant:
    """One way to run the proxy."""

    name: str
    inspector: bool = True
    bodies: bool = False
    looked_at: bool = False


VARIANTS = (
    Variant("without the inspector", inspector=False),
    Variant("with it, nobody looks"),
    Variant("with it, one page looks", looked_at=True),
    Variant("with bodies, nobody looks", bodies=True),
    Variant("with bodies, one page looks", bodies=True, looked_at=True),
)


Spent: TypeAlias = dict[Variant, float]
"""Microseconds of a chunk in one round."""
Measured: TypeAlias = dict[str, list[Spent]]
"""The rounds of each load."""


# ── Running ─────────────────────────────────────────────────────────────────────────


def _command(variant: Variant, place: Place) -> list[str]:
    config = {
        "models": {"bench": {"upstream": "openai/bench", "base_url": place.upstream}},
        "inspector": {"enabled": variant.inspector, "bodies": variant.bodies},
        "keys": {"path": str(place.folder / "keys.sqlite")},
    }
    file = place.folder / "wholecall.yaml"
    file.write_text(json.dumps(config))
    return [str(_WHOLECALL), "serve", "--config", str(file), "--port", str(place.port)]


def make_subject(variant: Variant) -> Subject:
    """How to start it."""
    environ = {"OPENAI_API_KEY": "none", "NO_PROXY": "*"}
    return Subject(variant.name, partial(_command, variant), environ=lambda _: environ)


@contextmanager
def _looking(address: Address) -> Iterator[None]:
    command = [sys.executable, "-m", "proxies.looker", str(address.port)]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(BENCH)})
    try:
        yield
    finally:
        process.terminate()
        process.wait()


@contextmanager
def _run_all(upstream: Address) -> Iterator[dict[Variant, Running]]:
    with ExitStack() as stack:
        running = {
            variant: stack.enter_context(run(make_subject(variant), upstream))
            for variant in VARIANTS
        }
        for variant, one in running.items():
            if variant.looked_at:
                stack.enter_context(_looking(one.address))
        time.sleep(SETTLE)
        yield running


# ── Measuring ───────────────────────────────────────────────────────────────────────


class _Clients:
    """Connections to one proxy that stay open: to open them is not what is measured."""

    def __init__(self, address: Address, clients: list[Client]) -> None:
        self._address = address
        self._clients = clients

    @classmethod
    async def connect(cls, address: Address) -> _Clients:
        return cls(address, [await connect(address) for _ in range(CONNECTIONS)])

    async def ask(self, kind: str) -> int:
        """Chunks that came in one turn."""
        request, until = self._address.write(kind), time.monotonic() + TURN
        answers = await asyncio.gather(*(self._ask(each, request, until) for each in self._clients))
        bodies = [body for some in answers for body in some]
        wrong = complain(kind, random.choice(bodies))
        if wrong:
            raise RuntimeError(wrong)
        return len(bodies) * CHUNKS

    def close(self) -> None:
        for client in self._clients:
            client.close()

    async def _ask(self, client: Client, request: bytes, until: float) -> list[bytes]:  # noqa: PLR0917 - one short line
        answers = [await client.ask(request)]
        while time.monotonic() < until:
            answers.append(await client.ask(request))
        return answers


def _read_clocks(running: dict[Variant, Running]) -> dict[Variant, float]:
    return {variant: cpu_seconds(one.process.pid) for variant, one in running.items()}


async def _measure_round(running: dict[Variant, Running], kind: str, *, turns: int) -> Spent:
    """Each in turn; what it does behind its own turn counts as well."""
    clients = {each: await _Clients.connect(one.address) for each, one in running.items()}
    for some in clients.values():
        await some.ask(kind)
    await asyncio.sleep(SETTLE)
    before, chunks = _read_clocks(running), dict.fromkeys(running, 0)
    for _ in range(turns):
        for each in random.sample(list(running), len(running)):
            chunks[each] += await clients[each].ask(kind)
    await asyncio.sleep(SETTLE)
    after = _read_clocks(running)
    for some in clients.values():
        some.close()
    return _tell(kind, {each: (after[each] - before[each]) / chunks[each] for each in running})


def _tell(load: str, seconds: Spent) -> Spent:
    spent = {variant: each * 1e6 for variant, each in seconds.items()}
    print(load, *(f"{each:.2f}" for each in spent.values()), file=sys.stderr)
    return spent


async def _stream_slowly(address: Address, number: int) -> None:
    """One answer after the other. They begin at different times, and so they end."""
    kind = ("slow-call", "slow-plain")[number % 2]
    await asyncio.sleep(number / STREAMS * SLOW_SECONDS)
    client = await connect(address)
    while True:
        wrong = complain(kind, await client.ask(address.write(kind)), deltas=PACE * SLOW_SECONDS)
        if wrong:
            raise RuntimeError(wrong)


async def _measure_slow(running: dict[Variant, Running], windows: int) -> list[Spent]:
    """In each window, after all streams have begun."""
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_stream_slowly(one.address, number))
            for number in range(STREAMS)
            for one in running.values()
        ]
        await asyncio.sleep(SLOW_SECONDS)
        measured = [await _measure_window(running) for _ in range(windows)]
        for task in tasks:
            task.cancel()
    return measured


async def _measure_window(running: dict[Variant, Running]) -> Spent:
    before, begun = _read_clocks(running), time.monotonic()
    await asyncio.sleep(WINDOW)
    after, seconds = _read_clocks(running), time.monotonic() - begun
    chunks = STREAMS * PACE * seconds
    return _tell("slow", {each: (after[each] - before[each]) / chunks for each in running})


async def measure(running: dict[Variant, Running], *, rounds: int, turns: int) -> Measured:
    """All variants under all loads, round by round."""
    measured: Measured = {}
    for kind in FAST:
        await _measure_round(running, kind, turns=1)  # compiles schemas
        measured[kind] = [await _measure_round(running, kind, turns=turns) for _ in range(rounds)]
    measured["slow"] = await _measure_slow(running, rounds)
    return measured


def _measure_all(starts: int, *, rounds: int, turns: int) -> Measured:
    measured: Measured = {load: [] for load in ("slow", *FAST)}
    with run_upstream() as upstream:
        for _ in range(starts):
            with _run_all(upstream) as running:
                found = uvloop.run(measure(running, rounds=rounds, turns=turns))
            for load, rows in found.items():
                measured[load] += rows
    return measured


# ── The table ───────────────────────────────────────────────────────────────────────


def _show(variant: Variant, rounds: list[Spent]) -> str:
    """The median, and that of the ratios within each round."""
    base = VARIANTS[0]
    value = statistics.median(spent[variant] for spent in rounds)
    if variant is base:
        return f"{value:.1f}"
    ratio = statistics.median(spent[variant] / spent[base] for spent in rounds)
    return f"{value:.1f} ({(ratio - 1) * 100:+.0f} %)"


def report(measured: Measured) -> str:
    """µs a chunk, and what that is more than without the inspector."""
    header = [
        "µs CPU a chunk",
        f"at a model's pace ({STREAMS} streams, {PACE} chunks/s)",
        *(f"at full speed: {words}" for words in FAST.values()),
    ]
    rows = [
        [variant.name, *(_show(variant, measured[load]) for load in ("slow", *FAST))]
        for variant in VARIANTS
    ]
    return markdown(header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="What the inspector costs.")
    parser.add_argument("--write", action="store_true", help="put the table into the docs")
    parser.add_argument("--starts", type=int, default=6, help="of all proxies")
    parser.add_argument("--rounds", type=int, default=2, help="after each start")
    parser.add_argument("--turns", type=int, default=24, help="of each proxy in a round")
    given = parser.parse_args()
    table = report(_measure_all(given.starts, rounds=given.rounds, turns=given.turns))
    print(table)
    if given.write:
        write_section("inspector", table)


if __name__ == "__main__":
    main()
