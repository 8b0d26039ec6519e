"""The loop that one writes first, on the openai SDK: join the pieces by index, parse, run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai

from loops.work import PROMPT, Agent, weather

PACKAGE = "openai"
NUMBER, TEXT = {"type": "number"}, {"type": "string"}
PARAMETERS = {
    "type": "object",
    "properties": {"city": TEXT, "sent": NUMBER},
    "required": ["city", "sent"],
}
TOOLS: Any = [{"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}]


@asynccontextmanager
async def open_agent(url: str) -> AsyncIterator[Agent]:
    client = openai.AsyncOpenAI(base_url=url, api_key="none")

    async def ask(model: str) -> str:
        messages: list[Any] = [{"role": "user", "content": PROMPT}]
        while True:
            answer = await _read(client, model, messages=messages)
            messages.append(answer)
            if not answer["tool_calls"]:
                return str(answer["content"])
            messages += await asyncio.gather(*map(_run, answer["tool_calls"]))

    yield ask
    await client.close()


async def _read(client: openai.AsyncOpenAI, model: str, *, messages: list[Any]) -> dict[str, Any]:
    texts: list[str] = []
    calls: dict[int, dict[str, Any]] = {}
    async for chunk in await client.chat.completions.create(
        model=model, messages=messages, tools=TOOLS, stream=True
    ):
        for choice in chunk.choices:
            texts.append(choice.delta.content or "")
            for delta in choice.delta.tool_calls or []:
                _join(calls, delta)
    return {"role": "assistant", "content": "".join(texts), "tool_calls": list(calls.values())}


def _join(calls: dict[int, dict[str, Any]], delta: Any) -> None:
    if delta.index not in calls:
        function = {"name": delta.function.name, "arguments": ""}
        calls[delta.index] = {"id": delta.id, "type": "function", "function": function}
    calls[delta.index]["function"]["arguments"] += delta.function.arguments or ""


async def _run(call: dict[str, Any]) -> dict[str, str]:
    result = await weather(**json.loads(call["function"]["arguments"]))
    return {"role": "tool", "tool_call_id": call["id"], "content": result}
