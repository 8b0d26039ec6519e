"""What the inspector adds to the instructions of a chunk.

    .venv/bin/python bench/inspector_instructions.py            print the table
    .venv/bin/python bench/inspector_instructions.py --write    and put it into docs/performance.md

Processor time differs from start to start by more than the inspector costs. Instructions do not:
the same proxy does the same work again. Valgrind's cachegrind counts them (`apt-get install
valgrind`), in all threads of the process. Each proxy is started twice, and serves some runs and
many: what the second has more is what the runs cost, without what a start does. What the kernel
does, as writing to the file, is not in it; neither is time lost to memory. For both there is
bench/inspector.py.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import uvloop

from inspector import CHUNKS, CONNECTIONS, FAST, VARIANTS, Variant, make_subject
from proxies.load import Address, Client, complain, connect
from proxies.subjects import run, run_upstream
from tables import markdown, write_section

WARM = 64
"""Runs before all others: schemas are compiled, caches filled."""
FEW, MANY = 200, 1000
PAUSE = 3.0
"""Seconds in which the inspector writes down what is left: all is some forty times slower."""
COUNTED = tuple(variant for variant in VARIANTS if not variant.looked_at)
"""A page looks so many times a second, and here a second is no second."""


def count(variant: Variant, kind: str, *, runs: int, upstream: Address) -> int:
    """Instructions from the start of a proxy to its end."""
    with TemporaryDirectory() as folder:
        out = Path(folder) / "counted"
        cachegrind = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--fair-sched=yes"]
        counting = [*cachegrind, f"--cachegrind-out-file={out}", sys.executable]
        subject = make_subject(variant)
        slow = replace(
            subject,
            command=lambda place: [*counting, *subject.command(place)],
            environ=lambda place: {**subject.environ(place), "PYTHONHASHSEED": "0"},
        )
        with run(slow, upstream) as running:
            for some in (WARM, runs):
                uvloop.run(_ask(running.address, kind, runs=some))
                time.sleep(PAUSE)
        return _read_sum(out)


def _read_sum(out: Path) -> int:
    """The last line of what cachegrind writes: `summary: 123`."""
    return int(out.read_text().rpartition("summary:")[2])


async def _ask(address: Address, kind: str, *, runs: int) -> None:
    left = iter(range(runs))
    clients = [await connect(address) for _ in range(CONNECTIONS)]
    await asyncio.gather(
        *(_ask_on(client, address.write(kind), kind, left=left) for client in clients)
    )
    for client in clients:
        client.close()


async def _ask_on(client: Client, request: bytes, kind: str, *, left: Iterator[int]) -> None:  # noqa: PLR0917 - one short line
    for _ in left:
        wrong = complain(kind, await client.ask(request))
        if wrong:
            raise RuntimeError(wrong)


def measure(kind: str, upstream: Address) -> dict[Variant, float]:
    """Instructions of a chunk."""
    found = {}
    for variant in COUNTED:
        few, many = (count(variant, kind, runs=n, upstream=upstream) for n in (FEW, MANY))
        found[variant] = (many - few) / (MANY - FEW) / CHUNKS
        print(kind, variant.name, f"{found[variant]:.0f}", file=sys.stderr)
    return found


def report(found: dict[str, dict[Variant, float]]) -> str:
    """Thousands of instructions of a chunk, and how many more than without the inspector."""
    header = ["thousand instructions a chunk, at full speed", *(FAST[kind] for kind in found)]
    rows = [
        [variant.name, *(_show(each[variant], each[COUNTED[0]]) for each in found.values())]
        for variant in COUNTED
    ]
    return markdown(header, rows)


def _show(value: float, base: float) -> str:
    more = "" if value == base else f" ({(value / base - 1) * 100:+.1f} %)"
    return f"{value / 1000:.1f}{more}"


def main() -> None:
    parser = argparse.ArgumentParser(description="What the inspector costs, in instructions.")
    parser.add_argument("--write", action="store_true", help="put the table into the docs")
    given = parser.parse_args()
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is not installed: apt-get install valgrind")
    with run_upstream() as upstream:
        table = report({kind: measure(kind, upstream) for kind in FAST})
    print(table)
    if given.write:
        write_section("inspector-instructions", table)


if __name__ == "__main__":
    main()
