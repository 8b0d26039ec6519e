"""Mutate recorded streams and request bodies: nothing may crash, hang or depend on the cuts.

    python fuzz/mutated.py --minutes 1 --seed 7

Half of the time goes to streams, half to bodies. A stream that was mutated is read whole and in
random pieces: both must end without an exception, and in the same calls. A body is read as the
proxy reads it: it is understood, or refused with an error for the client. What breaks a law is
printed with its seed and written into a file; the exit code is then 1.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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


def try_stream(stream: Stream, dice: random.Random) -> str:
    """Read one mutated stream; return what is wrong."""
    wire = mutate(stream.wire, dice)
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


def try_body(protocol: str, dice: random.Random) -> str:
    """Read one mutated body as the proxy does, and write it for each upstream."""
    body = mutate(json.dumps(BODIES[protocol]).encode(), dice)
    try:
        fields = read_fields(body)
        check_size(fields, LIMITS)
        request = decode_request(protocol, decode_body(body))
        for upstream in CLIENTS:
            encode_request(upstream, request)
    except WholecallError:
        return ""
    return ""


# ── The budget ──────────────────────────────────────────────────────────────────────


class Trial:
    """Tries inputs until its time is over."""

    def __init__(self, seed: int, folder: Path) -> None:
        self._seed = seed
        self._folder = folder
        self.broken = 0
        self.slowest = 0.0

    def run(self, name: str, tries: Iterator[Callable[[random.Random], str]], until: float) -> int:  # noqa: PLR0917 - a name, what is tried, and its end
        """Return how many inputs were tried."""
        count = 0
        for work in tries:
            if time.monotonic() > until:
                break
            count += 1
            self._try(f"{name} {self._seed}-{count}", work)
        return count

    def _try(self, name: str, work: Callable[[random.Random], str]) -> None:
        begun = time.process_time()
        try:
            wrong = work(random.Random(name))
        except Exception:  # noqa: BLE001 - that anything is raised is what is searched for
            wrong = traceback.format_exc()
        took = time.process_time() - begun
        self.slowest = max(self.slowest, took)
        if took > SLOW_SECONDS:
            wrong = wrong or f"took {took:.1f} s"
        if wrong:
            self.broken += 1
            (self._folder / f"{name}.txt").write_text(wrong)
            print(f"BROKEN {name}: {wrong.strip().splitlines()[-1][:300]}", flush=True)


def _streams() -> Iterator[Callable[[random.Random], str]]:
    streams = list(load_streams())
    while True:
        for stream in streams:
            yield lambda dice, stream=stream: try_stream(stream, dice)  # type: ignore[misc]


def _bodies() -> Iterator[Callable[[random.Random], str]]:
    while True:
        for protocol in BODIES:
            yield lambda dice, protocol=protocol: try_body(protocol, dice)  # type: ignore[misc]


def main() -> int:
    """Try mutated inputs for so long; return 1 if one broke a law."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="wholecall-fuzz-"))
    trial, half = Trial(given.seed, folder), given.minutes * 30
    streams = trial.run("stream", _streams(), time.monotonic() + half)
    bodies = trial.run("body", _bodies(), time.monotonic() + half)
    print(f"seed {given.seed}: {streams:,} mutated streams, {bodies:,} mutated bodies", end=", ")
    print(f"{trial.broken} broken, slowest {trial.slowest:.2f} s; files in {folder}")
    return 1 if trial.broken else 0


if __name__ == "__main__":
    sys.exit(main())
