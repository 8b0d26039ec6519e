"""Whether upstreams can be reached."""

from __future__ import annotations

import asyncio

from proxy_server import in_loop
from upstreams.fake_endpoint import good, serving
from wholecall.proxy.handlers.request_plan import ModelRoute
from wholecall.proxy.preflight import FRESH_SECONDS, Readiness
from wholecall.upstreams.replay import ReplayUpstream

NOWHERE = "http://127.0.0.1:9/v1"


def model(name: str, place: str) -> ModelRoute:
    return ModelRoute(name=name, upstream=ReplayUpstream([]), model=name, place=place)


@in_loop
async def test_a_connection_that_opens_is_enough_and_is_believed_for_a_while() -> None:
    now = 0.0
    readiness = Readiness({}, clock=lambda: now)
    async with serving(good) as behind:
        models = [model("here", behind.url), model("gone", NOWHERE), model("local", "")]
        assert await readiness.check(models) == {"here": True, "gone": False}
        assert not behind.requests
    assert await readiness.check(models) == {"here": True, "gone": False}
    now = FRESH_SECONDS
    assert await readiness.check(models) == {"here": False, "gone": False}


@in_loop
async def test_behind_a_proxy_it_is_the_proxy_that_must_be_reached() -> None:
    async with serving(good) as behind:
        readiness = Readiness({"HTTP_PROXY": behind.url})
        assert await readiness.check([model("far", "http://far.example/v1")]) == {"far": True}


@in_loop
async def test_who_asks_at_the_same_time_waits_for_one_knock() -> None:
    knocks = 0

    async def count(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal knocks
        knocks += 1
        writer.close()

    server = await asyncio.start_server(count, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        readiness, models = Readiness({}), [model("here", f"http://127.0.0.1:{port}/v1")]
        reached = await asyncio.gather(*(readiness.check(models) for _ in range(20)))
        while not knocks:
            await asyncio.sleep(0)
    assert reached == [{"here": True}] * 20
    assert knocks == 1
