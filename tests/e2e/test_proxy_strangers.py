"""Upstreams behind whose address no model answers: clients get a status, never half a stream."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from proxy_server import Offer, in_loop, proxying, upstream
from upstreams.fake_endpoint import always, serving
from wholecall.tools.function_tool import make_tool

STRANGERS: dict[str, tuple[int, str, bytes, str]] = {
    "no content": (204, "application/octet-stream", b"", "empty body"),
    "an empty stream": (200, "text/event-stream", b"", "e"),
    "an empty body": (200, "application/json", b"", "empty body"),
    "a captive portal": (200, "text/html", b"<html><title>Sign in</title></html>", "web page"),
    "a page that is called a stream": (200, "text/event-stream", b"<html></html>", "e"),
    "a page that is called JSON": (200, "application/json", b"<html></html>", "web page"),
    "a web server": (200, "text/plain", b"It works!", "plain text"),
    "another service": (200, "application/json", b'{"status": "ok"}', "e"),
    "an error with a good status": (200, "application/json", b'{"error": {"message": "e"}}', "e"),
    "an error as a stream": (
        200,
        "text/event-stream",
        b'data: {"error": {"message": "e"}}\n\n',
        "e",
    ),
}
HI = [{"role": "user", "content": "hi"}]
CLIENTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "openai/m": (
        "/v1/chat/completions",
        {"messages": HI},
        {"type": "function", "function": {"name": "work"}},
    ),
    "openai-responses/m": (
        "/v1/responses",
        {"input": "hi"},
        {"type": "function", "name": "work", "parameters": {"type": "object"}},
    ),
    "anthropic/m": (
        "/v1/messages",
        {"messages": HI, "max_tokens": 5},
        {"name": "work", "input_schema": {"type": "object"}},
    ),
}


def work() -> str:
    """Never runs."""
    raise AssertionError


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("stranger", STRANGERS)
@in_loop
async def test_what_no_model_said_is_a_502_before_any_byte_of_a_stream(
    stranger: str, client: str, *, tmp_path: Path
) -> None:
    status, kind, body, said = STRANGERS[stranger]
    path, asked, tool = CLIENTS[client]
    ways: dict[str, dict[str, Any]] = {
        "forward": {"model": "gate"},
        "gate": {"model": "gate", "tools": [tool]},
        "run": {"model": "run"},
    }
    headers = {"content-type": kind}
    page = always(lambda: web.Response(status=status, body=body, headers=headers))
    async with serving(page) as behind:
        models = {mode: upstream(client, f"{behind.url}/v1", mode=mode) for mode in ("gate", "run")}
        async with proxying(Offer(models, tools=(make_tool(work),), folder=tmp_path)) as served:
            for way, stream in itertools.product(ways, (True, False)):
                whole = {**asked, **ways[way], "stream": stream}
                given, told, _ = await served.post(path, whole)
                assert (way, stream, given) == (way, stream, 502)
                assert said in told["error"]["message"]
                assert "<" not in told["error"]["message"]
