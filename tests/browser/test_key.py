"""The dialog that asks for a key, in a real browser."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from browser.chromium import Page, chromium
from browser.pages import in_browser
from proxy_server import proxying
from wholecall.proxy.app import make_app
from wholecall.proxy.config.schema import Config, InspectorConfig, KeysConfig

OPEN = "document.getElementById('login')?.open"
STATE = "document.getElementById('state').textContent"
# Whatever the page does by the clock is done when the test says so.
_OWN_CLOCK = """
window.due = [];
window.setTimeout = (act) => window.due.push({ act, again: false });
window.setInterval = (act) => window.due.push({ act, again: true });
window.pass = () => {
  const now = window.due;
  window.due = now.filter((each) => each.again);
  for (const each of now) each.act();
};
"""


@asynccontextmanager
async def asked_for_a_key(folder: Path) -> AsyncIterator[Page]:
    config = Config(
        keys=KeysConfig(path=str(folder / "keys.sqlite"), required=True),
        inspector=InspectorConfig(enabled=True),
    )
    async with chromium(folder) as page, proxying(make_app(config, environ={})) as served:
        await page.call("Page.addScriptToEvaluateOnNewDocument", source=_OWN_CLOCK)
        await page.open(f"{served.url}/inspector")
        await page.until(OPEN)
        yield page
        assert await page.ask("window.refused") == []
        await page.open("about:blank")


async def cancel(page: Page) -> None:
    await page.click("Cancel")


async def escape(page: Page) -> None:
    await page.press("Escape")


@pytest.mark.parametrize("leave", [cancel, escape])
@in_browser
async def test_who_enters_no_key_is_asked_again_only_after_a_reload(
    tmp_path: Path, leave: Callable[[Page], Awaitable[None]]
) -> None:
    async with asked_for_a_key(tmp_path) as page:
        await leave(page)
        await page.until(f"{STATE}.includes('Reload the page')")
        before = list(page.fetched)
        for _ in range(3):
            await page.ask("window.pass()")
            await page.ask("fetch('health').then((response) => response.text())")
            assert not await page.ask(OPEN)
        added = [address.rpartition("/")[2] for address in page.fetched[len(before) :]]
        assert added == ["health"] * 3
        await page.ask("location.hash = '#/runs'")
        await page.until("document.getElementById('main').textContent.includes('Reload the page')")
        assert not await page.ask(OPEN)
        await page.ask("location.reload()")
        await page.until(OPEN)
