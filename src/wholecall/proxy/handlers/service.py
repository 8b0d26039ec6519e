"""The service: models, the server's tools, and the answers in progress."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from wholecall.agent.budget import RunLimits
from wholecall.dialects.rescue import Rescue
from wholecall.errors import UnknownModel, UnreadableRequest
from wholecall.proxy.config.schema import ANYTHING, matches
from wholecall.proxy.handlers.idempotency import ResendStore, ToolNotices
from wholecall.proxy.handlers.mixed_tools import MixedTools
from wholecall.proxy.handlers.passthrough import UpstreamPipe
from wholecall.proxy.http.api_keys import Key
from wholecall.proxy.http.asgi_response import BEAT_SECONDS
from wholecall.proxy.http.client_request import TOOLS_HEADER, ClientRequest
from wholecall.proxy.http.disconnect import DisconnectWatcher
from wholecall.proxy.http.shutdown import ReloadCleanup
from wholecall.proxy.observe.inspector_feed import ApprovalRequests
from wholecall.proxy.observe.taps import Tap
from wholecall.proxy.responses.response_store import (
    ResponseOwners,
    ResponseStore,
    SharedResponseStore,
)
from wholecall.storage import BlobStore
from wholecall.tools.tool import Tool
from wholecall.tools.toolbox import Toolbox
from wholecall.upstreams.base import Upstream

ANY_MODEL = "*"
"""The name under which every model is served that has no entry of its own."""
ENDING_SECONDS = 5.0
"""Seconds at shutdown for cancelled answers to send their error, and for tools that must not be
cancelled to finish."""


class ProxyMode(enum.Enum):
    """The mode of a model: who runs its calls."""

    GATE = "gate"
    """The client: calls are checked here and handed over."""
    RUN = "run"
    """The proxy runs its own tools; the client runs those that it brought along."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRoute:
    """A model as clients know it."""

    name: str
    upstream: Upstream
    model: str
    """The name under which the upstream knows it."""
    mode: ProxyMode = ProxyMode.GATE
    emulate: str | None = None
    """A dialect, `auto`, `native` or `constrained`: how the model is offered tools."""
    rescue: Rescue | None = None
    """The calls to start among those that the model wrote as text; None: each tool's default."""
    limits: RunLimits = field(default_factory=RunLimits)
    reask: int = 1
    """In the mode `gate`: how often the model is asked again for a call that it got wrong."""
    live: bool = False
    """In the mode `gate`: whether streams show calls as they grow."""
    tools: tuple[str, ...] = ANYTHING
    """In the mode `run`: patterns of the tools' names that it is offered."""
    pipe: UpstreamPipe | None = None
    """For requests that need nothing from us; None where nothing may pass through."""
    place: str = ""
    """The upstream's address, which clients never see."""

    async def close(self) -> None:
        """Give back connections."""
        try:
            await self.upstream.close()
        finally:
            if self.pipe is not None:
                await self.pipe.close()


def _offer_nothing() -> Iterable[Tool]:
    return ()


class Service:
    """Finds who answers, and knows what is under way."""

    def __init__(
        self,
        models: Iterable[ModelRoute] = (),
        *,
        tools: Callable[[], Iterable[Tool]] = _offer_nothing,
        shelf: BlobStore | None = None,
    ) -> None:
        self._models = {served.name: served for served in models}
        self._shelf = shelf or BlobStore()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.offer_tools = tools
        """The tools that run here; those of MCP servers come and go."""
        self.ownership = MixedTools(self._shelf)
        self.binding = ResponseOwners(self._shelf)
        """Whose the responses are that upstreams hold."""
        self.lookout = DisconnectWatcher()
        """Has clients watched that wait for long."""
        self.retirement = ReloadCleanup()
        """Closes what is served no more."""
        self.resends = ResendStore()
        self.notices = ToolNotices()
        """Tells other processes in which requests a tool has begun."""
        self.hold_responses(ResponseStore())
        self.approving = ApprovalRequests()
        """The approvals of runs."""
        self.beat_seconds = BEAT_SECONDS
        """The longest silence of a stream."""
        self.taps: tuple[Tap, ...] = ()
        """The taps."""

    def hold_responses(self, holding: ResponseStore, shelf: BlobStore | None = None) -> None:
        """Hold responses here; with a shelf, together with other processes."""
        self.holding = holding
        """Stored responses."""
        self.sharing = SharedResponseStore(holding, shelf)

    # ── Models and tools ────────────────────────────────────────────────────────────

    @property
    def models(self) -> Mapping[str, ModelRoute]:
        """The models, by the names that clients use."""
        return self._models

    def serve(self, models: Iterable[ModelRoute]) -> tuple[ModelRoute, ...]:
        """Serve these models from now on; returns those that were served before."""
        before = tuple(self._models.values())
        self._models = {served.name: served for served in models}
        return before

    def find(self, model: str, asked: ClientRequest) -> ModelRoute:
        """Return the route of a model. One that the key may not use does not exist for it."""
        served = self._models.get(model)
        if served is None and ANY_MODEL in self._models:
            served = replace(self._models[ANY_MODEL], name=model, model=model)
        if served is None or not asked.key.may_use(model):
            raise UnknownModel(f"the model {model!r} does not exist")
        return served

    def offer_to(self, key: Key, served: ModelRoute) -> dict[str, Tool]:
        """The server's tools that this key may use with this model, by their names."""
        return {
            tool.name: tool
            for tool in self.offer_tools()
            if key.may_call(tool.name) and matches(tool.name, served.tools)
        }

    def tools_for(self, asked: ClientRequest, served: ModelRoute) -> Toolbox:
        """The server's tools that this key may use with this model, and that the client wants."""
        offered = self.offer_to(asked.key, served)
        wanted = asked.wanted_tools
        if wanted is None:
            return Toolbox(offered.values())
        for name in wanted:
            if name not in offered:
                said = f"the tool {name!r} is not offered here with this model"
                raise UnreadableRequest(said, param=TOOLS_HEADER)
        return Toolbox(offered[name] for name in dict.fromkeys(wanted))

    # ── Work in progress ────────────────────────────────────────────────────────────

    def hold(self, task: asyncio.Task[Any]) -> None:
        """Keep a reference to a task that continues although its request may be over."""
        self._tasks.add(task)
        self.retirement.begin(task)
        task.add_done_callback(self._forget)

    async def settle(self, seconds: float) -> None:
        """Wait for work that continues after its request; then cancel it.

        Cancelled work is awaited for a moment as well: it still uses what is closed next.
        """
        late: set[asyncio.Task[Any]] = set(self._tasks)
        if late:
            _, late = await asyncio.wait(late, timeout=seconds)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=ENDING_SECONDS)

    async def close(self) -> None:
        """Give back connections and files. What fails keeps nothing else open, and is raised."""
        async with AsyncExitStack() as last_first:
            last_first.push_async_callback(self.retirement.close)
            last_first.callback(self.sharing.close)
            last_first.callback(self._shelf.close)
            for served in self._models.values():
                last_first.push_async_callback(served.close)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        self.retirement.end(task)
        if not task.cancelled():
            task.exception()
