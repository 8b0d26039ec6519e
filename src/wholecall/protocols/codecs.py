"""Encode and decode requests, responses and choices, by the name of the protocol."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from wholecall.events import Event
from wholecall.messages import Request
from wholecall.protocols.decoder import plain
from wholecall.protocols.history import Target
from wholecall.protocols.registry import client_side, find_part, find_protocol, upstream_side
from wholecall.protocols.request_fields import name_calls, refuse
from wholecall.protocols.response_base import Failure, ResponseHead, ResponseStyle
from wholecall.protocols.response_encoder import Encoder, gather
from wholecall.tool_choice import Choice, EncodedChoice, read_choice

_GATED = ResponseStyle()


def encode_request(
    protocol: str, request: Request, *, target: Target | None = None
) -> dict[str, Any]:
    """Write the body of a request in a protocol, its history mended so that it is accepted.

    `target` says what the upstream accepts in a history, for those of which the model's name
    does not tell. What comes in is neither changed nor shared.
    """
    return upstream_side(protocol).encode(name_calls(request), target)


def limit_of(protocol: str, request: Request) -> int | None:
    """Return the limit of output tokens with which a request goes out in a protocol."""
    side = find_protocol(protocol).upstream
    return request.max_tokens or (side.default_limit if side else None)


def decode_request(protocol: str, body: Mapping[str, Any]) -> Request:
    """Read the body of a client's request.

    What cannot be read is an `UnreadableRequest`, a `tool_choice` that is not allowed an
    `InvalidChoice`; both name the field in `param`.
    """
    decode = client_side(protocol).decode
    if not isinstance(body, Mapping):
        raise refuse("", f"expected an object, got {type(body).__name__}")
    copied: dict[str, Any] = plain(body)
    return decode(copied)


def decode_choice(protocol: str, request: Mapping[str, Any], *, offered: Collection[str]) -> Choice:
    """Read the choice from a request's fields, or raise `InvalidChoice`.

    `offered` are the names of the request's tools; a tool that the upstream runs goes by its type.
    """
    return read_choice(find_part(protocol, lambda record: record.choice), request, offered=offered)


def encode_choice(choice: Choice, protocol: str) -> EncodedChoice:
    """Say a choice in a protocol's words. `none` is said as `none` in each of them."""
    return find_part(protocol, lambda record: record.choice).encode(choice)


def make_answer_id(protocol: str) -> str:
    """An id for an answer, in the form that the clients of the protocol know."""
    return f"{client_side(protocol).id_prefix}{secrets.token_hex(12)}"


def make_encoder(protocol: str, head: ResponseHead, *, style: ResponseStyle = _GATED) -> Encoder:
    """An encoder for one stream."""
    return Encoder(client_side(protocol).make_writer(head, style), live=style.live)


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
    is an `UpstreamError`.
    """
    side = client_side(protocol)
    encode = (side.encode_function_answer if functions else None) or side.encode_answer
    return encode(gather(events, upstream=upstream), head)


def encode_failure(protocol: str, failure: Failure) -> dict[str, Any]:
    """The body of an HTTP error."""
    return client_side(protocol).encode_error(failure)
