"""Answers of which more was said than the inspector shows."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from aiohttp import web

from proxy_server import Served, in_loop, proxying, upstream
from upstreams.fake_endpoint import begin, serving
from wholecall.cli.recordings import load
from wholecall.inspector.run_record import MOST_GROWN
from wholecall.proxy.app import make_app
from wholecall.proxy.config.schema import Config, InspectorConfig, KeysConfig

PIECE = "lorem ipsum " * 8_000


def write_chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "c", "choices": [choice]}).encode() + b"\n\n"


async def say_much(request: web.BaseRequest) -> web.StreamResponse:
    response = await begin(request)
    for _ in range(MOST_GROWN // len(PIECE) + 5):
        await response.write(write_chunk({"content": PIECE}))
    await response.write(write_chunk({}, "stop") + b"data: [DONE]\n\n")
    return response


async def wait_for_run(served: Served) -> dict[str, Any]:
    while True:
        async with served.http.get(f"{served.url}/inspector/api/runs") as response:
            found = (await response.json())["runs"]
        if found:
            return dict(found[0])
        await asyncio.sleep(0.02)


@in_loop
async def test_a_run_of_which_not_everything_is_shown_can_be_exported_whole(tmp_path: Path) -> None:
    async with serving(say_much) as behind:
        config = Config(
            models={"m": upstream("openai/m", f"{behind.url}/v1")},
            keys=KeysConfig(path=str(tmp_path / "keys.sqlite")),
            inspector=InspectorConfig(enabled=True, bodies=True),
        )
        async with proxying(make_app(config, environ={})) as served:
            asked = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
            _, stream, _ = await served.post("/v1/chat/completions", asked)
            run = await wait_for_run(served)
            case = f"{served.url}/inspector/api/runs/{run['id']}/case"
            async with served.http.get(case) as response:
                assert response.status == 200
                (tmp_path / "case.jsonl").write_bytes(await response.read())
    assert run["dropped"] > 0
    [recording] = load(tmp_path / "case.jsonl")
    assert "".join(map(str, recording.chunks)) == stream
