"""What becomes of each field of a request on each upstream, found out by trying.

`.venv/bin/python tests/field_table.py` prints the two tables of docs/protocols.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from anthropic.types import message_create_params as messages_types
from anthropic.types.beta import message_create_params as beta_types
from openai.types.chat import completion_create_params as chat_types
from openai.types.responses import response_create_params as responses_types

from wholecall.protocols.registry import (
    decode_request,
    encode_request,
    find_dropped,
    omit_refused,
)
from wholecall.proxy.routes.client_route import RESPONSES_CLIENT

CLIENTS = ("openai-chat", "openai-responses", "anthropic")
# A model of each upstream that takes as much as any does.
UPSTREAMS = {
    "openai-chat": "gpt-5",
    "openai-responses": "gpt-5",
    "anthropic": "claude-sonnet-4-6",
    "gemini": "gemini-2.5-pro",
    "ollama": "gpt-oss",
}
# OpenAI's models that think take no sampling.
_SAMPLED = frozenset({"temperature", "top_p", "stop", "stop_sequences"})
_UNTHINKING = "gpt-4.1"
KEPT, TRANSLATED, REFUSED, DROPPED, HERE = "kept", "translated", "refused", "dropped", "here"
# The SDK makes a header of it.
_NOT_IN_BODIES = {"betas"}
# Sampling has left the newest types of Anthropic's SDK; its older models still take it.
_OLDER = {"temperature", "top_p", "top_k"}


def fields_of(client: str) -> list[str]:
    """The fields of a request by the official SDKs' own types."""
    types: dict[str, tuple[Any, ...]] = {
        "openai-chat": (
            chat_types.CompletionCreateParamsBase,
            chat_types.CompletionCreateParamsStreaming,
        ),
        "openai-responses": (
            responses_types.ResponseCreateParamsBase,
            responses_types.ResponseCreateParamsStreaming,
        ),
        "anthropic": (
            messages_types.MessageCreateParamsBase,
            messages_types.MessageCreateParamsStreaming,
            beta_types.MessageCreateParamsBase,
        ),
    }
    names = {name for each in types[client] for name in each.__annotations__}
    older = _OLDER if client == "anthropic" else set()
    return sorted((names | older) - _NOT_IN_BODIES)


_SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
_FUNCTION = {"name": "f", "parameters": _SCHEMA}
BASES: dict[str, dict[str, Any]] = {
    "openai-chat": {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"type": "function", "function": _FUNCTION}],
    },
    "openai-responses": {
        "model": "m",
        "input": "hi",
        "tools": [{"type": "function", **_FUNCTION}],
    },
    "anthropic": {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 9,
        "tools": [{"name": "f", "input_schema": _SCHEMA}],
    },
}
_JSON = {"type": "json_schema", "name": "n", "schema": _SCHEMA}
# A value of each field that says something. A field of the SDKs that is not here is unknown.
_SHARED: dict[str, Any] = {
    "access_programs": ["x"],
    "audio": {"voice": "alloy", "format": "wav"},
    "background": True,
    "cache_control": {"type": "ephemeral"},
    "compaction": {"type": "auto"},
    "container": "c",
    "context_management": [{"type": "compaction"}],
    "conversation": "conv_1",
    "diagnostics": {"level": "all"},
    "fallback_credit_token": "t",
    "fallbacks": ["m2"],
    "frequency_penalty": 0.5,
    "function_call": "none",
    "functions": [{"name": "g", "parameters": _SCHEMA}],
    "image": {"quality": "low"},
    "include": ["reasoning.encrypted_content"],
    "inference_geo": "us",
    "input": "ho",
    "instructions": "Be brief.",
    "logit_bias": {"1": 1},
    "logprobs": True,
    "max_completion_tokens": 70,
    "max_output_tokens": 70,
    "max_tokens": 70,
    "max_tool_calls": 3,
    "mcp_servers": [{"type": "url", "url": "https://x.example", "name": "x"}],
    "messages": [{"role": "user", "content": "ho"}],
    "metadata": {"user_id": "u"},
    "modalities": ["text", "audio"],
    "model": "m2",
    "moderation": {"model": "m"},
    "n": 2,
    "output_config": {"format": {"type": "json_schema", "schema": _SCHEMA}, "effort": "low"},
    "parallel_tool_calls": False,
    "prediction": {"type": "content", "content": "x"},
    "presence_penalty": 0.5,
    "previous_response_id": "resp_1",
    "prompt": {"id": "p"},
    "prompt_cache_key": "k",
    "prompt_cache_options": {"mode": "auto"},
    "prompt_cache_retention": "24h",
    "reasoning": {"effort": "low"},
    "reasoning_effort": "low",
    "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": _SCHEMA}},
    "safety_identifier": "s",
    "seed": 7,
    "service_tier": "auto",
    "speed": "fast",
    "stop": ["x"],
    "stop_sequences": ["x"],
    "store": False,
    "stream": True,
    "stream_options": {"include_usage": True},
    "system": "Be brief.",
    "temperature": 0.5,
    "text": {"format": _JSON, "verbosity": "low"},
    "thinking": {"type": "enabled", "budget_tokens": 2000},
    "thread": "t",
    "tool_choice": "none",
    "tools": [],
    "top_k": 5,
    "top_logprobs": 2,
    "top_p": 0.5,
    "truncation": "auto",
    "user": "u",
    "user_profile_id": "u",
    "verbosity": "low",
    "web_search_options": {},
    "workspace_id": "w",
}
_OWN: dict[str, dict[str, Any]] = {"anthropic": {"tool_choice": {"type": "none"}}}
# What the proxy answers for itself, where the upstream has no words for it: it stores responses,
# counts tokens, and checks the calls of every answer.
ANSWERED_HERE: dict[str, frozenset[str]] = {
    "openai-chat": frozenset({"stream_options", "parallel_tool_calls", "tool_choice", "stream"}),
    "openai-responses": frozenset({"stream_options", "parallel_tool_calls", "tool_choice"})
    | {"store", "background", "metadata", "stream"},
    "anthropic": frozenset({"stream"}),
}
_REFUSED = {
    "openai-chat": frozenset[str](),
    "openai-responses": frozenset(RESPONSES_CLIENT.only_there),
    "anthropic": frozenset({"thread"}),
}


def sample(client: str, field: str) -> Any:
    return _OWN.get(client, {}).get(field, _SHARED.get(field))


class Unaccounted(AssertionError):
    """A field of which nothing is known, or that vanishes without a word."""


def find_fate(client: str, upstream: str, *, field: str) -> str:
    """What becomes of a field: one word."""
    if field not in _SHARED:
        raise Unaccounted(f"{client} has a field {field!r} without a sample")
    if field in _REFUSED[client] and (client != upstream or field == "thread"):
        return REFUSED
    if client == upstream:
        return KEPT
    changed = changes(client, upstream, field=field)
    told = any(each.partition(".")[0] == field for each in dropped(client, upstream, field=field))
    if changed:
        return f"{TRANSLATED}, in part" if told else TRANSLATED
    if told:
        return DROPPED
    if field in ANSWERED_HERE[client]:
        return HERE
    raise Unaccounted(f"{field!r} of {client} vanishes on its way to {upstream}")


def dropped(client: str, upstream: str, *, field: str) -> tuple[str, ...]:
    body = {**BASES[client], field: sample(client, field)}
    request = _decode(client, _model(upstream, field), body=body)
    return find_dropped(client, upstream, request=request)


def _model(upstream: str, field: str) -> str:
    thinks = field not in _SAMPLED or not upstream.startswith("openai-")
    return UPSTREAMS[upstream] if thinks else _UNTHINKING


def changes(client: str, upstream: str, *, field: str, value: Any = None) -> list[str]:
    """The fields of the upstream's body that a field of the client's changes."""
    with_it = {**BASES[client], field: value or sample(client, field)}
    model = _model(upstream, field)
    plain = dict(_flatten(_encode(client, upstream, model=model, body=BASES[client])))
    told = dict(_flatten(_encode(client, upstream, model=model, body=with_it)))
    differ = {path for path in plain.keys() | told.keys() if plain.get(path) != told.get(path)}
    return sorted({".".join(path[:2]) for path in differ})


def _decode(client: str, model: str, *, body: Mapping[str, Any]) -> Any:
    # The route says which model it is, unless the field is the model.
    named = model if body["model"] == "m" else body["model"]
    return decode_request(client, {**body, "model": named})


def _encode(client: str, upstream: str, *, model: str, body: Mapping[str, Any]) -> dict[str, Any]:
    request = omit_refused(client, upstream, request=_decode(client, model, body=body))
    address = {"model": request.model, "stream": request.stream}  # Gemini has them in its URL
    return {**address, **encode_request(upstream, request)}


def _flatten(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict) and len(path) < 2:
        for name, inner in value.items():
            yield from _flatten(inner, (*path, name))
    else:
        yield path, value


def write_fields() -> str:
    """The table of all fields."""
    heads = [f"`{upstream}`" for upstream in UPSTREAMS]
    lines = [f"| field | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for client in CLIENTS:
        lines.append(f"| **`{client}`** |" + " |" * len(heads))
        for field in fields_of(client):
            fates = [find_fate(client, upstream, field=field) for upstream in UPSTREAMS]
            lines.append(f"| `{field}` | {' | '.join(fates)} |")
    return "\n".join(lines)


# The options of a request, by the field that says them in each client protocol.
OPTIONS: dict[str, dict[str, str]] = {
    "effort": {
        "openai-chat": "reasoning_effort",
        "openai-responses": "reasoning",
        "anthropic": "thinking",
    },
    "verbosity": {"openai-chat": "verbosity", "openai-responses": "text"},
    "cache key": {"openai-chat": "prompt_cache_key", "openai-responses": "prompt_cache_key"},
    "service tier": dict.fromkeys(CLIENTS, "service_tier"),
    "user": {
        "openai-chat": "safety_identifier",
        "openai-responses": "safety_identifier",
        "anthropic": "metadata",
    },
    "stop sequences": {"openai-chat": "stop", "anthropic": "stop_sequences"},
    "one call at a time": {
        "openai-chat": "parallel_tool_calls",
        "openai-responses": "parallel_tool_calls",
    },
    "output limit": {
        "openai-chat": "max_completion_tokens",
        "openai-responses": "max_output_tokens",
        "anthropic": "max_tokens",
    },
}


def write_pairs() -> str:
    """The table of options, a row for each pair of protocols."""
    lines = [f"| client → upstream | {' | '.join(OPTIONS)} |", "|---" * (len(OPTIONS) + 1) + "|"]
    pairs = [(client, upstream) for client in CLIENTS for upstream in UPSTREAMS]
    for client, upstream in pairs:
        if client != upstream:
            fields = (option.get(client) for option in OPTIONS.values())
            cells = [_write_cell(client, upstream, field=field) for field in fields]
            lines.append(f"| `{client}` → `{upstream}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _write_cell(client: str, upstream: str, *, field: str | None) -> str:
    if field is None:
        return ""
    value = {"verbosity": "low"} if field == "text" else None
    changed = changes(client, upstream, field=field, value=value)
    # Other fields come along where nothing was chosen before.
    changed = [each for each in changed if each not in ("tool_choice", "tool_choice.type")]
    fate = DROPPED if value else find_fate(client, upstream, field=field)
    return ", ".join(f"`{each}`" for each in changed) or fate


if __name__ == "__main__":
    sys.stdout.write(f"{write_pairs()}\n\n{write_fields()}\n")
