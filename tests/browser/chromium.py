"""Chromium without a window, driven by its own debugging protocol. No package is needed for it."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp

PATIENCE = 30.0
FOCUSED = """(() => {
  const element = document.activeElement;
  return element.getAttribute("aria-label") ?? element.textContent.trim();
})()"""
# What the page's policy refuses is told to the page; nothing may be.
_NOTE_REFUSALS = """
window.refused = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.refused.push(`${event.violatedDirective} ${event.blockedURI}`);
});
"""
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--remote-debugging-port=0",
)


def find_chromium() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((found for name in names if (found := shutil.which(name))), None)


class Page:
    """One page, and what it complained of."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self.complaints: list[str] = []
        """Exceptions, and whatever was refused by the page's policy."""
        self.fetched: list[str] = []
        """Addresses that the page asked for."""

    async def read(self) -> None:
        async for message in self._socket:
            told = json.loads(message.data)
            if "id" in told:
                self._waiting.pop(told["id"]).set_result(told)
            else:
                self._notice(told["method"], told["params"])

    def _notice(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"]))
        elif method == "Log.entryAdded":
            self.complaints.append(params["entry"]["text"])
        elif method == "Page.javascriptDialogOpening":
            self.complaints.append(f"a dialog: {params['message']}")
        elif method == "Network.requestWillBeSent":
            self.fetched.append(params["request"]["url"])

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        await self._socket.send_json({"id": number, "method": method, "params": params})
        told = await asyncio.wait_for(answer, PATIENCE)
        assert "error" not in told, told
        return dict(told["result"])

    async def open(self, url: str) -> None:
        await self.call("Page.navigate", url=url)

    async def ask(self, expression: str) -> Any:
        """What JavaScript says of the page."""
        told = await self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until the expression is true."""
        async with asyncio.timeout(PATIENCE):
            while not await self.ask(f"Boolean({expression})"):
                await asyncio.sleep(0.02)

    async def click(self, text: str) -> None:
        """Press the button that says this, as soon as it is there."""
        buttons = "[...document.querySelectorAll('button')]"
        found = f"{buttons}.find((one) => one.textContent === {json.dumps(text)})"
        await self.until(found)
        await self.ask(f"{found}.click()")

    async def press(self, key: str, *, modifiers: int = 0) -> None:
        """Press a key, as a keyboard does it."""
        text = {"Enter": "\r", "Space": " "}.get(key, "")
        named = {"key": " " if key == "Space" else key, "code": key, "modifiers": modifiers}
        number = {"Enter": 13, "Tab": 9, "Space": 32, "Escape": 27, "ArrowLeft": 37}[key]
        down = {"type": "keyDown" if text else "rawKeyDown", "text": text, **named}
        await self.call("Input.dispatchKeyEvent", windowsVirtualKeyCode=number, **down)
        await self.call(
            "Input.dispatchKeyEvent", type="keyUp", windowsVirtualKeyCode=number, **named
        )

    async def type(self, text: str) -> None:
        """Write into what has the focus."""
        await self.call("Input.insertText", text=text)

    async def tab_to(self, name: str) -> None:
        """Go on with the Tab key until the element of this accessible name has the focus."""
        for _ in range(80):
            await self.press("Tab")
            if await self.ask(FOCUSED) == name:
                return
        raise AssertionError(f"{name!r} cannot be reached with the keyboard")

    async def resize(self, width: int, *, height: int = 900, dark: bool = False) -> None:
        """A window of this size, in light or dark."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])
        await self.call("Emulation.setScrollbarsHidden", hidden=True)
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    async def shoot(self, path: Path, *, width: int = 1200, dark: bool = False) -> None:
        """A picture of the whole page."""
        await self.resize(width, dark=dark)
        picture = await self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(picture["data"]))

    async def list_names(self) -> list[tuple[str, str]]:
        """Role and name of every element, as a screen reader is told them."""
        tree = await self.call("Accessibility.getFullAXTree")
        nodes = [node for node in tree["nodes"] if not node.get("ignored")]
        return [
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in nodes
            if "role" in node
        ]

    async def save_to(self, folder: Path) -> None:
        """Downloads go there."""
        folder.mkdir(exist_ok=True)
        await self.call(
            "Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder.resolve())
        )


@asynccontextmanager
async def chromium(folder: Path) -> AsyncIterator[Page]:
    """A browser with one empty page."""
    program = find_chromium()
    assert program is not None
    process = await asyncio.create_subprocess_exec(
        program,
        *_FLAGS,
        f"--user-data-dir={folder / 'profile'}",
        "about:blank",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        port = await _find_port(folder / "profile" / "DevToolsActivePort")
        async with aiohttp.ClientSession() as http, await _connect(http, port) as socket:
            page = Page(socket)
            reading = asyncio.create_task(page.read())
            for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
                await page.call(f"{domain}.enable")
            await page.call("Page.addScriptToEvaluateOnNewDocument", source=_NOTE_REFUSALS)
            yield page
            await page.call("Browser.close")
            reading.cancel()
    finally:
        await _end(process)


async def _connect(http: aiohttp.ClientSession, port: int) -> aiohttp.ClientWebSocketResponse:
    async with http.get(f"http://127.0.0.1:{port}/json/list") as response:
        [target] = [one for one in await response.json() if one["type"] == "page"]
    return await http.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0)


async def _end(process: asyncio.subprocess.Process) -> None:
    try:
        await asyncio.wait_for(process.wait(), 5)
    except TimeoutError:
        process.kill()
        await process.wait()


async def _find_port(file: Path) -> int:
    async with asyncio.timeout(PATIENCE):
        while not (file.is_file() and file.read_text()):
            await asyncio.sleep(0.05)
    return int(file.read_text().splitlines()[0])
