"""Bodies that are sent as they came."""

from __future__ import annotations

import re

import pytest
from aiohttp import web
from msgspec.structs import replace

from proxy_server import in_loop
from upstreams.fake_endpoint import Pauses, always, begin, forever, hang_up, serving
from upstreams.http_peer import HELLO, Talk, listening
from wholecall.errors import UpstreamError
from wholecall.proxy.handlers.passthrough import UpstreamPipe, UpstreamRequest, read_whole
from wholecall.upstreams.endpoint import Endpoint
from wholecall.upstreams.http import HttpSettings
from wholecall.upstreams.http_connection import Timeouts, Unsafe

OUTGOING = UpstreamRequest(content=b'{"a": 1}', model="m", stream=False)


def make_pipe(url: str, *, retries: int = 0, **timeouts: float) -> UpstreamPipe:
    settings = HttpSettings(
        timeouts=Timeouts(**timeouts), retry=Pauses().retry(retries), environ={}
    )
    return UpstreamPipe(Endpoint("anthropic", url, api_key="sk-secret-key"), settings)


async def send(
    pipe: UpstreamPipe, outgoing: UpstreamRequest = OUTGOING, *, most_bytes: int | None = None
) -> bytes:
    try:
        async with pipe.send(outgoing) as response:
            if most_bytes is None:
                return await read_whole(pipe, response)
            return await read_whole(pipe, response, most_bytes=most_bytes)
    finally:
        await pipe.close()


@in_loop
async def test_a_body_goes_out_as_it_is_with_our_own_key() -> None:
    async with serving(always(lambda: web.Response(body=b"answer"))) as behind:
        assert await send(make_pipe(behind.url)) == b"answer"
        assert await send(make_pipe(behind.url), replace(OUTGOING, below="count_tokens"))
    assert behind.bodies == [OUTGOING.content] * 2
    assert [request.path for request in behind.requests] == [
        "/v1/messages",
        "/v1/messages/count_tokens",
    ]
    assert behind.requests[0].headers["x-api-key"] == "sk-secret-key"


@in_loop
async def test_a_refusal_is_repeated_and_then_told_without_secrets() -> None:
    refuse = always(lambda: web.json_response({"error": "busy sk-secret-key"}, status=503))
    async with serving(refuse) as behind:
        with pytest.raises(UpstreamError) as caught:
            await send(make_pipe(behind.url, retries=2))
    assert (caught.value.status, len(behind.requests)) == (503, 3)
    assert "sk-secret-key" not in str(caught.value)


@in_loop
async def test_a_refusal_whose_words_are_cut_off_is_told_by_its_status() -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(status=400, headers={"content-length": "100"})
        await response.prepare(request)
        await response.write(b"{")
        hang_up(request, rudely=True)
        return response

    async with serving(handler) as behind:
        with pytest.raises(UpstreamError) as caught:
            await send(make_pipe(behind.url))
    assert caught.value.status == 400


@in_loop
async def test_nobody_there_is_told_as_a_failed_connection() -> None:
    with pytest.raises(UpstreamError) as caught:
        await send(make_pipe("http://127.0.0.1:9"))
    assert caught.value.code == "connection"
    assert re.fullmatch(
        r"the connection to http://127\.0\.0\.1:9\S* failed: Connection refused", str(caught.value)
    )


def test_why_a_connection_is_unsafe_is_not_told() -> None:
    said = str(make_pipe("https://h").fail(Unsafe("not valid for 'inner.example'")))
    assert said == "no safe connection to https://h/v1/messages"


@in_loop
async def test_a_silence_is_not_repeated() -> None:
    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        await forever()
        return web.Response()

    async with serving(handler) as behind:
        with pytest.raises(UpstreamError) as caught:
            await send(make_pipe(behind.url, retries=2, first_byte=0.1))
    assert (caught.value.code, len(behind.requests)) == ("timeout", 1)


@pytest.mark.parametrize(
    ("said", "code", "attempts"),
    [
        (b"", "connection", 3),
        (b"220 mail.example ESMTP\r\n\r\n", "connection", 1),
    ],
    ids=["hung up", "no HTTP"],
)
@in_loop
async def test_what_may_pass_is_repeated_and_nothing_else(
    *, said: bytes, code: str, attempts: int
) -> None:
    async def speak(talk: Talk) -> None:
        await talk.hear()
        await talk.say(said)

    async with listening(speak) as behind:
        with pytest.raises(UpstreamError) as caught:
            await send(make_pipe(str(behind.url.origin()), retries=2))
    assert (caught.value.code, caught.value.attempts) == (code, attempts)


@in_loop
async def test_a_handshake_that_fails_is_not_repeated_and_one_that_does_not_come_is() -> None:
    async def speak(talk: Talk) -> None:
        await talk.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await talk.wait_for_silence()

    async def say_nothing(talk: Talk) -> None:
        await talk.wait_for_silence()

    async with listening(speak) as plain, listening(say_nothing) as silent:
        for server, code, attempts in ((plain, "certificate", 1), (silent, "connection", 3)):
            url = str(server.url.with_scheme("https").origin())
            with pytest.raises(UpstreamError) as caught:
                await send(make_pipe(url, retries=2, connect=0.1))
            assert (caught.value.code, caught.value.attempts) == (code, attempts)


@in_loop
async def test_who_closes_its_connections_without_a_word_is_asked_again_at_once() -> None:
    requests = iter(range(10))

    async def hang_up_on_the_second(talk: Talk) -> None:
        while True:
            await talk.hear()
            if next(requests) == 1:
                return
            await talk.say(HELLO)

    pauses = Pauses()
    async with listening(hang_up_on_the_second) as behind:
        settings = HttpSettings(retry=pauses.retry(), environ={})
        pipe = UpstreamPipe(Endpoint("anthropic", str(behind.url.origin())), settings)
        for _ in range(2):
            response = await pipe.open(OUTGOING)
            assert await read_whole(pipe, response) == b"hello"
        await pipe.close()
    assert next(requests) == 3
    assert pauses.seconds == [0.0]


@in_loop
async def test_an_answer_has_a_limit() -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = await begin(request)
        await response.write(b"x" * 100)
        return response

    async with serving(handler) as behind:
        with pytest.raises(UpstreamError, match="too large"):
            await send(make_pipe(behind.url), most_bytes=10)
