"""The inspector of a real proxy: what happened can be looked at."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from proxying import Served, in_loop, proxying, upstream
from wholecall.faults.running import FaultServer
from wholecall.faults.tools import definitions
from wholecall.proxy.app import make_app
from wholecall.proxy.config import Config, InspectorConfig, KeysConfig
from wholecall.proxy.keys import KeyStore
from wholecall.recording import load
from wholecall.tools.from_function import make_tool

QUESTION = [{"role": "user", "content": "What is the weather in Rome?"}]


def get_weather(city: str, unit: str = "C") -> str:
    """Current weather of a city."""
    return f"12 degrees {unit} in {city}"


def send_email(to: str, body: str) -> str:
    """Send an email."""
    return f"sent {len(body)} characters to {to}"


@asynccontextmanager
async def inspected(
    folder: Path, *scenarios: str, mode: str = "run", bodies: bool = True, keys: bool = False
) -> AsyncIterator[Served]:
    async with FaultServer(hang_seconds=2.0) as faults:
        config = Config(
            models={
                name: upstream(f"openai/{name}", faults.base_url, mode=mode) for name in scenarios
            },
            keys=KeysConfig(path=str(folder / "keys.sqlite"), required=keys),
            inspector=InspectorConfig(enabled=True, bodies=bodies),
        )
        tools = (make_tool(get_weather, read_only=True), make_tool(send_email))
        async with proxying(make_app(config, environ={}, tools=tools)) as served:
            yield served


async def ask(served: Served, model: str, **fields: Any) -> Any:
    body = {"model": model, "messages": QUESTION, "stream": True, **fields}
    return await served.post("/v1/chat/completions", body)


async def get(served: Served, path: str, **headers: str) -> tuple[int, Any]:
    async with served.http.get(f"{served.url}/inspector{path}", headers=headers) as response:
        if response.content_type == "application/json":
            return response.status, await response.json()
        return response.status, await response.text()


async def wait_for_runs(served: Served, count: int = 1, **headers: str) -> list[dict[str, Any]]:
    """The runs in the file; they are written soon after their end."""
    while True:
        _, page = await get(served, "/api/runs", **headers)
        if len(page["runs"]) >= count and not page["running"]:
            return list(page["runs"])


async def events_of(served: Served, run: dict[str, Any]) -> list[dict[str, Any]]:
    _, page = await get(served, f"/api/runs/{run['id']}")
    return list(page["events"])


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["kind"] for event in events]


@in_loop
async def test_a_run_is_kept_with_its_turns_calls_and_results(tmp_path: Path) -> None:
    async with inspected(tmp_path, "two-steps") as served:
        await ask(served, "two-steps")
        [run] = await wait_for_runs(served)
        events = await events_of(served, run)
    print(json.dumps(run, indent=1), [str(e)[:150] for e in events])
    assert (run["model"], run["way"], run["fate"]) == ("two-steps", "run", "done")
