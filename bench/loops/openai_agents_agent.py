"""openai-agents: an agent for each model, built once; tracing is off."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import openai

# Installed in .venv-peers only, where this file runs; the types are checked in .venv.
from agents import (  # type: ignore[import-not-found]
    Agent as OpenAIAgent,
)
from agents import (
    OpenAIChatCompletionsModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)

from loops.work import MOST_TURNS, PROMPT, SCENARIOS, Agent, weather

PACKAGE = "openai-agents"


@asynccontextmanager
async def open_agent(url: str) -> AsyncIterator[Agent]:
    set_tracing_disabled(True)
    client = openai.AsyncOpenAI(base_url=url, api_key="none")
    tools = [function_tool(weather)]
    agents = {
        name: OpenAIAgent(
            name="bench",
            tools=tools,
            model=OpenAIChatCompletionsModel(model=name, openai_client=client),
        )
        for name in SCENARIOS
    }

    async def ask(model: str) -> str:
        run = Runner.run_streamed(agents[model], PROMPT, max_turns=MOST_TURNS)
        async for _ in run.stream_events():
            pass
        return str(run.final_output)

    yield ask
    await client.close()
