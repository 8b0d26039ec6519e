"""Runs as they happen, in a real browser."""

from __future__ import annotations

import asyncio
from pathlib import Path

from browser.pages import LANE, PICTURES, ask, in_browser, looking
from scripted import chunk, ending, growing, opening


@in_browser
async def test_a_call_is_seen_growing_and_its_tool_starting_before_the_stream_ends(
    tmp_path: Path,
) -> None:
    async with looking(tmp_path) as (served, script, page):
        asked = asyncio.create_task(ask(served))
        script.say(chunk({"content": "Let me look."}), opening(0, "get_weather", arguments='{"ci'))
        await page.until(f"{LANE}?.dataset.verdict === 'open'")
        await page.until(f"{LANE}.querySelector('pre')?.textContent.includes('\"ci')")
        assert await page.ask(f"{LANE}.querySelector('.open')?.textContent") == '"ci'
        script.say(growing(0, 'ty": "Ro'))
        await page.until(f"{LANE}.querySelector('pre').textContent.includes('\"Ro')")
        await page.shoot(PICTURES / "growing.png")
        script.say(growing(0, 'me", "days": 12345678901234567890123}'))
        await page.until(f"{LANE}.querySelector('.track').ariaLabel.includes('before the stream')")
        assert "early start" in await page.ask(f"{LANE}.querySelector('.head').textContent")
        shown = await page.ask(f"{LANE}.querySelector('pre').textContent")
        assert '"days": 12345678901234567890123' in shown
        said = await page.ask(f"{LANE}.querySelector('.evidence').textContent")
        assert said == "released at CLOSED: read-only or repeatable, may start early"
        script.say(*ending("tool_calls"), end=True)
        script.say(chunk({"content": "It is mild."}), *ending(), end=True)
        await asked
        await page.until("document.querySelectorAll('.turn').length === 2")
        await page.until("document.querySelector('.title').textContent.includes('done')")
        # It is still to be seen afterwards that the tool did not wait for the stream.
        assert "before the stream ended" in await page.ask(
            f"{LANE}.querySelector('.legend').textContent"
        )
        stats = await page.ask("document.querySelector('.stats').textContent")
        assert "20 in · 10 out" in stats
        await page.shoot(PICTURES / "done.png")
        await page.shoot(PICTURES / "dark.png", dark=True)
        await page.shoot(PICTURES / "narrow.png", width=390)


@in_browser
async def test_a_truncated_call_is_shown_rejected_and_a_repaired_one_with_its_difference(
    tmp_path: Path,
) -> None:
    async with looking(tmp_path) as (served, script, page):
        asked = asyncio.create_task(ask(served))
        for _ in range(3):  # the first two are asked again with more room
            cut = opening(0, "get_weather", arguments='{"city": "Ro')
            script.say(cut, *ending("length"), end=True)
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
        # What the model was told of the call that was cut, and how it reacted, stand together.
        told = await page.ask("document.querySelector('.feedback').textContent")
        assert "get_weather" in told
        await page.until("document.querySelector('.title').textContent.includes('done')")
        await page.shoot(PICTURES / "wrong.png")


@in_browser
async def test_what_somebody_opened_stays_open_while_the_run_goes_on(tmp_path: Path) -> None:
    async with looking(tmp_path) as (served, script, page):
        asked = asyncio.create_task(ask(served))
        script.say(opening(0, "get_weather", arguments='{"city": "Rome"}'))
        await page.until(f"{LANE}?.querySelector('.result details')")
        await page.ask(f"{LANE}.querySelector('.result details').open = false")
        await page.ask("document.querySelector('.list button').focus()")
        script.say(opening(1, "get_weather", arguments='{"city": "Oslo'))
        await page.until("document.querySelectorAll('.lane').length === 2")
        assert await page.ask(f"{LANE}.querySelector('.result details').open") is False
        assert await page.ask("document.activeElement.closest('.list') !== null")
        script.say(growing(1, '"}'), *ending("tool_calls"), end=True)
        script.say(chunk({"content": "Mild."}), *ending(), end=True)
        await asked


@in_browser
async def test_an_answer_that_broke_off_is_said_to_be_asked_for_again_only_if_it_was(
    tmp_path: Path,
) -> None:
    async with looking(tmp_path) as (served, script, page):
        asked = asyncio.create_task(ask(served))
        script.say(opening(0, "get_weather", arguments='{"city": "Ro'), end=True)
        await page.until("document.querySelectorAll('.turn').length === 2")
        # A part of the second answer reaches the client, so that there can be no third.
        script.say(chunk({"content": "It is"}), end=True)
        await page.until("document.querySelector('.title').textContent.includes('failed')")
        await asked
        heads = await page.ask(
            "[...document.querySelectorAll('.turn')].map((one) => one.textContent)"
        )
        assert ["asked again" in head for head in heads] == [True, False]


@in_browser
async def test_a_call_that_was_rescued_from_the_text_has_a_chip(tmp_path: Path) -> None:
    async with looking(tmp_path) as (served, script, page):
        asked = asyncio.create_task(ask(served))
        call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>'
        script.say(chunk({"content": call}), *ending(), end=True)
        script.say(chunk({"content": "It is mild."}), *ending(), end=True)
        await asked
        await page.until("document.querySelectorAll('.turn').length === 2")
        chip = "[...document.querySelectorAll('.turn .chip.odd')].find(CHIP)"
        chip = chip.replace("CHIP", "(one) => one.textContent === 'call_as_text'")
        await page.until(f"{chip}?.checkVisibility()")
        assert await page.ask(f"{chip}.getBoundingClientRect().width > 20")
        await page.shoot(PICTURES / "rescued.png")
