"""What the inspector adds to the processor time of a run, within one process.

    .venv/bin/python bench/inspector_switched.py              print the table
    .venv/bin/python bench/inspector_switched.py --write      and put it into docs/performance.md

Two processes of the same program differ by more than the inspector costs. So here it is one, under
one load, whose inspector is switched on and off in turns, in a random order. To a turn belongs what
is done behind it: after each, nobody asks until all is written. The proxy is started anew several
times; what counts is the median over all pairs of turns.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import statistics
import sys
import time
from dataclasses import replace
from typing import NamedTuple

import uvloop

from inspector import CHUNKS, CONNECTIONS, FAST, VARIANTS, make_subject
from proxies.clocks import cpu_seconds
from proxies.load import Address, Client, complain, connect
from proxies.subjects import BENCH, Place, Running, Subject, run, run_upstream
from tables import markdown, write_section

TURN = 1.0
"""Seconds of asking."""
SETTLE = 1.3
"""Seconds in which the inspector writes down what is left: it does so once a second."""
_SIGNALS = {False: signal.SIGUSR1, True: signal.SIGUSR2}
_NOBODY_LOOKS = VARIANTS[1]


class Pair(NamedTuple):
    """Microseconds of a run, without the inspector and with it."""

    off: float
    on: float


def _command(subject: Subject, place: Place) -> list[str]:
    subject.command(place)  # writes the configuration
    return [sys.executable, "-m", "proxies.switched", str(place.port)]


def _make_subject() -> Subject:
    subject = make_subject(_NOBODY_LOOKS)
    return replace(
        subject,
        command=lambda place: _command(subject, place),
        environ=lambda place: {
            **subject.environ(place),
            "PYTHONPATH": str(BENCH),
            "WHOLECALL_CONFIG": str(place.folder / "wholecall.yaml"),
        },
    )


async def _ask(client: Client, request: bytes, kind: str) -> int:  # noqa: PLR0917 - one short line
    """Runs until the turn is over."""
    until, runs = time.monotonic() + TURN, 0
    while time.monotonic() < until:
        wrong = complain(kind, await client.ask(request))
        if wrong:
            raise RuntimeError(wrong)
        runs += 1
    return runs


async def _take_turn(one: Running, clients: list[Client], *, kind: str) -> float:
    """Microseconds of a run, with all that is done behind it."""
    before, request = cpu_seconds(one.process.pid), one.address.write(kind)
    runs = await asyncio.gather(*(_ask(client, request, kind) for client in clients))
    await asyncio.sleep(SETTLE)
    return (cpu_seconds(one.process.pid) - before) / sum(runs) * 1e6


async def _measure(one: Running, kind: str, *, pairs: int) -> list[Pair]:
    clients = [await connect(one.address) for _ in range(CONNECTIONS)]
    await _take_turn(one, clients, kind=kind)  # compiles schemas
    measured = []
    for _ in range(pairs):
        spent = {}
        for on in random.sample([False, True], 2):
            one.process.send_signal(_SIGNALS[on])
            spent[on] = await _take_turn(one, clients, kind=kind)
        measured.append(Pair(spent[False], spent[True]))
    for client in clients:
        client.close()
    _tell(kind, measured)
    return measured


def _share(pairs: list[Pair]) -> float:
    return statistics.median(pair.on / pair.off - 1 for pair in pairs) * 100


def _tell(kind: str, pairs: list[Pair]) -> None:
    off, on = (statistics.median(values) for values in zip(*pairs, strict=True))
    print(kind, f"{off:.0f} {on:.0f} {_share(pairs):+.1f} %", file=sys.stderr)


def measure(*, starts: int, pairs: int) -> dict[str, list[Pair]]:
    """All pairs of each load."""
    with run_upstream() as upstream:
        measured = [_measure_start(upstream, pairs=pairs) for _ in range(starts)]
    return {kind: [pair for each in measured for pair in each[kind]] for kind in FAST}


def _measure_start(upstream: Address, *, pairs: int) -> dict[str, list[Pair]]:
    with run(_make_subject(), upstream) as one:
        return {kind: uvloop.run(_measure(one, kind, pairs=pairs)) for kind in FAST}


def report(found: dict[str, list[Pair]]) -> str:
    """µs a run of so many chunks, and how many more they are with the inspector."""
    header = [f"µs CPU a run of {CHUNKS} chunks, at full speed", *(FAST[kind] for kind in found)]
    off = [f"{statistics.median(pair.off for pair in pairs):.0f}" for pairs in found.values()]
    more = [statistics.median(pair.on - pair.off for pair in pairs) for pairs in found.values()]
    shares = [_share(pairs) for pairs in found.values()]
    added = [f"{us:+.0f} ({share:+.1f} %)" for us, share in zip(more, shares, strict=True)]
    rows = [["switched off", *off], ["switched on, nobody looks", *added]]
    return markdown(header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="What the inspector costs, in one process.")
    parser.add_argument("--write", action="store_true", help="put the table into the docs")
    parser.add_argument("--starts", type=int, default=8)
    parser.add_argument("--pairs", type=int, default=5, help="of turns, after each start")
    given = parser.parse_args()
    os.environ["NO_PROXY"] = "*"
    table = report(measure(starts=given.starts, pairs=given.pairs))
    print(table)
    if given.write:
        write_section("inspector-switched", table)


if __name__ == "__main__":
    main()
