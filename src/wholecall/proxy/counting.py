"""Count the tokens of a request, for clients of Anthropic's messages.

Anthropic counts itself. Other upstreams do not, and get an estimate: clients use the figure to
decide when to shorten a conversation, and for that it is good enough.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec
from starlette.types import Receive, Scope, Send

from wholecall.core.conversation import CallResult, Media, Native, Part, PastCall, Request
from wholecall.core.values import Reasoning, Text
from wholecall.dialects.tokens import estimate_tokens
from wholecall.errors import WholecallError
from wholecall.protocols.requests import decode_request
from wholecall.proxy.answering import make_error
from wholecall.proxy.client import RawRequest
from wholecall.proxy.departing import ClientGone, read_body
from wholecall.proxy.failing import explain
from wholecall.proxy.messages import MESSAGES
from wholecall.proxy.piping import read_whole
from wholecall.proxy.preparing import decode_body, find_model
from wholecall.proxy.serving import Service
from wholecall.proxy.sinks import Body, ClientSink

COUNT_TOKENS = replace(MESSAGES, path="/v1/messages/count_tokens")
_OK = 200
_PER_MEDIA = 1600
"""Tokens of an image, about: its size is not known here."""
_PER_MESSAGE = 4
"""Tokens that say whose message it is."""


class Counting:
    """Answers how many tokens a request has. A plain ASGI application."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: PLR0917 - ASGI
        """Answer one request."""
        try:
            asked = RawRequest.read(COUNT_TOKENS, scope, body=await read_body(receive))
        except ClientGone:
            return
        self._service.retirement.begin(asked)
        try:
            body = await self._count(asked)
        except WholecallError as error:
            failure, headers = explain(error, place="", request_id=asked.request_id)
            body = make_error(MESSAGES.protocol, failure, headers=headers)
        finally:
            self._service.retirement.end(asked)
        await ClientSink(send).send_body(body)

    async def _count(self, asked: RawRequest) -> Body:
        served, letter = find_model(self._service, asked)
        if served.pipe is None or served.upstream.protocol != MESSAGES.protocol:
            fields = {"max_tokens": 1, **decode_body(letter.content)}
            tokens = estimate(decode_request(MESSAGES.protocol, fields))
            return Body(_OK, msgspec.json.encode({"input_tokens": tokens}))
        letter = msgspec.structs.replace(letter, stream=False, below="count_tokens")
        async with served.pipe.send(letter) as response:
            return Body(_OK, await read_whole(served.pipe, response))


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
