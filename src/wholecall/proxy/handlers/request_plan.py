"""Read what a request asks for and choose its way: pass-through, gate or run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from wholecall.errors import UnreadableRequest
from wholecall.events import Value
from wholecall.messages import Native, Request
from wholecall.protocols.codecs import decode_request
from wholecall.protocols.response_base import NO_THREADS, PRIVATE, ResponseHead, ResponseStyle
from wholecall.proxy.handlers.idempotency import ToolNotice
from wholecall.proxy.handlers.passthrough import UpstreamPipe, UpstreamRequest
from wholecall.proxy.handlers.run_mode import join_tools
from wholecall.proxy.handlers.service import ModelRoute, ProxyMode, Service
from wholecall.proxy.http.client_request import ClientRequest, UnsupportedField
from wholecall.proxy.responses.response_params import (
    NOT_HELD,
    ResponseParams,
    is_stored,
    read_params,
    read_previous,
    refuse_previous,
)
from wholecall.tools.toolbox import Toolbox


class ProxyOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A client's options for the proxy."""

    events: bool = False
    """Report what happens between the turns."""


NO_OPTIONS = ProxyOptions()
_DECODER = msgspec.json.Decoder(ProxyOptions | None)


def take_proxy_options(
    fields: dict[str, msgspec.Raw],
) -> tuple[ProxyOptions, dict[str, msgspec.Raw]]:
    """The wishes of a request, and its other fields."""
    if PRIVATE not in fields:
        return NO_OPTIONS, fields
    others = {name: value for name, value in fields.items() if name != PRIVATE}
    try:
        return _DECODER.decode(fields[PRIVATE]) or NO_OPTIONS, others
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        why = f'`{PRIVATE}` has to be an object such as {{"events": true}}: {error}'
        raise UnreadableRequest(why, param=PRIVATE) from None


# Plan a request: what it asks, and which path it takes.


_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NOTHING = (b"null", b"[]")
_TOOLS = ("tools", "functions")
_NO_STYLE = ResponseStyle()
"""Of what passes through as it came."""
_MOST_OF_A_NAME = 128
"""Characters. A longer text is not a name, and too long for each log line."""
_THREAD = "thread"
_CONVERSATION = "conversation"


class PassthroughPlan(Value, frozen=True, eq=False):
    """Its bytes pass through."""

    pipe: UpstreamPipe
    letter: UpstreamRequest


class GatePlan(Value, frozen=True):
    """One question; calls are checked and handed over."""

    request: Request


class RunPlan(Value, frozen=True, eq=False):
    """Turns until the final answer, with tools of both sides."""

    request: Request
    toolbox: Toolbox
    notice: ToolNotice | None = None
    """Put up before a tool begins that must not begin twice."""


class RequestPlan(Value, frozen=True, kw_only=True, eq=False):
    """A request, read as far as its way needs it."""

    asked: ClientRequest
    served: ModelRoute
    stream: bool
    style: ResponseStyle
    way: PassthroughPlan | GatePlan | RunPlan
    progress: bool = False
    """True if the client wants to see what happens between the turns."""
    terms: ResponseParams | None = None
    """The way in which the answer is stored; None: not at all."""
    bound: bool = False
    """True if the upstream stores the answer as well, in an account that several keys share."""
    head: ResponseHead | None = None
    """The metadata of the answer, if it was promised before there is one."""

    @property
    def in_background(self) -> bool:
        """True if the answer is made in the background."""
        return self.terms is not None and self.terms.background


def find_model(service: Service, asked: ClientRequest) -> tuple[ModelRoute, UpstreamRequest]:
    """Return the route of the model, and the request as it would pass through."""
    _, fields, body = _read_body(asked)
    served = service.find(_read_model(fields), asked)
    return served, _write_letter(served, body, fields=fields, headers=asked.passed_headers)


def read_name(asked: ClientRequest) -> str:
    """The model that a refused request names, whether or not there is one; empty if none."""
    try:
        model = _read_model(_read_fields(asked.body))
    except UnreadableRequest:
        return ""
    return model if len(model) <= _MOST_OF_A_NAME else ""


async def prepare(service: Service, asked: ClientRequest) -> RequestPlan:
    """Read a request. What is wrong with it is an `UnreadableRequest` and the like."""
    wishes, fields, content = _read_body(asked)
    served = service.find(_read_model(fields), asked)
    _refuse_threads(fields)
    terms: ResponseParams | None = None
    if asked.client.holds:
        await service.sharing.fetch(read_previous(fields))
        terms, agreed = read_params(service.holding, fields, key_id=asked.key.id)
        if agreed is not fields:
            fields, content = agreed, msgspec.json.encode(agreed)
    same = served.upstream.protocol == asked.client.protocol
    if not same:
        _refuse_foreign(asked.client.only_there, fields)
    elif asked.client.holds:
        await _refuse_anothers(service, asked, fields=fields)
    bound = same and asked.client.holds and bool(asked.key.id) and is_stored(fields)
    if same and served.pipe is not None and _needs_nothing(served, fields, terms=terms):
        letter = _write_letter(served, content, fields=fields, headers=asked.passed_headers)
        return RequestPlan(
            asked=asked,
            served=served,
            stream=letter.stream,
            style=_NO_STYLE,
            way=PassthroughPlan(served.pipe, letter),
            terms=terms,
            bound=bound,
        )
    body = decode_body(content)
    headers = Native(asked.client.protocol, asked.passed_headers)
    request = decode_request(asked.client.protocol, body)
    request = replace(request, model=served.model, headers=headers)
    style = replace(
        asked.client.read_style(body),
        upstream=served.upstream.protocol,
        live=served.live and request.stream,
    )
    return RequestPlan(
        asked=asked,
        served=served,
        stream=request.stream,
        style=style,
        way=await _choose(service, asked, request=request, served=served),
        progress=wishes.events or asked.wants_progress,
        terms=terms,
        bound=bound,
    )


async def _choose(
    service: Service, asked: ClientRequest, *, request: Request, served: ModelRoute
) -> GatePlan | RunPlan:
    if served.mode is not ProxyMode.RUN:
        return GatePlan(request)
    tools = service.tools_for(asked, served)
    messages = await service.ownership.restore(asked.key.id, request.messages)
    way = _choose_run(replace(request, messages=messages), tools)
    if isinstance(way, GatePlan):
        return way
    return msgspec.structs.replace(way, notice=service.notices.prepare(asked))


def _refuse_threads(fields: Mapping[str, msgspec.Raw]) -> None:
    """Refuse a conversation that the upstream stores: it may bring tools that we do not see, so
    that their calls could not be checked. Anthropic's clients send all of it when they are asked
    to."""
    if _says(fields, _THREAD):
        raise UnreadableRequest(
            "threads are not served: send the whole conversation without `thread`",
            param=_THREAD,
            code=NO_THREADS,
        )


def _refuse_foreign(
    only_there: Mapping[str, UnsupportedField], fields: Mapping[str, msgspec.Raw]
) -> None:
    """Refuse fields that would otherwise be dropped in silence."""
    for name, elsewhere in only_there.items():
        if _says(fields, name):
            raise UnreadableRequest(elsewhere.why, param=name, code=elsewhere.code)


async def _refuse_anothers(
    service: Service, asked: ClientRequest, *, fields: dict[str, msgspec.Raw]
) -> None:
    """Of what the upstream holds in its account, a key may name only what it was given."""
    previous = read_previous(fields)
    if previous and not await service.binding.is_of(asked.key.id, previous):
        raise refuse_previous(NOT_HELD)
    if asked.key.id and _says(fields, _CONVERSATION):
        why = (
            "conversations of the upstream's account are open to no key: send all items of it, or "
            "go on with `previous_response_id`"
        )
        raise UnreadableRequest(why, param=_CONVERSATION)


def _choose_run(request: Request, tools: Toolbox) -> GatePlan | RunPlan:
    if not len(tools):
        return GatePlan(request)
    rest: Mapping[str, Any] = request.rest.value if request.rest is not None else {}
    if rest.get("n") not in (None, 1):
        raise UnreadableRequest("tools run here, and only for one answer at a time", param="n")
    toolbox, joined = join_tools(tools, request)
    return RunPlan(joined, toolbox)


# ── Reading as little as possible ───────────────────────────────────────────────────


def _read_body(asked: ClientRequest) -> tuple[ProxyOptions, dict[str, msgspec.Raw], bytes]:
    """Return the fields for the proxy, the other fields, and the body without the former.

    The rights of a key are checked on the decoded fields, where the last of several with one name
    counts. An upstream might use the first, so for a key the body is written anew.
    """
    given = _read_fields(asked.body)
    wishes, fields = take_proxy_options(given)
    as_it_came = fields is given and not asked.key.id
    return wishes, fields, asked.body if as_it_came else msgspec.json.encode(fields)


def _read_fields(body: bytes) -> dict[str, msgspec.Raw]:
    try:
        body.decode()  # parts that are decoded later are not searched yet
        return _FIELDS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableRequest(f"the body is no JSON object: {error}", param="") from None


def _read_model(fields: Mapping[str, msgspec.Raw]) -> str:
    model = _read(fields, "model")
    if not isinstance(model, str) or not model:
        raise UnreadableRequest("the name of a model is missing", param="model")
    return model


def _says(fields: Mapping[str, msgspec.Raw], name: str) -> bool:
    return name in fields and bytes(fields[name]) not in (b"null", b"false")


def _read(fields: Mapping[str, msgspec.Raw], name: str) -> Any:
    return decode_body(fields[name]) if name in fields else None


def decode_body(content: bytes | msgspec.Raw) -> Any:
    """Decode a body, or a field, whose form was checked before. Its numbers were not: one may be
    larger than any that can be represented."""
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnreadableRequest(f"the body cannot be read: {error}", param="") from None


def _needs_nothing(
    served: ModelRoute, fields: Mapping[str, msgspec.Raw], *, terms: ResponseParams | None
) -> bool:
    """Return True if the upstream alone can answer a request for this model."""
    if served.mode is not ProxyMode.GATE or (terms is not None and terms.background):
        return False
    return not any(name in fields and bytes(fields[name]) not in _NOTHING for name in _TOOLS)


def _write_letter(
    served: ModelRoute,
    body: bytes,
    *,
    fields: dict[str, msgspec.Raw],
    headers: Mapping[str, str],
) -> UpstreamRequest:
    if served.model != served.name:
        body = msgspec.json.encode({**fields, "model": served.model})
    stream = _read(fields, "stream") is True
    return UpstreamRequest(content=body, model=served.model, stream=stream, headers=headers)
