"""The lists of models and tools for clients."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from wholecall.proxy.edge import CALLER, Caller
from wholecall.proxy.listing import Listing
from wholecall.proxy.refusing import Refused
from wholecall.proxy.serving import ANY_MODEL, Mode, Service

_SINCE = 0
_DATE = "1970-01-01T00:00:00Z"


class Catalogue:
    """Lists what the caller's key may use."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._listing = Listing()

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
        unlisted = ANY_MODEL in self._service.models and not await self._find_others()
        known = unlisted or name in await self._find_names()
        if not known or not caller.key.may_use(name):
            raise Refused(404, f"the model {name!r} does not exist", code="model_not_found")
        return JSONResponse(self._describe(name, caller))

    async def _find_names(self) -> list[str]:
        """Return the models of the configuration, followed by those that `*` leads to."""
        named = [name for name in self._service.models if name != ANY_MODEL]
        return list(dict.fromkeys([*named, *await self._find_others()]))

    async def _find_others(self) -> tuple[str, ...]:
        others = self._service.models.get(ANY_MODEL)
        if others is None or others.pipe is None:
            return ()
        return await self._listing.find_names(others.pipe)

    def _describe(self, name: str, caller: Caller) -> dict[str, Any]:
        return {**_describe_model(name), "wholecall": self._describe_way(name, caller)}

    def _describe_way(self, name: str, caller: Caller) -> dict[str, Any] | None:
        """Describe how calls are handled, and which of our tools run; None if the model is not
        served."""
        served = self._service.models.get(name, self._service.models.get(ANY_MODEL))
        if served is None or not caller.key.may_use(name):
            return None
        runs = served.mode is Mode.RUN
        tools = list(self._service.offer_to(caller.key, served)) if runs else []
        return {"mode": served.mode.value, "tools": tools}

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
            for tool in self._service.offer_tools()
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
