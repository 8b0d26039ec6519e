"""The inspector in a real browser, before a real proxy."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from browser.chromium import Page, chromium
from proxying import Served, in_loop, proxying, upstream
from scripted import chunk, ending, growing, opening
from upstreams.serving import serving
from wholecall.proxy.app import make_app
from wholecall.proxy.config import Config, InspectorConfig, KeysConfig
from wholecall.tools.from_function import make_tool

PICTURES = Path(__file__).parents[2] / "build" / "inspector"
QUESTION = [{"role": "user", "content": "What is the weather in Rome?"}]
LANE = "document.querySelector('.lane')"


def get_weather(city: str, days: int = 1) -> str:
    """Current weather of a city."""
    return f"12 degrees in {city}"


class Script:
    """A model whose stream goes on when the test says so."""

    def __init__(self) -> None:
        self.steps: asyncio.Queue[Any] = asyncio.Queue()

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        while (step := await self.steps.get()) is not None:
            line = step if isinstance(step, str) else f"data: {json.dumps(step)}"
            await response.write(f"{line}\n\n".encode())
        return response

    def say(self, *steps: Any, end: bool = False) -> None:
        for step in (*steps, *([None] if end else [])):
            self.steps.put_nowait(step)


@asynccontextmanager
async def looking(folder: Path) -> AsyncIterator[tuple[Served, Script, Page]]:
    script = Script()
    async with serving(script.serve) as model, chromium(folder) as page:
        config = Config(
            models={"m": upstream("openai/m", f"{model.url}/v1", mode="run")},
            keys=KeysConfig(path=str(folder / "keys.sqlite")),
            inspector=InspectorConfig(enabled=True, bodies=True),
        )
        tools = [make_tool(get_weather, read_only=True)]
        async with proxying(make_app(config, environ={}, tools=tools)) as served:
            await page.open(f"{served.url}/inspector")
            await page.until("document.getElementById('state')?.textContent === 'connected'")
            yield served, script, page
            # A stream of events that is still open would make the proxy wait for its end.
            await page.open("about:blank")


async def ask(served: Served) -> Any:
    body = {"model": "m", "messages": QUESTION, "stream": True}
    return await served.post("/v1/chat/completions", body)


@in_loop
async def test_a_call_is_seen_growing_and_its_tool_starting_before_the_stream_ends(
    tmp_path: Path,
) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    async with looking(tmp_path) as (served, script, page):
        asked = asyncio.create_task(ask(served))
        script.say(chunk({"content": "Let me look."}), opening(0, "get_weather", arguments='{"ci'))
        await page.until(f"{LANE}?.dataset.verdict === 'open'")
        await page.until(f"{LANE}.querySelector('.json')?.textContent.includes('\"ci')")
        assert await page.ask(f"{LANE}.querySelector('.open')?.textContent") == '"ci'
        script.say(growing(0, 'ty": "Ro'))
        await page.until(f"{LANE}.querySelector('.json').textContent.includes('\"Ro')")
        await page.shoot(PICTURES / "growing.png")
        script.say(growing(0, 'me", "days": 12345678901234567890123}'))
        await page.until(f"{LANE}.querySelector('.bars').ariaLabel.includes('before the stream')")
        shown = await page.ask(f"{LANE}.querySelector('.json').textContent")
        assert '"days": 12345678901234567890123' in shown
        assert "CLOSED" in await page.ask(f"{LANE}.querySelector('.evidence.has').textContent")
        script.say(*ending("tool_calls"), end=True)
        script.say(chunk({"content": "It is mild."}), *ending(), end=True)
        await asked
        await page.until("document.querySelectorAll('.turn').length === 2")
        await page.until("document.querySelector('.head').textContent.includes('done')")
        await page.shoot(PICTURES / "done.png", dark=True)
        await page.shoot(PICTURES / "narrow.png", width=380)
        assert page.complaints == []
