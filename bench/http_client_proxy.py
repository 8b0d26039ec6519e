"""The proxy with its own HTTP client and with aiohttp: the figures that decided which one stays.

    .venv/bin/python bench/http_client_proxy.py            print the table
    .venv/bin/python bench/http_client_proxy.py --write    and put it into docs/performance.md

Both proxies run at once and take turns of a fifth of a second under the loads of bench/proxy.py.
Processor time is what the kernel counted for the proxy's process. The table shows the best turn of
each, and the median of the ratios within a round, so that a slow minute of the machine hits both
alike. Instructions (user mode) come from valgrind's cachegrind as in
bench/inspector_instructions.py, and hardly vary.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import uvloop

from proxies.answers import DELTAS
from proxies.clocks import cpu_seconds
from proxies.load import Address, Client, ask_for, complain, connect
from proxies.subjects import BENCH, SUBJECTS, Place, Running, Subject, run, run_upstream
from tables import markdown, write_section

CONNECTIONS = 16
TURN = 0.2
CHUNKS = DELTAS + 3
LOADS = {"whole": "a request of 1 KB", "call": "a chunk of a tool call", "plain": "a chunk of text"}
PACED = {
    "slow-call": "a chunk of a tool call, 20 a second in each of 60 streams",
    "slow-plain": "a chunk of text, 20 a second in each of 60 streams",
}
STREAMS = 60
PACE = 20
WINDOW = 4.0
PACED_ROUNDS = 3
WARM, FEW, MANY = 64, 50, 250
"""Requests under valgrind: before counting starts, and of the two runs that are compared."""
_OURS = next(subject for subject in SUBJECTS if subject.name == "Wholecall")


def _with_aiohttp(place: Place) -> list[str]:
    return [sys.executable, "-m", "proxies.aiohttp_client", *_OURS.command(place)[1:]]


_ENVIRON = {**_OURS.environ(Place(0, "", Path())), "PYTHONPATH": str(BENCH)}
WAYS = (
    replace(_OURS, environ=lambda _: _ENVIRON),
    Subject("with aiohttp", _with_aiohttp, environ=lambda _: _ENVIRON),
)


# ── Processor time ──────────────────────────────────────────────────────────────────


def measure_turn(running: Running, kind: str) -> float:
    """Return the microseconds of CPU of a request or, in a stream, of a chunk."""
    before = cpu_seconds(running.process.pid)
    load = uvloop.run(ask_for(running.address, kind, connections=CONNECTIONS, seconds=TURN))
    if load.errors:
        raise RuntimeError(load.errors[0])
    spent = cpu_seconds(running.process.pid) - before
    return spent / (len(load.latencies) * (1 if kind == "whole" else CHUNKS)) * 1e6


def measure_pace(running: Running, kind: str) -> float:
    """Return the microseconds of CPU of a chunk that comes alone."""
    return uvloop.run(_measure_pace(running, kind))


async def _measure_pace(running: Running, kind: str) -> float:
    clients = [await connect(running.address) for _ in range(STREAMS)]
    request = running.address.write(kind)
    tasks = [asyncio.create_task(client.ask(request)) for client in clients]
    await asyncio.sleep(1.0)
    before, begun = cpu_seconds(running.process.pid), time.monotonic()
    await asyncio.sleep(WINDOW)
    chunks = STREAMS * PACE * (time.monotonic() - begun)
    spent = cpu_seconds(running.process.pid) - before
    for task, client in zip(tasks, clients, strict=True):
        task.cancel()
        client.close()
    await asyncio.gather(*tasks, return_exceptions=True)
    return spent / chunks * 1e6


def measure_time(upstream: Address, *, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Return the CPU by load and way, round by round."""
    found: dict[str, dict[str, list[float]]] = defaultdict(dict)
    with ExitStack() as stack:
        running = {way.name: stack.enter_context(run(way, upstream)) for way in WAYS}
        for kind in LOADS | PACED:
            times = rounds if kind in LOADS else PACED_ROUNDS
            for name, kept in _take_turns(running, kind, times).items():
                found[kind][name] = kept
                print(kind, name, f"{min(kept):.1f}", file=sys.stderr)
    return found


def _take_turns(running: dict[str, Running], kind: str, times: int) -> dict[str, list[float]]:  # noqa: PLR0917 - three words
    measure_one = measure_turn if kind in LOADS else measure_pace
    spent = [
        {name: measure_one(one, kind) for name, one in running.items()} for _ in range(times + 1)
    ]
    # The first round opens connections and fills caches.
    return {name: [each[name] for each in spent[1:]] for name in running}


# ── Instructions ────────────────────────────────────────────────────────────────────


def count(way: Subject, kind: str, *, requests: int, upstream: Address) -> int:
    """Return the instructions of a proxy from its start to its end."""
    with TemporaryDirectory() as folder:
        out = Path(folder) / "counted"
        cachegrind = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--fair-sched=yes"]
        counting = [*cachegrind, f"--cachegrind-out-file={out}"]
        slow = replace(
            way,
            command=lambda place: [*counting, *_as_python(way.command(place))],
            environ=lambda place: {**way.environ(place), "PYTHONHASHSEED": "0"},
        )
        with run(slow, upstream) as running:
            for some in (WARM, requests):
                uvloop.run(_ask(running.address, kind, requests=some))
        return int(out.read_text().rpartition("summary:")[2])


def _as_python(command: list[str]) -> list[str]:
    return command if command[0] == sys.executable else [sys.executable, *command]


async def _ask(address: Address, kind: str, *, requests: int) -> None:
    left = iter(range(requests))
    clients = [await connect(address) for _ in range(CONNECTIONS)]
    await asyncio.gather(*(_ask_on(client, address, kind, left=left) for client in clients))
    for client in clients:
        client.close()


async def _ask_on(client: Client, address: Address, kind: str, *, left: Iterator[int]) -> None:  # noqa: PLR0917 - one short line
    request = address.write(kind)
    for _ in left:
        wrong = complain(kind, await client.ask(request))
        if wrong:
            raise RuntimeError(wrong)


def measure_instructions(upstream: Address) -> dict[str, dict[str, float]]:
    """Return the instructions of a request or chunk, by load and way."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for kind in LOADS:
        for way in WAYS:
            few, many = (count(way, kind, requests=n, upstream=upstream) for n in (FEW, MANY))
            pieces = (MANY - FEW) * (1 if kind == "whole" else CHUNKS)
            found[kind][way.name] = (many - few) / pieces
            print(kind, way.name, f"{found[kind][way.name]:.0f}", file=sys.stderr)
    return found


# ── Table ───────────────────────────────────────────────────────────────────────────


def report(
    spent: dict[str, dict[str, list[float]]], instructions: dict[str, dict[str, float]]
) -> str:
    """Return the table: each way, and how much more aiohttp costs."""
    names = [way.name for way in WAYS]
    rows = []
    for kind, what in (LOADS | PACED).items():
        ours, theirs = (spent[kind][name] for name in names)
        more = median(other / own for own, other in zip(ours, theirs, strict=True))
        rows.append([f"{what}, µs CPU", f"{min(ours):.1f}", f"{min(theirs):.1f}", _show(more)])
    for kind, counted in instructions.items():
        own, other = (counted[name] for name in names)
        row = [f"{LOADS[kind]}, thousand instructions", f"{own / 1e3:.1f}", f"{other / 1e3:.1f}"]
        rows.append([*row, _show(other / own)])
    return markdown(["", "its own client", "aiohttp", "more"], rows)


def _show(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.0f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description="The proxy with its own client and with aiohttp.")
    parser.add_argument("--write", action="store_true", help="put the table into the docs")
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is not installed: apt-get install valgrind")
    with run_upstream() as upstream:
        table = report(measure_time(upstream, rounds=given.rounds), measure_instructions(upstream))
    print(table)
    if given.write:
        write_section("http-client-proxy", table)


if __name__ == "__main__":
    main()
