"""CPU per delta of reading one call from text, in every dialect, against re-parsing.

    .venv/bin/python bench/dialects.py            print the table
    .venv/bin/python bench/dialects.py --write    and put it into docs/performance.md

One call with 1 KB to 400 KB of argument text arrives in 4-character deltas. The machine
may be noisy, so the best of several runs is taken and the ratios are what counts.
"""

from __future__ import annotations

import gc
import json
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import jiter
import partial_json_parser  # type: ignore[import-untyped]  # it ships no types

from tables import markdown, write_section
from wholecall.dialects.dialect_registry import DIALECTS
from wholecall.dialects.rescue import TextReader, encode

PIECE = 4
KB = 1024
SIZES = [KB, 25 * KB, 50 * KB, 100 * KB, 200 * KB, 400 * KB]
# Quadratic ways are measured as far as patience goes.
QUADRATIC_LIMIT = 25 * KB
MOST_GROWTH = 2.2
WITHOUT_CALLS = {"think_tags", "hf_response_template"}
"""One has reasoning only; the other is what a model's own template says."""
TOOLS = [
    {
        "name": "write",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
        },
    }
]


def arguments(size: int) -> dict[str, Any]:
    """A call that writes a file of source code."""
    line = 'def area(width, height):\n    return {"area": [width * height]}\n'
    # Some dialects cannot say that a value ends in white space.
    return {"path": "src/shapes.py", "content": (line * (size // len(line))).rstrip()}


# Those that nobody is asked to write have no encoder.
UNPROMPTED = {
    "arrow_hash": '[TOOL_CALL]{{tool => "write", args => {{\n --path {path}\n --content {content}\n'
    "}}}}[/TOOL_CALL]",
    "tool_code": "tool_code = write(path={path}, content={content})\nprint(tool_code)",
}


def write(dialect: str, size: int) -> str:
    """The call as a model writes it; what `auto` finds is in the most usual format."""
    given = arguments(size)
    if dialect in UNPROMPTED:
        quoted = {name: json.dumps(value) for name, value in given.items()}
        return UNPROMPTED[dialect].format(**quoted)
    return encode("hermes" if dialect == "auto" else dialect, [("write", given)])


def cut(text: str) -> list[str]:
    return [text[at : at + PIECE] for at in range(0, len(text), PIECE)]


def floor(pieces: list[str]) -> Callable[[], None]:
    def run() -> None:
        parts: list[str] = []
        for piece in pieces:
            parts.append(piece)  # noqa: PERF402  # a stream hands over one piece at a time
        "".join(parts)

    return run


def reading(dialect: str, pieces: list[str]) -> Callable[[], None]:
    def run() -> None:
        reader = TextReader(dialect, TOOLS)
        for piece in pieces:
            reader.feed(piece)
        assert any(type(event).__name__ == "Released" for event in reader.end())

    return run


def jiter_each_time(pieces: list[str]) -> Callable[[], None]:
    def run() -> None:
        buffer = b""
        for piece in pieces:
            buffer += piece.encode()
            jiter.from_json(buffer, partial_mode=True)

    return run


def partial_json_each_time(pieces: list[str]) -> Callable[[], None]:
    def run() -> None:
        text = ""
        for piece in pieces:
            text += piece
            partial_json_parser.loads(text)

    return run


def best(run: Callable[[], None], budget: float = 0.1) -> float:
    """The least CPU seconds of several runs."""
    least, spent = math.inf, 0.0
    while spent < budget or spent == least:
        gc.collect()
        gc.disable()
        begun = time.process_time()
        run()
        took = time.process_time() - begun
        gc.enable()
        least, spent = min(least, took), spent + took
    return least


def measure() -> dict[str, dict[int, float]]:
    """Microseconds per delta by way and size."""
    found: dict[str, dict[int, float]] = {}
    for size in SIZES:
        plain = cut(json.dumps(arguments(size)))
        ways: dict[str, tuple[Callable[[], None], int]] = {
            "floor: append, join": (floor(plain), len(plain))
        }
        for name in sorted(DIALECTS.keys() - WITHOUT_CALLS):
            pieces = cut(write(name, size))
            ways[f"`{name}`"] = (reading(name, pieces), len(pieces))
        if size <= QUADRATIC_LIMIT:
            ways["jiter partial at each delta"] = (jiter_each_time(plain), len(plain))
            ways["partial-json-parser at each delta"] = (partial_json_each_time(plain), len(plain))
        for way, (run, count) in ways.items():
            found.setdefault(way, {})[size] = best(run) / count * 1e6
        print(f"measured {size // KB} KB", file=sys.stderr)
    return found


def growth(by_size: dict[int, float]) -> float:
    """How total time grows when the arguments double: 2 is linear, 4 quadratic."""
    sizes = sorted(by_size)
    small, large = sizes[max(0, len(sizes) - 4)], sizes[-1]
    total = (by_size[large] * large) / (by_size[small] * small)
    return float(total ** (1 / math.log2(large / small)))


def report(found: dict[str, dict[int, float]]) -> str:
    header = ["µs per delta", *(f"{size // KB} KB" for size in SIZES), "growth per doubling"]
    rows = [
        [
            way,
            *(f"{by_size[size]:.2f}" if size in by_size else "–" for size in SIZES),
            f"{growth(by_size):.2f}",
        ]
        for way, by_size in found.items()
    ]
    return markdown(header, rows)


def main() -> int:
    found = measure()
    table = report(found)
    print(table)
    steep = {
        way: growth(by)
        for way, by in found.items()
        if way.startswith("`") and growth(by) > MOST_GROWTH
    }
    print(f"steeper than {MOST_GROWTH}: {steep or 'none'}", file=sys.stderr)
    if "--write" in sys.argv:
        write_section("dialects", table)
    return 1 if steep else 0


if __name__ == "__main__":
    raise SystemExit(main())
