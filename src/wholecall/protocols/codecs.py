"""Encode and decode requests and responses of every protocol; one line in each table per
protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from wholecall.events import Event
from wholecall.messages import Request
from wholecall.protocols.anthropic.request import MAX_TOKENS
from wholecall.protocols.anthropic.request import decode as read_anthropic
from wholecall.protocols.anthropic.request import encode as write_anthropic
from wholecall.protocols.anthropic.response import AnthropicWriter
from wholecall.protocols.anthropic.response import encode as write_anthropic_answer
from wholecall.protocols.decoder import find_entry, plain
from wholecall.protocols.gemini.request import encode as write_gemini
from wholecall.protocols.history import Target
from wholecall.protocols.ollama.request import encode as write_ollama
from wholecall.protocols.openai_chat.request import decode as read_chat
from wholecall.protocols.openai_chat.request import encode as write_chat
from wholecall.protocols.openai_chat.response import ChatWriter, encode_with_function
from wholecall.protocols.openai_chat.response import encode as write_chat_answer
from wholecall.protocols.openai_responses.request import decode as read_responses
from wholecall.protocols.openai_responses.request import encode as write_responses
from wholecall.protocols.openai_responses.response import ResponsesWriter
from wholecall.protocols.openai_responses.response import encode as write_responses_answer
from wholecall.protocols.request_fields import name_calls, refuse
from wholecall.protocols.response_base import (
    Failure,
    ResponseHead,
    ResponseStyle,
    Writer,
    anthropic_error,
    openai_error,
)
from wholecall.protocols.response_encoder import Encoder, GatheredAnswer, gather

_ENCODERS: dict[str, Callable[[Request, Target | None], dict[str, Any]]] = {
    "openai-chat": write_chat,
    "openai-responses": write_responses,
    "anthropic": write_anthropic,
    "ollama": lambda request, _: write_ollama(request),
    "gemini": lambda request, _: write_gemini(request),
}
_LIMITS = {"anthropic": MAX_TOKENS}
"""The limit to request if a request has none and the protocol demands one."""
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


# Answers in the clients' protocols: as streams, whole, and as errors.
#
# `make_encoder` makes what turns events to the bytes of a stream, `encode_answer` writes the body
# of an answer that is not streamed, `encode_failure` the body of an HTTP error; `dump` makes bytes
# of a body. A protocol is one file and one line in each table.


_WRITERS: dict[str, Callable[[ResponseHead, ResponseStyle], Writer]] = {
    "openai-chat": ChatWriter,
    "openai-responses": ResponsesWriter,
    "anthropic": AnthropicWriter,
}
_BODIES: dict[str, Callable[[GatheredAnswer, ResponseHead], dict[str, Any]]] = {
    "openai-chat": write_chat_answer,
    "openai-responses": write_responses_answer,
    "anthropic": write_anthropic_answer,
}
_FAILURES: dict[str, Callable[[Failure], dict[str, Any]]] = {
    "openai-chat": openai_error,
    "openai-responses": openai_error,
    "anthropic": anthropic_error,
}
_GATED = ResponseStyle()


def make_encoder(protocol: str, head: ResponseHead, *, style: ResponseStyle = _GATED) -> Encoder:
    """An encoder for one stream."""
    return Encoder(find_entry(_WRITERS, protocol)(head, style), live=style.live)


def encode_answer(
    protocol: str,
    events: Iterable[Event],
    *,
    head: ResponseHead,
    upstream: str = "",
    functions: bool = False,
) -> dict[str, Any]:
    """The body of a whole answer.

    `upstream` is the protocol that the events were read from: what only that one has is handed
    on to clients that speak it. `functions`: see `ResponseStyle`. An answer that did not end well
    is an
    `UpstreamError`.
    """
    encode = encode_with_function if functions else find_entry(_BODIES, protocol)
    return encode(gather(events, upstream=upstream), head)


def encode_failure(protocol: str, failure: Failure) -> dict[str, Any]:
    """The body of an HTTP error."""
    return find_entry(_FAILURES, protocol)(failure)
