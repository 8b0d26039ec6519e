"""Answers in the clients' protocols: as streams, whole, and as errors.

`make_encoder` makes what turns events to the bytes of a stream, `encode_answer` writes the body
of an answer that is not streamed, `encode_failure` the body of an HTTP error; `dump` makes bytes
of a body. A protocol is one file and one line in each table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from wholecall.core.tables import find_entry
from wholecall.core.values import Event
from wholecall.protocols.answers.anthropic_messages import AnthropicWriter
from wholecall.protocols.answers.anthropic_messages import encode as write_anthropic_answer
from wholecall.protocols.answers.encoder import Encoder
from wholecall.protocols.answers.failures import (
    Failure,
    anthropic_error,
    is_about_request,
    openai_error,
    read_failure,
)
from wholecall.protocols.answers.frames import KEEP_ALIVE, dump
from wholecall.protocols.answers.head import PRIVATE, Head, Style, make_answer_id
from wholecall.protocols.answers.openai_chat import ChatWriter, encode_with_function
from wholecall.protocols.answers.openai_chat import encode as write_chat_answer
from wholecall.protocols.answers.openai_responses import ResponsesWriter
from wholecall.protocols.answers.response_items import encode as write_responses_answer
from wholecall.protocols.answers.whole import Whole, gather
from wholecall.protocols.answers.writer import Writer

__all__ = [
    "KEEP_ALIVE",
    "PRIVATE",
    "Encoder",
    "Failure",
    "Head",
    "Style",
    "dump",
    "encode_answer",
    "encode_failure",
    "is_about_request",
    "make_answer_id",
    "make_encoder",
    "read_failure",
]

_WRITERS: dict[str, Callable[[Head, Style], Writer]] = {
    "openai-chat": ChatWriter,
    "openai-responses": ResponsesWriter,
    "anthropic": AnthropicWriter,
}
_BODIES: dict[str, Callable[[Whole, Head], dict[str, Any]]] = {
    "openai-chat": write_chat_answer,
    "openai-responses": write_responses_answer,
    "anthropic": write_anthropic_answer,
}
_FAILURES: dict[str, Callable[[Failure], dict[str, Any]]] = {
    "openai-chat": openai_error,
    "openai-responses": openai_error,
    "anthropic": anthropic_error,
}
_GATED = Style()


def make_encoder(protocol: str, head: Head, *, style: Style = _GATED) -> Encoder:
    """An encoder for one stream."""
    return Encoder(find_entry(_WRITERS, protocol)(head, style), live=style.live)


def encode_answer(
    protocol: str,
    events: Iterable[Event],
    *,
    head: Head,
    upstream: str = "",
    functions: bool = False,
) -> dict[str, Any]:
    """The body of a whole answer.

    `upstream` is the protocol that the events were read from: what only that one has is handed
    on to clients that speak it. `functions`: see `Style`. An answer that did not end well is an
    `UpstreamError`.
    """
    encode = encode_with_function if functions else find_entry(_BODIES, protocol)
    return encode(gather(events, upstream=upstream), head)


def encode_failure(protocol: str, failure: Failure) -> dict[str, Any]:
    """The body of an HTTP error."""
    return find_entry(_FAILURES, protocol)(failure)
