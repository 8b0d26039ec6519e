"""The picture of README: `make picture`.

The model is a script, so that there is something to see; all else is real. While its answer is
still being written, one tool has begun already, one call was rejected, and one is being built.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from browser.chromium import Page
from browser.pages import Script, Setting, looking
from proxy_server import Served
from scripted import chunk, growing, opening
from wholecall.tools.function_tool import make_tool

WIDTH = 1400
MOST_BYTES = 250_000
PACE = 0.06
"""Seconds between two pieces of the answer."""
QUESTION = "How is the weather in Rome and in Oslo? Write to Ada about it."
SAID = "I will look up both cities and then write to Ada."
ROME = '{"city": "Rome", "days": 3}'
NOWHERE = '{"town": "Oslo", "days": "some"}'
LETTER = '{"to": "ada@example.org", "subject": "Weather", "body": "Rome is mild, with a light br'


async def get_weather(city: str, days: int = 1) -> str:
    """Current weather of a city."""
    await asyncio.sleep(0.7)
    return f"{city}: 18 degrees and a light breeze, for {days} days"


def send_email(to: str, *, subject: str, body: str) -> str:
    """Send an email."""
    return f"sent {len(subject) + len(body)} characters to {to}"


def cut(text: str) -> list[str]:
    return [text[start : start + 4] for start in range(0, len(text), 4)]


async def speak(script: Script) -> None:
    """Write the answer, up to the midst of its last call."""
    for piece in cut(SAID):
        script.say(chunk({"content": piece}))
        await asyncio.sleep(PACE)
    calls = (("get_weather", ROME), ("get_weather", NOWHERE), ("send_email", LETTER))
    for number, (name, arguments) in enumerate(calls):
        script.say(opening(number, name))
        for piece in cut(arguments):
            script.say(growing(number, piece))
            await asyncio.sleep(PACE)


async def look(served: Served, script: Script, *, page: Page, file: Path) -> None:
    body = {"model": "assistant", "messages": [{"role": "user", "content": QUESTION}]}
    asked = asyncio.create_task(served.post("/v1/chat/completions", {**body, "stream": True}))
    await page.resize(WIDTH)
    await page.ask("document.querySelector('.try').open = false")
    await speak(script)
    await page.until("document.querySelectorAll('.lane').length === 3")
    await page.until("document.querySelector('.lane .result')?.textContent.includes('breeze')")
    await page.shoot(file, width=WIDTH)
    asked.cancel()


async def take(file: Path) -> None:
    tools = (make_tool(get_weather, read_only=True), make_tool(send_email))
    setting = Setting(tools=tools, models=("assistant",))
    with TemporaryDirectory() as folder:
        async with looking(Path(folder), setting) as (served, script, page):
            await look(served, script, page=page, file=file)
    size = file.stat().st_size
    if size > MOST_BYTES:
        raise SystemExit(f"{file} has {size} bytes, more than {MOST_BYTES}")


if __name__ == "__main__":
    asyncio.run(take(Path(sys.argv[1])))
