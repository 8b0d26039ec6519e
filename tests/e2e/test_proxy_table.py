"""Every client protocol, every upstream protocol, streamed and not: the same outcome.

The clients are the official SDKs, the proxy listens on a socket, and the upstream that fails
stands behind it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple
from uuid import uuid4

import anthropic
import openai
import pytest

from proxying import Offer, proxy_in_thread, upstream
from wholecall.faults import start_in_thread
from wholecall.faults.scenarios import SCENARIOS
from wholecall.faults.script import Form, Scenario, ToolRun
from wholecall.faults.tools import definitions

UPSTREAMS = {"openai": "openai-chat", "responses": "openai-responses", "anthropic": "anthropic"}
MODES = (True, False)


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


@pytest.fixture(scope="module")
def proxy() -> Iterator[Clients]:
    """Clients of a proxy that serves every scenario in every protocol: `openai:good`."""
    with start_in_thread(hang_seconds=1.0) as faults:
        bases = {"anthropic": faults.address}
        models = {
            f"{prefix}:{name}": upstream(
                f"{prefix}/{name}", bases.get(prefix, faults.base_url), api_key=None
            )
            for prefix, name in product(UPSTREAMS, SCENARIOS)
        }
        with (
            proxy_in_thread(Offer(models)) as url,
            openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as chat,
            anthropic.Anthropic(base_url=url, api_key="any", max_retries=0) as messages,
        ):
            yield Clients(chat, messages)


# ── Sound answers ───────────────────────────────────────────────────────────────────

MAIL: tuple[str, dict[str, Any]] = (
    "send_email",
    {"to": "ada@example.org", "body": "Dinner is at eight."},
)
PARALLEL: tuple[tuple[str, dict[str, Any]], ...] = (
    ("get_weather", {"city": "Oslo", "unit": "C"}),
    ("get_weather", {"city": "Rome", "unit": "C"}),
    ("list_items", {}),
)
SOUND = {
    "answer-only": Delivered("All done.", (), "", "stop"),
    "good": Delivered("", (MAIL,), "", "tool_calls"),
    "parallel-calls": Delivered("", PARALLEL, "", "tool_calls"),
    "text-and-call": Delivered("Let me write to her.", (MAIL,), "", "tool_calls"),
    "reasoning-and-call": Delivered("", (MAIL,), "I could send_email to Ada.", "tool_calls"),
}
ERRORS = ("error-in-call", "server-error-always", "dropped-always", "unauthorized")


@pytest.mark.parametrize("stream", MODES, ids=["streamed", "whole"])
@pytest.mark.parametrize("scenario", SOUND)
@pytest.mark.parametrize("prefix", UPSTREAMS)
@pytest.mark.parametrize("client", CLIENTS)
def test_every_client_gets_the_same_from_every_upstream(
    proxy: Clients, client: str, *, prefix: str, scenario: str, stream: bool
) -> None:
    assert CLIENTS[client](proxy, f"{prefix}:{scenario}", stream=stream) == SOUND[scenario]


@pytest.mark.parametrize("stream", MODES, ids=["streamed", "whole"])
@pytest.mark.parametrize("scenario", ERRORS)
@pytest.mark.parametrize("prefix", UPSTREAMS)
@pytest.mark.parametrize("client", CLIENTS)
def test_every_client_hears_of_every_failure(
    proxy: Clients, client: str, *, prefix: str, scenario: str, stream: bool
) -> None:
    with pytest.raises(FAILURES):
        CLIENTS[client](proxy, f"{prefix}:{scenario}", stream=stream)


# ── Faults ──────────────────────────────────────────────────────────────────────────


def _faults() -> Iterator[Any]:
    for (name, scenario), (prefix, protocol), stream in product(
        SCENARIOS.items(), UPSTREAMS.items(), MODES
    ):
        form = Form(protocol, stream)
        if form in scenario.forms:
            kind = "streamed" if stream else "whole"
            yield pytest.param(scenario, prefix, form, id=f"{name}-{prefix}-{kind}")


@pytest.mark.parametrize(("scenario", "prefix", "form"), list(_faults()))
def test_no_client_gets_a_call_that_must_not_run(
    proxy: Clients, scenario: Scenario, *, prefix: str, form: Form
) -> None:
    """A client either gets the right calls of the first answer, or an error."""
    ask = CLIENTS[form.protocol]
    try:
        delivered = ask(proxy, f"{prefix}:{scenario.name}", stream=form.streamed)
    except FAILURES:
        return
    expected = scenario.expect(form)
    allowed = [*scenario.first_runs(form), *expected.instead]
    for name, arguments in delivered.calls:
        assert ToolRun(name, arguments) in allowed
