"""The official clients, asked in one way, and what each made of an answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import uuid4

import anthropic
import openai

from wholecall.faults.script import definitions


class Delivered(NamedTuple):
    """What a client made of an answer."""

    text: str
    calls: tuple[tuple[str, dict[str, Any]], ...]
    reasoning: str
    finish: str


def question() -> list[dict[str, str]]:
    """A question that nobody asked before: the upstream that fails knows who asks twice."""
    return [{"role": "user", "content": f"Do what is needed ({uuid4()})."}]


class Clients(NamedTuple):
    """The official ones. To make one costs as much as to ask it."""

    openai: openai.OpenAI
    anthropic: anthropic.Anthropic


# ── Clients ─────────────────────────────────────────────────────────────────────────


def ask_chat(clients: Clients, model: str, *, stream: bool) -> Delivered:
    asked: dict[str, Any] = {
        "model": model,
        "messages": question(),
        "tools": definitions("openai-chat"),
    }
    if stream:
        with clients.openai.chat.completions.stream(**asked) as events:
            choice: Any = events.get_final_completion().choices[0]
    else:
        choice = clients.openai.chat.completions.create(**asked).choices[0]
    message = choice.message
    calls = tuple(
        (call.function.name, json.loads(call.function.arguments))
        for call in message.tool_calls or ()
    )
    thought = (message.model_extra or {}).get("reasoning_content") or ""
    return Delivered(message.content or "", calls, thought, choice.finish_reason)


ENDS = ("response.completed", "response.incomplete")


def ask_responses(clients: Clients, model: str, *, stream: bool) -> Delivered:
    asked: dict[str, Any] = {
        "model": model,
        "input": question(),
        "tools": definitions("openai-responses"),
    }
    if stream:
        with clients.openai.responses.stream(**asked) as events:
            # The SDK's own helper knows no end but `completed`.
            ends: list[Any] = [event for event in events if event.type in ENDS]
        response: Any = ends[-1].response
    else:
        response = clients.openai.responses.create(**asked)
    items = response.output
    calls = tuple(
        (item.name, json.loads(item.arguments)) for item in items if item.type == "function_call"
    )
    thoughts = (item for item in items if item.type == "reasoning")
    thought = "".join(part.text for item in thoughts for part in item.summary)
    finish = {"completed": "tool_calls" if calls else "stop"}.get(response.status, "length")
    return Delivered(response.output_text, calls, thought, finish)


def ask_anthropic(clients: Clients, model: str, *, stream: bool) -> Delivered:
    asked: dict[str, Any] = {
        "model": model,
        "max_tokens": 1000,
        "messages": question(),
        "tools": definitions("anthropic"),
    }
    if stream:
        with clients.anthropic.messages.stream(**asked) as events:
            message: Any = events.get_final_message()
    else:
        message = clients.anthropic.messages.create(**asked)
    texts = {"text": "text", "thinking": "thinking"}
    said = {
        kind: "".join(getattr(block, name) for block in message.content if block.type == kind)
        for kind, name in texts.items()
    }
    calls = tuple((b.name, b.input) for b in message.content if b.type == "tool_use")
    finish = {"end_turn": "stop", "tool_use": "tool_calls"}.get(message.stop_reason, "length")
    return Delivered(said["text"], calls, said["thinking"], finish)


CLIENTS: dict[str, Callable[..., Delivered]] = {
    "openai-chat": ask_chat,
    "openai-responses": ask_responses,
    "anthropic": ask_anthropic,
}
FAILURES = (openai.OpenAIError, anthropic.AnthropicError)
