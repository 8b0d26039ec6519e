"""The inspector in a real browser, before a real proxy."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from browser.chromium import Page, chromium
from inspector.payloads import MARK, PAYLOADS
from proxying import Served, in_loop, proxying, upstream
from scripted import chunk, ending, growing, opening
from upstreams.serving import serving
from wholecall.proxy.app import make_app
from wholecall.proxy.config import Config, InspectorConfig, KeysConfig
from wholecall.proxy.keys import Key, KeyStore
from wholecall.tools.from_function import make_tool

PICTURES = Path(__file__).parents[2] / "build" / "inspector"
QUESTION = [{"role": "user", "content": "What is the weather in Rome?"}]
LANE = "document.querySelector('.lane')"


def get_weather(city: str, days: int = 1) -> str:
    """Current weather of a city."""
    return f"12 degrees in {city} for {days} days"


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
    PICTURES.mkdir(parents=True, exist_ok=True)
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


@in_loop
async def test_a_truncated_call_is_shown_with_its_reason_and_a_repaired_one_with_its_difference(
    tmp_path: Path,
) -> None:
    async with looking(tmp_path) as (served, script, page):
        asked = asyncio.create_task(ask(served))
        script.say(opening(0, "get_weather", arguments='{"city": "Ro'), *ending("length"), end=True)
        script.say(opening(0, "get_weather", arguments='{"city": "Ro'), *ending("length"), end=True)
        script.say(opening(0, "get_weather", arguments='{"city": "Ro'), *ending("length"), end=True)
        call = opening(0, "get_weather", arguments='{"city": "Rome", "days": "3",}')
        script.say(call, *ending("tool_calls"), end=True)
        script.say(chunk({"content": "Mild."}), *ending(), end=True)
        await page.until("document.querySelector('[data-verdict=rejected]')")
        shown = await page.ask("document.querySelector('[data-verdict=rejected]').textContent")
        assert "truncated" in shown
        assert "missing" in shown
        await page.until("document.querySelector('[data-verdict=repaired]')")
        await asked
        repaired = "document.querySelector('[data-verdict=repaired]')"
        before = await page.ask(f"{repaired}.querySelector('.before').textContent")
        after = await page.ask(f"{repaired}.querySelector('.after').textContent")
        assert before != after
        assert '"days": 3' in await page.ask(f"{repaired}.querySelector('details').textContent")
        await page.until("document.querySelector('.head').textContent.includes('done')")
        await page.shoot(PICTURES / "wrong.png")

        # The same run in the list, behind its link, and in the figures.
        await page.ask("location.hash = '#/runs?verdict=rejected'")
        await page.until("document.querySelectorAll('tbody tr').length === 1")
        await page.ask("location.hash = '#/runs?verdict=rejected&tool=other'")
        await page.until("document.querySelector('.empty')")
        await page.ask("location.hash = '#/runs'")
        await page.until("document.querySelector('tbody a')")
        await page.shoot(PICTURES / "runs.png")
        await page.ask("document.querySelector('tbody a').click()")
        await page.until("document.querySelector('[data-verdict=repaired]')")
        await page.click("Raw chunks")
        await page.until("document.querySelectorAll('caption').length >= 2")
        await page.click("Replay")
        await page.until("document.querySelector('[data-verdict=repaired]')")
        await page.ask("location.hash = '#/figures'")
        await page.until("document.querySelectorAll('svg').length >= 3")
        await page.shoot(PICTURES / "figures.png")
        assert page.complaints == []


@in_loop
async def test_hostile_words_run_nothing_and_fetch_nothing(tmp_path: Path) -> None:
    async with looking(tmp_path) as (served, script, page):
        for payload in PAYLOADS:
            arguments = json.dumps({"city": payload})
            call = opening(0, "get_weather", arguments=arguments)
            unknown = opening(1, payload, arguments=arguments)
            said = chunk({"content": payload, "reasoning_content": payload})
            script.say(said, call, unknown, *ending("tool_calls"), end=True)
            script.say(chunk({"content": payload}), *ending(payload), end=True)
            await ask(served)
        await page.until(f"document.querySelectorAll('.list li').length === {len(PAYLOADS)}")
        for number in range(len(PAYLOADS)):
            await page.ask(f"document.querySelectorAll('.list button')[{number}].click()")
            await page.until("document.querySelectorAll('.turn').length >= 2")
        await page.ask("location.hash = '#/runs?limit=200'")
        await page.until(f"document.querySelectorAll('tbody tr').length === {len(PAYLOADS)}")
        links = await page.ask("[...document.querySelectorAll('tbody a')].map((a) => a.hash)")
        for link in links[::8]:
            await page.ask(f"location.hash = {json.dumps(link)}")
            await page.until("document.querySelectorAll('.turn').length >= 2")
        await page.ask("location.hash = '#/figures'")
        await page.until("document.querySelectorAll('svg').length >= 2")
        assert await page.ask(f"typeof window.{MARK}") == "undefined"
        assert page.complaints == []
        strange = [
            url
            for url in page.fetched
            if not re.match(rf"{served.url}/inspector|data:,|about:", url)
        ]
        assert strange == []


@in_loop
async def test_a_key_is_asked_for_where_one_is_needed(tmp_path: Path) -> None:
    keys = KeyStore(tmp_path / "keys.sqlite")
    text, _ = keys.create(Key(id="", name="operator"))
    config = Config(
        keys=KeysConfig(path=str(tmp_path / "keys.sqlite"), required=True),
        inspector=InspectorConfig(enabled=True),
    )
    async with proxying(make_app(config, environ={})) as served, chromium(tmp_path) as page:
        await page.open(f"{served.url}/inspector")
        await page.until("document.getElementById('login')?.open")
        await page.ask(f"document.getElementById('key').value = {json.dumps(text)}")
        await page.ask("document.querySelector('#login button').click()")
        await page.until("document.getElementById('state').textContent === 'connected'")
        await page.open("about:blank")
