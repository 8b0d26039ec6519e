"""What clients do to the proxy: they leave, come twice, are slow, or are there when it ends."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from e2e.recording_proxy import (
    ASKED,
    CALL,
    PATH,
    STOP,
    STREAMED,
    TEXT,
    Digging,
    Ends,
    Gate,
    answering,
    between,
    digging,
)
from proxy_server import in_loop
from upstreams.fake_endpoint import begin, forever
from wholecall.proxy.observe.taps import Fate
from wholecall.tools.function_tool import make_tool

# ── Clients that leave ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("body", [STREAMED, ASKED], ids=["streamed", "whole"])
@pytest.mark.parametrize("tools", [False, True], ids=["forwarded", "checked"])
@in_loop
async def test_when_the_client_leaves_the_upstream_is_left(
    tmp_path: Path, body: dict[str, Any], *, tools: bool
) -> None:
    gate = Gate()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        if body.get("stream"):
            response = await begin(request)
            await response.write(TEXT)
        await gate.pass_through()
        return web.Response()

    offered = [{"type": "function", "function": {"name": "work"}}] if tools else []
    async with between(handler, tmp_path) as (served, _):
        ends = Ends()
        served.proxy.observers.taps[:] = [ends]
        asking = asyncio.create_task(served.post(PATH, {**body, "tools": offered}))
        await gate.reached.wait()
        asking.cancel()
        await gate.cancelled.wait()
        end = await ends.told.get()
    assert (end.fate, end.status, end.code) == (Fate.GONE, 499, "client_gone")


@in_loop
async def test_tools_that_must_not_be_broken_off_finish_and_no_turn_follows(
    tmp_path: Path,
) -> None:
    working, reading = Gate(), Gate()
    done: list[str] = []

    async def work(what: str) -> str:
        await working.pass_through()
        done.append(what)
        return "dug"

    async def look(what: str) -> str:
        await reading.pass_through()
        return what

    both = CALL.replace(
        b'data: {"choices":[{"index":0,"delta":{},"fin',
        b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"c1","function":'
        b'{"name":"look","arguments":"{\\"what\\": \\"up\\"}"}}]}}]}\n\n'
        b'data: {"choices":[{"index":0,"delta":{},"fin',
    )
    tools = (make_tool(work), make_tool(look, read_only=True))
    bodies: list[bytes] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        pieces = (TEXT, STOP) if b'"tool"' in bodies[-1] else (both,)
        return await answering(*pieces)(request)

    async with between(answer, tmp_path, tools=tools) as (served, behind):
        bodies = behind.bodies
        asking = asyncio.create_task(served.post(PATH, STREAMED))
        await working.reached.wait()
        await reading.reached.wait()
        asking.cancel()
        await reading.cancelled.wait()
        assert not working.cancelled.is_set()
        working.opened.set()
        while not done:
            await asyncio.sleep(0)
        assert len(behind.requests) == 1
        # The same request again, as an SDK sends it: what was done is not done again.
        reading.opened.set()
        status, *_ = await served.post(PATH, STREAMED, x_stainless_retry_count="1")
        assert status == 200
    assert done.count("dig") == 1


# ── Requests that come twice ────────────────────────────────────────────────────────


@in_loop
async def test_an_equal_request_reads_the_answer_that_is_being_made(tmp_path: Path) -> None:
    async with digging(tmp_path) as (served, work):
        first = asyncio.create_task(served.post(PATH, STREAMED))
        await work.gate.reached.wait()
        second = asyncio.create_task(served.post(PATH, STREAMED))
        by_sdk = asyncio.create_task(served.post(PATH, STREAMED, x_stainless_retry_count="1"))
        work.gate.opened.set()
        answers = [(await task)[1] for task in (first, second, by_sdk)]
        assert work.times == 1
        assert answers[0] == answers[1] == answers[2]
        assert answers[0].endswith("data: [DONE]\n\n")
        # Later the same words are another question, unless the client says otherwise.
        await served.post(PATH, STREAMED)
        assert work.times == 2
        await served.post(PATH, STREAMED, x_stainless_retry_count="0")
        assert work.times == 3
        await served.post(PATH, STREAMED, x_stainless_retry_count="2")
        assert work.times == 3


def _without_ids(stream: str) -> tuple[str, str]:
    """The text of an answer, and how it ends."""
    said = re.findall(r'"content":"([^"]*)"', stream)
    ends = re.findall(r'"finish_reason":("[^"]*")', stream)
    return "".join(said), f"{ends} {stream.strip()[-6:]}"


@in_loop
async def test_an_idempotency_key_is_honoured(tmp_path: Path) -> None:
    async with digging(tmp_path) as (served, work):
        work.gate.opened.set()
        _, first, _ = await served.post(PATH, STREAMED, Idempotency_Key="one")
        _, again, _ = await served.post(PATH, STREAMED, Idempotency_Key="one")
        _, _, _ = await served.post(PATH, STREAMED, Idempotency_Key="two")
        assert _without_ids(first) == _without_ids(again)
        assert work.times == 2
        status, body, _ = await served.post(PATH, ASKED, Idempotency_Key="one")
        assert status == 422
        assert "Idempotency-Key" in body["error"]["message"]


# ── Silence ─────────────────────────────────────────────────────────────────────────


@in_loop
async def test_a_silence_is_broken_by_signs_of_life(tmp_path: Path) -> None:
    gate = Gate()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = await begin(request)
        await response.write(TEXT)
        await gate.pass_through()
        await response.write(STOP)
        return response

    async with between(handler, tmp_path) as (served, _):
        served.proxy.api.connections.keep_alive_seconds = 0.02
        async with served.http.post(served.url + PATH, json=STREAMED) as response:
            beat = b": keep-alive\n\n"
            # The upstream may be slow to begin: then signs of life come before it, too.
            while (frame := await response.content.readuntil(b"\n\n")) == beat:
                pass
            assert frame == TEXT
            assert await response.content.readuntil(b"\n\n") == beat
            gate.opened.set()
            rest = await response.read()
    assert rest.endswith(STOP)


@in_loop
async def test_an_impatient_client_hears_a_sign_of_life_in_time(tmp_path: Path) -> None:
    gate = Gate()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = await begin(request)
        await gate.pass_through()
        await response.write(TEXT + STOP)
        return response

    async with between(handler, tmp_path) as (served, _):
        served.proxy.api.connections.keep_alive_seconds = 1000.0  # longer than this test may take
        headers = {"x-stainless-read-timeout": "2"}
        async with served.http.post(served.url + PATH, json=STREAMED, headers=headers) as response:
            assert await response.content.readuntil(b"\n\n") == b": keep-alive\n\n"
            gate.opened.set()
            assert (await response.read()).endswith(STOP)


@in_loop
async def test_a_client_that_waits_for_the_first_word_hears_signs_of_life(tmp_path: Path) -> None:
    gate = Gate()

    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        await gate.pass_through()
        return web.json_response({"error": {"message": "no"}}, status=400)

    async with between(handler, tmp_path) as (served, _):
        served.proxy.api.connections.keep_alive_seconds = 0.02
        async with served.http.post(served.url + PATH, json=STREAMED) as response:
            assert response.status == 200
            assert await response.content.readuntil(b"\n\n") == b": keep-alive\n\n"
            gate.opened.set()
            rest = await response.read()
    assert b'data: {"error"' in rest
    assert b"[DONE]" not in rest


# ── The end of the server ───────────────────────────────────────────────────────────


@pytest.mark.parametrize("tools", [False, True], ids=["forwarded", "run"])
@in_loop
async def test_when_the_server_ends_streams_end_with_an_error(tmp_path: Path, tools: bool) -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = await begin(request)
        await response.write(TEXT)
        await forever()
        return response

    offered = Digging().tools() if tools else ()
    async with (
        between(handler, tmp_path, tools=offered) as (served, _),
        served.http.post(served.url + PATH, json=STREAMED) as response,
    ):
        await response.content.readuntil(b"\n\n")
        served.server.should_exit = True
        rest = await response.read()
    assert b"shutting_down" in rest
    assert b"[DONE]" not in rest
