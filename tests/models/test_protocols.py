"""llama.cpp's server as an upstream in each of the protocols that it speaks."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Iterator

import pytest

from models.conftest import SECONDS
from wholecall.errors import UnknownModel, UpstreamError
from wholecall.events import Outcome, Text, collect
from wholecall.messages import Message, Request, Role
from wholecall.protocols.reader import Reader
from wholecall.upstreams.http import HttpSettings, HttpUpstream
from wholecall.upstreams.local_upstream import find_file
from wholecall.upstreams.model_process import ModelProcess, ServerOrder

KEY = secrets.token_urlsafe(16)
QUESTION = (Message(Role.USER, (Text("Say hello."),)),)
PROTOCOLS = ("openai-chat", "openai-responses", "anthropic")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    try:
        path = find_file("smollm2", os.environ)
    except UnknownModel as error:
        pytest.skip(str(error))
    order = ServerOrder(
        path=str(path),
        key=KEY,
        context=512,
        parallel=1,
        threads=2,
        output_tokens=16,
        temperature=0.0,
    )
    process = ModelProcess(order)
    try:
        yield process.load(SECONDS)
    finally:
        process.stop()


async def ask(upstream: HttpUpstream, request: Request) -> Outcome:
    async with asyncio.timeout(SECONDS):
        try:
            async with upstream.answer(request) as answer:
                reader = Reader(answer.protocol)
                feed = reader.feed if answer.streamed else reader.feed_response
                events = [event async for chunk in answer.chunks for event in feed(chunk)]
        finally:
            await upstream.close()
    return collect([*events, *reader.end()])


def reach(address: str, protocol: str, *, key: str = KEY) -> HttpUpstream:
    base = address if protocol == "anthropic" else f"{address}/v1"
    return HttpUpstream(protocol, base, api_key=key, settings=HttpSettings(environ={}))


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_it_answers_in_each_protocol(address: str, protocol: str, *, stream: bool) -> None:
    request = Request(model="smollm2-135m", messages=QUESTION, max_tokens=12, stream=stream)
    outcome = asyncio.run(ask(reach(address, protocol), request))
    assert outcome.text
    assert outcome.error is None
    assert outcome.finish_reason in ("stop", "length")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_strangers_are_refused(address: str, protocol: str) -> None:
    request = Request(model="smollm2-135m", messages=QUESTION, max_tokens=2)
    with pytest.raises(UpstreamError) as refused:
        asyncio.run(ask(reach(address, protocol, key="guessed"), request))
    assert refused.value.status == 401


def test_what_does_not_fit_its_context_is_told_in_words(address: str) -> None:
    long = (Message(Role.USER, (Text("word " * 2000),)),)
    with pytest.raises(UpstreamError, match="exceeds the available context size"):
        asyncio.run(ask(reach(address, "openai-chat"), Request(model="m", messages=long)))
