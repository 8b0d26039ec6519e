"""List models and tools to clients."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from wholecall.errors import UpstreamError
from wholecall.proxy.config.check import ANY_MODEL
from wholecall.proxy.handlers.passthrough import UpstreamPipe
from wholecall.proxy.handlers.request_plan import ModelRoutes
from wholecall.proxy.http.client_request import CALLER, Caller
from wholecall.proxy.http.refusals import RequestRefused

FRESH_SECONDS = 60.0
"""Seconds for which a list, or its absence, is cached."""
MOST_LISTED = 1000
_FOLDER = "models/"


class _Model(msgspec.Struct):
    id: str = ""
    name: str = ""


class _Page(msgspec.Struct):
    data: list[_Model] | None = None
    models: list[_Model] | None = None


_PAGE = msgspec.json.Decoder(_Page)


class UpstreamModels:
    """The models of one pipe. An unavailable list is empty: nothing depends on it."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._asking = asyncio.Lock()
        self._pipe: UpstreamPipe | None = None
        self._asked_at = 0.0
        self._names: tuple[str, ...] = ()

    async def find_names(self, pipe: UpstreamPipe) -> tuple[str, ...]:
        """The names of the models, as the upstream writes them."""
        async with self._asking:  # who comes meanwhile waits for the same list
            if pipe is not self._pipe or self._clock() >= self._asked_at + FRESH_SECONDS:
                self._names = await _ask(pipe)
                self._pipe, self._asked_at = pipe, self._clock()
            return self._names


async def _ask(pipe: UpstreamPipe) -> tuple[str, ...]:
    try:
        return read_names(await pipe.fetch_models())
    except UpstreamError:
        return ()


def read_names(page: bytes) -> tuple[str, ...]:
    """Return the names in a list of models; none if it is not such a list."""
    try:
        read = _PAGE.decode(page)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ()
    models = (*(read.data or ()), *(read.models or ()))
    names = (model.id or model.name.removeprefix(_FOLDER) for model in models)
    return tuple(dict.fromkeys(name for name in names if name))[:MOST_LISTED]


# The lists of models and tools for clients.


_SINCE = 0
_DATE = "1970-01-01T00:00:00Z"


class ModelCatalog:
    """Lists what the caller's key may use."""

    def __init__(self, routes: ModelRoutes) -> None:
        self._routes = routes
        self._listing = UpstreamModels()

    async def list_models(self, request: Request) -> Response:
        """The models, in a form that OpenAI's and Anthropic's clients both read."""
        caller: Caller = request.scope[CALLER]
        names = [name for name in await self._find_names() if caller.key.may_use(name)]
        page = {
            "object": "list",
            "data": [self._describe(name, caller) for name in names],
            "has_more": False,
            "first_id": names[0] if names else None,
            "last_id": names[-1] if names else None,
            "wholecall": {"any_model": self._describe_way(ANY_MODEL, caller)},
        }
        return JSONResponse(page)

    async def show_model(self, request: Request) -> Response:
        """Return one model. For `*`, an upstream without a list may have any."""
        caller: Caller = request.scope[CALLER]
        name = request.path_params["name"]
        if not name:  # the list, with a trailing slash
            return await self.list_models(request)
        unlisted = ANY_MODEL in self._routes.by_name and not await self._find_others()
        known = unlisted or name in await self._find_names()
        if not known or not caller.key.may_use(name):
            raise RequestRefused(404, f"the model {name!r} does not exist", code="model_not_found")
        return JSONResponse(self._describe(name, caller))

    async def _find_names(self) -> list[str]:
        """Return the models of the configuration, followed by those that `*` leads to."""
        named = [name for name in self._routes.by_name if name != ANY_MODEL]
        return list(dict.fromkeys([*named, *await self._find_others()]))

    async def _find_others(self) -> tuple[str, ...]:
        others = self._routes.by_name.get(ANY_MODEL)
        if others is None or others.pipe is None:
            return ()
        return await self._listing.find_names(others.pipe)

    def _describe(self, name: str, caller: Caller) -> dict[str, Any]:
        return {**_describe_model(name), "wholecall": self._describe_way(name, caller)}

    def _describe_way(self, name: str, caller: Caller) -> dict[str, Any] | None:
        """Describe how calls are handled, and which of our tools run; None if the model is not
        served."""
        route = self._routes.by_name.get(name, self._routes.by_name.get(ANY_MODEL))
        if route is None or not caller.key.may_use(name):
            return None
        runs = route.runs_tools
        tools = list(self._routes.offer_to(caller.key, route)) if runs else []
        return {"mode": route.settings.mode, "tools": tools}

    async def list_tools(self, request: Request) -> Response:
        """The tools that run here."""
        caller: Caller = request.scope[CALLER]
        tools = [
            {
                "name": tool.name,
                "description": tool.spec.description,
                "parameters": tool.spec.parameters,
                "read_only": tool.read_only,
                "idempotent": tool.idempotent,
                "approve": tool.approve is not False,
            }
            for tool in self._routes.offer_tools()
            if caller.key.may_call(tool.name)
        ]
        return JSONResponse({"object": "list", "data": tools})


def _describe_model(name: str) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": _SINCE,
        "owned_by": "wholecall",
        "type": "model",
        "display_name": name,
        "created_at": _DATE,
    }
