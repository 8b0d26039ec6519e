"""Structured output: every client's schema reaches every upstream in its own form."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from encoded_answers import HEAD, encode, ended, read, read_whole
from proxy_server import Offer, in_loop, proxying, upstream
from upstreams.fake_endpoint import Handler, serving
from wholecall.events import Event, Text
from wholecall.protocols.registry import client_side, encode_answer

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
SAID = '{"city": "Oslo"}'
ANSWER: list[Event] = [Text(SAID), ended("stop")]
USER = [{"role": "user", "content": "Where?"}]
NAMED = {"name": "place", "schema": SCHEMA}
CLIENTS: dict[str, dict[str, Any]] = {
    "openai-chat": {
        "messages": USER,
        "response_format": {"type": "json_schema", "json_schema": NAMED},
    },
    "openai-responses": {
        "input": "Where?",
        "text": {"format": {"type": "json_schema", **NAMED}},
    },
    "anthropic": {
        "messages": USER,
        "max_tokens": 99,
        "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
    },
}
# The beginning of a model's name for each upstream, and the protocol that it speaks.
UPSTREAMS = {
    "openai": "openai-chat",
    "responses": "openai-responses",
    "anthropic": "anthropic",
    "ollama": "ollama",
    "gemini": "gemini",
}
OLLAMA = {"message": {"role": "assistant", "content": SAID}, "done": True, "done_reason": "stop"}
PARTS = {"content": {"role": "model", "parts": [{"text": SAID}]}, "finishReason": "STOP"}
OTHERS: dict[str, tuple[dict[str, Any], bytes, str]] = {
    "ollama": (OLLAMA, b"%b\n", "application/x-ndjson"),
    "gemini": ({"candidates": [PARTS]}, b"data: %b\r\n\r\n", "text/event-stream"),
}


def answer(protocol: str, *, stream: bool) -> web.Response:
    if protocol in OTHERS:
        chunk, frame, kind = OTHERS[protocol]
        body = json.dumps(chunk).encode()
        kind = kind if stream else "application/json"
        return web.Response(body=frame % body if stream else body, content_type=kind)
    if stream:
        return web.Response(body=encode(protocol, ANSWER), content_type="text/event-stream")
    return web.json_response(encode_answer(protocol, ANSWER, head=HEAD))


def holds(value: Any, wanted: Any) -> bool:
    """Whether a value stands somewhere in a body."""
    if value == wanted:
        return True
    inner = value.values() if isinstance(value, dict) else value
    return isinstance(value, dict | list) and any(holds(each, wanted) for each in inner)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("prefix", UPSTREAMS)
@pytest.mark.parametrize("client", CLIENTS)
@in_loop
async def test_a_schema_reaches_every_upstream(client: str, prefix: str, *, stream: bool) -> None:
    protocol, bodies = UPSTREAMS[prefix], list[bytes]()

    def handle() -> Handler:
        async def handler(_: web.BaseRequest) -> web.StreamResponse:
            return answer(protocol, stream=stream)

        return handler

    async with serving(handle()) as behind:
        behind.bodies = bodies
        offer = Offer({"m": upstream(f"{prefix}/m", behind.url)})
        async with proxying(offer) as served, aiohttp.ClientSession() as session:
            url = f"{served.url}{client_side(client).path}"
            asked = {"model": "m", "stream": stream, **CLIENTS[client]}
            async with session.post(url, json=asked) as response:
                assert response.status == 200, await response.text()
                content = await response.read()
    assert holds(json.loads(bodies[-1]), SCHEMA)
    outcome = read(client, content) if stream else read_whole(client, json.loads(content))
    assert (outcome.text, outcome.finish_reason) == (SAID, "stop")
