"""The walk of a request through our files, counted by a profiler: `.venv/bin/python tests/walk.py`.

A walk is the sequence of files whose functions are called. Its length is the number of times
that one call is in another file than the call before it: what a reader has to jump to follow it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from aiohttp import web

from proxy_server import Offer, Served, proxying, upstream
from upstreams.fake_endpoint import serving
from wholecall.events import Released
from wholecall.protocols.reader import Reader

PACKAGE = Path(__file__).parents[1] / "src" / "wholecall"
SECONDS = 30
TOOL = {
    "name": "get_weather",
    "description": "The weather of a city.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
QUESTION = {
    "model": "m",
    "max_tokens": 100,
    "stream": True,
    "messages": [{"role": "user", "content": "How is the weather in Oslo?"}],
    "tools": [TOOL],
}


def _chunk(delta: dict[str, Any], *, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    payload = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(payload).encode() + b"\n\n"


def _piece(arguments: str, **head: str) -> bytes:
    function = {"arguments": arguments, **({"name": head["name"]} if head else {})}
    call = {"index": 0, "function": function, **({"id": head["id"]} if head else {})}
    return _chunk({"tool_calls": [call]})


ANSWER = (
    _chunk({"role": "assistant", "content": ""}),
    _piece("", id="call_1", name="get_weather"),
    *(_piece(part) for part in ('{"ci', 'ty": ', '"Oslo"', "}")),
    _chunk({}, finish="tool_calls"),
    b"data: [DONE]\n\n",
)


@dataclass
class Walk:
    """The files in which functions were called, and how often the file changed."""

    calls: Counter[str] = field(default_factory=Counter)
    changes: int = 0
    _last: str = ""

    @property
    def files(self) -> list[str]:
        """The files of ours, by their paths below the package."""
        return sorted(self.calls)

    def note(self, frame: FrameType, event: str, _: object) -> None:
        """Count a call; `sys.setprofile` wants this signature."""
        if event != "call":
            return
        file = frame.f_code.co_filename
        if not file.startswith(f"{PACKAGE}/"):
            return
        file = file.removeprefix(f"{PACKAGE}/")
        self.calls[file] += 1
        if self._last and file != self._last:
            self.changes += 1
        self._last = file


@contextmanager
def walking() -> Iterator[Walk]:
    """Trace what this thread calls.

    Garbage that other tests left is collected before: how it ends is no part of the walk.
    """
    walk = Walk()
    before = sys.getprofile()
    gc.collect()
    gc.disable()
    sys.setprofile(walk.note)
    try:
        yield walk
    finally:
        sys.setprofile(before)
        gc.enable()


async def _answer(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    # In one piece: how a network cuts it would count as our walk.
    await response.write(b"".join(ANSWER))
    return response


async def _ask(served: Served) -> str:
    status, text, _ = await served.post("/v1/messages", QUESTION)
    assert (status, '"name":"get_weather"' in text, "message_stop" in text) == (200, True, True)
    return str(text)


async def walk_request() -> Walk:
    """Walk one streamed request with one tool, from Messages to chat completions, on sockets.

    An equal request goes before it: what is built once is no part of the walk.
    """
    async with (
        asyncio.timeout(SECONDS),
        serving(_answer) as behind,
        proxying(Offer({"m": upstream("openai/m", behind.url)})) as served,
    ):
        await _ask(served)
        with walking() as walk:
            await _ask(served)
    return walk


def walk_end() -> Walk:
    """Walk the end of a turn: from `Reader.end` to the released call."""
    _end_turn()
    return _end_turn()


def _end_turn() -> Walk:
    spec = {"name": TOOL["name"], "parameters": TOOL["input_schema"]}
    reader = Reader("openai-chat", tools=[{"type": "function", "function": spec}])
    for piece in ANSWER:
        reader.feed(piece)
    with walking() as walk:
        events = reader.end()
    assert [type(event) for event in events].count(Released) == 1
    return walk


if __name__ == "__main__":
    for title, walk in (("request", asyncio.run(walk_request())), ("end", walk_end())):
        print(f"{title}: {len(walk.files)} files, {walk.changes} changes of file")  # noqa: T201
        for path, calls in walk.calls.most_common():
            print(f"{calls:6} {path}")  # noqa: T201
