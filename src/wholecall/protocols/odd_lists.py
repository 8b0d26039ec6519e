"""Calls of OpenAI's chat protocol that should come as a list, and come as something else.

Gateways write one call without brackets, an empty text or `false` for none, the list as its own
JSON text, or as an object whose keys are the places (PHP's arrays). Without this the whole chunk
would be unreadable, and the words beside the calls be lost.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_MESSAGES = ("delta", "message")
_OF_A_CALL = frozenset({"function", "name", "arguments", "custom", "id", "index"})


def mend_lists(chunk: Any) -> Any:
    """Return a chunk in which calls are lists, as far as possible."""
    choices = chunk.get("choices") if isinstance(chunk, Mapping) else None
    if not isinstance(choices, list):
        return chunk
    return {**chunk, "choices": [_mend_choice(choice) for choice in choices]}


def _mend_choice(choice: Any) -> Any:
    if not isinstance(choice, Mapping):
        return choice
    messages = {name: _mend_message(choice[name]) for name in _MESSAGES if name in choice}
    return {**choice, **messages}


def _mend_message(message: Any) -> Any:
    if not isinstance(message, Mapping) or "tool_calls" not in message:
        return message
    return {**message, "tool_calls": _list_calls(message["tool_calls"])}


def _list_calls(calls: Any) -> Any:
    if isinstance(calls, str):
        calls = _parse(calls.strip())
    if not isinstance(calls, Mapping):
        return calls or None
    if not _OF_A_CALL.isdisjoint(calls):
        return [calls]
    return list(calls.values())


def _parse(text: str) -> Any:
    """Return the value of a text; the text itself if it is neither a list nor a call."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text  # an empty one is nothing
    return value if isinstance(value, list | Mapping) else text
