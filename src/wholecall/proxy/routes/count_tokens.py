"""Count the tokens of a request, for clients of Anthropic's messages.

Anthropic counts itself. Other upstreams do not, and get an estimate: clients use the figure to
decide when to shorten a conversation, and for that it is good enough.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec
from starlette.types import Receive, Scope, Send

from wholecall.dialects.emulation.prompt import estimate_tokens
from wholecall.errors import WholecallError
from wholecall.events import Reasoning, Text
from wholecall.messages import CallResult, Media, Native, Part, PastCall, Request
from wholecall.protocols.registry import decode_request
from wholecall.proxy.handlers.passthrough import read_whole
from wholecall.proxy.handlers.request_plan import RequestPlanner, decode_body
from wholecall.proxy.handlers.response_writer import explain, make_error
from wholecall.proxy.http.client_connection import (
    ClientConnections,
    ClientDisconnected,
    ResponseBody,
    read_body,
)
from wholecall.proxy.http.client_request import ClientRequest
from wholecall.proxy.routes.client_route import MESSAGES_CLIENT

COUNT_TOKENS = replace(MESSAGES_CLIENT, path="/v1/messages/count_tokens")
_OK = 200
_PER_MEDIA = 1600
"""Tokens of an image, about: its size is not known here."""
_PER_MESSAGE = 4
"""Tokens that say whose message it is."""


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """Answers how many tokens a request has. A plain ASGI application."""

    planner: RequestPlanner
    connections: ClientConnections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: PLR0917 - ASGI
        """Answer one request."""
        sink = self.connections.open(send)
        try:
            request = ClientRequest.read(COUNT_TOKENS, scope, body=await read_body(receive))
            await sink.send_body(await self._answer(request))
        except ClientDisconnected:
            return
        finally:
            self.connections.close(sink)

    async def _answer(self, request: ClientRequest) -> ResponseBody:
        try:
            return await self._count(request)
        except WholecallError as error:
            failure, headers = explain(error, place="", request_id=request.request_id)
            return make_error(MESSAGES_CLIENT.protocol, failure, headers=headers)

    async def _count(self, request: ClientRequest) -> ResponseBody:
        route, outgoing = await self.planner.find_route(request)
        if route.pipe is None or route.upstream.protocol != MESSAGES_CLIENT.protocol:
            fields = {"max_tokens": 1, **decode_body(outgoing.content)}
            tokens = estimate(decode_request(MESSAGES_CLIENT.protocol, fields))
            return ResponseBody(_OK, msgspec.json.encode({"input_tokens": tokens}))
        outgoing = msgspec.structs.replace(outgoing, stream=False, below="count_tokens")
        async with route.pipe.send(outgoing) as response:
            return ResponseBody(_OK, await read_whole(route.pipe, response))


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
