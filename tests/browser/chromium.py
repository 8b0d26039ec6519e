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
        """Press the button that says this."""
        buttons = "[...document.querySelectorAll('button')]"
        await self.ask(f"{buttons}.find((one) => one.textContent === {json.dumps(text)}).click()")

    async def shoot(self, path: Path, *, width: int = 1200, dark: bool = False) -> None:
        """A picture of the page."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=False,
        )
        picture = await self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(picture["data"]))


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
            for domain in ("Page", "Runtime", "Log", "Network"):
                await page.call(f"{domain}.enable")
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
