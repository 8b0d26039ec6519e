"""An upstream on loopback that answers from memory. It prints its port and runs until killed.

The model's name is the scenario, the history says which turn it is. What a scenario measures
is the loop, so answers are short, and each is one write; only `early` takes its time.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from aiohttp import web

from loops.work import ANSWER, CITIES, PAUSE, SCENARIOS, TOOL

PIECE = 4
"""Characters of arguments in a delta."""
_HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1}


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _frame({**_HEAD, "model": "m", "choices": [choice]})


def _frame(payload: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(payload, separators=(',', ':'))}\n\n".encode()


def call(index: int, city: str, *, number: int, sent: float = 0.0) -> list[bytes]:
    """One call in pieces; `number` makes its id the only one of its kind in the run."""
    arguments = json.dumps({"city": city, "sent": sent})
    pieces = [arguments[at : at + PIECE] for at in range(0, len(arguments), PIECE)]
    function = {"name": TOOL, "arguments": ""}
    opening = {"index": index, "id": f"call_{number}", "type": "function", "function": function}
    grown = [{"index": index, "function": {"arguments": piece}} for piece in pieces]
    return [chunk({"tool_calls": [each]}) for each in (opening, *grown)]


USAGE = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
_COUNTED = _frame({**_HEAD, "model": "m", "choices": [], "usage": USAGE})
_END = [_COUNTED, b"data: [DONE]\n\n"]
OPENING = chunk({"role": "assistant", "content": ""})
FINAL = b"".join([OPENING, chunk({"content": ANSWER}), chunk({}, "stop"), *_END])


def _write_turn(turn: int, calls: int) -> bytes:
    first = turn * calls
    made = [
        each
        for index in range(calls)
        for each in call(index, CITIES[first + index], number=first + index)
    ]
    return b"".join([OPENING, *made, chunk({}, "tool_calls"), *_END])


TURNS = {
    name: [*(_write_turn(turn, scenario.calls) for turn in range(scenario.turns)), FINAL]
    for name, scenario in SCENARIOS.items()
}


async def answer(request: web.BaseRequest) -> web.StreamResponse:
    asked = json.loads(await request.read())
    if not asked.get("stream"):
        return web.Response(status=400, text="everybody streams here")
    turn = sum(message["role"] == "assistant" for message in asked["messages"])
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    if asked["model"] == "early" and turn == 0:
        await _write_early(response)
    else:
        await response.write(TURNS[asked["model"]][turn])
    return response


async def _write_early(response: web.StreamResponse) -> None:
    """A whole call at once, and then another one that takes its time."""
    whole = call(0, CITIES[0], number=0, sent=time.monotonic())
    await response.write(b"".join([OPENING, *whole]))
    slow = call(1, CITIES[1], number=1)
    for each in slow:
        await asyncio.sleep(PAUSE / len(slow))
        await response.write(each)
    await response.write(b"".join([chunk({}, "tool_calls"), *_END]))


async def main() -> None:
    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
