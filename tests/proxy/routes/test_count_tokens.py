"""How many tokens a request has."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp import web

from proxy_server import Offer, in_loop, proxying, upstream
from upstreams.fake_endpoint import always, serving
from wholecall.protocols.registry import decode_request
from wholecall.proxy.routes.count_tokens import estimate

ASKED: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hello there"}]}
PATH = "/v1/messages/count_tokens"


@in_loop
async def test_anthropic_counts_itself() -> None:
    counted = always(lambda: web.json_response({"input_tokens": 42, "more": True}))
    async with (
        serving(counted) as behind,
        proxying(Offer({"m": upstream("anthropic/claude", behind.url)})) as served,
    ):
        answer = await served.anthropic.messages.count_tokens(**ASKED)
    assert answer.input_tokens == 42
    assert behind.requests[0].path == "/v1/messages/count_tokens"
    assert json.loads(behind.bodies[0]) == {**ASKED, "model": "claude"}


@in_loop
async def test_for_others_it_is_an_estimate() -> None:
    async with proxying(Offer({"m": upstream("openai/x", "http://127.0.0.1:9")})) as served:
        answer = await served.anthropic.messages.count_tokens(**ASKED)
        assert answer.input_tokens == 6
        status, body, _ = await served.post(PATH, {"model": "none"})
        assert (status, body["type"]) == (404, "error")
        status, body, _ = await served.post(PATH, {"model": "m", "messages": 7})
        assert (status, body["error"]["type"]) == (400, "invalid_request_error")
        huge = b'{"model": "m", "messages": [], "temperature": 1e999}'
        async with served.http.post(served.url + PATH, data=huge) as response:
            assert response.status == 400
            assert (await response.json())["error"]["type"] == "invalid_request_error"


INPUT = "/v1/responses/input_tokens"


@in_loop
async def test_responses_are_counted_by_their_upstream_if_it_can() -> None:
    counted = {"object": "response.input_tokens", "input_tokens": 42}
    async with (
        serving(always(lambda: web.json_response(counted))) as behind,
        proxying(Offer({"m": upstream("responses/theirs", f"{behind.url}/v1")})) as served,
    ):
        answer = await served.openai.responses.input_tokens.count(model="m", input="Hello there")
    assert answer.input_tokens == 42
    assert behind.requests[0].path == INPUT
    assert json.loads(behind.bodies[0]) == {"model": "theirs", "input": "Hello there"}


@pytest.mark.parametrize("name", ["responses/theirs", "openai/theirs", "anthropic/theirs"])
@in_loop
async def test_responses_are_counted_here_if_it_cannot(name: str) -> None:
    refused = {"error": {"message": "no such route"}}
    async with (
        serving(always(lambda: web.json_response(refused, status=404))) as behind,
        proxying(Offer({"m": upstream(name, behind.url)})) as served,
    ):
        status, told, _ = await served.post(INPUT, {"model": "m", "input": "Hello there"})
        assert (status, told) == (200, {"object": "response.input_tokens", "input_tokens": 6})
        status, told, _ = await served.post(INPUT, {"model": "m"})
        assert (status, told["input_tokens"]) == (200, 0)


@in_loop
async def test_another_failure_of_the_upstream_is_reported() -> None:
    refused = {"error": {"message": "no"}}
    async with (
        serving(always(lambda: web.json_response(refused, status=400))) as behind,
        proxying(Offer({"m": upstream("responses/x", f"{behind.url}/v1")})) as served,
    ):
        status, told, _ = await served.post(INPUT, {"model": "m", "input": "x"})
        assert (status, told["error"]["message"].endswith("no")) == (400, True)


def test_every_part_of_a_request_counts() -> None:
    image = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
    use = {"type": "tool_use", "id": "t", "name": "dig", "input": {"depth": 3}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "dug"}
    odd = {"type": "odd", "value": 1}
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    histories: list[Any] = [
        [],
        [{"role": "user", "content": "one two"}],
        [{"role": "user", "content": [image]}],
        [{"role": "assistant", "content": [thinking, use]}],
        [{"role": "user", "content": [result]}],
        [{"role": "user", "content": [odd]}],
    ]
    counts = [
        estimate(decode_request("anthropic", {"model": "m", "max_tokens": 1, "messages": each}))
        for each in histories
    ]
    assert counts[0] == 0
    assert all(count > 4 for count in counts[1:])
    assert counts[2] > 1000
    tools = [{"name": "dig", "input_schema": {"type": "object"}}]
    body = {"model": "m", "max_tokens": 1, "messages": [], "tools": tools}
    assert estimate(decode_request("anthropic", body)) > 0
