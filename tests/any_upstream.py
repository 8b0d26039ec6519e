"""Upstreams of every protocol that a proxy can ask: each says the same in its own words."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import web

from encoded_answers import HEAD, encode, ended, grown, make_call
from proxy_server import Offer, Served, proxying, upstream
from upstreams.fake_endpoint import Server, serving
from wholecall.events import Event, Reasoning, Text, Usage
from wholecall.protocols.registry import encode_answer
from wholecall.tools.tool import Tool

UPSTREAMS = {
    "openai": "openai-chat",
    "responses": "openai-responses",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "ollama": "ollama",
}
"""How the name of a model begins, and the protocol that its upstream speaks."""
_USAGE = Usage(5, 3)


class Said(NamedTuple):
    """What a model says."""

    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    reasoning: str = ""

    def events(self) -> list[Event]:
        """The same as the events of an answer."""
        thought: list[Event] = [Reasoning(self.reasoning)] if self.reasoning else []
        said: list[Event] = [Text(self.text)] if self.text else []
        called: list[Event] = [
            event
            for number, (name, given) in enumerate(self.calls)
            for event in grown(make_call(number, given, name=name))
        ]
        return [*thought, *said, *called, _USAGE, ended("tool_calls" if self.calls else "stop")]


# ── Answers ─────────────────────────────────────────────────────────────────────────


def write_ollama(said: Said) -> list[dict[str, Any]]:
    calls = [{"function": {"name": name, "arguments": given}} for name, given in said.calls]
    messages: list[dict[str, Any]] = [
        {"role": "assistant", "content": "", "thinking": said.reasoning},
        {"role": "assistant", "content": said.text},
        {"role": "assistant", "content": "", "tool_calls": calls},
    ]
    end = {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"}
    return [{"message": message, "done": False} for message in messages] + [end]


def join_ollama(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    message: dict[str, Any] = {}
    for chunk in chunks[:-1]:
        message |= {name: value for name, value in chunk["message"].items() if value}
    return {**chunks[-1], "message": {"content": "", **message}}


def write_gemini(said: Said) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = [
        *([{"text": said.reasoning, "thought": True}] if said.reasoning else []),
        *([{"text": said.text}] if said.text else []),
        *({"functionCall": {"name": name, "args": given}} for name, given in said.calls),
    ]
    chunks: list[Any] = [
        {"candidates": [{"content": {"role": "model", "parts": [part]}}]} for part in parts
    ]
    chunks[-1]["candidates"][0]["finishReason"] = "STOP"
    return chunks


def join_gemini(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    parts = [part for chunk in chunks for part in chunk["candidates"][0]["content"]["parts"]]
    return {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}


_OTHERS = {
    "ollama": (write_ollama, join_ollama, b"%b\n", "application/x-ndjson"),
    "gemini": (write_gemini, join_gemini, b"data: %b\r\n\r\n", "text/event-stream"),
}


def respond(protocol: str, said: Said, *, stream: bool) -> web.Response:
    if protocol in _OTHERS:
        write, join, frame, media_type = _OTHERS[protocol]
        if not stream:
            return web.json_response(join(write(said)))
        frames = (frame % json.dumps(chunk).encode() for chunk in write(said))
        return web.Response(body=b"".join(frames), content_type=media_type)
    if not stream:
        return web.json_response(encode_answer(protocol, said.events(), head=HEAD))
    body = encode(protocol, said.events())
    return web.Response(body=body, content_type="text/event-stream")


# ── Servers ─────────────────────────────────────────────────────────────────────────


@dataclass
class AnyUpstream:
    """One upstream, and the proxy in front of it: the model is `m`."""

    prefix: str
    served: Served
    server: Server
    says: Said | web.Response = field(default_factory=lambda: Said("Hi."))
    first: list[Said | web.Response] = field(default_factory=list)
    """What it says before that, once each."""
    lacks: str = "nothing"
    """How a path ends that it does not have."""

    @property
    def protocol(self) -> str:
        return UPSTREAMS[self.prefix]

    @property
    def sent(self) -> list[Any]:
        """The bodies that the upstream was sent."""
        return [json.loads(body) for body in self.server.bodies]


@asynccontextmanager
async def in_front_of(
    prefix: str,
    name: str = "m",
    *,
    runs: tuple[Tool, ...] = (),
    folder: Path | None = None,
    **settings: Any,
) -> AsyncIterator[AnyUpstream]:
    """A proxy in front of an upstream of this protocol; `name` is what that one calls its model,
    `runs` are the proxy's own tools, and `folder` is where its files are."""
    box: list[AnyUpstream] = []

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        [it] = box
        if request.path.endswith(it.lacks):
            return web.json_response({"error": {"message": "no such route"}}, status=404)
        says = it.first.pop(0) if it.first else it.says
        if isinstance(says, web.Response):
            return web.Response(body=says.body, status=says.status, headers=says.headers)
        streamed = it.sent[-1].get("stream", "stream" in request.path)
        return respond(it.protocol, says, stream=streamed)

    async with serving(handler) as server:
        model = upstream(f"{prefix}/{name}", server.url, **settings)
        async with proxying(Offer({"m": model}, runs, folder)) as served:
            box.append(AnyUpstream(prefix, served, server))
            yield box[0]
