"""Routes of an upstream that have nothing to do with tools: embeddings, audio, images, files, …

They pass through for the models that allow it (`models.NAME.routes`). The request names its model
in JSON or in a field of a form; files and batches name none, and go to the first model that allows
them. Bodies are not touched, except that the model gets the upstream's name for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, get_args

import msgspec
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from wholecall.errors import UnreadableRequest, WholecallError
from wholecall.proxy.config.schema import ForwardedRoute
from wholecall.proxy.handlers.passthrough import UpstreamPipe, UpstreamRequest, read_whole
from wholecall.proxy.handlers.request_handler import HandlerFactory
from wholecall.proxy.handlers.request_plan import ModelRoute, ModelRoutes, read_fields
from wholecall.proxy.handlers.response_writer import explain, make_error
from wholecall.proxy.http.client_connection import (
    ClientConnections,
    ClientSink,
    ResponseBody,
    pick_headers,
    read_body,
)
from wholecall.proxy.http.client_request import ClientRequest
from wholecall.proxy.http.refusals import RequestRefused
from wholecall.proxy.observe.taps import Exchange, ExchangeWatch, Fate
from wholecall.proxy.routes.client_route import CHAT_CLIENT
from wholecall.upstreams.http_connection import HttpResponse, find_header

_VERSION = "/v1/"
_JSON = "application/json"
_METHODS = ["GET", "POST", "DELETE"]
_SEGMENT = re.compile(r"[A-Za-z0-9_:-][A-Za-z0-9_.:-]*")
"""A part of a path. None is `..`, so that no other route of the upstream is reached."""
_BOUNDARY = re.compile(r'multipart/form-data\s*;.*?\bboundary="?([^";]+)"?', re.IGNORECASE)
_MODEL_FIELD = re.compile(
    rb'^content-disposition:[^\r\n]*;\s*name="?model"?\s*(?:;|$)', re.IGNORECASE | re.MULTILINE
)
_LONGEST_HEAD = 4096
"""Bytes of the head of a form's field that are searched for its name."""
_UNKNOWN = "no route of this name is passed on"
_TWO_MODELS = "the form names a model twice"
_NO_MODEL = "the name of a model is missing"
_DISPOSITION = b"content-disposition"


class FormField(NamedTuple):
    """The place of a field's value in a form."""

    start: int
    end: int


def find_model_field(body: bytes, content_type: str) -> FormField | None:
    """Return the place of the model's name in a form; None if it is not one, or has none."""
    found = _BOUNDARY.search(content_type)
    if found is None:
        return None
    mark = b"--" + found[1].encode("latin-1", "replace")
    fields: list[FormField] = []
    at = body.find(mark)
    while at >= 0:
        after = body.find(b"\r\n" + mark, at + len(mark))
        head = body.find(b"\r\n\r\n", at, at + _LONGEST_HEAD)
        if after >= 0 and 0 <= head < after and _MODEL_FIELD.search(body, at, head):
            fields.append(FormField(head + 4, after))
        at = after + 2 if after >= 0 else -1
    if len(fields) > 1:
        raise UnreadableRequest(_TWO_MODELS, param="model")
    return fields[0] if fields else None


def _read_json_model(body: bytes, *, anew: bool) -> tuple[str, dict[str, msgspec.Raw], bytes]:
    """Return the model, the fields, and the body; with a key it is written anew, so that a field
    which occurs twice reaches the upstream as it was checked."""
    fields = read_fields(body)
    try:
        name = msgspec.json.decode(fields.get("model", msgspec.Raw(b'""')), type=str)
    except (msgspec.MsgspecError, ValueError):  # the latter: a number with too many digits
        raise UnreadableRequest(_NO_MODEL, param="model") from None
    return name, fields, msgspec.json.encode(fields) if anew else body


@dataclass(frozen=True, slots=True)
class Forwarder:
    """Passes requests of these routes on. A plain ASGI application."""

    routes: ModelRoutes
    connections: ClientConnections
    handlers: HandlerFactory

    def make_routes(self) -> list[Route]:
        """The routes, each with what is below it."""
        return [
            Route(path, self, methods=_METHODS)
            for name in get_args(ForwardedRoute)
            for path in (f"{_VERSION}{name}", f"{_VERSION}{name}/{{rest:path}}")
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: PLR0917 - ASGI
        """Answer one request."""
        with self.connections.open(send) as sink:
            client = replace(CHAT_CLIENT, path=_VERSION + _read_segments(scope)[0])
            request = ClientRequest.read(client, scope, body=await read_body(receive))
            with self.connections.watch(receive, sink):
                await self._serve(request, scope, sink=sink, send=send)

    async def _serve(
        self, request: ClientRequest, scope: Scope, *, sink: ClientSink, send: Send
    ) -> None:
        watch: ExchangeWatch | None = None
        place = ""
        try:
            route, pipe, outgoing = self._plan(request, scope)
            place = route.place
            watch = self.handlers.watch(_describe(request, route))
            sink.on_begin = watch.begin
            async with watch.asking(pipe.send(outgoing)) as response:
                await _pass_on(response, pipe, sink=sink, send=send)
            watch.end(Fate.DONE)
        except WholecallError as error:
            failure, headers = explain(error, place=place, request_id=request.request_id)
            watch = watch or self.handlers.watch(_describe(request))
            code, message = failure.code or "", failure.message
            watch.end(Fate.FAILED, status=failure.status, code=code, message=message)
            if not sink.begun:
                await sink.send_body(make_error(CHAT_CLIENT.protocol, failure, headers=headers))
            # Otherwise the answer stays without its end, which the server shows by closing.
        finally:
            if sink.gone and watch is not None:
                watch.leave()

    def _plan(
        self, request: ClientRequest, scope: Scope
    ) -> tuple[ModelRoute, UpstreamPipe, UpstreamRequest]:
        segments = _read_segments(scope)
        body, content_type = request.body, request.headers.get("content-type", "")
        name, place = "", find_model_field(body, content_type)
        fields: dict[str, msgspec.Raw] = {}
        if place is not None:
            name = body[place.start : place.end].decode("utf-8", "replace")
        elif body and content_type.partition(";")[0].strip() in ("", _JSON):
            name, fields, body = _read_json_model(body, anew=bool(request.key.id))
        route = self._find(name, segments[0], request=request)
        if place is not None and route.model != name:
            body = body[: place.start] + route.model.encode() + body[place.end :]
        elif fields and name and route.model != name:
            body = msgspec.json.encode({**fields, "model": route.model})
        if route.pipe is None or segments[0] not in route.settings.routes:
            raise UnreadableRequest(
                f"the model {route.name!r} does not serve {request.client.path}", param="model"
            )
        if not route.pipe.endpoint.has_siblings:
            raise UnreadableRequest(
                f"the upstream of {route.name!r} has no {request.client.path}", param="model"
            )
        typed = {"Content-Type": content_type} if content_type else {}
        outgoing = UpstreamRequest(
            content=body,
            model=route.model,
            stream=False,
            method=scope["method"],
            beside="/".join(segments),
            query=scope["query_string"].decode("latin-1"),
            headers={**request.trace_headers, **typed},
        )
        return route, route.pipe, outgoing

    def _find(self, name: str, folder: str, *, request: ClientRequest) -> ModelRoute:
        """Return the route of the model; without a name, the first that allows this."""
        if name:
            return self.routes.find(name, request.key)
        for route in self.routes.by_name.values():
            allows = route.pipe is not None and folder in route.settings.routes
            if allows and request.key.may_use(route.name):
                return route
        raise UnreadableRequest(_NO_MODEL, param="model")


def _read_segments(scope: Mapping[str, str]) -> list[str]:
    segments = scope["path"].removeprefix(_VERSION).split("/")
    if not all(map(_SEGMENT.fullmatch, segments)):
        raise RequestRefused(404, _UNKNOWN, code="not_found")
    return segments


async def _pass_on(
    response: HttpResponse, pipe: UpstreamPipe, *, sink: ClientSink, send: Send
) -> None:
    """Send JSON in one piece, and anything else as it comes."""
    kept = pick_headers(response.raw_headers)
    media_type = find_header(response.raw_headers, b"content-type") or b"application/octet-stream"
    if response.content_type == _JSON:
        content = await read_whole(pipe, response)
        await sink.send_body(ResponseBody(response.status, content, kept, media_type))
        return
    name = find_header(response.raw_headers, _DISPOSITION)
    named = ((_DISPOSITION, name),) if name else ()
    await sink.begin_raw(response.status, ((b"content-type", media_type), *named, *kept))
    try:
        while chunk := pipe.endpoint.hide_in(await response.read()):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    except OSError as error:
        raise pipe.fail(error) from error
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _describe(request: ClientRequest, route: ModelRoute | None = None) -> Exchange:
    exchange = Exchange(
        request_id=request.request_id,
        protocol=request.client.protocol,
        path=request.client.path,
        key_id=request.key.id,
        started=request.came,
        trace_headers=request.trace_headers,
    )
    if route is None:
        return exchange
    return msgspec.structs.replace(
        exchange,
        model=route.name,
        way="forward",
        upstream=route.upstream.protocol,
        upstream_model=route.model,
    )
