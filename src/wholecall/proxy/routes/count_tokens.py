"""Count the tokens of a request, for clients of Anthropic's messages.

Anthropic counts itself. Other upstreams do not, and get an estimate: clients use the figure to
decide when to shorten a conversation, and for that it is good enough.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec
from starlette.types import Receive, Scope, Send

from wholecall.dialects.emulation.prompt import estimate_tokens
from wholecall.errors import WholecallError
from wholecall.events import Reasoning, Text
from wholecall.messages import CallResult, Media, Native, Part, PastCall, Request
from wholecall.protocols.codecs import decode_request
from wholecall.proxy.handlers.passthrough import read_whole
from wholecall.proxy.handlers.request_plan import decode_body, find_model
from wholecall.proxy.handlers.response_writer import explain, make_error
from wholecall.proxy.handlers.service import Service
from wholecall.proxy.http.asgi_response import ClientSink, ResponseBody
from wholecall.proxy.http.client_request import ClientRequest
from wholecall.proxy.http.disconnect import ClientDisconnected, read_body
from wholecall.proxy.routes.client_protocols import MESSAGES

COUNT_TOKENS = replace(MESSAGES, path="/v1/messages/count_tokens")
_OK = 200
_PER_MEDIA = 1600
"""Tokens of an image, about: its size is not known here."""
_PER_MESSAGE = 4
"""Tokens that say whose message it is."""


class TokenCounter:
    """Answers how many tokens a request has. A plain ASGI application."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: PLR0917 - ASGI
        """Answer one request."""
        try:
            asked = ClientRequest.read(COUNT_TOKENS, scope, body=await read_body(receive))
        except ClientDisconnected:
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

    async def _count(self, asked: ClientRequest) -> ResponseBody:
        served, letter = find_model(self._service, asked)
        if served.pipe is None or served.upstream.protocol != MESSAGES.protocol:
            fields = {"max_tokens": 1, **decode_body(letter.content)}
            tokens = estimate(decode_request(MESSAGES.protocol, fields))
            return ResponseBody(_OK, msgspec.json.encode({"input_tokens": tokens}))
        letter = msgspec.structs.replace(letter, stream=False, below="count_tokens")
        async with served.pipe.send(letter) as response:
            return ResponseBody(_OK, await read_whole(served.pipe, response))


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
