"""What clients ask for in a header of their protocol reaches an upstream that speaks it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from proxy_server import Offer, in_loop, proxying, upstream
from upstreams.fake_endpoint import ANSWER, always, serving
from wholecall.tools.function_tool import make_tool

BETAS = ["context-management-2025-06-27", "interleaved-thinking-2025-05-14"]
HEADER = "anthropic-beta"
MESSAGE: dict[str, Any] = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "text", "text": "Hello"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
SEARCH: dict[str, Any] = {"name": "search", "input_schema": {"type": "object"}}
ASKED: dict[str, Any] = {
    "model": "m",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "hi"}],
}


def look(what: str) -> str:
    """Look at something."""
    return what


@pytest.mark.parametrize(
    ("more", "settings"),
    [({}, {}), ({"tools": [SEARCH]}, {}), ({}, {"mode": "run"})],
    ids=["forward", "gate", "run"],
)
@in_loop
async def test_betas_reach_anthropic(
    tmp_path: Path, *, more: dict[str, Any], settings: dict[str, Any]
) -> None:
    async with serving(always(lambda: web.json_response(MESSAGE))) as behind:
        models = {"m": upstream("anthropic/claude", behind.url, **settings)}
        async with proxying(Offer(models, (make_tool(look),), tmp_path)) as served:
            await served.anthropic.beta.messages.create(**ASKED, **more, betas=BETAS)
            await served.anthropic.messages.create(**ASKED, **more)
    with_betas, without = behind.requests
    assert with_betas.headers[HEADER].split(",") == BETAS
    assert HEADER not in without.headers


@in_loop
async def test_betas_count_where_tokens_are_counted() -> None:
    async with (
        serving(always(lambda: web.json_response({"input_tokens": 4}))) as behind,
        proxying(Offer({"m": upstream("anthropic/claude", behind.url)})) as served,
    ):
        await served.anthropic.beta.messages.count_tokens(
            model="m", messages=ASKED["messages"], betas=BETAS
        )
    assert set(BETAS) < set(behind.requests[0].headers[HEADER].split(","))  # the SDK adds its own


@in_loop
async def test_those_of_the_operator_stay() -> None:
    headers = {"Anthropic-Beta": "ours-1"}
    async with (
        serving(always(lambda: web.json_response(MESSAGE))) as behind,
        proxying(Offer({"m": upstream("anthropic/c", behind.url, headers=headers)})) as served,
    ):
        await served.anthropic.beta.messages.create(**ASKED, betas=["theirs-1"])
    assert behind.requests[0].headers.getall(HEADER) == ["ours-1,theirs-1"]


@in_loop
async def test_another_protocol_hears_nothing_of_them() -> None:
    async with (
        serving(always(lambda: web.json_response(ANSWER))) as behind,
        proxying(Offer({"m": upstream("openai/gpt", behind.url)})) as served,
    ):
        await served.anthropic.beta.messages.create(**{**ASKED, "tools": [SEARCH]}, betas=BETAS)
    assert HEADER not in behind.requests[0].headers


@in_loop
async def test_what_is_no_list_of_words_is_refused() -> None:
    async with proxying(Offer({"m": upstream("anthropic/c", "http://127.0.0.1:9")})) as served:
        status, body, _ = await served.post("/v1/messages", ASKED, anthropic_beta="caf\xe9")
    assert (status, body["error"]["type"]) == (400, "invalid_request_error")
    assert HEADER in body["error"]["message"]


TRACE = {"traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-01", "tracestate": "x=1"}


@pytest.mark.parametrize("tools", [[], [SEARCH]], ids=["forward", "gate"])
@pytest.mark.parametrize("name", ["anthropic/claude", "openai/x"])
@in_loop
async def test_a_trace_goes_on_to_any_upstream(name: str, *, tools: list[Any]) -> None:
    given = MESSAGE if name.startswith("anthropic") else ANSWER
    async with (
        serving(always(lambda: web.json_response(given))) as behind,
        proxying(Offer({"m": upstream(name, behind.url)})) as served,
    ):
        asked = {**ASKED, "tools": tools} if tools else ASKED
        await served.post("/v1/messages", asked, **TRACE)
        await served.post("/v1/messages", asked, tracestate="x=1")
        await served.post("/v1/messages", asked, traceparent="0" * 600)
    sent, *others = ({**each.headers} for each in behind.requests)
    assert {name: sent[name] for name in TRACE} == TRACE
    assert all("traceparent" not in each and "tracestate" not in each for each in others)
