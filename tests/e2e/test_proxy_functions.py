"""Clients that offer `functions`, as all did before there were tools."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from proxy_server import Offer, in_loop, proxying, upstream
from upstreams.fake_endpoint import always, serving

WEATHER: dict[str, Any] = {
    "name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


def called(*cities: str) -> dict[str, Any]:
    calls = [
        {
            "id": f"call_{city}",
            "type": "function",
            "function": {"name": "weather", "arguments": json.dumps({"city": city})},
        }
        for city in cities
    ]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    return {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}


@in_loop
async def test_a_function_is_called_as_its_client_reads_it() -> None:
    async with (
        serving(always(lambda: web.json_response(called("Oslo", "Rome")))) as behind,
        proxying(Offer({"m": upstream("openai/x", behind.url)})) as served,
    ):
        asked: dict[str, Any] = {
            "model": "m",
            "messages": [
                {"role": "user", "content": "Weather?"},
                {
                    "role": "assistant",
                    "content": None,
                    "function_call": {"name": "weather", "arguments": "{}"},
                },
                {"role": "function", "name": "weather", "content": "which city?"},
            ],
            "functions": [WEATHER],
            "function_call": "auto",
        }
        answer = await served.openai.chat.completions.create(**asked)
        chunks = [
            chunk
            async for chunk in await served.openai.chat.completions.create(**asked, stream=True)
        ]
    [choice] = answer.choices
    assert choice.finish_reason == "function_call"
    assert choice.message.tool_calls is None
    assert choice.message.function_call is not None
    # It can have one call only, and the model was told so.
    assert json.loads(choice.message.function_call.arguments) == {"city": "Oslo"}
    assert json.loads(behind.bodies[0])["parallel_tool_calls"] is False
    calls = [chunk.choices[0].delta.function_call for chunk in chunks if chunk.choices]
    assert [call.name for call in calls if call is not None] == ["weather"]
    assert chunks[-1].choices[0].finish_reason == "function_call"
