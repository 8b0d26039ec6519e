"""The prompt box, in a real browser: it asks as any client would."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import aiohttp
from aiohttp import web

from browser.chromium import chromium
from browser.pages import (
    LANE,
    PICTURES,
    USUAL,
    WEATHER,
    Script,
    Setting,
    in_browser,
    looking,
    serving_page,
)
from proxy_server import proxying, upstream
from scripted import chunk, ending, opening
from upstreams.fake_endpoint import serving
from wholecall.proxy.app import make_app
from wholecall.proxy.config.schema import Config, InspectorConfig, KeysConfig
from wholecall.proxy.http.api_keys import Key, KeyStore
from wholecall.tools.function_tool import make_tool

CTRL = 2
PROMPT = "document.querySelector('.try textarea')"


def calculate(formula: str) -> str:
    """Work out a formula."""
    return formula


BOTH = Setting(tools=(WEATHER, make_tool(calculate)))


@in_browser
async def test_a_prompt_is_asked_with_the_chosen_model_and_tools_and_shown_live(
    tmp_path: Path,
) -> None:
    async with looking(tmp_path, replace(BOTH, models=("m", "other"))) as (_, script, page):
        await page.until("document.querySelectorAll('.offer input').length === 2")
        await page.ask("document.querySelector('.try select').value = 'other'")
        await page.ask("document.querySelector('.offer input[value=calculate]').click()")
        await page.ask(f"{PROMPT}.focus()")
        await page.type("Weather in Rome?")
        await page.shoot(PICTURES / "try.png")
        await page.press("Enter", modifiers=CTRL)
        script.say(opening(0, "get_weather", arguments='{"city": "Rome"}'))
        await page.until(f"{LANE}?.dataset.verdict === 'released'")
        script.say(*ending("tool_calls"), end=True)
        script.say(chunk({"content": "It is mild."}), *ending(), end=True)
        await page.until("document.querySelector('.try [role=status]').textContent === 'answered'")
        await page.until("document.querySelector('.title').textContent.includes('done')")
        assert "other" in await page.ask("document.querySelector('.title h2').textContent")
        assert await page.ask("document.querySelector('.try pre').textContent") == "It is mild."
        first = script.asked[0]
        assert [tool["function"]["name"] for tool in first["tools"]] == ["get_weather"]
        assert first["messages"][-1]["content"] == "Weather in Rome?"
        assert (first["model"], first["stream"]) == ("other", True)


@in_browser
async def test_where_clients_run_calls_they_are_shown_and_not_run(tmp_path: Path) -> None:
    async with looking(tmp_path, replace(BOTH, mode="gate")) as (_, script, page):
        await page.until("document.querySelectorAll('.offer input').length === 2")
        await page.ask("document.querySelector('.offer input[value=get_weather]').click()")
        await page.ask(f"{PROMPT}.value = 'Weather?'")
        await page.click("Send")
        call = opening(0, "get_weather", arguments='{"city": "Rome"}')
        script.say(call, *ending("tool_calls"), end=True)
        await page.until(f"{LANE}?.dataset.verdict === 'released'")
        await page.until("document.querySelector('.try pre').textContent.includes('Rome')")
        [asked] = script.asked
        assert [tool["function"]["name"] for tool in asked["tools"]] == ["get_weather"]
        assert "result" not in await page.ask(f"{LANE}.textContent.toLowerCase()")


@in_browser
async def test_a_failure_is_told_and_an_answer_can_be_stopped(tmp_path: Path) -> None:
    async with looking(tmp_path) as (_, script, page):
        told = "document.querySelector('.try [role=status]').textContent"
        await page.until("document.querySelectorAll('.offer input').length === 1")
        await page.ask(f"{PROMPT}.value = 'Weather?'")
        await page.click("Send")
        script.say(chunk({"content": "Let me"}))
        await page.until("document.querySelector('.said')?.textContent === 'Let me'")
        await page.click("Stop")
        await page.until(f"{told} === 'stopped'")
        await page.until("document.querySelector('.title').textContent.includes('gone')")
        script.say(end=True)
        script.steps.empty()
        await page.click("Send")
        script.say("data: {broken", end=True)
        script.say("data: {broken", end=True)
        script.say("data: {broken", end=True)
        await page.until(f"{told} !== 'stopped' && {told} !== 'asked …' && {told} !== ''")
        assert await page.ask("document.querySelector('.try .message') !== null")
        # What the console says of a failed request is no fault of the page.
        page.complaints.clear()


@in_browser
async def test_it_asks_where_the_page_did_not_come_encrypted(tmp_path: Path) -> None:
    async with looking(tmp_path) as (_, script, page):
        await page.until("document.querySelectorAll('.offer input').length === 1")
        # A browser has it only on encrypted pages and on those of its own machine.
        await page.ask("delete Crypto.prototype.randomUUID")
        await page.ask(f"{PROMPT}.value = 'Hi'")
        await page.click("Send")
        script.say(chunk({"content": "Hello."}), *ending(), end=True)
        await page.until("document.querySelector('.said')?.textContent === 'Hello.'")


@in_browser
async def test_a_request_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    async with looking(tmp_path) as (_, script, page):
        await page.until("document.querySelectorAll('.offer input').length === 1")
        await page.ask("crypto.getRandomValues = () => { throw new Error('no chance') }; 0")
        await page.ask(f"{PROMPT}.value = 'Hi'")
        await page.click("Send")
        await page.until("document.querySelector('.try .message')?.textContent === 'no chance'")
        assert script.asked == []
        assert await page.ask("document.querySelector('.try button.primary').disabled") is False


@in_browser
async def test_it_needs_the_key_that_every_client_needs(tmp_path: Path) -> None:
    keys = KeyStore(tmp_path / "keys.sqlite")
    text, _ = keys.create(Key(id="", name="operator", tools=("*",)))
    script = Script()
    async with serving(script.serve) as model, chromium(tmp_path) as page:
        config = Config(
            models={"m": upstream("openai/m", f"{model.url}/v1", mode="run")},
            keys=KeysConfig(path=str(tmp_path / "keys.sqlite"), required=True),
            inspector=InspectorConfig(enabled=True, bodies=True),
        )
        async with proxying(make_app(config, environ={}, tools=USUAL.tools)) as served:
            await page.open(f"{served.url}/inspector")
            await page.until("document.getElementById('login')?.open")
            await page.shoot(PICTURES / "key.png")
            await page.type("wc_wrong")
            await page.press("Enter")
            await page.until(
                "document.getElementById('login-why').textContent.includes('not known')"
            )
            await page.ask(f"document.getElementById('key').value = {json.dumps(text)}")
            await page.click("Continue")
            await page.until("document.getElementById('state').textContent === 'connected'")
            await page.until("document.querySelectorAll('.offer input').length === 1")
            await page.ask(f"{PROMPT}.value = 'Hi'")
            await page.click("Send")
            script.say(chunk({"content": "Hello."}), *ending(), end=True)
            await page.until("document.querySelector('.said')?.textContent === 'Hello.'")
            assert await page.ask("document.getElementById('forget').hidden") is False
            await page.click("Forget the key")
            await page.until("document.getElementById('login')?.open")
            await page.open("about:blank")


class Balancer:
    """Sends the page's stream of events to one process and everything else to another."""

    def __init__(self, one: str, other: str) -> None:
        self._one = one
        self._other = other
        self.bodies: list[bytes] = []

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        body = self.bodies[-1]
        behind = self._one if request.path.endswith("/live") else self._other
        address, headers = f"{behind}{request.path_qs}", dict(request.headers)
        async with (
            aiohttp.ClientSession(auto_decompress=False) as http,
            http.request(request.method, address, headers=headers, data=body or None) as answer,
        ):
            named = {"content-type": answer.headers["content-type"]}
            response = web.StreamResponse(status=answer.status, headers=named)
            await response.prepare(request)
            async for piece in answer.content.iter_any():
                await response.write(piece)
            return response


@in_browser
async def test_a_run_of_another_process_is_told_to_be_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    async with (
        looking(tmp_path) as (served, _, page),
        serving_page(tmp_path / "other") as (other, script),
    ):
        balancer = Balancer(served.url, other.url)
        async with serving(balancer.serve) as front:
            balancer.bodies = front.bodies
            await page.open(f"{front.url}/inspector")
            await page.until("document.querySelectorAll('.offer input').length === 1")
            await page.ask(f"{PROMPT}.value = 'Hi'")
            await page.click("Send")
            script.say(chunk({"content": "Hello."}), *ending(), end=True)
            told = "document.querySelector('.try [role=status]').textContent"
            await page.until(f"{told} === 'answered'")
            await page.until(f"{told}.includes('another process')")
            await page.open(f"{served.url}/inspector")
            await page.until("document.getElementById('state')?.textContent === 'connected'")
