"""What clients do to the proxy: they leave, come twice, are slow, or want nothing from it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from aiohttp import web

from proxying import Offer, Served, in_loop, proxying, upstream
from upstreams.serving import Server, begin, forever, hang_up, serving
from wholecall.proxy.taps import Exchange, ExchangeEnded, Fate, Readers
from wholecall.tools.from_function import make_tool
from wholecall.tools.tool import Tool

TEXT = (
    b'data: {"id":"up-1","choices":[{"index":0,"delta":{"content":"Hello"}}],"extra":{"a":1}}\n\n'
)
STOP = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
CALL = (
    b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c0","function":'
    b'{"name":"work","arguments":"{\\"what\\": \\"dig\\"}"}}]}}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}\n\ndata: [DONE]\n\n'
)
ASKED: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
STREAMED = {**ASKED, "stream": True}
PATH = "/v1/chat/completions"
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def between(
    handler: Handler, folder: Path, *, tools: tuple[Tool, ...] = (), **settings: Any
) -> AsyncIterator[tuple[Served, Server]]:
    """A proxy in front of one upstream."""
    async with serving(handler) as behind:
        mode = "run" if tools else "gate"
        model = upstream("openai/theirs", f"{behind.url}/v1", mode=mode, **settings)
        async with proxying(Offer({"m": model}, tools=tools, folder=folder)) as served:
            yield served, behind


def answering(*pieces: bytes) -> Handler:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = await begin(request)
        for piece in pieces:
            await response.write(piece)
        return response

    return handler


# ── Nothing is needed from us ───────────────────────────────────────────────────────


@in_loop
async def test_an_answer_passes_through_byte_for_byte(tmp_path: Path) -> None:
    async with between(answering(TEXT, STOP), tmp_path) as (served, behind):
        _, stream, headers = await served.post(PATH, {**STREAMED, "unknown": {"kept": [1.0, None]}})
    assert stream.encode() == TEXT + STOP
    assert headers["content-type"].startswith("text/event-stream")
    assert headers["x-request-id"]
    body = json.loads(behind.bodies[0])
    assert body == {**STREAMED, "model": "theirs", "unknown": {"kept": [1.0, None]}}


@in_loop
async def test_a_whole_answer_passes_through_byte_for_byte(tmp_path: Path) -> None:
    said = b'{"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}], "more":  1.50}'

    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        headers = {"x-ratelimit-remaining": "7", "openai-organization": "org-secret"}
        return web.Response(body=said, content_type="application/json", headers=headers)

    async with (
        between(handler, tmp_path) as (served, _),
        served.http.post(served.url + PATH, json=ASKED) as response,
    ):
        assert await response.read() == said
        assert response.headers["x-ratelimit-remaining"] == "7"
        assert "openai-organization" not in response.headers


@in_loop
async def test_frames_that_come_in_pieces_are_passed_on_whole(tmp_path: Path) -> None:
    sent = TEXT + STOP
    pieces = [sent[at : at + 7] for at in range(0, len(sent), 7)]
    async with between(answering(*pieces), tmp_path) as (served, _):
        _, stream, _ = await served.post(PATH, STREAMED)
    assert stream.encode() == sent


@pytest.mark.parametrize("rudely", [True, False])
@in_loop
async def test_what_is_cut_ends_with_an_error_and_without_a_terminator(
    tmp_path: Path, rudely: bool
) -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = await begin(request)
        await response.write(TEXT + b'data: {"choices":[{"ind')
        hang_up(request, rudely=rudely)
        return response

    async with between(handler, tmp_path) as (served, _):
        _, stream, _ = await served.post(PATH, STREAMED)
    frames = [frame for frame in stream.split("\n\n") if frame]
    assert frames[0] + "\n\n" == TEXT.decode()
    assert json.loads(frames[1].removeprefix("data: "))["error"]["type"] == "server_error"
    assert len(frames) == 2


@in_loop
async def test_an_upstream_that_ignores_streaming_is_streamed_all_the_same(tmp_path: Path) -> None:
    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        message = {"role": "assistant", "content": "Hello"}
        return web.json_response({"choices": [{"message": message, "finish_reason": "stop"}]})

    async with between(handler, tmp_path) as (served, _):
        stream = await served.openai.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "hi"}], stream=True
        )
        chunks = [chunk async for chunk in stream]
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == "Hello"
    assert chunks[-1].choices[0].finish_reason == "stop"


@in_loop
async def test_the_fields_above_an_answer_are_kept_where_calls_are_checked(tmp_path: Path) -> None:
    first = TEXT.replace(
        b'"extra":{"a":1}', b'"system_fingerprint":"fp","created":7,"model":"real"'
    )
    asked = {**STREAMED, "tools": [{"type": "function", "function": {"name": "work"}}]}
    async with between(answering(first, STOP), tmp_path) as (served, _):
        _, stream, _ = await served.post(PATH, asked)
    chunks = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: {")]
    for chunk in chunks:
        assert chunk["id"] == "up-1"
        assert chunk["system_fingerprint"] == "fp"
        assert chunk["created"] == 7
        assert chunk["model"] == "real"


# ── Errors ──────────────────────────────────────────────────────────────────────────


@in_loop
async def test_an_upstreams_refusal_is_told_without_its_address_and_key(tmp_path: Path) -> None:
    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        error = {"message": "slow down", "type": "rate_limit_error"}
        return web.json_response({"error": error}, status=429, headers={"retry-after": "3600"})

    async with between(handler, tmp_path) as (served, behind):
        status, body, headers = await served.post(PATH, ASKED)
    assert status == 429
    assert "slow down" in body["error"]["message"]
    assert behind.url not in json.dumps(body)
    assert headers["retry-after"] == "60"


@pytest.mark.parametrize("status", [401, 403])
@in_loop
async def test_official_clients_do_not_resend_what_the_proxys_own_key_failed(
    tmp_path: Path, status: int
) -> None:
    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        error = {"message": "Incorrect API key provided: sk-ab***yz", "code": "invalid_api_key"}
        return web.json_response({"error": error}, status=status)

    async with between(handler, tmp_path) as (served, behind):
        chat = served.openai.with_options(max_retries=2)
        messages = served.anthropic.with_options(max_retries=2)
        question: Any = ASKED["messages"]
        with pytest.raises(openai.InternalServerError) as refused:
            await chat.chat.completions.create(model="m", messages=question)
        with pytest.raises(anthropic.InternalServerError) as also:
            await messages.messages.create(model="m", messages=question, max_tokens=5)
    assert len(behind.requests) == 2
    for error in (refused.value, also.value):
        assert error.status_code == 502
        assert "the proxy's own credentials" in str(error)
        assert "sk-" not in str(error)


ERRORS: dict[str, tuple[dict[str, Any], int, str]] = {
    "no model": ({"messages": []}, 400, "model"),
    "an unknown model": ({**ASKED, "model": "other"}, 404, "model"),
    "messages that are none": (
        {**ASKED, "messages": "hi", "tools": [{"type": "function", "function": {"name": "f"}}]},
        400,
        "messages",
    ),
}


@pytest.mark.parametrize(("body", "status", "param"), ERRORS.values(), ids=ERRORS)
@in_loop
async def test_a_wrong_request_is_told_which_field_is_wrong(
    tmp_path: Path, body: dict[str, Any], *, status: int, param: str
) -> None:
    async with between(answering(TEXT, STOP), tmp_path) as (served, behind):
        given, told, headers = await served.post(PATH, body)
        also, shape, other = await served.post("/v1/messages", body)
    assert (given, told["error"]["param"]) == (status, param)
    assert headers["x-request-id"] == told["request_id"]
    assert also == status
    assert shape["type"] == "error"
    assert other["request-id"] == shape["request_id"]
    assert not behind.requests


@in_loop
async def test_a_body_that_is_no_json_is_refused(tmp_path: Path) -> None:
    async with (
        between(answering(), tmp_path) as (served, _),
        served.http.post(served.url + PATH, data=b"[1, 2") as response,
    ):
        assert response.status == 400
        assert (await response.json())["error"]["type"] == "invalid_request_error"


# ── Clients that leave ──────────────────────────────────────────────────────────────


class Gate:
    """Something a test can wait for, and let go."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def pass_through(self) -> None:
        self.reached.set()
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


class Ends:
    """A tap that tells how exchanges end."""

    def __init__(self) -> None:
        self.told: asyncio.Queue[ExchangeEnded] = asyncio.Queue()

    def open(self, _: Exchange) -> Readers:
        return {ExchangeEnded: self.told.put_nowait}


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
        ends = served.proxy.service.taps = (Ends(),)
        asking = asyncio.create_task(served.post(PATH, {**body, "tools": offered}))
        await gate.reached.wait()
        asking.cancel()
        await gate.cancelled.wait()
        end = await ends[0].told.get()
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
    async with between(answering(both), tmp_path, tools=tools) as (served, behind):
        asking = asyncio.create_task(served.post(PATH, STREAMED))
        await working.reached.wait()
        await reading.reached.wait()
        asking.cancel()
        await reading.cancelled.wait()
        assert not working.cancelled.is_set()
        working.opened.set()
        while not done:
            await asyncio.sleep(0)
        # The same request again, as an SDK sends it: what was done is not done again.
        status, body, headers = await served.post(PATH, STREAMED, x_stainless_retry_count="1")
        assert (status, headers["x-should-retry"]) == (409, "false")
        assert body["error"]["code"] == "broken_off"
    assert done == ["dig"]
    assert len(behind.requests) == 1


# ── Requests that come twice ────────────────────────────────────────────────────────


class Digging:
    """A tool that counts, and an upstream that calls it once in each run."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.times = 0

    def tools(self) -> tuple[Tool, ...]:
        async def work(what: str) -> str:
            self.times += 1
            await self.gate.pass_through()
            return f"{what}: done"

        return (make_tool(work),)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        body = self.bodies[-1]
        response = await begin(request)
        over = b'"role":"tool"' in body or b'"role": "tool"' in body
        for piece in (TEXT, STOP) if over else (CALL,):
            await response.write(piece)
        return response

    bodies: list[bytes]


@asynccontextmanager
async def digging(folder: Path) -> AsyncIterator[tuple[Served, Digging]]:
    work = Digging()
    async with between(work.answer, folder, tools=work.tools()) as (served, behind):
        work.bodies = behind.bodies
        yield served, work


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


@in_loop
async def test_an_idempotency_key_is_honoured(tmp_path: Path) -> None:
    async with digging(tmp_path) as (served, work):
        work.gate.opened.set()
        _, first, _ = await served.post(PATH, STREAMED, Idempotency_Key="one")
        _, again, _ = await served.post(PATH, STREAMED, Idempotency_Key="one")
        _, _, _ = await served.post(PATH, STREAMED, Idempotency_Key="two")
        assert first == again
        assert work.times == 2
        status, body, _ = await served.post(PATH, ASKED, Idempotency_Key="one")
        assert status == 400
        assert body["error"]["param"] == "Idempotency-Key"


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
        served.proxy.service.beat_seconds = 0.02
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
        served.proxy.service.beat_seconds = 1000.0  # longer than this test may take
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
        served.proxy.service.beat_seconds = 0.02
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


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/messages"])
@in_loop
async def test_what_is_no_utf_8_is_the_clients_mistake(tmp_path: Path, path: str) -> None:
    body = b'{"model": "m", "input": "\xff", "messages": [{"role": "user", "content": "\xff"}]}'
    async with (
        between(answering(TEXT, STOP), tmp_path) as (served, _),
        served.http.post(served.url + path, data=body) as response,
    ):
        assert response.status == 400
        assert "no JSON object" in (await response.json())["error"]["message"]
