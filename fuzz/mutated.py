"""Mutate recorded streams and request bodies: nothing may crash, hang or depend on the cuts.

    python fuzz/mutated.py --minutes 1 --seed 7

A process for each core tries inputs, nine streams to one body. A stream that was mutated is read
whole and in random pieces: both must end without an exception, and in the same calls. A body is
read as the proxy reads it: it is understood, or refused with an error for the client.

The trial is guided: some inputs are traced, and one that reaches a line of the package which none
reached before is mutated further. These are kept in a folder, with the number of inputs that were
tried so far, and the next trial goes on from there. What breaks a law is printed with its seed and
written into that folder; the exit code is then 1.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import wholecall
from cuts import Stream, load_streams
from wholecall.dialects.rescue import RescuingAssembler
from wholecall.errors import WholecallError
from wholecall.events import Outcome, collect
from wholecall.messages import ToolSpec, read_offer
from wholecall.protocols.reader import Reader
from wholecall.protocols.registry import CLIENTS, decode_request, encode_request
from wholecall.proxy.config.schema import ServerLimits
from wholecall.proxy.handlers.request_plan import decode_body, read_fields
from wholecall.proxy.http.refusals import check_size

SLOW_SECONDS = 5.0
"""Processor time of one input that counts as a hang."""
LONGEST = 20_000
"""Bytes of a mutated input."""
WORDS = (
    *(b"null", b"true", b"-1", b"1e999", b"[]", b"{}", b'""', b"[[[[", b"}}}}", b"NaN", b"\\ud800"),
    *(b"\xff", b"\x00", b"\r\n", b"\n\n", b"data: ", b"event: ", b"[DONE]", b"\xef\xbb\xbf", b","),
    *(b'"index":99', b'"id":null', b'"type":"tool_use"', b'"tool_calls":[{}]', b'"arguments":{}'),
    *(b'"finish_reason":"stop"', b"<tool_call>", b"</tool_call>", b"<|tool", b"```", b'\\"', b"\\"),
    *(b'"$ref":"#"', b'"pattern":"(a+)+$"', b'"enum":[]', b'"role":"tool"', b'"content":7'),
)
LIMITS = ServerLimits()


# ── Mutations ───────────────────────────────────────────────────────────────────────


def _flip(text: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(text))
    return text[:at] + bytes([text[at] ^ (1 << dice.randrange(8))]) + text[at + 1 :]


def _drop(text: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(text))
    return text[:at] + text[at + dice.choice((1, 1, 2, 8, 64, 512)) :]


def _repeat(text: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(text))
    end = at + dice.choice((1, 4, 32, 256))
    return text[:end] + text[at:end] * dice.choice((1, 2, 20)) + text[end:]


def _insert(text: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(text))
    return text[:at] + dice.choice(WORDS) + text[at:]


def _replace(text: bytes, dice: random.Random) -> bytes:
    """Put a word in the place of a value."""
    marks = [at for at in range(len(text)) if text[at : at + 1] in b':,[{"']
    if not marks:
        return _insert(text, dice)
    at = dice.choice(marks) + 1
    end = at
    while end < len(text) and text[end : end + 1] not in b',]}"\n':
        end += 1
    return text[:at] + dice.choice(WORDS) + text[end:]


def _swap(text: bytes, dice: random.Random) -> bytes:
    lines = text.split(b"\n\n")
    one, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return b"\n\n".join(lines)


def _cut(text: bytes, dice: random.Random) -> bytes:
    return text[: dice.randrange(1, len(text) + 1)]


MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    *(_flip, _drop, _repeat, _insert, _insert, _replace, _replace, _swap, _cut),
)


def mutate(text: bytes, dice: random.Random) -> bytes:
    """Change a text in one to six places."""
    for _ in range(dice.choice((1, 1, 1, 2, 3, 6))):
        text = dice.choice(MUTATIONS)(text, dice)[:LONGEST] or b"x"
    return text


# ── Streams ─────────────────────────────────────────────────────────────────────────


def read_cut(stream: Stream, wire: bytes, *, tools: list[ToolSpec], cuts: list[int]) -> Outcome:
    """What a stream delivers that comes in these pieces."""
    reader = Reader(stream.protocol, tools, new_assembler=RescuingAssembler)
    events = []
    for begin, end in zip((0, *cuts), (*cuts, len(wire)), strict=True):
        events += reader.feed(wire[begin:end])
    return collect([*events, *reader.end()])


def _tell(outcome: Outcome) -> list[str]:
    """The calls, as far as they must not depend on the cuts."""
    return [f"{call.name} {json.dumps(call.arguments, sort_keys=True)}" for call in outcome.calls]


STREAMS = {stream.id: stream for stream in load_streams()}


def try_stream(origin: str, wire: bytes, *, dice: random.Random) -> str:
    """Read one mutated stream; return what is wrong."""
    stream = STREAMS[origin]
    tools = list(read_offer(stream.tools).values())
    whole = _tell(read_cut(stream, wire, tools=tools, cuts=[]))
    cuts = sorted(dice.randrange(len(wire) + 1) for _ in range(dice.choice((1, 3, 20))))
    pieces = _tell(read_cut(stream, wire, tools=tools, cuts=cuts))
    return "" if whole == pieces else f"cut at {cuts}: {pieces}, whole: {whole}; {wire!r}"


# ── Request bodies ──────────────────────────────────────────────────────────────────

_TOOL = {
    "type": "object",
    "properties": {"city": {"type": "string", "pattern": "^a+$"}, "n": {"$ref": "#/$defs/n"}},
    "$defs": {"n": {"anyOf": [{"type": "integer"}, {"enum": [1, "x", None]}]}},
    "required": ["city"],
}
_FUNCTION = {"name": "look", "description": "Look.", "parameters": _TOOL}
_CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"city":"a"}'}}
BODIES: dict[str, dict[str, Any]] = {
    "openai-chat": {
        "model": "m",
        "stream": True,
        "temperature": 0.5,
        "tools": [{"type": "function", "function": _FUNCTION}],
        "tool_choice": {"type": "function", "function": {"name": "look"}},
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": _TOOL}},
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {"role": "assistant", "content": None, "tool_calls": [_CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
                ],
            },
        ],
    },
    "openai-responses": {
        "model": "m",
        "instructions": "Be brief.",
        "tools": [{"type": "function", **_FUNCTION}, {"type": "custom", "name": "raw"}],
        "tool_choice": "auto",
        "text": {"format": {"type": "json_object"}},
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            {"type": "reasoning", "id": "r", "summary": []},
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"city":"a"}'},
            {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
        ],
    },
    "anthropic": {
        "model": "m",
        "max_tokens": 100,
        "system": [{"type": "text", "text": "Be brief."}],
        "tools": [{"name": "look", "description": "Look.", "input_schema": _TOOL}],
        "tool_choice": {"type": "any"},
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "messages": [
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "x", "signature": "s"},
                    {"type": "tool_use", "id": "c1", "name": "look", "input": {"city": "a"}},
                ],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "sunny"}],
            },
        ],
    },
}


def try_body(protocol: str, body: bytes, *, dice: random.Random) -> str:  # noqa: ARG001 - as above
    """Read one mutated body as the proxy does, and write it for each upstream."""
    try:
        fields = read_fields(body)
        check_size(fields, LIMITS)
        request = decode_request(protocol, decode_body(body))
        for upstream in CLIENTS:
            encode_request(upstream, request)
    except WholecallError:
        return ""
    return ""


# ── Guidance ────────────────────────────────────────────────────────────────────────


class Input(NamedTuple):
    """What is read, and what it was made of."""

    kind: str
    origin: str
    content: bytes


PACKAGE = str(Path(wholecall.__file__).parent)


class Lines:
    """Notices lines of the package that run for the first time.

    A function whose lines are all known, or that brought nothing new for a while, is traced no
    more: that is most of what makes tracing slow.
    """

    def __init__(self) -> None:
        self._left: dict[CodeType, int] = {}
        self._seen: set[tuple[CodeType, int]] = set()
        self.fresh = 0

    def trace(self, work: Callable[[], str]) -> str:
        """Do something; `fresh` is then the number of its new lines."""
        self.fresh = 0
        sys.settrace(self._call)
        try:
            return work()
        finally:
            sys.settrace(None)

    def __len__(self) -> int:
        return len(self._seen)

    def _call(self, frame: FrameType, _: str, __: object) -> Callable[..., Any] | None:
        code = frame.f_code
        left = self._left.get(code)
        if left is None:
            left = PATIENCE if code.co_filename.startswith(PACKAGE) else 0
        self._left[code] = max(left - 1, 0)
        return self._line if left else None

    def _line(self, frame: FrameType, event: str, _: object) -> Callable[..., Any]:
        if event == "line" and (place := (frame.f_code, frame.f_lineno)) not in self._seen:
            self._seen.add(place)
            self._left[frame.f_code] = PATIENCE
            self.fresh += 1
        return self._line


class Corpus:
    """The inputs that are mutated: the recorded ones, and those that reached new lines."""

    def __init__(self, kept: Iterable[Input]) -> None:
        streams = [Input("stream", stream.id, stream.wire) for stream in STREAMS.values()]
        bodies = [Input("body", name, json.dumps(body).encode()) for name, body in BODIES.items()]
        self._recorded = {"stream": streams, "body": bodies}
        self.kept = {"stream": list[Input](), "body": list[Input]()}
        for each in kept:
            self.kept[each.kind].append(each)

    def choose(self, dice: random.Random) -> Input:
        """Return an input: as often a recorded one as one that was kept."""
        kind = "body" if dice.randrange(10) == 0 else "stream"
        kept = self.kept[kind]
        return dice.choice(kept if kept and dice.randrange(2) else self._recorded[kind])

    def keep(self, found: Input, dice: random.Random) -> None:
        """Keep an input, in the place of another one if there are enough."""
        kept = self.kept[found.kind]
        if len(kept) < MOST_KEPT:
            kept.append(found)
        else:
            kept[dice.randrange(MOST_KEPT)] = found


PATIENCE = 2_000
"""Calls of a function without a new line after which it is traced no more."""
MOST_KEPT = 400
TRACED = 8
"""One input of so many is traced."""


# ── The budget ──────────────────────────────────────────────────────────────────────

_TRIES = {"stream": try_stream, "body": try_body}


@dataclass
class Tally:
    """What one process did."""

    tried: Counter[str] = field(default_factory=Counter)
    broken: list[tuple[str, str]] = field(default_factory=list)
    slowest: float = 0.0
    lines: int = 0
    kept: list[Input] = field(default_factory=list)


def _ring(*_: object) -> None:
    raise TimeoutError(f"it took {SLOW_SECONDS} s")


def run(seed: str, until: float, *, kept: Iterable[Input]) -> Tally:
    """Try inputs until the time is over."""
    signal.signal(signal.SIGVTALRM, _ring)
    corpus, lines, tally = Corpus(kept), Lines(), Tally()
    while time.time() < until:
        name = f"{seed}-{sum(tally.tried.values())}"
        dice = random.Random(name)
        chosen = corpus.choose(dice)
        made = chosen._replace(content=mutate(chosen.content, dice))
        tally.tried[made.kind] += 1
        work = partial(_try, made, dice)
        begun = time.process_time()
        if dice.randrange(TRACED):
            wrong = work()
        else:
            wrong = lines.trace(work)
            if lines.fresh:
                corpus.keep(made, dice)
        tally.slowest = max(tally.slowest, time.process_time() - begun)
        if wrong:
            tally.broken.append((name, f"{made}\n{wrong}"))
            print(f"BROKEN {name}: {wrong.strip().splitlines()[-1][:300]}", flush=True)
    tally.lines = len(lines)
    tally.kept = [each for kind in corpus.kept.values() for each in kind]
    return tally


def _try(made: Input, dice: random.Random) -> str:
    signal.setitimer(signal.ITIMER_VIRTUAL, SLOW_SECONDS)
    try:
        return _TRIES[made.kind](made.origin, made.content, dice=dice)
    except Exception:  # noqa: BLE001 - that anything is raised is what is searched for
        return traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


class Kept:
    """A folder with inputs that reached new lines, and the number of all inputs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._inputs = folder / "inputs.jsonl"
        self._totals = folder / "totals.json"

    def read(self) -> list[Input]:
        """Return the inputs whose origins are still there."""
        known = STREAMS.keys() | BODIES.keys()
        text = self._inputs.read_text() if self._inputs.exists() else ""
        found = [Input(*json.loads(line)) for line in text.splitlines()]
        decoded = [each._replace(content=str(each.content).encode("latin-1")) for each in found]
        return [each for each in decoded if each.origin in known]

    def add(self, tallies: Iterable[Tally]) -> Counter[str]:
        """Write down what was done; return how often inputs were tried in all trials."""
        totals = Counter(json.loads(self._totals.read_text()) if self._totals.exists() else {})
        kept: dict[Input, None] = {}
        for tally in tallies:
            totals.update(tally.tried)
            kept.update(dict.fromkeys(tally.kept))
            for name, wrong in tally.broken:
                (self.folder / f"broken-{name}.txt").write_text(wrong)
        self._totals.write_text(json.dumps(totals))
        lines = (
            json.dumps([each.kind, each.origin, each.content.decode("latin-1")])
            for each in list(kept)[-2 * MOST_KEPT :]
        )
        self._inputs.write_text("\n".join(lines))
        return totals


def main() -> int:
    """Try mutated inputs for so long; return 1 if one broke a law."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    given = parser.parse_args()
    kept, seconds = Kept(given.folder), given.minutes * 60
    work = partial(run, until=time.time() + seconds, kept=kept.read())
    with ProcessPoolExecutor(given.jobs) as pool:
        tallies = list(pool.map(work, (f"{given.seed}-{job}" for job in range(given.jobs))))
    totals = kept.add(tallies)
    tried = sum((tally.tried for tally in tallies), Counter())
    broken = sum(len(tally.broken) for tally in tallies)
    print(f"seed {given.seed}: {tried['stream']:,} streams, {tried['body']:,} bodies", end=", ")
    print(f"{sum(tried.values()) / seconds:.0f} a second in {given.jobs} processes", end="; ")
    print(f"{broken} broken, slowest {max(tally.slowest for tally in tallies):.2f} s", end="; ")
    print(f"{max(tally.lines for tally in tallies):,} lines reached", end="; ")
    print(f"in all: {totals['stream']:,} streams, {totals['body']:,} bodies ({given.folder})")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
