"""Gateways side by side, in one run on loopback with the same upstream.

    .venv/bin/python bench/proxy.py                  print the tables
    .venv/bin/python bench/proxy.py --write          and put them into docs/performance.md
    .venv/bin/python bench/proxy.py --only Wholecall --only 'bare pipe' --rounds 2

It runs unattended, and for less than ten minutes with all gateways. It needs two cores on which
nothing else runs, and says what it found instead; `--slow 0` leaves out half of the time.

Clients, gateways and upstream share the machine, and machines have slow minutes. So all gateways
are there at once, and each load goes round: a second for each of them, again and again. Figures
are medians of the rounds, and ratios are medians of the ratios within a round. Processor time of
a gateway is what the kernel counted for its processes; it suffers less from noise than rates do.
bench/proxies/subjects.py says how to install the gateways of others. One that is missing, or does
not start, is left out.
"""

from __future__ import annotations

import argparse
import asyncio
import compileall
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median
from typing import TypeAlias

import uvloop

from proxies.answers import DELTAS, KINDS
from proxies.load import Address, Client, Load, ask_for, complain, connect
from proxies.subjects import ROOT, SUBJECTS, Running, Subject, run, run_upstream
from proxies.upstream import PACE, SLOW_SECONDS
from tables import markdown, write_section

CONNECTIONS = (1, 16, 64)
STREAMS = 300
"""Slow ones, at the same time."""
CHUNKS = DELTAS + 3
"""Chunks of a fast stream: its opening, its deltas, its finish and `[DONE]`."""
MOST_ERRORS = 3
"""Errors that are shown."""
US = "Wholecall"
QUIET = 0.3
"""The load average of a machine on which nothing else runs."""
At: TypeAlias = tuple[str, int]
"""A load: what is asked for, over how many connections."""
LOADS: list[At] = [(kind, connections) for kind in KINDS for connections in CONNECTIONS]


@dataclass
class Measured:
    """What one gateway did, round by round."""

    name: str
    running: Running
    rates: dict[At, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Requests a second or, of streams, chunks."""
    medians: dict[At, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Seconds of the median answer."""
    cpu: dict[At, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Microseconds of a request or, of streams, of a chunk."""
    errors: Counter[At] = field(default_factory=Counter)
    memory: float = 0.0
    """Megabytes after all fast loads."""
    slow: Slow | None = None


@dataclass
class Slow:
    """What 300 slow streams did."""

    good: int
    errors: list[str]
    memory: list[float]
    cpu: float
    """Microseconds of a chunk."""


# ── Measuring ───────────────────────────────────────────────────────────────────────


def measure_direct(upstream: Address, seconds: float) -> dict[At, Load]:
    """The upstream without anything in between."""
    return {
        (kind, connections): uvloop.run(
            ask_for(upstream, kind, connections=connections, seconds=seconds)
        )
        for kind, connections in LOADS
    }


def measure(every: list[Measured], *, seconds: float, rounds: int) -> None:
    """All gateways under every load, in turn. The first round makes connections, and compiles."""
    for at in LOADS:
        for number in range(rounds + 1):
            for one in every:
                _measure_one(one, at, seconds=seconds, counts=number > 0)
        for one in every:
            rate, cpu = median(one.rates[at]), median(one.cpu[at])
            told = f"{rate:,.0f} a second, {cpu:,.1f} µs CPU"
            print(f"{at[0]}, {at[1]}: {one.name}: {told}", file=sys.stderr)
    for one in every:
        one.memory = one.running.memory()


def _measure_one(one: Measured, at: At, *, seconds: float, counts: bool) -> None:
    kind, connections = at
    running = one.running
    before = running.cpu()
    load = uvloop.run(ask_for(running.address, kind, connections=connections, seconds=seconds))
    spent = running.cpu() - before
    for error in load.errors[:MOST_ERRORS]:
        print(f"{one.name}, {kind}, {connections}: {error}", file=sys.stderr)
    if not counts:
        return
    chunks = 1 if kind == "whole" else CHUNKS
    one.errors[at] += len(load.errors)
    one.rates[at].append(load.rate * chunks)
    one.medians[at].append(load.median)
    one.cpu[at].append(spent / (max(len(load.latencies), 1) * chunks) * 1e6)


def measure_slow(every: list[Measured], seconds: float) -> None:
    """Slow streams, one gateway after the other: the upstream has its hands full."""
    for one in every:
        one.slow = uvloop.run(_measure_slow(one.running, seconds=seconds))
        for error, count in Counter(one.slow.errors).most_common(MOST_ERRORS):
            print(f"{one.name}, slow: {count} × {error}", file=sys.stderr)


async def _measure_slow(running: Running, *, seconds: float) -> Slow:
    """Half of the streams are calls that are checked, half are text that passes through."""
    errors: list[str] = []
    memory: list[float] = []
    clients: list[Client] = []

    async def ask(kind: str) -> None:
        client = await connect(running.address)
        clients.append(client)
        try:
            body = await client.ask(running.address.write(kind))
        except OSError as error:
            errors.append(repr(error))
            return
        wrong = complain(kind, body, deltas=PACE * SLOW_SECONDS)
        if wrong:
            errors.append(wrong)

    before = running.cpu()
    kinds = ("slow-call", "slow-plain") * (STREAMS // 2)
    tasks = [asyncio.create_task(ask(kind)) for kind in kinds]
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not all(task.done() for task in tasks):
        memory.append(running.memory())
        await asyncio.sleep(1)
    late = [task for task in tasks if not task.done()]
    for task in late:
        task.cancel()
    for client in clients:
        client.close()
    errors += ["not over in time"] * len(late)
    chunks = STREAMS * PACE * SLOW_SECONDS
    return Slow(STREAMS - len(errors), errors, memory, (running.cpu() - before) / chunks * 1e6)


# ── Tables ──────────────────────────────────────────────────────────────────────────


def report(direct: dict[At, Load], every: list[Measured]) -> str:
    parts = [f"**{KINDS['whole']}**", _report_whole(direct, every)]
    for kind in list(KINDS)[1:]:
        parts += [f"**Streams of {DELTAS} deltas: {KINDS[kind]}**", _report_streams(every, kind)]
    parts += _report_ratios(every)
    parts += ["**Costs**", _report_costs(every)]
    slow = [one for one in every if one.slow is not None]
    if slow:
        title = f"{STREAMS} streams at {PACE} chunks/s for {SLOW_SECONDS} s, calls and text"
        parts += [f"**{title}**", _report_slow(slow)]
    rates = [
        direct[kind, CONNECTIONS[-1]].rate * (CHUNKS if kind != "whole" else 1) for kind in KINDS
    ]
    parts.append(
        f"The upstream alone, asked by the same clients over {CONNECTIONS[-1]} connections: "
        f"{rates[0]:,.0f} requests/s, {min(rates[1:]):,.0f} chunks/s."
    )
    measured = {one.name for one in every}
    left_out = [subject.name for subject in SUBJECTS if subject.name not in measured]
    if left_out:
        parts.append(f"Not measured: {', '.join(left_out)}.")
    return "\n\n".join(parts)


def _over(*names: str) -> list[str]:
    return [f"{name}, {count}" for name in names for count in CONNECTIONS]


def _report_whole(direct: dict[At, Load], every: list[Measured]) -> str:
    header = ["connections", *_over("requests/s", "ms added", "µs CPU")]
    rows = []
    for one in every:
        at = [("whole", count) for count in CONNECTIONS]
        rates = [f"{median(one.rates[each]):,.0f}" for each in at]
        added = [f"{(median(one.medians[each]) - direct[each].median) * 1e3:,.2f}" for each in at]
        cpu = [f"{median(one.cpu[each]):,.0f}" for each in at]
        rows.append([_name(one, "whole"), *rates, *added, *cpu])
    return markdown(header, rows)


def _report_streams(every: list[Measured], kind: str) -> str:
    header = ["connections", *_over("chunks/s", "µs CPU a chunk")]
    rows = []
    for one in every:
        at = [(kind, count) for count in CONNECTIONS]
        rates = [f"{median(one.rates[each]):,.0f}" for each in at]
        rows.append([_name(one, kind), *rates, *(f"{median(one.cpu[each]):,.1f}" for each in at)])
    return markdown(header, rows)


def _name(one: Measured, kind: str) -> str:
    """A gateway, and whether it delivered something else than the upstream sent."""
    errors = sum(one.errors[kind, count] for count in CONNECTIONS)
    return f"{one.name} ({errors} wrong answers)" if errors else one.name


def _report_ratios(every: list[Measured]) -> list[str]:
    ours = next((one for one in every if one.name == US), None)
    others = [one for one in every if one.name != US]
    if ours is None or not others:
        return []
    header = [f"{US} is … times", *(f"the {what} of {one.name}" for what in _OF for one in others)]
    rows = [
        [f"{KINDS[at[0]]}, {at[1]}"]
        + [_compare(of(ours)[at], of(other)[at]) for of in _OF.values() for other in others]
        for at in LOADS
    ]
    return [f"**{US} beside each of them**", markdown(header, rows)]


_OF: dict[str, Callable[[Measured], dict[At, list[float]]]] = {
    "rate": lambda one: one.rates,
    "CPU": lambda one: one.cpu,
}


def _compare(ours: list[float], others: list[float]) -> str:
    """How many times as much, within a round."""
    # What the kernel counts in hundredths of a second may be none.
    pairs = zip(ours, others, strict=True)
    return f"{median(mine / (theirs or 1) for mine, theirs in pairs):.3g}"


def _report_costs(every: list[Measured]) -> str:
    header = ["", "s from start to first answer", "MB resident after the loads above"]
    return markdown(
        header, [[one.name, f"{one.running.ready:.2f}", f"{one.memory:.0f}"] for one in every]
    )


def _report_slow(every: list[Measured]) -> str:
    header = ["", "right answers in time", "µs CPU a chunk", "MB after 10 s", "MB at the end"]
    rows = []
    for one in every:
        slow = one.slow
        assert slow is not None
        early = slow.memory[min(10, len(slow.memory) - 1)]
        right = f"{slow.good} of {STREAMS}"
        # Who did not deliver all chunks has no price for one.
        cpu = f"{slow.cpu:.1f}" if slow.good == STREAMS else "–"
        rows.append([one.name, right, cpu, f"{early:.0f}", f"{slow.memory[-1]:.0f}"])
    return markdown(header, rows)


def _start(subject: Subject, upstream: Address, *, stack: ExitStack) -> Iterator[Measured]:
    """Start a gateway. One that cannot be started does not end the run of the others."""
    if subject.missing:
        print(f"{subject.name}: not installed ({subject.needs})", file=sys.stderr)
        return
    try:
        yield Measured(subject.name, stack.enter_context(run(subject, upstream)))
    except RuntimeError as error:
        print(f"{subject.name}: left out: {error}", file=sys.stderr)


def _prepare() -> None:
    """Compile our modules, as pip does when it installs them: the start is measured, too."""
    compileall.compile_dir(ROOT / "src", quiet=1)
    load, *_ = os.getloadavg()
    if load > QUIET:
        said = f"load average {load:.1f}: not quiet, read ratios only"
        print(said, file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description="Gateways side by side.")
    parser.add_argument("--write", action="store_true", help="put the tables into the docs")
    parser.add_argument("--only", action="append", help="measure only this gateway")
    parser.add_argument("--seconds", type=float, default=0.5, help="of each load in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--slow", type=float, default=40.0, help="for slow streams; 0: none")
    given = parser.parse_args()
    chosen = [each for each in SUBJECTS if given.only is None or each.name in given.only]
    _prepare()
    with ExitStack() as stack:
        upstream = stack.enter_context(run_upstream())
        direct = measure_direct(upstream, given.seconds)
        every = [one for subject in chosen for one in _start(subject, upstream, stack=stack)]
        measure(every, seconds=given.seconds, rounds=given.rounds)
        if given.slow:
            measure_slow(every, given.slow)
    table = report(direct, every)
    print(table)
    if given.write:
        write_section("proxy", table)


if __name__ == "__main__":
    main()
