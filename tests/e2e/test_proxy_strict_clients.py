"""OpenAI's and Anthropic's SDKs accept every answer, streamed and whole, when they are strict: a
field of another type, or a missing one, is an error then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anthropic
import openai
import pytest
from aiohttp import web

from any_upstream import UPSTREAMS, Said, in_front_of
from case_table import CASES
from proxy_server import in_loop

SAYS = [
    case.says
    for case in CASES.values()
    if isinstance(case.says, Said) and all(name == "read" for name, _ in case.says.calls)
]
FUNCTION: dict[str, Any] = {
    "name": "read",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
}
CHAT: dict[str, Any] = {
    "messages": [{"role": "user", "content": "Hi"}],
    "tools": [{"type": "function", "function": FUNCTION}],
    "temperature": 1,
    "stream_options": None,
}
RESPONSES: dict[str, Any] = {
    "input": [{"role": "user", "content": "Hi"}],
    "instructions": "Be brief.",
    "tools": [{"type": "function", **FUNCTION, "strict": False}],
    "metadata": {"topic": "a"},
    "reasoning": {"effort": "low"},
}
MESSAGES: dict[str, Any] = {
    "messages": [{"role": "user", "content": "Hi"}],
    "max_tokens": 99,
    "tools": [{"name": "read", "input_schema": FUNCTION["parameters"]}],
}
Create = Callable[..., Any]


async def _read(create: Create, fields: dict[str, Any], *, calls: int) -> None:
    """Ask whole and streamed; count the calls, so that nothing was accepted by being left out."""
    for stream in (False, True):
        answer = await create(model="m", **fields, stream=stream)
        events = [event async for event in answer] if stream else [answer]
        assert sum(map(_count, events)) == calls


def _count(event: Any) -> int:
    """The calls that begin in an event, or that a whole answer has."""
    kinds = ("function_call", "tool_use")
    block = getattr(event, "content_block", None)
    if getattr(event, "type", "") == "response.output_item.added":
        block = event.item
    whole = getattr(event, "output", None) or getattr(event, "content", None) or ()
    found = sum(getattr(each, "type", "") in kinds for each in (block, *whole))
    for choice in getattr(event, "choices", ()):
        said = getattr(choice, "message", None) or choice.delta
        found += sum(bool(call.id) for call in said.tool_calls or ())
    return found


@pytest.mark.parametrize("prefix", UPSTREAMS)
@in_loop
async def test_a_strict_client_accepts_every_answer(prefix: str) -> None:
    async with in_front_of(prefix) as it:
        url, strict = it.served.url, {"_strict_response_validation": True, "max_retries": 0}
        chat = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="any", **strict)  # type: ignore[arg-type]
        messages = anthropic.AsyncAnthropic(base_url=url, api_key="any", **strict)  # type: ignore[arg-type]
        async with chat, messages:
            for it.says in SAYS:
                calls = len(it.says.calls)
                await _read(chat.chat.completions.create, CHAT, calls=calls)
                await _read(chat.responses.create, RESPONSES, calls=calls)
                await _read(messages.messages.create, MESSAGES, calls=calls)
            it.says, it.lacks = Said("Hi."), "/count_tokens"
            counted = await messages.messages.count_tokens(model="m", messages=MESSAGES["messages"])
            assert counted.input_tokens >= 0
            stored = await chat.responses.create(model="m", input="Hi")
            if prefix != "responses":  # that one gives every answer the same id
                assert (await chat.responses.retrieve(stored.id)).output == stored.output
            conversation = await chat.conversations.create(items=[])
            assert await chat.conversations.retrieve(conversation.id) == conversation
            assert (await chat.conversations.delete(conversation.id)).deleted
            models = await chat.models.list()
            assert [model.id for model in models.data] == ["m"]


@in_loop
async def test_a_strict_client_notices_a_field_of_another_type() -> None:
    """The mode does what it says."""
    async with in_front_of("openai") as it:
        client = openai.AsyncOpenAI(
            base_url=f"{it.served.url}/v1", api_key="any", _strict_response_validation=True
        )
        async with client:
            message = {"role": "assistant", "content": "Hi."}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            it.says = web.json_response({"id": 7, "choices": [choice], "model": "m"})
            with pytest.raises(openai.APIResponseValidationError):
                await client.chat.completions.create(model="m", messages=CHAT["messages"])
