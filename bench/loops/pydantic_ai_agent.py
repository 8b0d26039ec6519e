"""pydantic-ai: an agent, built once, whose events are read to the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

# Installed in .venv-peers only, where this file runs; the types are checked in .venv.
from pydantic_ai import Agent as PydanticAgent  # type: ignore[import-not-found]
from pydantic_ai import AgentRunResultEvent
from pydantic_ai.models.openai import OpenAIChatModel  # type: ignore[import-not-found]
from pydantic_ai.providers.openai import OpenAIProvider  # type: ignore[import-not-found]

from loops.work import PROMPT, Agent, weather

PACKAGE = "pydantic-ai-slim"


@asynccontextmanager
async def open_agent(url: str) -> AsyncIterator[Agent]:
    provider = OpenAIProvider(base_url=url, api_key="none")
    models = {}
    agent = PydanticAgent(tools=[weather])

    async def ask(model: str) -> str:
        if model not in models:
            models[model] = OpenAIChatModel(model, provider=provider)
        text = ""
        async with agent.run_stream_events(PROMPT, model=models[model]) as events:
            async for event in events:
                if isinstance(event, AgentRunResultEvent):
                    text = event.result.output
        return text

    yield ask
