"""The route of each model: its upstream, its mode, and the server's tools that it may use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

from wholecall.errors import UnknownModel, UnreadableRequest
from wholecall.proxy.config.schema import ModelConfig, matches
from wholecall.proxy.handlers.passthrough import UpstreamPipe
from wholecall.proxy.http.api_keys import Key
from wholecall.proxy.http.client_request import TOOLS_HEADER, ClientRequest
from wholecall.tools.tool import Tool
from wholecall.tools.toolbox import Toolbox
from wholecall.upstreams.base import Upstream

ANY_MODEL = "*"
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
        self._by_name = {route.name: route for route in routes}
        self.offer_tools = tools
        """The tools that run here; those of MCP servers come and go."""

    @property
    def by_name(self) -> Mapping[str, ModelRoute]:
        """The routes, by the names that clients use."""
        return self._by_name

    def replace(self, routes: Mapping[str, ModelRoute]) -> list[ModelRoute]:
        """Serve these models from now on; return the routes that are not served any more."""
        before, self._by_name = self._by_name, dict(routes)
        return [route for name, route in before.items() if routes.get(name) is not route]

    def find(self, model: str, key: Key) -> ModelRoute:
        """Return the route of a model. One that the key may not use does not exist for it."""
        route = self._by_name.get(model)
        if route is None and ANY_MODEL in self._by_name:
            route = replace(self._by_name[ANY_MODEL], name=model, model=model)
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
            for route in self._by_name.values():
                stack.push_async_callback(route.close)
