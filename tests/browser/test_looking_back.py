"""Runs that are over, in a real browser."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from browser.pages import LANE, PICTURES, QUESTION, Setting, ask, in_browser, looking, until_kept
from scripted import chunk, ending, opening
from wholecall.proxy.config.schema import InspectorConfig

TWO = Setting(models=("m", "other"))


async def ask_wrongly(served: Any, script: Any) -> None:
    """A call that is cut, the same repaired, an answer; then a good run of another model."""
    for _ in range(3):
        cut = opening(0, "get_weather", arguments='{"city": "Ro')
        script.say(cut, *ending("length"), end=True)
    call = opening(0, "get_weather", arguments='{"city": "Rome", "days": "3",}')
    script.say(call, *ending("tool_calls"), end=True)
    script.say(chunk({"content": "Mild."}), *ending(), end=True)
    await ask(served)
    call = opening(0, "get_weather", arguments='{"city": "Oslo"}')
    script.say(call, *ending("stop"), end=True)
    script.say(chunk({"content": "Cold."}), *ending(), end=True)
    await ask(served, "other")
    await until_kept(served, 2)


@in_browser
async def test_runs_are_filtered_and_found_by_their_links(tmp_path: Path) -> None:
    async with looking(tmp_path, TWO) as (served, script, page):
        await ask_wrongly(served, script)
        await ask(served, "nobody")
        await until_kept(served, 3)
        rows = "document.querySelectorAll('tbody tr').length"
        await page.ask("location.hash = '#/runs'")
        await page.until(f"{rows} === 3")
        await page.shoot(PICTURES / "runs.png")
        for query, count in {
            "verdict=rejected": 1,
            "verdict=repaired": 1,
            "verdict=released": 1,
            "model=other": 1,
            "model=nobody": 1,
            "model=unheard-of": 0,
            "tool=get_weather": 2,
            "tool=other": 0,
            "reason=truncated": 1,
            "reason=schema": 0,
            "fate=done": 2,
            "fate=failed": 1,
            "fate=gone": 0,
            "code=model_not_found": 1,
            "code=bad_call": 0,
            "oddity=calls_with_other_hint": 1,
            "model=other&verdict=rejected": 0,
        }.items():
            await page.ask(f"location.hash = '#/runs?{query}'")
            await page.until(f"document.querySelector('[data-shown=\"{query}\"]')")
            assert await page.ask(rows) == count, query
            shown = await page.ask("document.querySelector('.empty')?.textContent ?? ''")
            assert shown == ("" if count else "These filters hide every run. Show all"), query
        # The same by hand: a word in a field, which knows what there is, and the button.
        await page.ask("location.hash = '#/runs'")
        await page.until(f"{rows} === 3 && document.querySelector('datalist option')")
        known = "[...document.querySelectorAll('NAME option')].map((one) => one.value)"
        assert await page.ask(known.replace("NAME", "#known-model")) == ["m", "nobody", "other"]
        assert await page.ask(known.replace("NAME", "#known-tool")) == ["get_weather"]
        assert await page.ask(known.replace("NAME", "#known-reason")) == ["truncated"]
        assert await page.ask(known.replace("NAME", "#known-code")) == ["model_not_found"]
        await page.ask("document.querySelector('[name=model]').value = 'other'")
        await page.ask("document.querySelector('[name=filter]').focus()")
        await page.press("Enter")
        await page.until(f"{rows} === 1")
        assert await page.ask("document.activeElement.name") == "filter"
        assert await page.ask("location.hash") == "#/runs?model=other"
        # What is not listed now is known as well.
        await page.until("document.querySelector('#known-code option')")
        assert await page.ask(known.replace("NAME", "#known-code")) == ["model_not_found"]
        await page.ask("document.querySelector('tbody a').focus()")
        await page.press("Enter")
        await page.until(f"{LANE} && document.activeElement.id === 'main'")
        link = await page.ask("location.href")
        await page.open("about:blank")
        await page.open(link)
        await page.until(f"{LANE}?.textContent.includes('Oslo')")
        odd = "[...document.querySelectorAll('details')].find((one) => !one.hidden)"
        assert await page.ask(f"{odd}.querySelector('summary').textContent") == "What was odd"
        assert "calls_with_other_hint finish reason" in await page.ask(f"{odd}.textContent")


@in_browser
async def test_a_page_without_runs_says_what_to_do(tmp_path: Path) -> None:
    async with looking(tmp_path) as (served, _, page):
        empty = "document.querySelector('.empty')?.textContent"
        for view, words in {
            "live": ("No run yet.", f"OPENAI_BASE_URL={served.url}/v1\nANTHROPIC_BASE_URL="),
            "runs": ("No run is stored yet.", f"ANTHROPIC_BASE_URL={served.url}"),
            "runs?before=1": ("There are no older runs. Back to the newest",),
            "figures": ("No figures yet", "Live"),
            "durable": ("No durable run yet.", "Idempotency-Key"),
        }.items():
            await page.ask(f"location.hash = '#/{view}'")
            for said in words:
                await page.until(f"{empty}?.includes({json.dumps(said)})")


@in_browser
async def test_runs_are_cards_on_a_narrow_screen(tmp_path: Path) -> None:
    async with looking(tmp_path, TWO) as (served, script, page):
        await ask_wrongly(served, script)
        await page.resize(380)
        await page.ask("location.hash = '#/runs'")
        await page.until("document.querySelectorAll('.runs tbody tr').length === 2")
        wide = "[...document.querySelectorAll('.runs, .runs .scroll, .runs table, body')]"
        assert await page.ask(f"{wide}.every((one) => one.scrollWidth <= 380)")
        cell = "document.querySelector('.runs td:nth-child(4)')"
        assert await page.ask(f"getComputedStyle({cell}, '::before').content") == '"calls"'
        await page.shoot(PICTURES / "runs-narrow.png", width=380)
        await page.resize(1200)
        assert await page.ask(f"getComputedStyle({cell}, '::before').content") == "none"


@in_browser
async def test_a_run_that_was_stopped_shows_why_and_which_calls_were_skipped(
    tmp_path: Path,
) -> None:
    async with looking(tmp_path) as (served, script, page):
        call = opening(0, "get_weather", arguments='{"city": "Rome"}')
        for _ in range(5):
            script.say(call, *ending("tool_calls"), end=True)
        script.say(chunk({"content": "Mild."}), *ending(), end=True)
        await ask(served)
        await until_kept(served)
        # Each is shown when its event comes, and the page may be drawn in between.
        for place, words in {
            ".list": ("stopped: identical", "5 calls · 1 skipped"),
            ".run .head": ("stopped: identical", "5, 1 skipped"),
        }.items():
            for said in words:
                await page.until(
                    f"document.querySelector('{place}')?.textContent.includes('{said}')"
                )
        rows = "document.querySelectorAll('tbody tr').length"
        for query, count in {
            "": 1,
            "stop=identical": 1,
            "stop=turns": 0,
            "status=skipped": 1,
            "status=failed": 0,
        }.items():
            await page.ask(f"location.hash = '#/runs?{query}'")
            await page.until(f"document.querySelector('[data-shown=\"{query}\"]')")
            assert await page.ask(rows) == count, query
        await page.ask("location.hash = '#/runs'")
        await page.until(f"{rows} === 1")
        row = await page.ask("document.querySelector('tbody tr').textContent")
        assert "weather in Rome" in row  # the question
        assert "1 skipped" in row
        assert "stopped: identical" in row
        await page.shoot(PICTURES / "stopped.png")


ASKED = "document.querySelector('.run > .question')"


@in_browser
async def test_a_run_begins_with_what_was_asked(tmp_path: Path) -> None:
    long = "How is it <b>there</b>?\n" * 200
    async with looking(tmp_path) as (served, script, page):
        script.say(chunk({"content": "Mild."}), *ending(), end=True)
        messages = [*QUESTION, {"role": "assistant", "content": "12 degrees."}]
        body = {"model": "m", "messages": [*messages, {"role": "user", "content": long}]}
        await served.post("/v1/chat/completions", {**body, "stream": True})
        await page.until(f"{ASKED}?.textContent")  # live
        assert await page.ask(f"{ASKED}.textContent") == long
        [run] = await until_kept(served)
        await page.ask(f"location.hash = '#/runs/{run['id']}'")
        await page.until("document.querySelector('.tools select')")
        assert await page.ask(f"{ASKED}.textContent") == long
        assert await page.ask(f"{ASKED}.clientHeight < window.innerHeight / 2")
        await page.shoot(PICTURES / "question.png")


@in_browser
async def test_without_bodies_a_run_has_no_question(tmp_path: Path) -> None:
    hidden = Setting(inspector=InspectorConfig(enabled=True, bodies=False))
    async with looking(tmp_path, hidden) as (served, script, page):
        script.say(chunk({"content": "Mild."}), *ending(), end=True)
        await ask(served)
        [run] = await until_kept(served)
        await page.ask(f"location.hash = '#/runs/{run['id']}'")
        await page.until("document.querySelector('.tools select')")
        assert await page.ask(f"{ASKED}.hidden")


@in_browser
async def test_raw_chunks_stand_beside_what_they_were_decoded_to(tmp_path: Path) -> None:
    async with looking(tmp_path, TWO) as (served, script, page):
        await ask_wrongly(served, script)
        [_, run] = await until_kept(served, 2)
        await page.ask(f"location.hash = '#/runs/{run['id']}'")
        await page.until("document.querySelector('[data-verdict=repaired]')")
        await page.click("Raw chunks")
        await page.until("document.querySelectorAll('.raw caption').length === 5")
        [first] = await page.ask(
            "[[...document.querySelector('.raw tbody tr').children].map((one) => one.textContent)]"
        )
        _, raw, deltas, events = first
        assert raw.startswith("data: {")
        assert deltas.startswith("CallDelta slot=0")
        assert "Opened number=0" in events
        said = await page.ask("document.querySelector('.raw').textContent")
        assert "Rejected get_weather truncated" in said
        await page.ask("document.querySelector('.run').remove()")
        await page.shoot(PICTURES / "chunks.png", width=1400)
        await page.click("Raw chunks")
        await page.until("document.querySelector('.raw').children.length === 0")


@in_browser
async def test_an_export_gives_the_same_outcome_to_check(tmp_path: Path) -> None:
    async with looking(tmp_path, TWO) as (served, script, page):
        await ask_wrongly(served, script)
        [_, run] = await until_kept(served, 2)
        await page.save_to(tmp_path / "saved")
        await page.ask(f"location.hash = '#/runs/{run['id']}'")
        await page.until("document.querySelector('[data-verdict=repaired]')")
        shown = await page.ask(
            "[...document.querySelectorAll('.lane')].map((lane) => lane.dataset.verdict)"
        )
        await page.click("Export as a case")
        file = tmp_path / "saved" / f"{run['id']}.jsonl"
        while not file.is_file():
            await asyncio.sleep(0.02)
        process = await asyncio.create_subprocess_exec(
            *(str(Path(sys.executable).with_name("wholecall")), "check", str(file)),
            stdout=asyncio.subprocess.PIPE,
        )
        printed, _ = await process.communicate()
    assert process.returncode == 1  # a call was rejected
    checked = [json.loads(line) for line in printed.decode().splitlines()]
    assert [one["text"] for one in checked] == ["", "", "", "", "Mild."]
    assert [[each["reason"] for each in one["rejected"]] for one in checked[:3]] == [
        ["truncated"]
    ] * 3
    [call] = checked[3]["calls"]
    assert call["arguments"] == {"city": "Rome", "days": 3}
    assert [repair["kind"] for repair in call["repairs"]] == ["trailing_comma"]
    assert shown == ["rejected"] * 3 + ["repaired"]


@in_browser
async def test_a_run_is_played_again_with_pause_and_speed(tmp_path: Path) -> None:
    async with looking(tmp_path) as (served, script, page):
        asked = asyncio.create_task(ask(served))
        script.say(opening(0, "get_weather", arguments='{"city": "Ro'))
        await page.until(f"{LANE}?.querySelector('pre')")
        await page.until("performance.now() > 3000")  # a run that takes its time
        call = chunk({"tool_calls": [{"index": 0, "function": {"arguments": 'me"}'}}]})
        script.say(call, *ending("tool_calls"), end=True)
        script.say(chunk({"content": "Mild."}), *ending(), end=True)
        await asked
        [run] = await until_kept(served)
        await page.ask(f"location.hash = '#/runs/{run['id']}'")
        await page.until("document.querySelector('.tools select')")
        place = "Number(document.querySelector('input[type=range]').value)"
        end = await page.ask("Number(document.querySelector('input[type=range]').max)")
        assert await page.ask(place) == end
        await page.ask("document.querySelector('.tools select').value = '0.25'")
        await page.click("Replay")
        await page.until(f"{LANE}?.dataset.verdict === 'open'")
        await page.click("Pause")
        stopped = await page.ask(place)
        assert 0 < stopped < end
        await page.shoot(PICTURES / "replay.png")
        assert await page.ask(place) == stopped
        await page.ask("document.querySelector('.tools select').value = '4'")
        await page.click("Continue")
        await page.until(f"{LANE}.dataset.verdict === 'released' && {place} === {end}")
        assert await page.ask("document.querySelectorAll('.turn').length") == 2
        # By the place: back to the beginning.
        await page.ask(
            "(() => { const range = document.querySelector('input[type=range]');"
            "range.value = 0; range.dispatchEvent(new Event('input')); })()"
        )
        await page.until("!document.querySelector('[data-verdict=released]')")


@in_browser
async def test_figures_are_drawn_with_their_numbers(tmp_path: Path) -> None:
    async with looking(tmp_path, TWO) as (served, script, page):
        await ask_wrongly(served, script)
        await page.ask("location.hash = '#/figures'")
        await page.until("document.querySelectorAll('.chart').length === 5")
        captions = await page.ask(
            "[...document.querySelectorAll('figcaption')].map((one) => one.textContent)"
        )
        assert captions == [
            "Accepted, repaired, rejected",
            "Rejections by reason",
            "Inconsistencies",
            "Tools: time to the result",
            "Runs",
        ]
        said = await page.ask("document.querySelector('main').textContent")
        assert "m: truncated" in said
        assert "calls_with_other_hint" in said
        await page.shoot(PICTURES / "figures.png")
        await page.shoot(PICTURES / "figures-dark.png", dark=True)


@in_browser
async def test_the_page_opens_with_the_last_runs_and_the_newest_selected(tmp_path: Path) -> None:
    async with looking(tmp_path, TWO) as (served, script, page):
        await ask_wrongly(served, script)
        await page.open("about:blank")
        await page.open(f"{served.url}/")
        await page.until("document.querySelectorAll('.list li').length === 2")
        await page.until("document.querySelector('.title')?.textContent.includes('other')")
        names = "[...document.querySelectorAll('.list .name')].map((each) => each.textContent)"
        assert await page.ask(names) == ["other", "m"]
        pressed = "document.querySelector('.list [aria-pressed=true]').textContent"
        assert "other" in await page.ask(pressed)
        assert "weather in Rome" in await page.ask("document.querySelector('.list').textContent")
        await page.shoot(PICTURES / "opened.png")
        script.say(chunk({"content": "Hello."}), *ending(), end=True)
        await ask(served)
        await page.until("document.querySelectorAll('.list li').length === 3")
        await page.until("document.querySelector('.title').textContent.includes('done')")
