"""Requests in every protocol: read from a client, written for an upstream.

`decode_request` reads what a client sent to the values of `core.conversation`,
`encode_request` writes them as the body that an upstream takes, and `answer_message` makes of
an answer's events the message that goes into the next request. N protocols in, M out: none of
them knows another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from wholecall.core.conversation import Request
from wholecall.core.history import Target
from wholecall.core.tables import find_entry
from wholecall.protocols.requests.answers import answer_message, past_call
from wholecall.protocols.requests.decoding.anthropic_messages import decode as read_anthropic
from wholecall.protocols.requests.decoding.openai_chat import decode as read_chat
from wholecall.protocols.requests.decoding.openai_responses import decode as read_responses
from wholecall.protocols.requests.encoding.anthropic_messages import MAX_TOKENS
from wholecall.protocols.requests.encoding.anthropic_messages import encode as write_anthropic
from wholecall.protocols.requests.encoding.gemini import encode as write_gemini
from wholecall.protocols.requests.encoding.ollama import encode as write_ollama
from wholecall.protocols.requests.encoding.openai_chat import encode as write_chat
from wholecall.protocols.requests.encoding.openai_responses import encode as write_responses
from wholecall.protocols.requests.fields import refuse
from wholecall.protocols.requests.tools import name_calls, tool_names
from wholecall.protocols.wire import plain

__all__ = [
    "answer_message",
    "decode_request",
    "encode_request",
    "limit_of",
    "past_call",
    "tool_names",
]

_ENCODERS: dict[str, Callable[[Request, Target | None], dict[str, Any]]] = {
    "openai-chat": write_chat,
    "openai-responses": write_responses,
    "anthropic": write_anthropic,
    "ollama": lambda request, _: write_ollama(request),
    "gemini": lambda request, _: write_gemini(request),
}
_LIMITS = {"anthropic": MAX_TOKENS}
"""What is asked for where a request has no limit and the protocol demands one."""
_DECODERS: dict[str, Callable[[Mapping[str, Any]], Request]] = {
    "openai-chat": read_chat,
    "openai-responses": read_responses,
    "anthropic": read_anthropic,
}


def encode_request(
    protocol: str, request: Request, *, target: Target | None = None
) -> dict[str, Any]:
    """Write the body of a request in a protocol, its history mended so that it is accepted.

    `target` says what the upstream accepts in a history, for those of which the model's name
    does not tell. What comes in is neither changed nor shared.
    """
    return find_entry(_ENCODERS, protocol)(name_calls(request), target)


def limit_of(protocol: str, request: Request) -> int | None:
    """Return the limit of output tokens with which a request goes out in a protocol."""
    return request.max_tokens or _LIMITS.get(protocol)


def decode_request(protocol: str, body: Mapping[str, Any]) -> Request:
    """Read the body of a client's request.

    What cannot be read is an `UnreadableRequest`, a `tool_choice` that is not allowed an
    `InvalidChoice`; both name the field in `param`.
    """
    decode = find_entry(_DECODERS, protocol)
    if not isinstance(body, Mapping):
        raise refuse("", f"expected an object, got {type(body).__name__}")
    copied: dict[str, Any] = plain(body)
    return decode(copied)
