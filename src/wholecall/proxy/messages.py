"""Clients of Anthropic's messages, and the tokens that they want to have counted."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from wholecall.core.conversation import CallResult, Media, Native, Part, PastCall, Request
from wholecall.core.values import Reasoning, Text
from wholecall.dialects.tokens import estimate_tokens
from wholecall.protocols.requests import decode_request
from wholecall.proxy.client import ClientProtocol
from wholecall.proxy.piping import Letter, Pipe, read_whole
from wholecall.proxy.sinks import Body

MESSAGES = ClientProtocol(protocol="anthropic", path="/v1/messages")
COUNT_TOKENS = replace(MESSAGES, path="/v1/messages/count_tokens")
_OK = 200
_PER_MEDIA = 1600
"""Tokens of an image, about: its size is not known here."""
_PER_MESSAGE = 4
"""Tokens that say whose message it is."""


async def forward_count(pipe: Pipe, letter: Letter) -> Body:
    """Anthropic's own count."""
    async with pipe.send(replace(letter, stream=False, below="count_tokens")) as response:
        return Body(_OK, await read_whole(pipe, response))


def estimate_count(body: bytes) -> Body:
    """An estimate, for upstreams that do not count."""
    fields = {"max_tokens": 1, **msgspec.json.decode(body)}
    request = decode_request(MESSAGES.protocol, fields)
    return Body(_OK, msgspec.json.encode({"input_tokens": estimate(request)}))


def estimate(request: Request) -> int:
    """About how many tokens the model reads for this request."""
    said = sum(
        _PER_MESSAGE + sum(_count(part) for part in message.parts) for message in request.messages
    )
    definitions = [(spec.name, spec.description, spec.parameters) for spec in request.tools]
    return said + (_count_value(definitions) if definitions else 0)


def _count(part: Part) -> int:
    match part:
        case Text() | Reasoning():
            return estimate_tokens(part.text)
        case Media():
            return _PER_MEDIA
        case PastCall():
            return _count_value([part.name, part.arguments])
        case CallResult():
            return sum(_count(piece) for piece in part.result.content)
        case Native():
            return _count_value(part.value)


def _count_value(value: object) -> int:
    return estimate_tokens(msgspec.json.encode(value).decode())
