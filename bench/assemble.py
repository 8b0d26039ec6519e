"""CPU per delta of assembling one call, against the floor and against peers, in one run.

    .venv/bin/python bench/assemble.py            print the tables
    .venv/bin/python bench/assemble.py --write    and put them into docs/performance.md

Arguments of 1 KB to 4 MB arrive in 4-character deltas. The machine may be noisy, so the
best of several runs is taken and the ratios are what counts. Equal chunks are one object in
memory: a live stream hands over one fresh chunk at a time, and a million of them made
beforehand would measure the memory that they lie in.
"""

from __future__ import annotations

import gc
import itertools
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import jiter
import msgspec
from anthropic.lib.streaming._messages import accumulate_event
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from tables import markdown, write_section
from wholecall.assembly.assembler import Assembler
from wholecall.assembly.json_scanner import ObjectScanner, Scan
from wholecall.events import CallDelta, Event, Released, Terminated
from wholecall.protocols.reader import Reader

PIECE = 4
KB = 1024
SIZES = [KB, 4 * KB, 16 * KB, *(64 * KB << doubling for doubling in range(7))]
NO_LIMIT = SIZES[-1]
# Quadratic ways are measured as far as patience goes.
QUADRATIC_LIMIT = 64 * KB
HELPER_LIMIT = 64 * KB
ROUNDS, FEW_ROUNDS = 9, 2
"""Runs of one measurement, of which the best counts."""
SHORTEST = 64 * KB
"""Less than this is run several times in a round: the clock is too coarse for it."""


def arguments(size: int) -> str:
    """A call that writes a file of source code: strings, escapes, a little structure."""
    line = 'def area(width, height):\n    return {"area": [width * height]}\n'
    lines = size // len(json.dumps(line))  # as it is written, escapes and all
    return json.dumps({"path": "src/shapes.py", "content": line * lines, "mode": 420})


def cut(text: str) -> list[str]:
    return [text[at : at + PIECE] for at in range(0, len(text), PIECE)]


# ── The ways ────────────────────────────────────────────────────────────────────────


def floor(pieces: list[str]) -> Callable[[], None]:
    def run() -> None:
        parts: list[str] = []
        for piece in pieces:
            parts.append(piece)  # noqa: PERF402  # a stream hands over one piece at a time
        msgspec.json.decode("".join(parts))

    return run


def scanner(pieces: list[str]) -> Callable[[], None]:
    def run() -> None:
        parts: list[str] = []
        scan = ObjectScanner()
        for piece in pieces:
            parts.append(piece)
            scan.feed(piece)
        assert scan.state is Scan.CLOSED
        msgspec.json.decode("".join(parts))

    return run


def assembler(pieces: list[str]) -> Callable[[], None]:
    distinct = {piece: CallDelta(0, piece) for piece in pieces}
    deltas = [CallDelta(0, "", name="write", id="call_1"), *map(distinct.__getitem__, pieces)]

    def run() -> None:
        assembled = Assembler()
        for delta in deltas:
            assembled.feed(delta)
        assembled.feed(Terminated())
        assert_released(assembled.end())

    return run


def chat_chunks(pieces: list[str]) -> Iterator[dict[str, Any]]:
    head = {"index": 0, "id": "call_1", "type": "function"}
    calls = [{**head, "function": {"name": "write", "arguments": ""}}]
    calls += [{"index": 0, "function": {"arguments": piece}} for piece in pieces]
    for call in calls:
        choice = {"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}
        yield {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": [choice],
        }


def chunks(pieces: list[str]) -> Callable[[], None]:
    """From the decoded chunk to the event."""
    first, *distinct = chat_chunks(list(dict.fromkeys(pieces)))
    by_piece = dict(zip(dict.fromkeys(pieces), distinct, strict=True))
    payloads = [first, *map(by_piece.__getitem__, pieces)]

    def run() -> None:
        reader = Reader("openai-chat")
        for payload in payloads:
            reader.feed(payload)
        reader.feed("data: [DONE]")
        assert_released([*reader.feed(""), *reader.end()])

    return run


def raw_bytes(pieces: list[str]) -> Callable[[], None]:
    """From the bytes of the socket to the event: SSE and JSON included."""
    first, *distinct = (
        b"data: " + msgspec.json.encode(each) + b"\n\n"
        for each in chat_chunks(list(dict.fromkeys(pieces)))
    )
    by_piece = dict(zip(dict.fromkeys(pieces), distinct, strict=True))
    frames = [first, *map(by_piece.__getitem__, pieces)]

    def run() -> None:
        reader = Reader("openai-chat")
        for frame in frames:
            reader.feed(frame)
        reader.feed(b"data: [DONE]\n\n")
        assert_released(reader.end())

    return run


def loads_each_time(pieces: list[str]) -> Callable[[], None]:
    def run() -> None:
        text = ""
        for piece in pieces:
            text += piece
            try:
                json.loads(text)
            except ValueError:
                continue

    return run


def jiter_each_time(pieces: list[str]) -> Callable[[], None]:
    def run() -> None:
        buffer = b""
        for piece in pieces:
            buffer += piece.encode()
            jiter.from_json(buffer, partial_mode=True)

    return run


def openai_helper(pieces: list[str]) -> Callable[[], None]:
    objects = [ChatCompletionChunk.model_validate(each) for each in chat_chunks(pieces)]

    def run() -> None:
        state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
        for chunk in objects:
            for _ in state.handle_chunk(chunk):
                pass

    return run


def anthropic_helper(pieces: list[str]) -> Callable[[], None]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "m"}
    block = {"type": "tool_use", "id": "toolu_1", "name": "write", "input": {}}
    events: list[Any] = [
        {"type": "message_start", "message": {**message, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": block},
    ]
    for piece in pieces:
        delta = {"type": "input_json_delta", "partial_json": piece}
        events.append({"type": "content_block_delta", "index": 0, "delta": delta})

    def run() -> None:
        snapshot = None
        buffers: dict[int, bytes] = {}
        for event in events:
            snapshot = accumulate_event(event=event, current_snapshot=snapshot, json_bufs=buffers)

    return run


WAYS: dict[str, tuple[Callable[[list[str]], Callable[[], None]], int]] = {
    "floor: append, parse once": (floor, NO_LIMIT),
    "wholecall, scanner": (scanner, NO_LIMIT),
    "wholecall, delta to event": (assembler, NO_LIMIT),
    "wholecall, decoded chunk to event": (chunks, NO_LIMIT),
    "wholecall, bytes to event": (raw_bytes, NO_LIMIT),
    "`json.loads` at each delta": (loads_each_time, QUADRATIC_LIMIT),
    "jiter partial at each delta": (jiter_each_time, QUADRATIC_LIMIT),
    "openai's stream helper": (openai_helper, HELPER_LIMIT),
    "anthropic's stream helper": (anthropic_helper, HELPER_LIMIT),
}


COUNTERPARTS = {
    "`json.loads` at each delta": "wholecall, delta to event",
    "jiter partial at each delta": "wholecall, delta to event",
    "openai's stream helper": "wholecall, decoded chunk to event",
    "anthropic's stream helper": "wholecall, decoded chunk to event",
}
"""The way of ours that starts from the same input."""


# ── Measuring ───────────────────────────────────────────────────────────────────────


def assert_released(events: list[Event]) -> None:
    assert any(isinstance(event, Released) for event in events)


def measure() -> dict[str, dict[int, float]]:
    """Microseconds per delta by way and size."""
    pieces = {size: cut(arguments(size)) for size in SIZES}
    found: dict[str, dict[int, float]] = {}
    for name, (prepare, limit) in WAYS.items():
        rounds = ROUNDS if limit == NO_LIMIT else FEW_ROUNDS
        runs = {size: prepare(pieces[size]) for size in SIZES if size <= limit}
        seconds = least(runs, rounds=rounds)
        found[name] = {size: seconds[size] / len(pieces[size]) * 1e6 for size in runs}
        print(f"measured {name}", file=sys.stderr)
    return found


def least(runs: dict[int, Callable[[], None]], *, rounds: int) -> dict[int, float]:
    """The least CPU seconds of one run by size.

    All sizes are run in each round, so that a slow minute of the machine meets them alike.
    """
    seconds = dict.fromkeys(runs, math.inf)
    gc.collect()
    gc.disable()
    for _ in range(rounds):
        for size, run in runs.items():
            repeats = max(1, SHORTEST // size)
            begun = time.process_time()
            for _ in range(repeats):
                run()
            seconds[size] = min(seconds[size], (time.process_time() - begun) / repeats)
    gc.enable()
    return seconds


def report(found: dict[str, dict[int, float]]) -> str:
    header = ["µs per delta", *(f"{size // KB} KB" for size in SIZES), "worst growth per doubling"]
    rows = [
        [name, *(_cell(by_size, size) for size in SIZES), _growth(by_size)]
        for name, by_size in found.items()
    ]
    base = found["floor: append, parse once"]
    added = [
        f"- {name}: {found[name][KB * 64] - base[KB * 64]:.2f} µs a delta more than the floor"
        for name in list(WAYS)[1:5]
    ]
    size = HELPER_LIMIT
    peers = [
        f"- {name}: {found[name][size] / found[ours][size]:,.1f} × the CPU of {ours}"
        for name, ours in COUNTERPARTS.items()
    ]
    return "\n".join([markdown(header, rows), "", "At 64 KB of arguments:", "", *added, *peers])


def _cell(by_size: dict[int, float], size: int) -> str:
    return f"{by_size[size]:.2f}" if size in by_size else "–"


def _growth(by_size: dict[int, float]) -> str:
    """The worst growth of total time when the arguments double: 2 is linear, 4 quadratic."""
    sizes = sorted(by_size)
    steps = [_doubling(by_size, small, large=large) for small, large in itertools.pairwise(sizes)]
    return f"{max(steps[-6:]):.2f}"


def _doubling(by_size: dict[int, float], small: int, *, large: int) -> float:
    total = (by_size[large] * large) / (by_size[small] * small)
    return math.pow(total, 1 / math.log2(large / small))


def main() -> None:
    table = report(measure())
    print(table)
    if "--write" in sys.argv:
        write_section("assemble", table)


if __name__ == "__main__":
    main()
