"""Hostile words, in a real browser: they are shown, and do nothing."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

from aiohttp import web

from browser.chromium import Page, chromium
from browser.pages import Script, ask, in_browser, until_kept
from inspector.payloads import FETCH, MARK, PAYLOADS
from proxy_server import Served, proxying, upstream
from scripted import chunk, ending
from upstreams.fake_endpoint import serving
from wholecall.proxy.app import make_app
from wholecall.proxy.config.schema import Config, InspectorConfig, KeysConfig
from wholecall.tools.function_tool import make_tool


def test_there_are_enough_of_them() -> None:
    assert len(set(PAYLOADS)) >= 100


def echo(text: str) -> str:
    """Say it again."""
    return text


def call(number: int, payload: str, *, name: str) -> dict[str, Any]:
    """A call whose id, key and value are hostile."""
    arguments = json.dumps({"text": payload, payload: {payload: [payload]}})
    function = {"name": name, "arguments": arguments}
    made = {"index": number, "id": f"{number} {payload}", "function": function}
    return chunk({"tool_calls": [made]})


def write_answers(script: Script, payload: str) -> None:
    """An answer that has it in all places, and one that ends with it."""
    script.say(chunk({"content": payload, "reasoning_content": payload}))
    script.say(call(0, payload, name="echo"), call(1, payload, name=payload))
    script.say(*ending("tool_calls"), end=True)
    script.say(chunk({"content": payload}), *ending(payload), end=True)


async def look_live(page: Page, script: Script, *, served: Served) -> None:
    """Every payload as model, text, reasoning, name, id, key, value, result and finish reason."""
    for payload in PAYLOADS:
        write_answers(script, payload)
        asked = asyncio.create_task(ask(served, payload))
        title = f"document.querySelector('.title h2')?.textContent === {json.dumps(payload)}"
        await page.until(f"{title} && document.querySelector('.title .good')")
        await asked
        await page.ask("document.querySelectorAll('details').forEach((one) => { one.open = true })")
        shown = await page.ask("document.querySelector('.run').textContent")
        assert shown.count(payload) >= 5, payload


async def look_back(page: Page, *, served: Served) -> None:
    await until_kept(served, len(PAYLOADS))
    await page.ask("location.hash = '#/runs?limit=200'")
    await page.until(f"document.querySelectorAll('tbody tr').length === {len(PAYLOADS)}")
    links = await page.ask("[...document.querySelectorAll('tbody a')].map((a) => a.hash)")
    for link in links:
        await page.ask(f"location.hash = {json.dumps(link)}")
        id = json.dumps(link.rpartition("/")[2])
        await page.until(f"document.querySelector('.id')?.textContent.startsWith({id})")
        await page.click("Raw chunks")
        await page.until("document.querySelectorAll('.raw caption').length >= 2")
    await page.ask("location.hash = '#/figures'")
    await page.until("document.querySelectorAll('.chart').length >= 3")
    for payload in PAYLOADS:
        await page.ask(
            f"location.hash = '#/runs?model=' + encodeURIComponent({json.dumps(payload)})"
        )
        await page.until("document.querySelector('[data-shown]')")
        await page.ask(f"location.hash = '#/runs/' + encodeURIComponent({json.dumps(payload)})")
        await page.until("document.querySelector('[role=alert]')")


@in_browser
async def test_hostile_words_run_nothing_and_fetch_nothing(tmp_path: Path) -> None:
    script = Script()
    async with serving(script.serve) as model, chromium(tmp_path) as page:
        config = Config(
            models={"*": upstream("openai/*", f"{model.url}/v1", mode="run")},
            keys=KeysConfig(path=str(tmp_path / "keys.sqlite")),
            inspector=InspectorConfig(enabled=True, bodies=True),
        )
        tools = [make_tool(echo, read_only=True)]
        async with proxying(make_app(config, environ={}, tools=tools)) as served:
            await page.open(f"{served.url}/inspector")
            await page.until("document.getElementById('state')?.textContent === 'connected'")
            await look_live(page, script, served=served)
            await look_back(page, served=served)
            assert await page.ask(f"typeof window.{MARK}") == "undefined"
            assert await page.ask("window.refused") == []
            # That there is no run of such a name is all that may be complained of.
            known = re.compile(r"status of 404|net::ERR_FAILED")
            assert [one for one in page.complaints if not known.search(one)] == []
            ours = re.compile(rf"{served.url}/(inspector|v1/)|data:image/svg|about:|blob:")
            assert [url for url in page.fetched if not ours.match(url)] == []
            await page.open("about:blank")


@in_browser
async def test_they_do_harm_where_they_are_written_as_markup(tmp_path: Path) -> None:
    """Otherwise the test above would say nothing."""

    async def serve(request: Any) -> Any:
        number = request.query.get("n")
        payload = PAYLOADS[int(number)] if number else ""  # some of them load the page again
        return web.Response(text=f"<!doctype html><body>{payload}", content_type="text/html")

    harmful = 0
    async with serving(serve) as server, chromium(tmp_path) as page:
        for number in range(len(PAYLOADS)):
            before = len(page.fetched)
            await page.open(f"{server.url}/?n={number}")
            await page.until("document.readyState === 'complete' && document.body")
            await asyncio.sleep(0.05)
            ran = await page.ask(f"typeof window.{MARK} !== 'undefined'")
            fetched = any(FETCH in url for url in page.fetched[before:])
            harmful += ran or fetched
    assert harmful >= 60  # the others need another place, or a hand that clicks


@in_browser
async def test_the_policy_refuses_what_the_page_would_let_through(tmp_path: Path) -> None:
    """A second wall: no text can be made markup here, not even by a mistake of ours."""
    async with chromium(tmp_path) as page:
        config = Config(
            keys=KeysConfig(path=str(tmp_path / "keys.sqlite")),
            inspector=InspectorConfig(enabled=True),
        )
        async with proxying(make_app(config, environ={})) as served:
            await page.open(f"{served.url}/inspector")
            await page.until("document.getElementById('state')?.textContent === 'connected'")
            refused = await page.ask(
                "(() => { try { document.body.innerHTML = '<img src=x>'; return false; }"
                " catch (error) { return error instanceof TypeError; } })()"
            )
            assert refused
            await page.open("about:blank")
