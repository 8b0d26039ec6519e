"""Upstreams over HTTP against a real server on loopback: answers and connections."""

from __future__ import annotations

import asyncio
import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from upstreams.fake_endpoint import (
    ANSWER,
    FIRST,
    KEY,
    REQUEST,
    SECOND,
    WHOLE_REQUEST,
    Pauses,
    always,
    asking,
    begin,
    forever,
    good,
    in_loop,
    read_all,
    read_outcome,
    received,
    serving,
    stream,
)
from wholecall.errors import UpstreamError
from wholecall.events import Text, collect
from wholecall.messages import Message, Request, Role
from wholecall.protocols.reader import Reader
from wholecall.upstreams.http import HttpSettings, HttpUpstream

# ── Answers ─────────────────────────────────────────────────────────────────────────


@in_loop
async def test_a_stream_comes_byte_for_byte() -> None:
    async with serving(good) as server, asking(server.url, api_key=KEY) as upstream:
        async with upstream.answer(REQUEST) as answer:
            assert answer.protocol == upstream.protocol == "openai-chat"
            assert answer.streamed
            assert not answer.hides_truncation
            assert answer.headers["content-type"] == "text/event-stream"
            assert b"".join(await received(answer)) == FIRST + SECOND
        [asked] = server.requests
        assert asked.path == "/v1/chat/completions"
        assert asked.headers["Authorization"] == f"Bearer {KEY}"
        assert asked.headers["Accept-Encoding"] == "identity"
        assert asked.content_type == "application/json"
        assert json.loads(server.bodies[0])["model"] == "m"


@in_loop
async def test_a_chunk_is_handed_on_before_the_next_one_is_sent() -> None:
    seen = asyncio.Event()

    async def wait_for_the_reader(request: web.BaseRequest) -> web.StreamResponse:
        response = await begin(request)
        await response.write(FIRST)
        await seen.wait()
        await response.write(SECOND)
        return response

    async with serving(wait_for_the_reader) as server, asking(server.url) as upstream:
        received = []
        async with upstream.answer(REQUEST) as answer:
            async for chunk in answer.chunks:
                received.append(chunk)
                seen.set()
        assert received == [FIRST, SECOND]


@in_loop
async def test_an_answer_that_is_not_streamed_is_one_body() -> None:
    async with (
        serving(always(lambda: web.json_response(ANSWER))) as server,
        asking(server.url) as upstream,
    ):
        async with upstream.answer(WHOLE_REQUEST) as answer:
            assert not answer.streamed
            [body] = await received(answer)
        assert json.loads(body) == ANSWER


@pytest.mark.parametrize("kind", ["application/json", "text/plain"])
@pytest.mark.parametrize(
    ("body", "streamed", "text", "error"),
    [
        (json.dumps(ANSWER), False, "Hello", None),
        (" \n\n " + json.dumps(ANSWER, indent=1), False, "Hello", None),
        (json.dumps({"error": {"message": "no"}}), True, "", "upstream_error"),
        ((FIRST + SECOND).decode(), True, "Hello", None),
    ],
)
@in_loop
async def test_json_instead_of_a_stream_is_read_all_the_same(
    *, kind: str, body: str, streamed: bool, text: str, error: str | None
) -> None:
    whole = always(lambda: web.Response(text=body, content_type=kind))
    async with serving(whole) as server, asking(server.url) as upstream:
        reader = Reader("openai-chat")
        async with upstream.answer(REQUEST) as answer:
            assert answer.streamed == streamed
            feed = reader.feed if answer.streamed else reader.feed_response
            events = [event async for chunk in answer.chunks for event in feed(chunk)]
        outcome = collect([*events, *reader.end()])
        assert (outcome.text, outcome.error) == (text, error)


STRANGERS: dict[str, tuple[int, str, str]] = {
    "no content": (204, "", "status 204 and an empty body"),
    "nothing": (200, "", "status 200 and an empty body"),
    "blanks": (200, "   ", "status 200 and an empty body"),
    "a page": (200, "<html><title>Sign in</title></html>", "a web page"),
    "prose": (200, "It works!", "plain text"),
}


@pytest.mark.parametrize("asked", [REQUEST, WHOLE_REQUEST], ids=["streamed", "whole"])
@pytest.mark.parametrize(("status", "body", "said"), STRANGERS.values(), ids=STRANGERS)
@in_loop
async def test_what_no_model_said_is_an_error_before_the_answer_begins(
    status: int, body: str, *, said: str, asked: Request
) -> None:
    stranger = always(lambda: web.Response(status=status, text=body))
    async with serving(stranger) as server, asking(server.url) as upstream:
        with pytest.raises(UpstreamError, match=said) as raised:
            async with upstream.answer(asked):
                pytest.fail("there is no answer")
        assert (raised.value.status, raised.value.code) == (None, "protocol")
        assert len(server.requests) == 1


@in_loop
async def test_the_lines_of_ollama_are_a_stream_whatever_they_are_called() -> None:
    line = b'{"message":{"role":"assistant","content":"hi"},"done":true}\n'

    lines = always(lambda: web.Response(body=line, content_type="application/json"))
    async with serving(lines) as server, asking(server.url, protocol="ollama") as upstream:
        async with upstream.answer(REQUEST) as answer:
            assert answer.streamed
            assert [chunk async for chunk in answer.chunks] == [line]
        assert server.requests[0].path == "/api/chat"


@in_loop
async def test_blanks_before_a_whole_answer_are_signs_of_life() -> None:
    async def slow(request: web.BaseRequest) -> web.StreamResponse:
        response = await begin(request, "application/json")
        await response.write(b"\n")
        for _ in range(20):
            await asyncio.sleep(0)  # so that the reader sees the blank alone; it matters not
        await response.write(json.dumps(ANSWER).encode())
        return response

    async with serving(slow) as server, asking(server.url) as upstream:
        assert (await read_outcome(upstream)).text == "Hello"


@in_loop
async def test_blanks_without_end_are_a_stream() -> None:
    blanks = b"\n" * 4096

    async def blank(request: web.BaseRequest) -> web.StreamResponse:
        return await stream(request, blanks, FIRST)

    async with serving(blank) as server, asking(server.url) as upstream:
        assert await read_all(upstream) == blanks + FIRST


@in_loop
async def test_a_compressed_answer_is_unpacked() -> None:
    headers = {"Content-Encoding": "gzip", "Content-Type": "text/event-stream"}
    zipped = always(lambda: web.Response(body=gzip.compress(FIRST + SECOND), headers=headers))
    async with serving(zipped) as server, asking(server.url) as upstream:
        assert await read_all(upstream) == FIRST + SECOND


@in_loop
async def test_a_request_of_many_megabytes_is_sent() -> None:
    words = "x" * (3 * 1024 * 1024)
    request = replace(REQUEST, messages=(Message(Role.USER, (Text(words),)),))

    async with serving(good) as server, asking(server.url) as upstream:
        await read_all(upstream, request)
        assert words.encode() in server.bodies[0]


@pytest.mark.parametrize(
    ("protocol", "stream", "path", "header"),
    [
        ("openai-chat", True, "/v1/chat/completions", "Authorization"),
        ("openai-responses", True, "/v1/responses", "Authorization"),
        ("anthropic", True, "/v1/messages", "x-api-key"),
        ("ollama", True, "/api/chat", "Authorization"),
        ("gemini", True, "/v1beta/models/m:streamGenerateContent?alt=sse", "x-goog-api-key"),
        ("gemini", False, "/v1beta/models/m:generateContent", "x-goog-api-key"),
        ("gemini-interactions", True, "/v1beta/interactions", "x-goog-api-key"),
        ("bedrock-invoke", True, "/model/m/invoke-with-response-stream", "Authorization"),
        ("bedrock-invoke", False, "/model/m/invoke", "Authorization"),
        ("cohere", True, "/v2/chat", "Authorization"),
    ],
)
@in_loop
async def test_every_protocol_is_asked_at_its_own_place(
    *, protocol: str, stream: bool, path: str, header: str
) -> None:
    async with (
        serving(good) as server,
        asking(server.url, protocol=protocol, api_key="a-secret") as upstream,
    ):
        await read_all(upstream, replace(REQUEST, stream=stream))
        assert server.requests[0].path_qs == path
        assert server.requests[0].headers[header].endswith("a-secret")


# ── Connections ─────────────────────────────────────────────────────────────────────


@in_loop
async def test_requests_one_after_the_other_share_a_connection() -> None:
    async with serving(good) as server, asking(server.url) as upstream:
        for _ in range(3):
            await read_all(upstream)
        assert len(server.requests) == 3
        assert len(server.connections) == 1


@in_loop
async def test_requests_at_the_same_time_do_not_wait_for_each_other() -> None:
    barrier = asyncio.Barrier(3)

    async def meet(request: web.BaseRequest) -> web.StreamResponse:
        await barrier.wait()
        return await good(request)

    async with serving(meet) as server, asking(server.url) as upstream:
        answers = await asyncio.gather(*(read_all(upstream) for _ in range(3)))
        assert answers == [FIRST + SECOND] * 3


@pytest.mark.parametrize("way", ["leave", "cancel", "raise"])
@in_loop
async def test_who_stops_reading_closes_the_connection(way: str) -> None:
    gone = asyncio.Event()

    async def endless(request: web.BaseRequest) -> web.StreamResponse:
        response = await begin(request)
        await response.write(FIRST)
        try:
            await forever()
        finally:
            gone.set()
        return response

    begun = asyncio.Event()

    async def read(upstream: HttpUpstream) -> None:
        async with upstream.answer(REQUEST) as answer:
            async for _ in answer.chunks:
                begun.set()
                if way == "leave":
                    return
                if way == "raise":
                    raise ZeroDivisionError

    async with serving(endless) as server, asking(server.url) as upstream:
        reading = asyncio.create_task(read(upstream))
        await begun.wait()
        if way == "cancel":
            reading.cancel()
        [ended] = await asyncio.gather(reading, return_exceptions=True)
        expected = {"leave": None, "cancel": asyncio.CancelledError, "raise": ZeroDivisionError}
        assert ended is None if way == "leave" else isinstance(ended, expected[way] or ())
        await gone.wait()


@in_loop
async def test_who_is_cancelled_before_the_answer_begins_closes_the_connection() -> None:
    asked, gone = asyncio.Event(), asyncio.Event()

    async def headers_only(request: web.BaseRequest) -> web.StreamResponse:
        await begin(request)
        asked.set()
        try:
            await forever()
        finally:
            gone.set()
        return web.Response()

    async with serving(headers_only) as server, asking(server.url) as upstream:
        reading = asyncio.create_task(read_all(upstream))
        await asked.wait()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await gone.wait()


@in_loop
async def test_a_closed_upstream_opens_anew() -> None:
    async with serving(good) as server, asking(server.url) as upstream:
        await read_all(upstream)
        await upstream.close()
        await upstream.close()
        assert await read_all(upstream) == FIRST + SECOND
        assert len(server.connections) == 2


# ── The way out ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("environ", "through_proxy"),
    [
        ({"HTTP_PROXY": "{proxy}"}, True),
        ({"HTTP_PROXY": "{proxy}", "NO_PROXY": "127.0.0.1"}, False),
        ({}, False),
    ],
)
@in_loop
async def test_the_environment_names_the_proxy(
    *, environ: dict[str, str], through_proxy: bool
) -> None:
    async with serving(good) as proxy, serving(good) as server:
        address = proxy.url.replace("http://", "http://user:word@")
        variables = {name: value.format(proxy=address) for name, value in environ.items()}
        settings = HttpSettings(environ=variables)
        upstream = HttpUpstream("openai-chat", server.url, settings=settings)
        assert await read_all(upstream) == FIRST + SECOND
        await upstream.close()
        assert bool(proxy.requests) == through_proxy
        assert bool(server.requests) != through_proxy
        for request in proxy.requests:
            assert str(request.url).startswith(server.url)
            assert request.headers["Proxy-Authorization"].startswith("Basic ")


@in_loop
async def test_a_proxy_that_refuses_says_so() -> None:
    async with serving(always(lambda: web.Response(status=407))) as proxy:
        settings = HttpSettings(environ={"HTTPS_PROXY": proxy.url}, retry=Pauses().retry())
        upstream = HttpUpstream("openai-chat", "https://127.0.0.1:1", settings=settings)
        with pytest.raises(UpstreamError, match="proxy answered with status 407"):
            await read_all(upstream)
        await upstream.close()
        assert len(proxy.requests) == 1


async def ask_safely(url: str, environ: dict[str, str]) -> bytes:
    settings = HttpSettings(environ=environ, retry=Pauses().retry())
    upstream = HttpUpstream("openai-chat", url, settings=settings)
    try:
        return await read_all(upstream)
    finally:
        await upstream.close()


@in_loop
async def test_the_environment_says_whose_certificates_are_trusted(authority: Path) -> None:
    async with serving(good, certificate=authority) as server:
        assert server.url.startswith("https://")
        trusting = {"SSL_CERT_FILE": str(authority)}
        assert await ask_safely(server.url, trusting) == FIRST + SECOND
        with pytest.raises(UpstreamError, match="no safe connection") as caught:
            await ask_safely(server.url, {})
        assert caught.value.code == "certificate"


@in_loop
async def test_a_lone_surrogate_does_not_keep_a_request_from_being_sent() -> None:
    said = "caf\u00e9 \ud83d! \ud83d\ude00"
    request = replace(REQUEST, messages=(Message(Role.USER, (Text(said),)),))
    async with serving(good) as server, asking(server.url) as upstream:
        async with upstream.answer(request) as answer:
            await received(answer)
        assert json.loads(server.bodies[0])["messages"][0]["content"] == "café \ufffd! 😀"
