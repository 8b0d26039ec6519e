"""What a request leaves behind: nothing that only the garbage collector could free."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from e2e.recording_proxy import CALL, PATH, STOP, STREAMED, TEXT, Gate, Handler, answering, between
from proxy_server import Served, in_loop
from upstreams.fake_endpoint import always, begin
from wholecall.tools.function_tool import make_tool
from wholecall.tools.tool import Tool

TOOLS = [{"type": "function", "function": {"name": "work"}}]
ROWS: dict[str, tuple[list[bytes], dict[str, Any]]] = {
    "text that passes through": ([TEXT, STOP], STREAMED),
    "a call that is checked": ([CALL], {**STREAMED, "tools": TOOLS}),
    "a model that is not served": ([], {**STREAMED, "model": "none"}),
    "a stream that is cut": ([TEXT], STREAMED),
    "a stream that is checked and cut": ([TEXT], {**STREAMED, "tools": TOOLS}),
    "a stream of nothing": ([], {**STREAMED, "tools": TOOLS}),
}


def work(what: str) -> str:
    """Do some work."""
    return what


RUNS: dict[str, tuple[Tool, dict[str, Any]]] = {
    "a tool that runs": (make_tool(work), STREAMED),
    "a tool that nobody approves": (make_tool(work, approve=True), STREAMED),
}


@pytest.mark.parametrize(("answer", "asked"), ROWS.values(), ids=ROWS)
@in_loop
async def test_a_request_leaves_no_cycles(
    tmp_path: Path, answer: list[bytes], *, asked: dict[str, Any]
) -> None:
    async with between(answering(*answer), tmp_path) as (served, _):
        assert not await left_by(lambda: served.post(PATH, asked))


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("way", ["forward", "gate", "run"])
@in_loop
async def test_an_upstream_that_refuses_leaves_no_cycles(
    tmp_path: Path, way: str, *, stream: bool
) -> None:
    refusing = always(lambda: web.json_response({"error": {"message": "no"}}, status=500))
    tools = (make_tool(work),) if way == "run" else ()
    asked = {**STREAMED, "stream": stream, **({"tools": TOOLS} if way == "gate" else {})}
    async with between(refusing, tmp_path, tools=tools) as (served, _):
        assert not await left_by(lambda: served.post(PATH, asked))


@pytest.mark.parametrize("way", ["forward", "gate", "run"])
@in_loop
async def test_a_client_that_is_watched_for_its_departure_leaves_no_cycles(
    tmp_path: Path, way: str
) -> None:
    gate = Gate()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = await begin(request)
        await response.write(TEXT)
        await gate.pass_through()
        await response.write(STOP)
        return response

    tools = (make_tool(work),) if way == "run" else ()
    asked = {**STREAMED, **({"tools": TOOLS} if way == "gate" else {})}
    async with between(handler, tmp_path, tools=tools) as (served, _):

        async def ask() -> None:
            gate.reached.clear()
            gate.opened.clear()
            asking = asyncio.create_task(served.post(PATH, asked))
            await gate.reached.wait()
            while not any(task.get_name().startswith(_WATCH) for task in asyncio.all_tasks()):
                await asyncio.sleep(0.01)
            gate.opened.set()
            await asking

        assert not await left_by(ask)


_WATCH = "watch for the client's departure"


@pytest.mark.parametrize(("tool", "asked"), RUNS.values(), ids=RUNS)
@in_loop
async def test_a_run_leaves_no_cycles(tmp_path: Path, tool: Tool, *, asked: dict[str, Any]) -> None:
    model = taking_turns(CALL, TEXT + STOP)
    async with between(model, tmp_path, tools=(tool,)) as (served, behind):
        assert not await left_by(lambda: served.post(PATH, asked))
        assert len(behind.bodies) == 4  # two requests of two turns


@pytest.mark.parametrize("answer", [[TEXT, STOP], [TEXT]], ids=["whole", "cut"])
@in_loop
async def test_work_in_the_background_leaves_no_cycles(tmp_path: Path, answer: list[bytes]) -> None:
    async with between(answering(*answer), tmp_path) as (served, _):
        assert not await left_by(lambda: work_and_forget(served))


async def work_and_forget(served: Served) -> None:
    """Let a response be made in the background, and delete it."""
    body = {"model": "m", "input": "hi", "background": True}
    _, begun, _ = await served.post("/v1/responses", body)
    url = f"{served.url}/v1/responses/{begun['id']}"
    async with served.http.get(url, params={"stream": "true"}) as stream:
        assert begun["id"] in await stream.text()
    async with served.http.delete(url) as deleted:
        assert deleted.status == 200


def taking_turns(*answers: bytes) -> Handler:
    """A model that gives one answer after the other, again and again."""
    turns = cycle(answers)

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = await begin(request)
        await response.write(next(turns))
        return response

    return handler


async def left_by(ask: Callable[[], Awaitable[Any]]) -> dict[str, int]:
    """What of ours only the collector could free after a request."""
    await ask()  # the first one also imports and connects
    gc.collect()
    gc.freeze()  # what is there by now is not looked through again, which would take long
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        await ask()
        gc.collect()
        found = Counter(f"{type(each).__module__}.{type(each).__name__}" for each in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.unfreeze()
        gc.enable()
    return {name: count for name, count in found.items() if name.startswith("wholecall.")}
