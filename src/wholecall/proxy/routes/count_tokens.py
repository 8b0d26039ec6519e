"""Count the tokens of a request.

An upstream of the same protocol counts itself, if it can. Others do not, and get an estimate:
clients use the figure to decide when to shorten a conversation, and for that it is good enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from wholecall.dialects.emulation.prompt import estimate_tokens
from wholecall.errors import WholecallError
from wholecall.events import Reasoning, Text
from wholecall.messages import CallResult, Media, Native, Part, PastCall, Request
from wholecall.protocols.registry import decode_request
from wholecall.proxy.handlers.passthrough import UpstreamRequest, read_below
from wholecall.proxy.handlers.request_plan import (
    ModelRoute,
    PassthroughPlan,
    RequestPlanner,
    decode_body,
    read_name,
)
from wholecall.proxy.handlers.response_writer import explain, make_error
from wholecall.proxy.http.client_connection import ClientConnections, ResponseBody, read_body
from wholecall.proxy.http.client_request import ClientProtocol, ClientRequest
from wholecall.proxy.routes.client_route import MESSAGES_CLIENT, RESPONSES_CLIENT


@dataclass(frozen=True, slots=True)
class CountForm:
    """The form in which the clients of a protocol ask for a count, and get it."""

    client: ClientProtocol
    below: str
    """The path below the protocol's own, at the upstream as well."""
    needed: Mapping[str, Any]
    """Fields that a request needs, and a count does not."""
    answer: Mapping[str, Any]
    """Fields of the answer beside the figure."""


def _make_form(client: ClientProtocol, below: str, **more: Mapping[str, Any]) -> CountForm:
    named = replace(client, path=f"{client.path}/{below}")
    return CountForm(named, below, more.get("needed", {}), more.get("answer", {}))


COUNTS = (
    _make_form(MESSAGES_CLIENT, "count_tokens", needed={"max_tokens": 1}),
    _make_form(
        RESPONSES_CLIENT,
        "input_tokens",
        needed={"input": []},
        answer={"object": "response.input_tokens"},
    ),
)
_OK = 200
_PER_MEDIA = 1600
"""Tokens of an image, about: its size is not known here."""
_PER_MESSAGE = 4
"""Tokens that say whose message it is."""


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """Answers how many tokens a request has. A plain ASGI application."""

    form: CountForm
    planner: RequestPlanner
    connections: ClientConnections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: PLR0917 - ASGI
        """Answer one request."""
        with self.connections.open(send) as sink:
            request = ClientRequest.read(self.form.client, scope, body=await read_body(receive))
            await sink.send_body(await self._answer(request))

    async def _answer(self, request: ClientRequest) -> ResponseBody:
        place = ""
        try:
            route, outgoing = await self.planner.find_route(request)
            place = route.place
            return await self._count(request, outgoing, route=route)
        except WholecallError as error:
            failure, headers = explain(error, place=place, request_id=request.request_id)
            return make_error(self.form.client.protocol, failure, headers=headers)

    async def _count(
        self, request: ClientRequest, outgoing: UpstreamRequest, *, route: ModelRoute
    ) -> ResponseBody:
        form = self.form
        if form.client.holds:
            await self._decode(request, outgoing)  # a response that it names may be another key's
        if route.upstream.protocol == form.client.protocol:
            counted = await read_below(route.pipe, outgoing, below=form.below)
            if counted is not None:
                return ResponseBody(_OK, counted)
        answer = {**form.answer, "input_tokens": estimate(await self._decode(request, outgoing))}
        return ResponseBody(_OK, msgspec.json.encode(answer))

    async def _decode(self, request: ClientRequest, outgoing: UpstreamRequest) -> Request:
        """Return the request that would be sent, with the conversation that it continues."""
        fields = {**self.form.needed, **decode_body(outgoing.content), "model": read_name(request)}
        whole = msgspec.structs.replace(request, body=msgspec.json.encode(fields))
        way = (await self.planner.plan(whole)).way
        if isinstance(way, PassthroughPlan):
            return decode_request(self.form.client.protocol, decode_body(way.outgoing.content))
        return way.request


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
