"""The route of each model, and the plan of each request: pass-through, gate or run.

A route has the upstream of a model, its mode, and the server's tools that it may use. A plan says
what a request asks for and which way it goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import msgspec

from wholecall.arguments.compiled_schema import prepare
from wholecall.errors import UnknownModel, UnreadableRequest
from wholecall.events import Value
from wholecall.messages import Native, Request, ToolKind
from wholecall.protocols.registry import decode_request, find_dropped, omit_refused, upstream_side
from wholecall.protocols.request_fields import find_foreign, omit_foreign
from wholecall.protocols.response_base import NO_THREADS, PRIVATE, ResponseHead, ResponseStyle
from wholecall.protocols.tool_kinds import kinds_of
from wholecall.proxy.config.check import ANY_MODEL
from wholecall.proxy.config.schema import ModelConfig, ServerLimits, matches
from wholecall.proxy.handlers.passthrough import UpstreamPipe, UpstreamRequest
from wholecall.proxy.handlers.response_store import (
    CONVERSATION,
    CONVERSATION_NOT_FOUND,
    NO_CONVERSATION,
    NOT_HELD,
    PREVIOUS,
    ResponseParams,
    ResponseStore,
    is_stored,
    read_conversation_id,
    read_params,
    read_previous,
    refuse_previous,
    restore_items,
)
from wholecall.proxy.handlers.response_writer import ResumedStream
from wholecall.proxy.handlers.run_mode import MixedTools, join_tools
from wholecall.proxy.http.api_keys import Key
from wholecall.proxy.http.client_request import (
    TOOLS_HEADER,
    ClientProtocol,
    ClientRequest,
    UnsupportedField,
)
from wholecall.proxy.http.refusals import LARGE, check_size
from wholecall.tools.tool import Tool
from wholecall.tools.toolbox import Toolbox
from wholecall.upstreams.base import Upstream

"""The name under which every model is served that has no entry of its own."""


_DEFAULTS = ModelConfig(upstream="")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRoute:
    """A model as clients know it."""

    name: str
    upstream: Upstream
    model: str
    """The name under which the upstream knows it."""
    settings: ModelConfig = _DEFAULTS
    pipe: UpstreamPipe | None = None
    """For requests that need nothing from us; None where nothing may pass through."""
    place: str = ""
    """The upstream's address, which clients never see."""

    @property
    def runs_tools(self) -> bool:
        """True if the proxy runs its own tools, and the client only those that it brought along."""
        return self.settings.mode == "run"

    async def close(self) -> None:
        """Give back connections."""
        try:
            await self.upstream.close()
        finally:
            if self.pipe is not None:
                await self.pipe.close()


def _offer_nothing() -> Iterable[Tool]:
    return ()


class ModelRoutes:
    """The models that are served, and the server's tools that each may use."""

    def __init__(
        self,
        routes: Iterable[ModelRoute] = (),
        *,
        tools: Callable[[], Iterable[Tool]] = _offer_nothing,
    ) -> None:
        self.by_name: Mapping[str, ModelRoute] = {route.name: route for route in routes}
        """The routes, by the names that clients use."""
        self.offer_tools = tools
        """The tools that run here; those of MCP servers come and go."""

    def replace(self, routes: Mapping[str, ModelRoute]) -> list[ModelRoute]:
        """Serve these models from now on; return the routes that are not served any more."""
        before, self.by_name = self.by_name, dict(routes)
        return [route for name, route in before.items() if routes.get(name) is not route]

    def find(self, model: str, key: Key) -> ModelRoute:
        """Return the route of a model. One that the key may not use does not exist for it."""
        route = self.by_name.get(model)
        if route is None and ANY_MODEL in self.by_name:
            route = replace(self.by_name[ANY_MODEL], name=model, model=model)
        if route is None or not key.may_use(model):
            raise UnknownModel(f"the model {model!r} does not exist")
        return route

    def offer_to(self, key: Key, route: ModelRoute) -> dict[str, Tool]:
        """Return the server's tools that this key may use with this model, by their names."""
        return {
            tool.name: tool
            for tool in self.offer_tools()
            if key.may_call(tool.name) and matches(tool.name, route.settings.tools)
        }

    def tools_for(self, request: ClientRequest, route: ModelRoute) -> Toolbox:
        """Return the tools that the key may use with this model, and that the client wants."""
        offered = self.offer_to(request.key, route)
        wanted = request.wanted_tools
        if wanted is None:
            return Toolbox(offered.values())
        for name in wanted:
            if name not in offered:
                said = f"the tool {name!r} is not offered here with this model"
                raise UnreadableRequest(said, param=TOOLS_HEADER)
        return Toolbox(offered[name] for name in dict.fromkeys(wanted))

    async def close(self) -> None:
        """Give back connections. What fails keeps nothing else open, and is raised."""
        async with AsyncExitStack() as stack:
            for route in self.by_name.values():
                stack.push_async_callback(route.close)


_Read = TypeVar("_Read")


class ProxyOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A client's options for the proxy."""

    events: bool = False
    """Report what happens between the turns."""


NO_OPTIONS = ProxyOptions()
_DECODER = msgspec.json.Decoder(ProxyOptions | None)


def take_proxy_options(
    fields: dict[str, msgspec.Raw],
) -> tuple[ProxyOptions, dict[str, msgspec.Raw]]:
    """Return the client's options for the proxy, and the other fields."""
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
_MOST_OF_A_NAME = 128
"""Characters. A longer text is not a name, and too long for each log line."""
_SHORTEST_TOOL = len('{"name":"a"}')
_THREAD = "thread"
_ONE_SYSTEM = {None: None, "first": True, "keep": False}


class PassthroughPlan(Value, frozen=True, eq=False):
    """Its bytes pass through."""

    pipe: UpstreamPipe
    outgoing: UpstreamRequest


class GatePlan(Value, frozen=True):
    """One question; calls are checked and handed over."""

    request: Request


class RunPlan(Value, frozen=True, eq=False):
    """Turns until the final answer, with tools of both sides."""

    request: Request
    toolbox: Toolbox


class RequestPlan(Value, frozen=True, kw_only=True, eq=False):
    """A request, read as far as its way needs it."""

    request: ClientRequest
    route: ModelRoute
    stream: bool
    style: ResponseStyle
    way: PassthroughPlan | GatePlan | RunPlan
    progress: bool = False
    """True if the client wants to see what happens between the turns."""
    params: ResponseParams | None = None
    """The way in which the answer is stored; None: not at all."""
    bound: bool = False
    """True if the upstream stores the answer as well, in an account that several keys share."""
    dropped: tuple[str, ...] = ()
    """Fields of the request that the upstream does not get."""
    head: ResponseHead | None = None
    """The metadata of the answer, if it was promised before there is one."""
    resumed: ResumedStream | None = None
    """The stream as far as another worker has made it."""
    left_out: tuple[str, ...] = ()
    """Tools and parts of the request that the upstream cannot be given, by their types."""

    @property
    def echo(self) -> Mapping[str, Any]:
        """What the answer repeats of the request."""
        stored = {} if self.params is None else self.params.echo
        return {**self.style.echo, **stored}

    @property
    def toolbox(self) -> Toolbox:
        """The tools that run here; none unless it is a run."""
        return self.way.toolbox if isinstance(self.way, RunPlan) else Toolbox()

    @property
    def kinds(self) -> Mapping[str, ToolKind]:
        """The forms of the client's tools that are not plain functions."""
        if isinstance(self.way, PassthroughPlan):
            return {}
        return kinds_of(self.way.request.tools, self.request.client.protocol)

    @property
    def in_background(self) -> bool:
        """True if the answer is made in the background."""
        return self.params is not None and self.params.background


def read_name(request: ClientRequest) -> str:
    """The model that a refused request names, whether or not there is one; empty if none."""
    try:
        model = _read_model(read_fields(request.body))
    except UnreadableRequest:
        return ""
    return model if len(model) <= _MOST_OF_A_NAME else ""


class _Fields(NamedTuple):
    """The body of a request for the upstream, and what it says about storing the response."""

    fields: dict[str, msgspec.Raw]
    content: bytes
    params: ResponseParams | None
    bound: bool
    echo: Mapping[str, Any] = MappingProxyType({})
    """The fields that were taken out of the body, and that the answer repeats."""


@dataclass(slots=True, kw_only=True)
class RequestPlanner:
    """Reads requests and chooses their ways."""

    routes: ModelRoutes
    responses: ResponseStore
    mixed_tools: MixedTools
    limits: ServerLimits
    """A reload assigns others."""

    async def find_route(self, request: ClientRequest) -> tuple[ModelRoute, UpstreamRequest]:
        """Return the route of the model, and the request as it would pass through, with the
        conversation that is held here."""
        _, fields, body = await self._read_body(request)
        route = self.routes.find(_read_model(fields), request.key)
        read = await self._read_params(request, route, fields=fields, content=body)
        headers = request.passed_headers
        return route, _make_outgoing(route, read.content, fields=read.fields, headers=headers)

    async def plan(self, request: ClientRequest) -> RequestPlan:
        """Read a request. What is wrong with it is an `UnreadableRequest` and the like."""
        options, fields, content = await self._read_body(request)
        route = self.routes.find(_read_model(fields), request.key)
        _refuse_threads(fields)
        read = await self._read_params(request, route, fields=fields, content=content)
        same = route.upstream.protocol == request.client.protocol
        offers = _offers_tools(request.client, read.fields)
        if same and route.pipe is not None and not offers and _needs_nothing(route, read):
            return _pass_through(request, route, pipe=route.pipe, read=read)
        protocol = request.client.protocol
        decoded, style = await _aside(partial(_decode, request.client, read.content), read.content)
        decoded, left_out = _leave_out(decoded, request.client, route=route)
        decoded = replace(
            decoded,
            model=route.model,
            headers=Native(protocol, request.passed_headers),
            marks_cache=route.settings.cache == "auto",
            one_system=_ONE_SYSTEM[route.settings.system],
        )
        dropped = find_dropped(protocol, route.upstream.protocol, request=decoded)
        decoded = omit_refused(protocol, route.upstream.protocol, request=decoded)
        style = msgspec.structs.replace(
            style,
            echo={**style.echo, **read.echo},
            upstream=route.upstream.protocol,
            live=route.settings.live and decoded.stream,
        )
        return RequestPlan(
            request=request,
            route=route,
            stream=decoded.stream,
            style=style,
            way=await self._choose(request, route, decoded=decoded),
            progress=options.events or request.wants_progress,
            params=read.params,
            bound=read.bound,
            dropped=dropped,
            left_out=left_out,
        )

    async def _read_body(
        self, request: ClientRequest
    ) -> tuple[ProxyOptions, dict[str, msgspec.Raw], bytes]:
        """Return the fields for the proxy, the other fields, and the body without the former."""
        return await _aside(partial(_read_body, request, self.limits), request.body)

    async def _read_params(
        self,
        request: ClientRequest,
        route: ModelRoute,
        *,
        fields: dict[str, msgspec.Raw],
        content: bytes,
    ) -> _Fields:
        client, key_id = request.client, request.key.id
        params: ResponseParams | None = None
        previous = read_previous(fields) if client.holds else ""
        if client.holds:
            await self.responses.fetch(previous)
            await self.responses.fetch(read_conversation_id(fields))
            whole = await restore_items(self.responses, fields, key_id=key_id)
            params, agreed = read_params(self.responses, whole, key_id=key_id)
            agreed = await restore_items(self.responses, agreed, key_id=key_id)
            if agreed is not fields:
                fields, content = agreed, msgspec.json.encode(agreed)
        named = previous or request.continued
        echo: dict[str, Any] = {PREVIOUS: named} if named else {}
        if params is not None and params.conversation:
            echo[CONVERSATION] = {"id": params.conversation}
        if route.upstream.protocol != client.protocol:
            _refuse_foreign(client.only_there, fields)
            return _Fields(fields, content, params, bound=False, echo=echo)
        if client.holds:
            await self._refuse_foreign_responses(key_id, fields)
        bound = client.holds and bool(key_id) and is_stored(fields)
        return _Fields(fields, content, params, bound, echo)

    async def _choose(
        self, request: ClientRequest, route: ModelRoute, *, decoded: Request
    ) -> GatePlan | RunPlan:
        if not route.runs_tools:
            return GatePlan(decoded)
        tools = self.routes.tools_for(request, route)
        messages = await self.mixed_tools.restore(request.key.id, decoded.messages)
        decoded = replace(decoded, messages=messages)
        if not len(tools):
            return GatePlan(decoded)
        rest: Mapping[str, Any] = decoded.rest.value if decoded.rest is not None else {}
        if rest.get("n") not in (None, 1):
            raise UnreadableRequest("tools run here, and only for one answer at a time", param="n")
        toolbox, joined = join_tools(tools, decoded)
        return RunPlan(joined, toolbox)

    async def _refuse_foreign_responses(self, key_id: str, fields: dict[str, msgspec.Raw]) -> None:
        """Of what the upstream holds in its account, a key may name only what it was given."""
        previous = read_previous(fields)
        if previous and not await self.responses.owners.is_of(key_id, previous):
            raise refuse_previous(NOT_HELD)
        if key_id and _says(fields, CONVERSATION):
            why = f"{NO_CONVERSATION}; those of the upstream's account are open to no key"
            raise UnreadableRequest(why, param=CONVERSATION, code=CONVERSATION_NOT_FOUND)


def _pass_through(
    request: ClientRequest, route: ModelRoute, *, pipe: UpstreamPipe, read: _Fields
) -> RequestPlan:
    outgoing = _make_outgoing(
        route, read.content, fields=read.fields, headers=request.passed_headers
    )
    return RequestPlan(
        request=request,
        route=route,
        stream=outgoing.stream,
        style=_NO_STYLE,
        way=PassthroughPlan(pipe, outgoing),
        params=read.params,
        bound=read.bound,
    )


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


# ── Reading as little as possible ───────────────────────────────────────────────────


async def _aside(work: Callable[[], _Read], content: bytes) -> _Read:
    """Do some work; for a large body in a thread, so that other requests do not wait for it."""
    return work() if len(content) <= LARGE else await asyncio.to_thread(work)


def _decode(client: ClientProtocol, content: bytes) -> tuple[Request, ResponseStyle]:
    """Decode a body. The tools of a large one are prepared here, and kept for what follows."""
    body = decode_body(content)
    decoded = decode_request(client.protocol, body)
    if len(content) > LARGE:
        for tool in decoded.tools:
            prepare(tool.parameters)
    return decoded, _NO_STYLE if client.read_style is None else client.read_style(body)


def _read_body(
    request: ClientRequest, limits: ServerLimits
) -> tuple[ProxyOptions, dict[str, msgspec.Raw], bytes]:
    """Read the fields, and refuse a request that is too large.

    The rights of a key are checked on the decoded fields, where the last of several with one name
    counts. An upstream might use the first, so for a key the body is written anew.
    """
    given = read_fields(request.body)
    # A list with more entries than any limit allows takes more bytes.
    most = min(limits.messages, limits.parts, limits.calls, limits.tools * _SHORTEST_TOOL // 2)
    if len(request.body) // 2 > most:
        check_size(given, limits)
    options, fields = take_proxy_options(given)
    as_it_came = fields is given and not request.key.id
    return options, fields, request.body if as_it_came else msgspec.json.encode(fields)


def read_fields(body: bytes) -> dict[str, msgspec.Raw]:
    """Return the fields of a body; `UnreadableRequest` if it is not a JSON object."""
    try:
        body.decode()  # parts that are decoded later are not searched yet
        return _FIELDS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableRequest(f"the body is not a JSON object: {error}", param="") from None


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


def _needs_nothing(route: ModelRoute, read: _Fields) -> bool:
    """Return True if the upstream alone can answer a request for this model."""
    in_background = read.params is not None and read.params.background
    # The upstream does not know what was continued here.
    continued = any(name not in read.fields for name in read.echo)
    return not (route.runs_tools or in_background or continued)


def _offers_tools(client: ClientProtocol, fields: Mapping[str, msgspec.Raw]) -> bool:
    """Return True if a request has tools, in a list or in items of its conversation."""
    for name in _TOOLS:
        if name in fields and bytes(fields[name]) not in _NOTHING:
            return True
    if not client.tool_items:
        return False
    marks = [f'"{word}"'.encode() for word in client.tool_items]
    return any(mark in bytes(raw) for mark in marks for raw in fields.values())


def _leave_out(
    request: Request, client: ClientProtocol, *, route: ModelRoute
) -> tuple[Request, tuple[str, ...]]:
    """Refuse what the upstream cannot be given, or leave it out, as the model is set: tools that
    only another provider runs, a file that only it holds, an approval for its own tool, media that
    the protocol has no form for. Nothing is said in its place."""
    protocol = route.upstream.protocol
    media = upstream_side(protocol).media
    foreign = find_foreign(request, protocol, media=media)
    for kind, id in foreign.items:
        if kind in client.held_items:
            unsupported = client.held_items[kind]
            message = f"{kind} {id!r}: {unsupported.why}"
            raise UnreadableRequest(message, param="input", code=unsupported.code)
    if not (foreign.tools or foreign.said):
        return request, ()
    refuses = route.settings.unsupported_tools == "refuse"
    chosen = any(special.type in foreign.tools for special in request.choice.specials)
    if foreign.tools and (refuses or chosen):
        param = "tool_choice" if chosen else "tools"
        what = f"run {', '.join(map(repr, foreign.tools))}: send the request without it"
        raise _refuse_content(what, route, param=param)
    if foreign.said and refuses:
        what = f"be given {', '.join(map(repr, foreign.said))}: send it in another form"
        raise _refuse_content(what, route, param="input" if client.holds else "messages")
    left = omit_foreign(request, protocol, media=media)
    return left, (*foreign.tools, *foreign.said)


def _refuse_content(what: str, route: ModelRoute, *, param: str) -> UnreadableRequest:
    setting = f"`models.{route.name}.unsupported_tools: drop`"
    why = f"the upstream of this model cannot {what}, or set {setting}"
    return UnreadableRequest(why, param=param)


def _make_outgoing(
    route: ModelRoute, body: bytes, *, fields: dict[str, msgspec.Raw], headers: Mapping[str, str]
) -> UpstreamRequest:
    if route.model != route.name:
        body = msgspec.json.encode({**fields, "model": route.model})
    stream = _read(fields, "stream") is True
    return UpstreamRequest(content=body, model=route.model, stream=stream, headers=headers)
