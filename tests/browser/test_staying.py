"""A page that stays open: proxies come and go, runs come and pass, arguments get long."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from browser.chromium import chromium
from browser.pages import CONNECTED, LANE, PICTURES, ask, in_browser, looking, serving_page
from proxy_server import proxying, upstream
from scripted import chunk, ending, growing, opening
from upstreams.fake_endpoint import serving
from wholecall.proxy.app import make_app
from wholecall.proxy.config.schema import Config, InspectorConfig, KeysConfig

MAIN = "document.getElementById('main')?.textContent"
STATE = "document.getElementById('state')?.textContent"
TITLE = "document.querySelector('.title')?.textContent"
LINES = "[...document.querySelectorAll('.list button')]"
PRESSED = f"{LINES}.findIndex((line) => line.ariaPressed === 'true')"
FOLLOW = "[...document.querySelectorAll('aside button')][0]"
# How far the end of the arguments is below what is seen of them.
BELOW = f"""(({{scrollTop, clientHeight, scrollHeight}}) =>
  scrollHeight - clientHeight - scrollTop)({LANE}.querySelector('pre'))"""
LONG = "lorem ipsum dolor sit amet "


@in_browser
async def test_after_a_restart_of_the_proxy_the_page_goes_on(tmp_path: Path) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    async with chromium(tmp_path) as page:
        async with serving_page(tmp_path) as (served, script):
            port = urlsplit(served.url).port or 0
            await page.open(f"{served.url}/inspector")
            await page.until(f"{CONNECTED} && document.querySelector('.offer input')")
            asked = asyncio.create_task(ask(served))
            script.say(opening(0, "get_weather", arguments='{"ci'))
            await page.until(LANE)
        asked.cancel()
        script.say(end=True)
        await page.until(f"{STATE} === 'disconnected'")
        await page.ask("location.hash = '#/runs'")
        await page.until(f"{MAIN}?.includes('cannot be reached')")
        assert "tries again" in await page.ask(MAIN)
        async with serving_page(tmp_path, port=port) as (_, script):
            await page.until("document.querySelector('tbody tr')")
            await page.ask("location.hash = '#/live'")
            await page.until(f"{CONNECTED} && document.querySelector('.offer input')")
            await page.ask("document.querySelector('.try textarea').value = 'Weather?'")
            await page.click("Send")
            script.say(chunk({"content": "Mild."}), *ending(), end=True)
            await page.until(f"{TITLE}?.includes('done')")
            await page.open("about:blank")


@pytest.mark.parametrize(("folder", "end"), [(".", "gone"), ("elsewhere", "out of sight")])
@in_browser
async def test_a_run_that_ended_while_the_page_was_away_is_not_shown_as_under_way(
    tmp_path: Path, folder: str, *, end: str
) -> None:
    """The file knows how it ended, or nobody does."""
    (tmp_path / folder).mkdir(exist_ok=True)
    async with chromium(tmp_path) as page:
        async with serving_page(tmp_path) as (served, script):
            port = urlsplit(served.url).port or 0
            await page.open(f"{served.url}/inspector")
            await page.until(CONNECTED)
            asked = asyncio.create_task(ask(served))
            script.say(opening(0, "get_weather", arguments='{"ci'))
            await page.until(f"{LANE} && {TITLE}?.includes('under way')")
        asked.cancel()
        script.say(end=True)
        async with serving_page(tmp_path / folder, port=port):
            await page.until(f"{TITLE}?.includes('{end}')")
            assert "broken off" in await page.ask("document.querySelector('.turn').textContent")
            await page.open("about:blank")


@in_browser
async def test_a_page_that_missed_messages_looks_again(tmp_path: Path) -> None:
    missing = """
    const fetched = window.fetch;
    window.fetch = (path, options) => {
      if (window.told || !path.endsWith("/live")) return fetched(path, options);
      window.told = true;
      return Promise.resolve(new Response('data: [{"missed": 3}]\\n\\n'));
    };
    """
    async with chromium(tmp_path) as page, serving_page(tmp_path) as (served, _):
        await page.call("Page.addScriptToEvaluateOnNewDocument", source=missing)
        await page.open(f"{served.url}/inspector")
        await page.until(f"{STATE} === 'this page missed 3 messages, and looks again'")
        await page.until(CONNECTED)
        await page.open("about:blank")


@in_browser
async def test_the_newest_run_is_followed_until_somebody_chooses_one(tmp_path: Path) -> None:
    async with looking(tmp_path) as (served, script, page):
        for count in (1, 2):
            script.say(chunk({"content": "Mild."}), *ending(), end=True)
            await ask(served)
            await page.until(f"{LINES}.length === {count} && {TITLE}?.includes('done')")
            assert await page.ask(PRESSED) == 0
        assert "What is the weather in Rome?" in await page.ask(f"{LINES}[0].textContent")
        assert await page.ask(f"{FOLLOW}.hidden")
        await page.ask(f"{LINES}[1].click()")
        await page.until(f"{PRESSED} === 1")
        script.say(chunk({"content": "Mild."}), *ending(), end=True)
        await ask(served)
        await page.until(f"{LINES}.length === 3")
        assert await page.ask(PRESSED) == 2
        await page.click("Follow the newest")
        await page.until(f"{PRESSED} === 0")
        assert await page.ask(f"{FOLLOW}.hidden")
        # A second press on the chosen run does the same.
        await page.ask(f"{LINES}[2].click()")
        await page.until(f"{PRESSED} === 2")
        await page.ask(f"{LINES}[2].click()")
        await page.until(f"{PRESSED} === 0")


@in_browser
async def test_the_end_of_long_arguments_stays_in_sight_until_somebody_scrolls(
    tmp_path: Path,
) -> None:
    async with looking(tmp_path) as (served, script, page):
        asked = asyncio.create_task(ask(served))
        script.say(opening(0, "get_weather", arguments='{"city": "'))
        text = f"{LANE}?.querySelector('pre')?.textContent"
        for size, word in ((300, "one"), (2000, "two")):
            script.say(growing(0, LONG * size + word))
            await page.until(f"{text}?.includes('sit amet {word}')")
            assert await page.ask(BELOW) < 2
        assert "characters are not shown" in await page.ask(text)
        await page.shoot(PICTURES / "long.png")
        await page.ask(f"{LANE}.querySelector('pre').focus()")
        await page.ask(f"{LANE}.querySelector('pre').scrollTop = 40")
        script.say(growing(0, 'three"}'))
        await page.until(f"{text}.includes('three')")
        assert await page.ask(f"{LANE}.querySelector('pre').scrollTop") == 40
        assert await page.ask("document.activeElement.closest('.lane') !== null")
        script.say(*ending("tool_calls"), end=True)
        script.say(chunk({"content": "Mild."}), *ending(), end=True)
        await asked


@in_browser
async def test_many_runs_do_not_make_the_page_longer_than_what_it_shows(tmp_path: Path) -> None:
    async with looking(tmp_path) as (served, script, page):
        await page.resize(1200)
        for _ in range(30):
            script.say(chunk({"content": "Mild."}), *ending(), end=True)
            await ask(served)
        await page.until(f"{LINES}.length === 30")
        assert await page.ask("document.documentElement.scrollHeight <= innerHeight")
        await page.ask(f"{LINES}[29].focus()")
        seen = f"(({{bottom}}) => bottom <= innerHeight)({LINES}[29].getBoundingClientRect())"
        assert await page.ask(seen)
        await page.shoot(PICTURES / "many.png")


@in_browser
async def test_a_turn_without_an_answer_is_not_shown_as_streaming(tmp_path: Path) -> None:
    async def refuse(_: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"error": {"message": "no such model"}}, status=404)

    async with serving(refuse) as model, chromium(tmp_path) as page:
        config = Config(
            models={"m": upstream("openai/m", f"{model.url}/v1")},
            keys=KeysConfig(path=str(tmp_path / "keys.sqlite")),
            inspector=InspectorConfig(enabled=True),
        )
        async with proxying(make_app(config, environ={})) as served:
            await page.open(f"{served.url}/inspector")
            await page.until(CONNECTED)
            await ask(served)
            await page.until(f"{TITLE}?.includes('failed')")
            assert "no answer" in await page.ask("document.querySelector('.turn').textContent")
            assert "streaming" not in await page.ask(MAIN)
            await page.open("about:blank")
