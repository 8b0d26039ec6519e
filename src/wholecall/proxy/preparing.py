"""What a request asks for, and which way it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from wholecall.core.conversation import Request
from wholecall.errors import UnreadableRequest
from wholecall.protocols.answers import Style
from wholecall.protocols.answers.failures import NO_THREADS
from wholecall.protocols.requests import decode_request
from wholecall.proxy.client import Asked
from wholecall.proxy.piping import Letter, Pipe
from wholecall.proxy.running import join_tools
from wholecall.proxy.serving import Mode, Served, Service
from wholecall.proxy.wishes import Wishes, take_wishes
from wholecall.tools.toolbox import Toolbox

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NOTHING = (b"null", b"[]")
_TOOLS = ("tools", "functions")
_THREAD = "thread"


@dataclass(frozen=True, slots=True)
class Forward:
    """Its bytes pass through."""

    pipe: Pipe
    letter: Letter


@dataclass(frozen=True, slots=True)
class Gate:
    """One question; calls are checked and handed over."""

    request: Request


@dataclass(frozen=True, slots=True)
class Run:
    """Turns until the final answer, with tools of both sides."""

    request: Request
    toolbox: Toolbox


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A request, read as far as its way needs it."""

    asked: Asked
    served: Served
    stream: bool
    style: Style
    way: Forward | Gate | Run
    progress: bool = False
    """Whether the client wants to see what happens between the turns."""


def find_model(service: Service, asked: Asked) -> tuple[Served, Letter]:
    """Who answers, and the request as it would pass through."""
    _, fields, body = _read_body(asked)
    served = service.find(_read_model(fields), asked)
    return served, _write_letter(served, body, fields=fields)


async def prepare(service: Service, asked: Asked) -> Prepared:
    """Read a request. What is wrong with it is an `UnreadableRequest` and the like."""
    wishes, fields, content = _read_body(asked)
    served = service.find(_read_model(fields), asked)
    _refuse_threads(fields)
    passes = served.upstream.protocol == asked.client.protocol and _needs_nothing(served, fields)
    if passes and served.pipe is not None:
        letter = _write_letter(served, content, fields=fields)
        way: Forward | Gate | Run = Forward(served.pipe, letter)
        return Prepared(asked=asked, served=served, stream=letter.stream, style=Style(), way=way)
    if served.upstream.protocol != asked.client.protocol:
        _refuse_foreign(asked.client.only_there, fields)
    body = msgspec.json.decode(content)
    request = replace(decode_request(asked.client.protocol, body), model=served.model)
    way = Gate(request)
    if served.mode is Mode.RUN:
        tools = service.tools_for(asked, served)
        messages = await service.ownership.restore(asked.key.id, request.messages)
        way = _choose_run(replace(request, messages=messages), tools)
    style = replace(
        asked.client.read_style(body),
        upstream=served.upstream.protocol,
        live=served.live and request.stream,
    )
    return Prepared(
        asked=asked,
        served=served,
        stream=request.stream,
        style=style,
        way=way,
        progress=wishes.events or asked.wants_progress,
    )


def _refuse_threads(fields: Mapping[str, msgspec.Raw]) -> None:
    """A conversation that the upstream holds brings tools that we do not see, so that their
    calls could not be checked. Anthropic's clients send all of it, when they are told."""
    if bytes(fields.get(_THREAD, msgspec.Raw(b"null"))) not in (b"null", b"false"):
        raise UnreadableRequest(
            "threads are not served: send the whole conversation without `thread`",
            param=_THREAD,
            code=NO_THREADS,
        )


def _refuse_foreign(only_there: frozenset[str], fields: Mapping[str, msgspec.Raw]) -> None:
    """What would be passed over in silence is refused instead."""
    for name in sorted(only_there.intersection(fields)):
        if bytes(fields[name]) not in (b"null", b"false"):
            raise UnreadableRequest(f"the upstream of this model has no {name}", param=name)


def _choose_run(request: Request, tools: Toolbox) -> Gate | Run:
    if not len(tools):
        return Gate(request)
    rest: Mapping[str, Any] = request.rest.value if request.rest is not None else {}
    if rest.get("n") not in (None, 1):
        raise UnreadableRequest("tools run here, and only for one answer at a time", param="n")
    toolbox, joined = join_tools(tools, request)
    return Run(joined, toolbox)


# ── Reading as little as possible ───────────────────────────────────────────────────


def _read_body(asked: Asked) -> tuple[Wishes, dict[str, msgspec.Raw], bytes]:
    """What is meant for the proxy; the other fields; and the body without the former."""
    given = _read_fields(asked.body)
    wishes, fields = take_wishes(given)
    return wishes, fields, asked.body if fields is given else msgspec.json.encode(fields)


def _read_fields(body: bytes) -> dict[str, msgspec.Raw]:
    try:
        return _FIELDS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableRequest(f"the body is no JSON object: {error}", param="") from None


def _read_model(fields: Mapping[str, msgspec.Raw]) -> str:
    model = _read(fields, "model")
    if not isinstance(model, str) or not model:
        raise UnreadableRequest("the name of a model is missing", param="model")
    return model


def _read(fields: Mapping[str, msgspec.Raw], name: str) -> Any:
    return msgspec.json.decode(fields[name]) if name in fields else None


def _needs_nothing(served: Served, fields: Mapping[str, msgspec.Raw]) -> bool:
    """Whether a request for this model can be answered by its upstream alone."""
    offered = (bytes(fields[name]) for name in _TOOLS if name in fields)
    return served.mode is Mode.GATE and all(each in _NOTHING for each in offered)


def _write_letter(served: Served, body: bytes, *, fields: dict[str, msgspec.Raw]) -> Letter:
    if served.model != served.name:
        body = msgspec.json.encode({**fields, "model": served.model})
    stream = _read(fields, "stream") is True
    return Letter(content=body, model=served.model, stream=stream)
