"""What the inspector adds to the processor time of a chunk.

    .venv/bin/python bench/inspector.py              print the table
    .venv/bin/python bench/inspector.py --write      and put it into docs/performance.md

The same proxy five times, all started at once: without the inspector, with it, with a page that
looks, and both again with bodies kept (texts, arguments and every chunk). At a model's pace all
of them are under load at the same time. At full speed they take turns, in short windows and in
another order each round. What counts is the median of the ratios within each round, so that a
slow minute of the machine hits all alike. Processor time is what the kernel counted for the
proxy's process, to the nanosecond, writing to the file included.
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
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import uvloop

from proxies.answers import DELTAS
from proxies.clocks import cpu_seconds
from proxies.load import Address, ask_for, complain, connect
from proxies.subjects import BENCH, Place, Running, Subject, run, run_upstream
from proxies.upstream import PACE, SLOW_SECONDS
from tables import markdown, write_section

CONNECTIONS = 16
STREAMS = 50
"""At a model's pace, for each of the proxies."""
CHUNKS = DELTAS + 3
"""Chunks of a fast stream: its opening, its deltas, its finish and `[DONE]`."""
FAST = {"call": "a tool call", "text": "text, a tool offered", "plain": "text, no tools"}
WINDOW = 5.0
"""Seconds of one round at a model's pace."""
SETTLE = 1.5
"""Seconds after a round in which the inspector writes down what is left."""
_BIN = Path(sys.executable).parent


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


@dataclass
class Measured:
    """Microseconds of a chunk, in each round of each load."""

    loads: dict[str, list[float]] = field(default_factory=dict)


# ── Running ─────────────────────────────────────────────────────────────────────────


def _command(variant: Variant, place: Place) -> list[str]:
    config = {
        "models": {"bench": {"upstream": "openai/bench", "base_url": place.upstream}},
        "inspector": {"enabled": variant.inspector, "bodies": variant.bodies},
        "keys": {"path": str(place.folder / "keys.sqlite")},
    }
    file = place.folder / "wholecall.yaml"
    file.write_text(json.dumps(config))
    return [str(_BIN / "wholecall"), "serve", "--config", str(file), "--port", str(place.port)]


def _subject(variant: Variant) -> Subject:
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
            variant: stack.enter_context(run(_subject(variant), upstream)) for variant in VARIANTS
        }
        for variant, one in running.items():
            if variant.looked_at:
                stack.enter_context(_looking(one.address))
        time.sleep(SETTLE)
        yield running


# ── Measuring ───────────────────────────────────────────────────────────────────────


def _ask(one: Running, kind: str, *, seconds: float) -> int:
    """Chunks that it passed on."""
    load = uvloop.run(ask_for(one.address, kind, connections=CONNECTIONS, seconds=seconds))
    if load.errors:
        raise RuntimeError(load.errors[0])
    return len(load.latencies) * CHUNKS


def _read_clocks(running: dict[Variant, Running]) -> dict[Variant, float]:
    return {variant: cpu_seconds(one.process.pid) for variant, one in running.items()}


def _measure_round(
    running: dict[Variant, Running], kind: str, *, seconds: float
) -> dict[Variant, float]:
    """Each in turn; what it does behind its own turn counts as well."""
    before = _read_clocks(running)
    order = random.sample(list(running), len(running))
    chunks = {variant: _ask(running[variant], kind, seconds=seconds) for variant in order}
    time.sleep(SETTLE)
    after = _read_clocks(running)
    spent = {each: (after[each] - before[each]) / chunks[each] * 1e6 for each in running}
    print(kind, *(f"{each:.2f}" for each in spent.values()), file=sys.stderr)
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


async def _measure_slow(
    running: dict[Variant, Running], windows: int
) -> list[dict[Variant, float]]:
    """Microseconds of a chunk in each window, after all streams have begun."""
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


async def _measure_window(running: dict[Variant, Running]) -> dict[Variant, float]:
    before, begun = _read_clocks(running), time.monotonic()
    await asyncio.sleep(WINDOW)
    after, seconds = _read_clocks(running), time.monotonic() - begun
    chunks = STREAMS * PACE * seconds
    spent = {each: (after[each] - before[each]) / chunks * 1e6 for each in running}
    print("slow", *(f"{each:.2f}" for each in spent.values()), file=sys.stderr)
    return spent


def measure(running: dict[Variant, Running], *, rounds: int, seconds: float) -> list[Measured]:
    """All variants under all loads."""
    measured = {variant: Measured() for variant in running}
    for kind in FAST:
        _measure_round(running, kind, seconds=seconds)  # makes connections, compiles schemas
        for _ in range(rounds):
            for variant, spent in _measure_round(running, kind, seconds=seconds).items():
                measured[variant].loads.setdefault(kind, []).append(spent)
    for window in uvloop.run(_measure_slow(running, rounds)):
        for variant, spent in window.items():
            measured[variant].loads.setdefault("slow", []).append(spent)
    return list(measured.values())


# ── The table ───────────────────────────────────────────────────────────────────────


def _show(one: Measured, base: Measured, *, load: str) -> str:
    """The median, and that of the ratios within each round."""
    value = statistics.median(one.loads[load])
    if one is base:
        return f"{value:.1f}"
    pairs = zip(one.loads[load], base.loads[load], strict=True)
    ratio = statistics.median(mine / theirs for mine, theirs in pairs)
    return f"{value:.1f} ({(ratio - 1) * 100:+.0f} %)"


def report(every: list[Measured]) -> str:
    """µs a chunk, and what that is more than without the inspector."""
    header = [
        "µs CPU a chunk",
        f"at a model's pace ({STREAMS} streams, {PACE} chunks/s)",
        *(f"at full speed: {words}" for words in FAST.values()),
    ]
    base = every[0]
    rows = [
        [variant.name, *(_show(one, base, load=load) for load in ("slow", *FAST))]
        for variant, one in zip(VARIANTS, every, strict=True)
    ]
    return markdown(header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="What the inspector costs.")
    parser.add_argument("--write", action="store_true", help="put the table into the docs")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=0.5, help="of one turn at full speed")
    given = parser.parse_args()
    with run_upstream() as upstream, _run_all(upstream) as running:
        table = report(measure(running, rounds=given.rounds, seconds=given.seconds))
    print(table)
    if given.write:
        write_section("inspector", table)


if __name__ == "__main__":
    main()
