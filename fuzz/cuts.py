"""Cut recorded streams at every byte: a prefix must never run more than the whole.

    .venv/bin/python fuzz/cuts.py              every byte of every stream (minutes)
    .venv/bin/python fuzz/cuts.py --step 17    every 17th byte (seconds; `make test` does this)

Each prefix is read as a stream that was cut there, twice: with every tool taken for one
with side effects, and with every tool allowed to start as soon as its object is closed.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wholecall.dialects.rescue import RescuingAssembler
from wholecall.events import Outcome, Start, collect
from wholecall.messages import ToolSpec, read_offer
from wholecall.protocols.reader import Reader

CASES = Path(__file__).parent.parent / "tests" / "cases" / "native.jsonl"
NDJSON = frozenset({"ollama"})
FRAMELESS = frozenset({"bedrock-converse"})  # an event stream of binary frames: no bytes to cut
LONGEST = 6000
"""Bytes of a stream. The few longer ones say nothing that the shorter do not."""


@dataclass(frozen=True)
class Stream:
    """A recorded stream as the bytes on the wire."""

    id: str
    protocol: str
    wire: bytes
    tools: list[dict[str, Any]]


@dataclass(frozen=True)
class Broken:
    """A prefix that ran something that the whole stream does not hold."""

    stream: str
    at: int
    start: Start
    call: str


def load_streams(path: Path = CASES) -> Iterator[Stream]:
    """Every recorded stream that travels as bytes."""
    for line in path.read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        if "events" in case and case["protocol"] not in FRAMELESS:
            wire = b"".join(_frame(event, case["protocol"]) for event in case["events"])
            if len(wire) <= LONGEST:
                yield Stream(case["id"], case["protocol"], wire, case["tools"])


def _frame(event: dict[str, Any] | str, protocol: str) -> bytes:
    if isinstance(event, str):
        return b"" if event == "!EOF" else event.encode() + b"\n"
    payload = json.dumps(event, ensure_ascii=False).encode()
    return payload + b"\n" if protocol in NDJSON else b"data: " + payload + b"\n\n"


def read(stream: Stream, wire: bytes, *, tools: list[ToolSpec]) -> Outcome:
    """What a stream delivers that ends after these bytes."""
    reader = Reader(stream.protocol, tools, new_assembler=RescuingAssembler)
    return collect([*reader.feed(wire), *reader.end()])


def whole_calls(outcome: Outcome) -> Counter[str]:
    """All calls that the stream holds whole, whether they may run or not."""
    calls = Counter(_spell(call.name, call.arguments) for call in outcome.calls)
    for rejected in outcome.rejected:
        try:
            calls[_spell(rejected.name, json.loads(rejected.raw))] += 1
        except ValueError:
            continue
    return calls


def _spell(name: str | None, arguments: Any) -> str:
    return f"{name} {json.dumps(arguments, sort_keys=True)}"


def cut_everywhere(stream: Stream, step: int = 1) -> Iterator[Broken | None]:
    """One finding for each cut: None if nothing ran that should not."""
    for start in (Start.CONFIRMED, Start.CLOSED):
        tools = list(read_offer(stream.tools, start=start).values())
        whole = whole_calls(read(stream, stream.wire, tools=tools))
        for at in range(0, len(stream.wire), step):
            ran = read(stream, stream.wire[:at], tools=tools).calls
            extra = Counter(_spell(call.name, call.arguments) for call in ran) - whole
            yield Broken(stream.id, at, start, sorted(extra)[0]) if extra else None


def main() -> int:
    """Cut all streams; print what broke; exit with 1 if anything did."""
    step = int(sys.argv[sys.argv.index("--step") + 1]) if "--step" in sys.argv else 1
    streams = list(load_streams())
    cuts, broken, begun = 0, 0, time.monotonic()
    for number, stream in enumerate(streams, 1):
        for finding in cut_everywhere(stream, step):
            cuts += 1
            if finding is not None:
                broken += 1
                print(f"BROKEN {finding}")
        print(f"\r{number}/{len(streams)} streams, {cuts:,} cuts", end="", file=sys.stderr)
    took = time.monotonic() - begun
    print(f"\n{cuts:,} cuts in {len(streams)} streams, {broken} broken, {took:.0f} s")
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
