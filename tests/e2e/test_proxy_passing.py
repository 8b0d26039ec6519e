"""What wants nothing from the proxy passes through it; what is wrong is told."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from aiohttp import web

from e2e.recording_proxy import ASKED, PATH, STOP, STREAMED, TEXT, answering, between
from proxy_server import Offer, in_loop, proxying, upstream
from upstreams.fake_endpoint import begin, hang_up

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


@pytest.mark.parametrize("stream", [True, False])
@in_loop
async def test_what_is_left_of_a_quota_is_told_where_calls_are_checked(
    tmp_path: Path, stream: bool
) -> None:
    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        headers = {"X-RateLimit-Remaining": "7", "openai-organization": "org-secret"}
        message = {"role": "assistant", "content": "Hello"}
        said = {"choices": [{"message": message, "finish_reason": "stop"}]}
        return web.json_response(said, headers=headers)

    asked = {**ASKED, "stream": stream, "tools": [{"type": "function", "function": {"name": "w"}}]}
    async with between(handler, tmp_path) as (served, _):
        status, _, headers = await served.post(PATH, asked)
    assert (status, headers["x-ratelimit-remaining"]) == (200, "7")
    assert "openai-organization" not in headers


@in_loop
async def test_headers_that_are_no_utf8_do_no_harm(tmp_path: Path) -> None:
    said = b'{"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}'
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nX-Odd: caf\xe9\r\nX-RateLimit-A: \xe9\r\n\r\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head % len(said) + said)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    offer = Offer({"m": upstream("openai/x", f"http://127.0.0.1:{port}")}, folder=tmp_path)
    asked = {**ASKED, "tools": [{"type": "function", "function": {"name": "w"}}]}
    async with server, proxying(offer) as served:
        status, body, _ = await served.post(PATH, asked)
    assert (status, body["choices"][0]["message"]["content"]) == (200, "hi")


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


CALLED = ("", "text/plain", "application/json", "application/octet-stream", "text/html")


@pytest.mark.parametrize("called", CALLED)
@in_loop
async def test_a_stream_is_one_whatever_it_is_called(tmp_path: Path, called: str) -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = await begin(request, called)
        for piece in (b"\n", TEXT[:3], TEXT[3:], STOP):
            await response.write(piece)
        return response

    async with between(handler, tmp_path) as (served, _):
        _, stream, headers = await served.post(PATH, STREAMED)
    assert stream.encode() == b"\n" + TEXT + STOP
    assert headers["content-type"].startswith("text/event-stream")


@pytest.mark.parametrize(
    "tools", [{}, {"tools": [{"type": "function", "function": {"name": "w"}}]}]
)
@in_loop
async def test_an_upstream_that_always_streams_is_put_together(
    tmp_path: Path, tools: dict[str, Any]
) -> None:
    async with between(answering(TEXT, STOP), tmp_path) as (served, _):
        status, body, _ = await served.post(PATH, {**ASKED, **tools})
    [choice] = body["choices"]
    assert (status, choice["finish_reason"]) == (200, "stop")
    assert choice["message"]["content"] in TEXT.decode()


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


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/messages"])
@in_loop
async def test_what_is_no_utf_8_is_the_clients_mistake(tmp_path: Path, path: str) -> None:
    body = b'{"model": "m", "input": "\xff", "messages": [{"role": "user", "content": "\xff"}]}'
    async with (
        between(answering(TEXT, STOP), tmp_path) as (served, _),
        served.http.post(served.url + path, data=body) as response,
    ):
        assert response.status == 400
        assert "not a JSON object" in (await response.json())["error"]["message"]
