"""The real litellm package as an upstream, against a server on loopback."""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from upstreams.fake_endpoint import (
    ANSWER,
    FIRST,
    KEY,
    REQUEST,
    WHOLE_REQUEST,
    Handler,
    Pauses,
    always,
    begin,
    forever,
    good,
    hang_up,
    in_loop,
    serving,
)
from wholecall.errors import UpstreamError
from wholecall.events import Outcome, collect
from wholecall.messages import Native, Request, ToolSpec
from wholecall.protocols.reader import Reader
from wholecall.upstreams.litellm import LiteLLMUpstream
from wholecall.upstreams.retry import RetryPolicy

# LiteLLM and what it imports warn about themselves.
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.usefixtures("_litellm")]

WEATHER = ToolSpec(
    "weather", {"type": "object", "properties": {"city": {"type": "string"}}}, "Of a city."
)
ASKED = replace(REQUEST, model="openai/m", tools=(WEATHER,))
ASKED_WHOLE = replace(WHOLE_REQUEST, model="openai/m", tools=(WEATHER,))


def delta(finish_reason: str | None = None, **fields: Any) -> bytes:
    choice = {"index": 0, "delta": fields, "finish_reason": finish_reason}
    chunk = {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [choice],
    }
    return f"data: {json.dumps(chunk)}\n\n".encode()


def call(arguments: str, **fields: str) -> bytes:
    function = {"arguments": arguments, **{k: v for k, v in fields.items() if k == "name"}}
    ids = {"id": fields["id"], "type": "function"} if "id" in fields else {}
    return delta(tool_calls=[{"index": 0, **ids, "function": function}])


OPENED = call('{"city"', id="call_1", name="weather")
CLOSED = call(': "Oslo"}')
DONE = delta("tool_calls") + b"data: [DONE]\n\n"


def sending(*pieces: bytes, drop: bool = False) -> Handler:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = await begin(request)
        for piece in pieces:
            await response.write(piece)
        if drop:
            hang_up(request)
        return response

    return handler


async def read(upstream: LiteLLMUpstream, request: Request = ASKED) -> Outcome:
    reader = Reader(upstream.protocol, request.tools)
    async with upstream.answer(request) as answer:
        assert answer.hides_truncation
        assert answer.protocol == "openai-chat"
        feed = reader.feed if answer.streamed else reader.feed_response
        events = [event async for chunk in answer.chunks for event in feed(chunk)]
    await upstream.close()
    return collect([*events, *reader.end()])


def ask(url: str, retry: RetryPolicy | None = None) -> LiteLLMUpstream:
    return LiteLLMUpstream(
        base_url=f"{url}/v1",
        api_key=KEY,
        headers={"x-team": "a"},
        retry=retry or RetryPolicy(retries=0),
    )


@in_loop
async def test_a_streamed_call_arrives() -> None:
    async with serving(sending(OPENED, CLOSED, DONE)) as server:
        outcome = await read(ask(server.url))
    [made] = outcome.calls
    assert (made.name, made.arguments) == ("weather", {"city": "Oslo"})
    assert outcome.error is None
    [asked] = server.requests
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["Authorization"] == f"Bearer {KEY}"
    assert asked.headers["x-team"] == "a"
    body = json.loads(server.bodies[0])
    assert (body["model"], body["stream"]) == ("m", True)
    assert body["tools"][0]["function"]["name"] == "weather"


@in_loop
async def test_a_whole_answer_arrives() -> None:
    async with serving(always(lambda: web.json_response(ANSWER))) as server:
        outcome = await read(ask(server.url), ASKED_WHOLE)
    assert outcome.text == "Hello"
    assert "stream" not in json.loads(server.bodies[0])


@in_loop
async def test_text_arrives_in_pieces() -> None:
    async with serving(sending(delta(content="Hel"), delta(content="lo"), delta("stop"))) as server:
        assert (await read(ask(server.url))).text == "Hello"


@in_loop
async def test_a_cut_call_is_no_call_although_litellm_says_that_all_is_well() -> None:
    async with serving(sending(OPENED)) as server:
        outcome = await read(ask(server.url))
    assert outcome.calls == ()
    assert [rejected.name for rejected in outcome.rejected] == ["weather"]
    assert outcome.error is None, "LiteLLM hides that the stream was cut"


@in_loop
async def test_a_broken_connection_is_an_upstream_error() -> None:
    async with serving(sending(OPENED, drop=True)) as server:
        with pytest.raises(UpstreamError) as caught:
            await read(ask(server.url))
    assert caught.value.code == "connection"
    assert caught.value.__cause__ is not None


@in_loop
async def test_a_broken_request_is_an_upstream_error() -> None:
    """LiteLLM knows by itself that nobody answers for this name."""
    with pytest.raises(UpstreamError, match="Provider") as caught:
        await read(LiteLLMUpstream(retry=Pauses().retry()), replace(ASKED, model="nobody/m"))
    assert caught.value.status == 400


@in_loop
async def test_silence_is_a_timeout_and_not_repeated() -> None:
    async def silent(_request: web.BaseRequest) -> web.StreamResponse:
        await forever()
        return web.Response()

    patient = replace(ASKED, rest=Native("openai-chat", {"timeout": 0.1}))
    async with serving(silent) as server:
        with pytest.raises(UpstreamError) as caught:
            await read(ask(server.url, Pauses().retry()), patient)
        assert caught.value.code == "timeout"
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "attempts"), [(400, 1), (401, 1), (404, 1), (418, 1), (429, 3), (500, 3), (503, 3)]
)
@in_loop
async def test_a_refusal_is_an_upstream_error(status: int, attempts: int) -> None:
    body = {"error": {"message": f"no, {KEY}", "type": "t", "code": "c"}}
    refuse = always(lambda: web.json_response(body, status=status, headers={"retry-after": "3"}))
    pauses = Pauses()
    async with serving(refuse) as server:
        with pytest.raises(UpstreamError) as caught:
            await read(ask(server.url, pauses.retry()))
    assert caught.value.status == status
    assert caught.value.code == ("not_found" if status == 404 else "status")
    assert KEY not in str(caught.value)
    assert "no, ***" in str(caught.value)
    assert len(server.requests) == attempts
    assert pauses.seconds == [3.0] * (attempts - 1)


@in_loop
async def test_nobody_listening_is_an_upstream_error() -> None:
    async with serving(good) as server:
        url = server.url
    with pytest.raises(UpstreamError):
        await read(ask(url))


@in_loop
async def test_an_error_in_the_stream_is_an_upstream_error() -> None:
    broken = b'data: {"error": {"message": "exploded", "type": "server_error"}}\n\n'
    async with serving(sending(FIRST, broken)) as server:
        with pytest.raises(UpstreamError, match="exploded"):
            await read(ask(server.url))


@in_loop
async def test_who_leaves_closes_the_connection() -> None:
    gone = asyncio.Event()

    async def endless(request: web.BaseRequest) -> web.StreamResponse:
        response = await begin(request)
        await response.write(delta(content="Hel") + delta(content="lo"))
        try:
            await forever()
        finally:
            gone.set()
        return response

    async with serving(endless) as server:
        async with ask(server.url).answer(ASKED) as answer:
            await anext(answer.chunks)
        await gone.wait()


SETTINGS = (
    "callbacks",
    "success_callback",
    "failure_callback",
    "drop_params",
    "num_retries",
    "suppress_debug_info",
    "api_key",
    "api_base",
    "set_verbose",
)


def look_at(package: Any) -> Iterator[tuple[str, object]]:
    for name in SETTINGS:
        value = getattr(package, name, None)
        yield name, list(value) if isinstance(value, list) else value
    for name in ("LiteLLM", "openai", "httpx"):
        logger = logging.getLogger(name)
        yield name, (logger.level, list(logger.handlers), logger.propagate, logger.disabled)


@in_loop
async def test_its_settings_and_loggers_stay_as_they_are() -> None:
    litellm = importlib.import_module("litellm")
    before = dict(look_at(litellm))
    async with serving(sending(OPENED, CLOSED, DONE)) as server:
        await read(ask(server.url))
    assert dict(look_at(litellm)) == before


def test_it_is_imported_on_first_use_only() -> None:
    program = (
        "import sys; from wholecall.upstreams.providers import find_upstream; "
        "find_upstream('litellm/openai/m'); assert 'litellm' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
