"""Facts about the upstreams of a protocol, by the names of their models.

A name in no table gets what most upstreams accept. A caller that knows better passes its own
`Target`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from wholecall.protocols.history import (
    ANTHROPIC,
    DEEPSEEK,
    GEMINI,
    MISTRAL,
    OPENAI_CHAT,
    ReasoningRule,
    Target,
)

_Known = TypeVar("_Known")

ANY = Target()
"""Accepts what the protocol allows."""
CAP = "max_tokens"
"""The output limit's name."""
NEW_CAP = "max_completion_tokens"
"""Its newer name, which counts the reasoning, too."""


@dataclass(frozen=True, slots=True)
class ChatTraits:
    """The requirements of the chat endpoint of some models."""

    target: Target = ANY
    cap: str | None = None
    """The only name of the output limit that it takes; None: both."""
    usage_on_demand: bool = True
    """True if a stream reports its usage only if `stream_options` requests it."""


# OpenAI's reasoning models refuse `max_tokens`. Mistral refuses what it does not know, and it
# does not know `max_completion_tokens` and `stream_options`
# (https://github.com/openai/openai-agents-python/issues/442).
_OPENAI = ChatTraits(OPENAI_CHAT, NEW_CAP)
_MISTRAL = ChatTraits(MISTRAL, CAP, usage_on_demand=False)
_OTHER = ChatTraits()

# The first beginning that fits counts.
_CHAT: tuple[tuple[str, ChatTraits], ...] = (
    ("gpt-oss", _OTHER),  # open weights: anybody may serve them
    ("gpt-", _OPENAI),
    ("chatgpt-", _OPENAI),
    ("o1", _OPENAI),
    ("o3", _OPENAI),
    ("o4", _OPENAI),
    ("mistral", _MISTRAL),
    ("ministral", _MISTRAL),
    ("magistral", _MISTRAL),
    ("codestral", _MISTRAL),
    ("devstral", _MISTRAL),
    ("labs-devstral", _MISTRAL),
    ("pixtral", _MISTRAL),
    ("open-mi", _MISTRAL),
    ("deepseek", ChatTraits(DEEPSEEK)),
    ("gemini", ChatTraits(GEMINI)),
)


def chat_traits(model: str) -> ChatTraits:
    """Return the requirements of the chat endpoint of this model."""
    return _look_up(model, _CHAT, other=_OTHER)


@dataclass(frozen=True, slots=True)
class AnthropicTraits:
    """The requirements of Anthropic's endpoint, or an imitation of it, for some models."""

    target: Target = ANTHROPIC
    sampling: bool = True
    """True if `temperature` and `top_p` are accepted."""
    top_p_with_temperature: bool = False
    """True if both are accepted together."""


_CLAUDE = AnthropicTraits()
# Since Opus 4.7 they are refused (https://github.com/UKGovernmentBEIS/inspect_ai/issues/3721).
_NEWER_CLAUDE = AnthropicTraits(sampling=False)
# The others that speak this protocol sign nothing, and want their reasoning back all the same.
_IMITATOR = AnthropicTraits(
    replace(ANTHROPIC, reasoning=ReasoningRule.ALL), top_p_with_temperature=True
)

_ANTHROPIC: tuple[tuple[str, AnthropicTraits], ...] = (
    ("claude-opus-4-7", _NEWER_CLAUDE),
    ("claude-opus-4-8", _NEWER_CLAUDE),
    ("claude-2", _CLAUDE),
    ("claude-3", _CLAUDE),
    ("claude-opus-4", _CLAUDE),
    ("claude-sonnet-4", _CLAUDE),
    ("claude-haiku-4", _CLAUDE),
    ("claude", _NEWER_CLAUDE),
)


def anthropic_traits(model: str) -> AnthropicTraits:
    """Return the requirements of Anthropic's endpoint, or an imitation of it, for this model."""
    return _look_up(model, _ANTHROPIC, other=_IMITATOR)


def _look_up(model: str, table: Sequence[tuple[str, _Known]], *, other: _Known) -> _Known:
    # Gateways put a path before the name: `openai/gpt-5`, `anthropic.claude-…`.
    name = model.lower().rpartition("/")[2].removeprefix("anthropic.")
    return next((known for start, known in table if name.startswith(start)), other)
