"""The usage of an answer, in each protocol's names.

Figures in the client's own protocol are passed on whole. Those of another are translated: OpenAI
and Google count cached tokens as part of the input, Anthropic counts them separately.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wholecall.core.values import Usage
from wholecall.protocols.wire import count_reasoning

_CACHED = (
    ("prompt_tokens_details", "cached_tokens"),
    ("input_tokens_details", "cached_tokens"),
    ("cache_read_input_tokens",),
    ("cachedContentTokenCount",),
)
_STORED = (
    ("prompt_tokens_details", "cache_write_tokens"),
    ("input_tokens_details", "cache_write_tokens"),
    ("cache_creation_input_tokens",),
)
_BESIDE = ("cache_read_input_tokens", "cache_creation_input_tokens")


@dataclass(frozen=True, slots=True)
class _Figures:
    """All tokens of the input and of the output, and what is known of some of them."""

    input: int
    output: int
    cached: int
    stored: int
    reasoning: int


def write_chat_usage(usage: Usage) -> dict[str, Any]:
    """`usage` of a chat completion."""
    if {"prompt_tokens", "completion_tokens"} <= usage.native.keys():
        return dict(usage.native)
    figures = _read(usage)
    return {
        "prompt_tokens": figures.input,
        "completion_tokens": figures.output,
        "total_tokens": figures.input + figures.output,
        "prompt_tokens_details": {"cached_tokens": figures.cached},
        "completion_tokens_details": {"reasoning_tokens": figures.reasoning},
    }


def write_response_usage(usage: Usage) -> dict[str, Any]:
    """`usage` of a response."""
    if {"input_tokens", "output_tokens", "total_tokens"} <= usage.native.keys():
        return dict(usage.native)
    figures = _read(usage)
    return {
        "input_tokens": figures.input,
        "input_tokens_details": {
            "cached_tokens": figures.cached,
            "cache_write_tokens": figures.stored,
        },
        "output_tokens": figures.output,
        "output_tokens_details": {"reasoning_tokens": figures.reasoning},
        "total_tokens": figures.input + figures.output,
    }


def write_message_usage(usage: Usage | None) -> dict[str, Any]:
    """`usage` of a message. The protocol demands it, so what is unknown is 0."""
    if usage is None:
        return {"input_tokens": 0, "output_tokens": 0}
    if _is_message_usage(usage.native):
        return {"output_tokens": 0, **usage.native}
    figures = _read(usage)
    return {
        "input_tokens": max(figures.input - figures.cached - figures.stored, 0),
        "cache_creation_input_tokens": figures.stored,
        "cache_read_input_tokens": figures.cached,
        "output_tokens": figures.output,
    }


def _read(usage: Usage) -> _Figures:
    native = usage.native
    beside = _BESIDE if _is_message_usage(native) else ()
    return _Figures(
        (usage.input_tokens or 0) + sum(_count(native.get(name)) for name in beside),
        usage.output_tokens or 0,
        _find(native, _CACHED),
        _find(native, _STORED),
        count_reasoning(native),
    )


def _is_message_usage(native: Mapping[str, Any]) -> bool:
    """Return True if the figures are Anthropic's: OpenAI's Responses has the same two names."""
    return "input_tokens" in native and "total_tokens" not in native


def _find(native: Mapping[str, Any], paths: tuple[tuple[str, ...], ...]) -> int:
    """The first of the paths that leads to a count."""
    return next((count for path in paths if (count := _follow(native, path))), 0)


def _follow(native: Mapping[str, Any], path: tuple[str, ...]) -> int:
    value: Any = native
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return _count(value)


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0
