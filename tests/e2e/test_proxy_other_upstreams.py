"""The table of tests/e2e/test_proxy_table.py for upstreams whose protocols no client speaks:
Ollama's and Gemini's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import anthropic
import openai
import pytest
from aiohttp import web

from any_upstream import Said, join_gemini, join_ollama, write_gemini, write_ollama
from official_clients import CLIENTS, FAILURES, Clients, Delivered
from proxy_server import Offer, Served, in_loop, proxying, upstream
from upstreams.fake_endpoint import Handler, hang_up, serving

MAIL: tuple[str, dict[str, Any]] = ("send_email", {"to": "ada@example.org", "body": "At eight."})
PAIR: tuple[tuple[str, dict[str, Any]], ...] = (
    ("get_weather", {"city": "Oslo", "unit": "C"}),
    ("list_items", {}),
)
SOUND = {
    "text": Delivered("All done.", (), "", "stop"),
    "call": Delivered("", (MAIL,), "", "tool_calls"),
    "parallel": Delivered("", PAIR, "", "tool_calls"),
    "text-and-call": Delivered("Let me write.", (MAIL,), "", "tool_calls"),
    "reasoning-and-call": Delivered("", (MAIL,), "I could write.", "tool_calls"),
}
BROKEN = ("refused", "cut", "no-json")


# ── Upstreams ───────────────────────────────────────────────────────────────────────


class Upstream:
    """Answers as its protocol does; the name of the model says what."""

    def __init__(
        self,
        write: Callable[[Said], list[dict[str, Any]]],
        join: Callable[[list[dict[str, Any]]], dict[str, Any]],
        *,
        frame: bytes,
        media_type: str,
    ) -> None:
        self._write, self._join = write, join
        self._frame, self._media_type = frame, media_type

    def handle(self, bodies: list[bytes]) -> Handler:
        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            body = json.loads(bodies[-1])
            model = body.get("model") or request.path.rpartition("/")[2].partition(":")[0]
            streamed = body.get("stream", "stream" in request.path)
            return await self._answer(request, model, streamed=streamed)

        return handler

    async def _answer(
        self, request: web.BaseRequest, model: str, *, streamed: bool
    ) -> web.StreamResponse:
        if model == "refused":
            return web.json_response({"error": {"message": "broken"}}, status=500)
        if model == "no-json":
            return web.Response(text="<html>", content_type="text/html")
        said = SOUND.get(model, SOUND["text-and-call"])
        chunks = self._write(Said(said.text, said.calls, said.reasoning))
        if not streamed and model != "cut":
            return web.json_response(self._join(chunks))
        response = web.StreamResponse(headers={"content-type": self._media_type})
        await response.prepare(request)
        for chunk in chunks[:-1] if model == "cut" else chunks:
            await response.write(self._frame % json.dumps(chunk).encode())
        if model == "cut":
            hang_up(request, rudely=False)
        return response


UPSTREAMS = {
    "ollama": Upstream(write_ollama, join_ollama, frame=b"%b\n", media_type="application/x-ndjson"),
    "gemini": Upstream(
        write_gemini, join_gemini, frame=b"data: %b\r\n\r\n", media_type="text/event-stream"
    ),
}


# ── The table ───────────────────────────────────────────────────────────────────────


async def _ask(served: Served, client: str, *, model: str, stream: bool) -> Delivered | str:
    def ask() -> Delivered | str:
        url = served.url
        with (
            openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as chat,
            anthropic.Anthropic(base_url=url, api_key="any", max_retries=0) as messages,
        ):
            try:
                return CLIENTS[client](Clients(chat, messages), model, stream=stream)
            except FAILURES:
                return "an error"

    return await asyncio.to_thread(ask)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("prefix", UPSTREAMS)
@pytest.mark.parametrize("client", CLIENTS)
@in_loop
async def test_every_client_gets_the_same_from_every_upstream(
    client: str, prefix: str, *, stream: bool
) -> None:
    bodies: list[bytes] = []
    names = (*SOUND, *BROKEN)
    async with serving(UPSTREAMS[prefix].handle(bodies)) as behind:
        behind.bodies = bodies
        models = {name: upstream(f"{prefix}/{name}", behind.url) for name in names}
        async with proxying(Offer(models)) as served:
            heard = {name: await _ask(served, client, model=name, stream=stream) for name in names}
    assert heard == {**SOUND, **dict.fromkeys(BROKEN, "an error")}
