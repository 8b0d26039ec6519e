"""The answers that we write, read by the SDKs of OpenAI and Anthropic over a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, NamedTuple

import anthropic
import openai
import pytest
from aiohttp import web
from anthropic.types import Message, RawMessageStreamEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from encoded_answers import CLIENTS, ENDINGS, HEAD, encode, ended, grown, make_call, payloads, turns
from example_counts import examples
from wholecall.events import Event, Reasoning, Text, Usage
from wholecall.protocols.registry import encode_answer, encode_failure, make_encoder
from wholecall.protocols.response_base import Failure, ResponseStyle

SECONDS = 30
ASKED: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
ANSWER: list[Event] = [
    Reasoning("Hm."),
    Text("Let me "),
    Text("look."),
    *grown(make_call(0)),
    *grown(make_call(1, {})),
    *grown(make_call(2, {"text": 'ü"\n😀', "deep": [{"a": [1.5, None]}]})),
    Usage(11, 22),
    ended("tool_calls"),
]
CALLS = [
    ("call_0", {"city": "Oslo"}),
    ("call_1", {}),
    ("call_2", {"text": 'ü"\n😀', "deep": [{"a": [1.5, None]}]}),
]


class Read(NamedTuple):
    """What an SDK made of an answer."""

    text: str
    calls: list[tuple[str, Any]]
    reason: str | None
    tokens: tuple[int, int]


# ── The server ──────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def serving(answer: bytes, *, status: int = 200) -> AsyncIterator[str]:
    """A server that gives everyone the same answer: a stream, or a body."""
    kind = "application/json" if answer.startswith(b"{") else "text/event-stream"

    async def reply(_: web.Request) -> web.StreamResponse:
        return web.Response(body=answer, status=status, content_type=kind)

    app = web.Application()
    app.router.add_post("/{path:.*}", reply)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


def ask(client: Callable[[str], Awaitable[Read]], answer: bytes, *, status: int = 200) -> Read:
    async def run() -> Read:
        async with asyncio.timeout(SECONDS), serving(answer, status=status) as address:
            return await client(address)

    return asyncio.run(run())


# ── The clients ─────────────────────────────────────────────────────────────────────


def openai_client(address: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0)


def anthropic_client(address: str) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=address, api_key="none", max_retries=0)


async def stream_chat(address: str) -> Read:
    async with (
        openai_client(address) as client,
        client.chat.completions.stream(**ASKED) as stream,
    ):
        return read_chat(await stream.get_final_completion())


async def post_chat(address: str) -> Read:
    async with openai_client(address) as client:
        return read_chat(await client.chat.completions.create(**ASKED))


def read_chat(completion: ChatCompletion) -> Read:
    [choice] = completion.choices
    calls = [
        (call.id, json.loads(call.function.arguments))
        for call in choice.message.tool_calls or ()
        if call.type == "function"
    ]
    assert completion.usage is not None
    cost = completion.usage.prompt_tokens, completion.usage.completion_tokens
    return Read(choice.message.content or "", calls, choice.finish_reason, cost)


async def stream_response(address: str) -> Read:
    async with (
        openai_client(address) as client,
        client.responses.stream(model="m", input="Hi") as stream,
    ):
        return read_response(await stream.get_final_response())


async def post_response(address: str) -> Read:
    async with openai_client(address) as client:
        return read_response(await client.responses.create(model="m", input="Hi"))


def read_response(response: Response) -> Read:
    calls = [
        (item.call_id, json.loads(item.arguments))
        for item in response.output
        if item.type == "function_call"
    ]
    assert response.usage is not None
    cost = response.usage.input_tokens, response.usage.output_tokens
    return Read(response.output_text, calls, response.status, cost)


async def stream_message(address: str) -> Read:
    async with (
        anthropic_client(address) as client,
        client.messages.stream(max_tokens=9, **ASKED) as stream,
    ):
        return read_message(await stream.get_final_message())


async def post_message(address: str) -> Read:
    async with anthropic_client(address) as client:
        return read_message(await client.messages.create(max_tokens=9, **ASKED))


def read_message(message: Any) -> Read:
    text = "".join(block.text for block in message.content if block.type == "text")
    calls = [(block.id, block.input) for block in message.content if block.type == "tool_use"]
    cost = message.usage.input_tokens, message.usage.output_tokens
    return Read(text, calls, message.stop_reason, cost)


STREAMING = {
    "openai-chat": stream_chat,
    "openai-responses": stream_response,
    "anthropic": stream_message,
}
POSTING = {
    "openai-chat": post_chat,
    "openai-responses": post_response,
    "anthropic": post_message,
}
REASONS = {"openai-chat": "tool_calls", "openai-responses": "completed", "anthropic": "tool_use"}


# ── Tests ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("live", [False, True], ids=["gated", "live"])
@pytest.mark.parametrize("protocol", CLIENTS)
def test_an_sdk_reads_a_stream(protocol: str, *, live: bool) -> None:
    encoder = make_encoder(protocol, HEAD, style=ResponseStyle(live=live))
    stream = encoder.keep_alive() + encoder.begin()
    for event in ANSWER:
        stream += encoder.encode(event) + encoder.keep_alive() + encoder.report({"turn": 1})
    read = ask(STREAMING[protocol], stream + encoder.finish())
    assert read == Read("Let me look.", CALLS, REASONS[protocol], (11, 22))


@pytest.mark.parametrize("protocol", CLIENTS)
def test_an_sdk_reads_a_body(protocol: str) -> None:
    body = json.dumps(encode_answer(protocol, ANSWER, head=HEAD)).encode()
    read = ask(POSTING[protocol], body)
    assert read == Read("Let me look.", CALLS, REASONS[protocol], (11, 22))


@pytest.mark.parametrize("protocol", CLIENTS)
def test_an_sdk_raises_at_an_error_in_a_stream(protocol: str) -> None:
    cut = encode(protocol, [*ANSWER[:-1], ended(None)])
    with pytest.raises((openai.APIError, anthropic.APIError), match="cut off before its end"):
        ask(STREAMING[protocol], cut)


@pytest.mark.parametrize("protocol", CLIENTS)
@pytest.mark.parametrize(
    ("status", "kinds"),
    [
        (400, (openai.BadRequestError, anthropic.BadRequestError)),
        (401, (openai.AuthenticationError, anthropic.AuthenticationError)),
        (429, (openai.RateLimitError, anthropic.RateLimitError)),
        (502, (openai.InternalServerError, anthropic.InternalServerError)),
    ],
)
def test_an_sdk_raises_at_the_body_of_an_error(
    protocol: str, status: int, *, kinds: tuple[type[Exception], ...]
) -> None:
    failure = Failure(message="is no list", status=status, param="tools", request_id="req_1")
    body = json.dumps(encode_failure(protocol, failure)).encode()
    with pytest.raises(kinds, match="is no list"):
        ask(POSTING[protocol], body, status=status)


TYPES: dict[str, tuple[Any, Any]] = {
    "openai-chat": (ChatCompletionChunk, ChatCompletion),
    "openai-responses": (ResponseStreamEvent, Response),
    "anthropic": (RawMessageStreamEvent, Message),
}


@cache
def adapters(protocol: str) -> tuple[TypeAdapter[Any], TypeAdapter[Any]]:
    streamed, whole = TYPES[protocol]
    return TypeAdapter(streamed), TypeAdapter(whole)


@pytest.mark.parametrize("protocol", CLIENTS)
@settings(max_examples=examples(30))
@given(data=st.data())
def test_everything_that_is_written_is_of_the_sdks_types(
    protocol: str, data: st.DataObject
) -> None:
    events, (streamed, whole) = data.draw(turns(protocol, ENDINGS)), adapters(protocol)
    for payload in payloads(encode(protocol, events, style=ResponseStyle(upstream=protocol))):
        if payload != "[DONE]":
            streamed.validate_python(payload)
    whole.validate_python(encode_answer(protocol, events, head=HEAD, upstream=protocol))
