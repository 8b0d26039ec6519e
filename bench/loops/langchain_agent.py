"""LangChain's `create_agent`: a graph for each model, built once; tracing is off."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

# Installed in .venv-peers only, where this file runs; the types are checked in .venv.
from langchain.agents import create_agent  # type: ignore[import-not-found]
from langchain.tools import tool  # type: ignore[import-not-found]
from langchain_openai import ChatOpenAI  # type: ignore[import-not-found]

from loops.work import MOST_TURNS, PROMPT, SCENARIOS, Agent, weather

PACKAGE = "langchain"
QUESTION = {"messages": [{"role": "user", "content": PROMPT}]}
CONFIG = {"recursion_limit": 2 * MOST_TURNS}


@asynccontextmanager
async def open_agent(url: str) -> AsyncIterator[Agent]:
    os.environ["LANGSMITH_TRACING"] = "false"
    tools = [tool(weather)]
    agents = {
        name: create_agent(
            ChatOpenAI(model=name, base_url=url, api_key="none", streaming=True), tools=tools
        )
        for name in SCENARIOS
    }

    async def ask(model: str) -> str:
        text = ""
        async for message, _ in agents[model].astream(
            QUESTION, config=CONFIG, stream_mode="messages"
        ):
            if message.type == "AIMessageChunk":
                text += message.text
        return text

    yield ask
