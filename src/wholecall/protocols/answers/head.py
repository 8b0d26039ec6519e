"""The metadata of an answer, and the client's preferences for its stream."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PRIVATE = "wholecall"
"""The name for progress: a key, a type of event, the first word of a comment."""
_PREFIXES = {"openai-chat": "chatcmpl-", "openai-responses": "resp_", "anthropic": "msg_"}


def make_answer_id(protocol: str) -> str:
    """An id for an answer, in the form that the clients of the protocol know."""
    return f"{_PREFIXES[protocol]}{secrets.token_hex(12)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The metadata of an answer."""

    id: str
    model: str
    created: int = 0
    """Seconds since 1970."""
    rest: Mapping[str, Any] = field(default_factory=dict)
    """Other fields that are handed on: `system_fingerprint`, `service_tier`, … They never
    replace what the encoder itself writes."""

    def complete(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of an answer in their order, followed by the others."""
        return {**fields, **self.rest, **fields}


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """A client's preferences for its stream."""

    live: bool = False
    """Show arguments as they grow, before they are checked. A call that then turns out to be
    wrong, or is changed, ends the stream with an error: what was sent cannot be taken back."""
    usage: bool = True
    """True if a chat completions stream ends with a usage chunk. Clients request it by
    `stream_options`, and some fail at a chunk without choices."""
    functions: bool = False
    """True if a chat completions client reads its call as the deprecated `function_call`."""
    upstream: str = ""
    """The protocol that the answer came in. What only that one has (blocks of the provider's
    own tools, encrypted reasoning) is handed on to clients that speak it."""
