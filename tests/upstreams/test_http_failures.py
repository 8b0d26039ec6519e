"""Upstreams over HTTP when something goes wrong: silence, broken connections."""

from __future__ import annotations

import asyncio
import errno
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from upstreams.fake_endpoint import (
    ANSWER,
    FIRST,
    REQUEST,
    SECOND,
    WHOLE_REQUEST,
    Handler,
    Pauses,
    asking,
    begin,
    forever,
    hang_up,
    in_loop,
    read_all,
    read_outcome,
    serving,
    stream,
)
from upstreams.http_peer import Talk, in_loops, listening, serving_context
from wholecall.errors import UpstreamError
from wholecall.messages import Request
from wholecall.upstreams.http import HttpSettings, HttpUpstream
from wholecall.upstreams.http_connection import Stale, Timeouts, find_cause
from wholecall.upstreams.retry import RetryPolicy

# ── Streams that break ──────────────────────────────────────────────────────────────


async def cut(request: web.BaseRequest) -> web.StreamResponse:
    response = await begin(request)
    await response.write(FIRST)
    hang_up(request)  # without the last, empty chunk of HTTP
    return response


async def polite(request: web.BaseRequest) -> web.StreamResponse:
    return await stream(request, FIRST)


@pytest.mark.parametrize("handler", [cut, polite])
@in_loop
async def test_a_dropped_connection_ends_the_chunks_and_the_reader_says_so(
    handler: Handler,
) -> None:
    async with serving(handler) as server, asking(server.url) as upstream:
        outcome = await read_outcome(upstream)
    assert outcome.text == "Hello"
    assert outcome.error == "stream_dropped"


@in_loop
async def test_a_reset_ends_the_chunks_as_well() -> None:
    read = asyncio.Event()

    async def reset(request: web.BaseRequest) -> web.StreamResponse:
        response = await begin(request)
        await response.write(FIRST)
        await read.wait()  # a reset takes along what nobody has read
        hang_up(request, rudely=True)
        return response

    received = []
    async with (
        serving(reset) as server,
        asking(server.url) as upstream,
        upstream.answer(REQUEST) as answer,
    ):
        async for chunk in answer.chunks:
            received.append(chunk)
            read.set()
    assert received == [FIRST]


@in_loop
async def test_who_hangs_up_rudely_behind_the_end_has_answered() -> None:
    async def rude(request: web.BaseRequest) -> web.StreamResponse:
        response = await begin(request)
        await response.write(FIRST + SECOND)
        hang_up(request)
        return response

    async with serving(rude) as server, asking(server.url) as upstream:
        assert (await read_outcome(upstream)).error is None


@pytest.mark.parametrize(
    ("asked", "kind", "said"),
    [
        (REQUEST, b"text/event-stream", FIRST),
        (WHOLE_REQUEST, b"application/json", json.dumps(ANSWER).encode()[:-1]),
    ],
    ids=["stream", "whole"],
)
@in_loops
async def test_who_cuts_a_safe_connection_cannot_feign_the_end_of_an_answer(
    *, asked: Request, kind: bytes, said: bytes, authority: Path
) -> None:
    """Neither loop tells an end of TLS from a cut. But an answer says itself when it is over."""

    async def cut_off(talk: Talk) -> None:
        await talk.hear()
        await talk.say(b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\n\r\n" % kind, said)
        talk.hang_up(rudely=True)

    trust = {"SSL_CERT_FILE": str(authority)}
    settings = HttpSettings(retry=RetryPolicy(retries=0), environ=trust)
    async with listening(cut_off, serving_context(authority)) as server:
        upstream = HttpUpstream("openai-chat", str(server.url.origin()), settings=settings)
        outcome = await read_outcome(upstream, asked)
        await upstream.close()
    assert outcome.error is not None
    assert outcome.finish_reason is None


@pytest.mark.parametrize("before", [b"", b'{"object": "chat.comp'])
@in_loop
async def test_a_whole_answer_that_is_cut_is_an_error(before: bytes) -> None:
    async def half(request: web.BaseRequest) -> web.StreamResponse:
        response = await begin(request, "application/json")
        if before:
            await response.write(before)
        hang_up(request)
        return response

    async with serving(half) as server, asking(server.url) as upstream:
        with pytest.raises(UpstreamError) as caught:
            await read_all(upstream, WHOLE_REQUEST)
        assert caught.value.code == "connection"


LIMIT = 1_000_000


@pytest.mark.parametrize(
    ("asked", "media_type", "first", "piece"),
    [
        (WHOLE_REQUEST, "application/json", b"{", b" " * 100_000),
        (REQUEST, "text/event-stream", FIRST, FIRST * 1_000),
        (REQUEST, "text/event-stream", FIRST, b"x" * 100_000),
    ],
    ids=["whole", "stream", "one event"],
)
@in_loop
async def test_an_answer_that_goes_on_and_on_is_refused(
    *, asked: Request, media_type: str, first: bytes, piece: bytes
) -> None:
    async def endless(request: web.BaseRequest) -> web.StreamResponse:
        response = await begin(request, media_type)
        await response.write(first)
        while True:
            await response.write(piece)

    async with serving(endless) as server, asking(server.url, answer_bytes=LIMIT) as upstream:
        with pytest.raises(UpstreamError, match=f"more than {LIMIT} bytes") as caught:
            await read_all(upstream, asked)
        assert caught.value.code == "limit"


SECRET = "a-secret-of-the-upstream"


@pytest.mark.parametrize("asked", [REQUEST, WHOLE_REQUEST], ids=["stream", "whole"])
@in_loop
async def test_a_key_in_an_answer_that_began_well_is_hidden(*, asked: Request) -> None:
    failure = json.dumps({"error": {"message": f"the key {SECRET} has expired"}}).encode()

    async def late(request: web.BaseRequest) -> web.StreamResponse:
        streamed = asked is REQUEST
        response = await begin(request, "text/event-stream" if streamed else "application/json")
        await response.write(b"data: " + failure + b"\n\n" if streamed else failure)
        return response

    async with serving(late) as server, asking(server.url, api_key=SECRET) as upstream:
        told = await read_all(upstream, asked)
    assert b"has expired" in told
    assert SECRET.encode() not in told


@in_loop
async def test_after_the_first_byte_nothing_is_asked_again() -> None:
    async with serving(cut) as server, asking(server.url, retry=Pauses().retry()) as upstream:
        assert await read_all(upstream) == FIRST
        assert len(server.requests) == 1


# ── Waiting ─────────────────────────────────────────────────────────────────────────


async def before_headers(_request: web.BaseRequest) -> web.StreamResponse:
    await forever()
    return web.Response()


async def before_the_first_byte(request: web.BaseRequest) -> web.StreamResponse:
    response = await begin(request)
    await forever()
    return response


async def in_the_midst(request: web.BaseRequest) -> web.StreamResponse:
    response = await begin(request)
    await response.write(FIRST)
    await forever()
    return response


@pytest.mark.parametrize(
    ("handler", "timeouts", "said"),
    [
        (before_headers, Timeouts(first_byte=0.05), "did not begin to answer within 0.05 s"),
        (before_the_first_byte, Timeouts(first_byte=0.05), "did not begin to answer"),
        (in_the_midst, Timeouts(between_chunks=0.05), "fell silent for 0.05 s"),
    ],
)
@pytest.mark.parametrize("asked", [REQUEST, WHOLE_REQUEST], ids=["stream", "whole"])
@in_loop
async def test_silence_has_a_limit_in_each_phase(
    *,
    handler: Handler,
    timeouts: Timeouts,
    said: str,
    asked: Request,
) -> None:
    pauses = Pauses()
    async with (
        serving(handler) as server,
        asking(server.url, timeouts=timeouts, retry=pauses.retry()) as upstream,
    ):
        with pytest.raises(UpstreamError, match=said) as caught:
            await read_all(upstream, asked)
        assert caught.value.code == "timeout"
        assert len(server.requests) == 1, "who has waited long is not made to wait again"


@in_loop
async def test_what_was_read_before_the_silence_was_handed_on() -> None:
    async with (
        serving(in_the_midst) as server,
        asking(server.url, timeouts=Timeouts(between_chunks=0.05)) as upstream,
        upstream.answer(REQUEST) as answer,
    ):
        assert await anext(answer.chunks) == FIRST
        with pytest.raises(UpstreamError):
            await anext(answer.chunks)


@pytest.fixture
def deaf_port() -> Iterator[int]:
    """A port whose queue of connections is full: the next one gets no answer."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = []
        for _ in range(8):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
            waiting.append(client)
        yield listener.getsockname()[1]
        for client in waiting:
            client.close()


@in_loop
async def test_a_connection_that_does_not_come_about_is_tried_again(deaf_port: int) -> None:
    pauses = Pauses()
    timeouts = Timeouts(connect=0.05)
    url = f"http://127.0.0.1:{deaf_port}"
    async with asking(url, timeouts=timeouts, retry=pauses.retry()) as upstream:
        with pytest.raises(UpstreamError, match=r"no connection .* within 0\.05 s") as caught:
            await read_all(upstream)
    assert caught.value.code == "connection"
    assert pauses.seconds == [0.5, 1.0]


# ── Connections that never were ─────────────────────────────────────────────────────


REFUSED = "Connect call failed ('10.0.0.7', 8000)"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, REFUSED), "Connection refused"),
        (OSError(errno.ECONNREFUSED, f"Multiple exceptions: {REFUSED}"), "Connection refused"),
        (OSError(f"Multiple exceptions: {REFUSED}"), "none of its addresses answers"),
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (Stale("it was closed"), "it was closed"),
    ],
)
def test_why_a_connection_failed_is_told_without_the_numbers_of_addresses(
    error: OSError, said: str
) -> None:
    assert find_cause(error) == said


@in_loop
async def test_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with asking(f"http://127.0.0.1:{port}/v1") as upstream:
        with pytest.raises(UpstreamError, match=r"failed: Connection refused$"):
            await read_all(upstream)
