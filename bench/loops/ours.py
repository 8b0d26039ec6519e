"""Wholecall. The tool only reads, and says so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import wholecall
from loops.work import MOST_TURNS, PROMPT, Agent, weather
from wholecall.tools.function_tool import make_tool

PACKAGE = "wholecall"


@asynccontextmanager
async def open_agent(url: str, *, read_only: bool = True) -> AsyncIterator[Agent]:
    upstream = wholecall.HttpUpstream("openai-chat", url, api_key="none")
    tools = [make_tool(weather, read_only=read_only)]
    limits = wholecall.RunLimits(turns=MOST_TURNS)

    async def ask(model: str) -> str:
        run = wholecall.run(model, PROMPT, tools=tools, upstream=upstream, limits=limits)
        async for _ in run:
            pass
        return (await run.result()).text

    yield ask
    await upstream.close()
