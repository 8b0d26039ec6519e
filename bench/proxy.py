"""Gateways side by side, in one run on loopback with the same upstream.

    .venv/bin/python bench/proxy.py                  print the tables
    .venv/bin/python bench/proxy.py --write          and put them into docs/performance.md
    .venv/bin/python bench/proxy.py --only Wholecall --seconds 1

Clients, gateway and upstream share the machine. Processor time of the gateway is what the
kernel counted for its processes; it suffers less from a noisy machine than rates do.
bench/proxies/subjects.py says how to install the gateways of others.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

import uvloop

from proxies.answers import DELTAS, KINDS
from proxies.load import Address, Client, Load, ask_for, complain, connect
from proxies.subjects import SUBJECTS, Running, Subject, run, run_upstream
from proxies.upstream import PACE, SLOW_SECONDS
from tables import markdown, write_section

CONNECTIONS = (1, 16, 64)
STREAMS = 300
"""Slow ones, at the same time."""
CHUNKS = DELTAS + 3
"""Chunks of a fast stream: its opening, its deltas, its finish and `[DONE]`."""
MOST_ERRORS = 3
"""Errors that are shown."""


@dataclass
class Measured:
    """What one gateway did."""

    name: str
    ready: float = 0.0
    loads: dict[tuple[str, int], Load] = field(default_factory=dict)
    cpu: dict[tuple[str, int], float] = field(default_factory=dict)
    """Microseconds of a request or, of streams, of a chunk."""
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


def measure_direct(upstream: Address, seconds: float) -> dict[tuple[str, int], Load]:
    """The upstream without anything in between."""
    found = {}
    for kind in KINDS:
        for connections in CONNECTIONS:
            load = uvloop.run(ask_for(upstream, kind, connections=connections, seconds=seconds))
            found[kind, connections] = load
    return found


def measure(subject: Subject, upstream: Address, *, seconds: float, slow: float) -> Measured:
    """One gateway under every load."""
    with run(subject, upstream) as running:
        measured = Measured(subject.name, ready=running.ready)
        for kind in KINDS:
            for connections in CONNECTIONS:
                _measure_one(measured, running, at=(kind, connections), seconds=seconds)
        measured.memory = running.memory()
        if slow:
            measured.slow = uvloop.run(_measure_slow(running, seconds=slow))
            for error, count in Counter(measured.slow.errors).most_common(MOST_ERRORS):
                print(f"{subject.name}, slow: {count} × {error}", file=sys.stderr)
    return measured


def _measure_one(
    measured: Measured, running: Running, *, at: tuple[str, int], seconds: float
) -> None:
    kind, connections = at
    # The first requests make connections and compile schemas.
    uvloop.run(ask_for(running.address, kind, connections=connections, seconds=seconds / 4))
    before = running.cpu()
    load = uvloop.run(ask_for(running.address, kind, connections=connections, seconds=seconds))
    spent = running.cpu() - before
    for error in load.errors[:MOST_ERRORS]:
        print(f"{measured.name}, {kind}, {connections}: {error}", file=sys.stderr)
    measured.loads[at] = load
    units = max(len(load.latencies), 1) * (1 if kind == "whole" else CHUNKS)
    measured.cpu[at] = spent / units * 1e6
    told = f"{load.rate:,.0f} answers/s, {measured.cpu[at]:,.1f} µs CPU a request or chunk"
    print(f"{measured.name}, {kind}, {connections}: {told}", file=sys.stderr)


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


def report(direct: dict[tuple[str, int], Load], every: list[Measured]) -> str:
    parts = [f"**{KINDS['whole']}**", _report_whole(direct, every)]
    for kind in list(KINDS)[1:]:
        parts += [f"**Streams of {DELTAS} deltas: {KINDS[kind]}**", _report_streams(every, kind)]
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
    left_out = [subject.name for subject in SUBJECTS if subject.missing]
    if left_out:
        parts.append(f"Not installed where this was measured: {', '.join(left_out)}.")
    return "\n\n".join(parts)


def _over(*names: str) -> list[str]:
    return [f"{name}, {count}" for name in names for count in CONNECTIONS]


def _report_whole(direct: dict[tuple[str, int], Load], every: list[Measured]) -> str:
    header = ["connections", *_over("requests/s", "ms added", "µs CPU")]
    rows = []
    for one in every:
        at = [("whole", count) for count in CONNECTIONS]
        rates = [f"{one.loads[each].rate:,.0f}" for each in at]
        added = [f"{(one.loads[each].median - direct[each].median) * 1e3:,.2f}" for each in at]
        rows.append(
            [_name(one, "whole"), *rates, *added, *(f"{one.cpu[each]:,.0f}" for each in at)]
        )
    return markdown(header, rows)


def _report_streams(every: list[Measured], kind: str) -> str:
    header = ["connections", *_over("chunks/s", "µs CPU a chunk")]
    rows = []
    for one in every:
        at = [(kind, count) for count in CONNECTIONS]
        rates = [f"{one.loads[each].rate * CHUNKS:,.0f}" for each in at]
        rows.append([_name(one, kind), *rates, *(f"{one.cpu[each]:,.1f}" for each in at)])
    return markdown(header, rows)


def _name(one: Measured, kind: str) -> str:
    """A gateway, and whether it delivered something else than the upstream sent."""
    errors = sum(len(one.loads[kind, count].errors) for count in CONNECTIONS)
    return f"{one.name} ({errors} wrong answers)" if errors else one.name


def _report_costs(every: list[Measured]) -> str:
    header = ["", "s from start to first answer", "MB resident after the loads above"]
    return markdown(header, [[one.name, f"{one.ready:.2f}", f"{one.memory:.0f}"] for one in every])


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


def main() -> None:
    parser = argparse.ArgumentParser(description="Gateways side by side.")
    parser.add_argument("--write", action="store_true", help="put the tables into the docs")
    parser.add_argument("--only", action="append", help="measure only this gateway")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each load")
    parser.add_argument("--slow", type=float, default=75.0, help="for slow streams; 0: none")
    given = parser.parse_args()
    chosen = [each for each in SUBJECTS if given.only is None or each.name in given.only]
    with run_upstream() as upstream:
        direct = measure_direct(upstream, given.seconds)
        every = [
            measure(subject, upstream, seconds=given.seconds, slow=given.slow)
            for subject in chosen
            if not subject.missing
        ]
    table = report(direct, every)
    print(table)
    if given.write:
        write_section("proxy", table)


if __name__ == "__main__":
    main()
