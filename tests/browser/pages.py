"""A browser before a real proxy, and a model whose stream goes on when the test says so."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec

from aiohttp import web

from browser.chromium import Page, chromium
from proxy_server import Served, proxying, upstream
from upstreams.fake_endpoint import serving
from wholecall.proxy.app import make_app
from wholecall.proxy.config.schema import Config, InspectorConfig, KeysConfig
from wholecall.tools.function_tool import make_tool
from wholecall.tools.tool import Tool

PICTURES = Path(__file__).parents[2] / "build" / "inspector"
QUESTION = [{"role": "user", "content": "What is the weather in Rome?"}]
LANE = "document.querySelector('.lane')"
CONNECTED = "document.getElementById('state')?.textContent === 'connected'"
# A browser starts, on a machine that has other work to do.
_LONGEST = 180.0
_Arguments = ParamSpec("_Arguments")


def in_browser(test: Callable[_Arguments, Awaitable[None]]) -> Callable[_Arguments, None]:
    """Run an asynchronous test, and not for longer than a busy machine may need."""

    @functools.wraps(test)
    def run(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(_LONGEST):
                await test(*args, **kwargs)

        asyncio.run(bounded())

    return run


def get_weather(city: str, days: int = 1) -> str:
    """Current weather of a city."""
    return f"12 degrees in {city} for {days} days"


WEATHER = make_tool(get_weather, read_only=True)


class Script:
    """A model whose stream goes on when the test says so."""

    def __init__(self) -> None:
        self.steps: asyncio.Queue[Any] = asyncio.Queue()
        self.bodies: list[bytes] = []

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The requests that the model got."""
        return [json.loads(body) for body in self.bodies]

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method != "POST":  # the proxy asks for a list of models
            return web.Response(status=404)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        while (step := await self.steps.get()) is not None:
            line = step if isinstance(step, str) else f"data: {json.dumps(step)}"
            await response.write(f"{line}\n\n".encode())
        return response

    def say(self, *steps: Any, end: bool = False) -> None:
        for step in (*steps, *([None] if end else [])):
            self.steps.put_nowait(step)


@dataclass(frozen=True)
class Setting:
    """What the proxy is started with."""

    tools: Sequence[Tool] = (WEATHER,)
    inspector: InspectorConfig = field(
        default_factory=lambda: InspectorConfig(enabled=True, bodies=True)
    )
    models: Sequence[str] = ("m",)
    mode: str = "run"
    workers: int = 1


USUAL = Setting()


@asynccontextmanager
async def serving_page(
    folder: Path, setting: Setting = USUAL, *, port: int = 0
) -> AsyncIterator[tuple[Served, Script]]:
    """A proxy with the page, in front of a scripted model."""
    script = Script()
    async with serving(script.serve) as model:
        script.bodies = model.bodies
        config = Config(
            models={
                name: upstream(f"openai/{name}", f"{model.url}/v1", mode=setting.mode)
                for name in setting.models
            },
            keys=KeysConfig(path=str(folder / "keys.sqlite")),
            inspector=setting.inspector,
        )
        app = make_app(config, environ={}, tools=setting.tools)
        async with proxying(app, port=port) as served:
            yield served, script


@asynccontextmanager
async def looking(
    folder: Path, setting: Setting = USUAL
) -> AsyncIterator[tuple[Served, Script, Page]]:
    """The page, connected."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    async with chromium(folder) as page, serving_page(folder, setting) as (served, script):
        await page.open(f"{served.url}/inspector")
        await page.until(CONNECTED)
        yield served, script, page
        assert page.complaints == []
        assert await page.ask("window.refused") == []
        # A stream of events that is still open would make the proxy wait for its end.
        await page.open("about:blank")


async def ask(served: Served, model: str = "m") -> Any:
    body = {"model": model, "messages": QUESTION, "stream": True}
    return await served.post("/v1/chat/completions", body)


async def until_kept(served: Served, count: int = 1) -> list[dict[str, Any]]:
    """The runs in the file; they are written soon after their end."""
    while True:
        async with served.http.get(f"{served.url}/inspector/api/runs?limit=200") as response:
            page = await response.json()
        if len(page["runs"]) >= count and not page["running"]:
            return list(page["runs"])
        await asyncio.sleep(0.02)
