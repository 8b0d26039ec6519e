"""The page for everybody: keyboard, names, contrast, a narrow screen."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from browser.chromium import Page
from browser.pages import LANE, PICTURES, Setting, ask, in_browser, looking, until_kept
from scripted import chunk, ending, opening
from wholecall.tools.function_tool import make_tool

NEED_NAMES = {
    *("button", "link", "textbox", "combobox", "checkbox", "slider", "searchbox", "image"),
    *("region", "dialog", "listbox", "article", "DisclosureTriangle"),
}
LEAST_CONTRAST = 4.5
"""Of WCAG 2 AA, for text."""
# The contrast of each text with what stands behind it; what is half transparent is mixed.
FIND_FAINT = """(() => {
  const context = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const paint = (colours) => {
    context.clearRect(0, 0, 1, 1);
    for (const colour of colours) { context.fillStyle = colour; context.fillRect(0, 0, 1, 1); }
    return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((v) => v / 255)
      .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const faint = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
    if (element.closest(".skip, .unseen, noscript, svg")) continue;
    const behind = [];
    for (let one = element; one; one = one.parentElement) {
      behind.unshift(getComputedStyle(one).backgroundColor);
    }
    const back = light(paint(["white", ...behind]));
    const ink = light(paint(["white", ...behind, getComputedStyle(element).color]));
    const contrast = (Math.max(back, ink) + 0.05) / (Math.min(back, ink) + 0.05);
    const said = walker.currentNode.data.slice(0, 40);
    if (contrast < LEAST) faint.push(`${contrast.toFixed(2)} ${element.className}: ${said}`);
  }
  return faint;
})()""".replace("LEAST", str(LEAST_CONTRAST))
LEAST_HEIGHT = 11
"""Of a line of text, in pixels."""
FIND_TINY = """(() => {
  const tiny = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
    if (element.closest(".skip, .unseen, noscript, title")) continue;
    const line = document.createRange();
    line.selectNodeContents(walker.currentNode);
    const height = line.getClientRects()[0]?.height ?? LEAST;
    if (height < LEAST) tiny.push(`${height.toFixed(1)} ${walker.currentNode.data}`);
  }
  return tiny;
})()""".replace("LEAST", str(LEAST_HEIGHT))


def send_email(to: str) -> str:
    """Send an email."""
    return to


def get_weather(city: str, days: int = 1) -> str:
    """Current weather of a city."""
    return f"12 degrees in {city} for {days} days"


SETTING = Setting(
    tools=(make_tool(get_weather, read_only=True), make_tool(send_email, approve=True))
)


async def show_everything(served: Any, script: Any, *, page: Page) -> asyncio.Task[Any]:
    """A run with all that a run can have; it waits for approval."""
    asked = asyncio.create_task(ask(served))
    script.say(chunk({"content": "Let me look.", "reasoning_content": "I should look."}))
    for number, arguments in enumerate(
        ('{"city": "Rome", "days": "3",}', '{"days": 2}', '{"city": "Oslo"}')
    ):
        script.say(opening(number, "get_weather", arguments=arguments))
    script.say(opening(3, "send_email", arguments='{"to": "ada@example.org"}'))
    script.say(*ending("tool_calls"), end=True)
    await page.until("document.querySelector('.approval')")
    await page.until("document.querySelector('[data-verdict=rejected]')")
    return asked


async def finish(asked: asyncio.Task[Any], script: Any, *, page: Page) -> None:
    script.say(chunk({"content": "Done."}), *ending(), end=True)
    await page.click("Approve")
    await asked


async def check_names(page: Page) -> None:
    names = await page.list_names()
    assert [role for role, name in names if role in NEED_NAMES and not name.strip()] == []
    assert sum(role in NEED_NAMES for role, _ in names) > 5


@in_browser
async def test_everything_has_a_name_and_enough_contrast(tmp_path: Path) -> None:
    async with looking(tmp_path, SETTING) as (served, script, page):
        asked = await show_everything(served, script, page=page)
        await page.ask(
            "document.querySelectorAll('details').forEach((one) => { one.open = true; })"
        )
        for dark in (False, True):
            await page.resize(1200, dark=dark)
            assert await page.ask(FIND_FAINT) == []
        await check_names(page)
        await page.shoot(PICTURES / "everything.png", width=1400)
        await page.shoot(PICTURES / "everything-dark.png", width=1400, dark=True)
        await finish(asked, script, page=page)
        [run] = await until_kept(served)
        for address in ("#/runs", f"#/runs/{run['id']}", "#/figures"):
            await page.ask(f"location.hash = '{address}'")
            await page.until("document.querySelector('tbody tr, .turn, svg')")
            for dark in (False, True):
                await page.resize(1200, dark=dark)
                assert await page.ask(FIND_FAINT) == []
            await check_names(page)


@pytest.mark.parametrize("width", [390, 320])
@in_browser
async def test_nothing_sticks_out_of_a_narrow_screen(tmp_path: Path, width: int) -> None:
    async with looking(tmp_path, SETTING) as (served, script, page):
        await page.resize(width)
        asked = await show_everything(served, script, page=page)
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert await page.ask(wide) == 0
        assert await page.ask(FIND_TINY) == []
        await page.shoot(PICTURES / f"everything-{width}.png", width=width)
        await finish(asked, script, page=page)
        [run] = await until_kept(served)
        for address in ("#/runs", f"#/runs/{run['id']}", "#/figures"):
            await page.ask(f"location.hash = '{address}'")
            await page.until("document.querySelector('tbody tr, .turn, svg')")
            assert await page.ask(wide) == 0
            assert await page.ask(FIND_TINY) == []
        await page.shoot(PICTURES / f"figures-{width}.png", width=width)


@in_browser
async def test_all_of_it_can_be_done_with_the_keyboard(tmp_path: Path) -> None:
    async with looking(tmp_path) as (served, script, page):
        await page.tab_to("Skip to the content")
        await page.press("Enter")
        assert await page.ask("document.activeElement.id") == "main"
        await page.tab_to("Prompt")
        await page.type("Weather?")
        await page.tab_to("Send")
        await page.press("Space")
        call = opening(0, "get_weather", arguments='{"city": "Rome"}')
        script.say(call, *ending("tool_calls"), end=True)
        script.say(chunk({"content": "Mild."}), *ending(), end=True)
        await page.until("document.querySelector('.title')?.textContent.includes('done')")
        [run] = await until_kept(served)
        await page.tab_to("History")
        await page.press("Enter")
        await page.until("document.querySelector('tbody a')")
        await page.tab_to(await page.ask("document.querySelector('tbody a').textContent"))
        await page.press("Enter")
        await page.until(f"location.hash.includes('{run['id']}') && {LANE}")
        await page.tab_to("Raw chunks")
        await page.press("Enter")
        await page.until("document.querySelector('.raw table')")
        await page.tab_to("Place in the run, in seconds")
        await page.press("ArrowLeft")
        await page.until("document.querySelector('.tools').textContent.includes('Continue')")
