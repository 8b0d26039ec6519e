"""pydantic-ai: an agent for each model, built once, whose events are read to the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

# Installed in .venv-peers only, where this file runs; the types are checked in .venv.
from pydantic_ai import Agent as PydanticAgent  # type: ignore[import-not-found]
from pydantic_ai import AgentRunResultEvent
from pydantic_ai.models.openai import OpenAIChatModel  # type: ignore[import-not-found]
from pydantic_ai.providers.openai import OpenAIProvider  # type: ignore[import-not-found]

from loops.work import PROMPT, SCENARIOS, Agent, weather

PACKAGE = "pydantic-ai-slim"


@asynccontextmanager
async def open_agent(url: str) -> AsyncIterator[Agent]:
    provider = OpenAIProvider(base_url=url, api_key="none")
    agents = {
        name: PydanticAgent(OpenAIChatModel(name, provider=provider), tools=[weather])
        for name in SCENARIOS
    }

    async def ask(model: str) -> str:
        text = ""
        async with agents[model].run_stream_events(PROMPT) as events:
            async for event in events:
                if isinstance(event, AgentRunResultEvent):
                    text = event.result.output
        return text

    yield ask
