"""The proxy as one ASGI application."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from pathlib import Path
from typing import TextIO, TypeAlias

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.typing import FilteringBoundLogger

from wholecall.errors import WholecallError
from wholecall.proxy.config.load import Loaded
from wholecall.proxy.config.reload import Changes, changes
from wholecall.proxy.config.schema import Config, ServerLimits
from wholecall.proxy.handlers.client_endpoint import ClientRoute
from wholecall.proxy.handlers.idempotency import ToolNotices
from wholecall.proxy.handlers.service import ModelRoute, ProxyMode, Service
from wholecall.proxy.http.api_keys import KeyStore, needs_keys
from wholecall.proxy.http.middleware import ERROR_HANDLERS, ProxyMiddleware
from wholecall.proxy.http.rate_limits import RateLimits
from wholecall.proxy.http.refusals import HttpRefusal
from wholecall.proxy.http.shutdown import ShutdownDeadline
from wholecall.proxy.observe.access_log import (
    LogTap,
    LogWriter,
    log_approval,
    log_refusal,
    log_server_event,
)
from wholecall.proxy.observe.inspector_feed import ApprovalGiven, InspectorFeed
from wholecall.proxy.observe.metrics import MetricsRegistry, MetricsTap, Names
from wholecall.proxy.observe.redaction import Redactor
from wholecall.proxy.observe.taps import Tap
from wholecall.proxy.observe.traces import find_trace_tap
from wholecall.proxy.responses.response_store import ResponseStore
from wholecall.proxy.routes.client_protocols import CHAT, MESSAGES, RESPONSES
from wholecall.proxy.routes.count_tokens import COUNT_TOKENS, TokenCounter
from wholecall.proxy.routes.health import Readiness
from wholecall.proxy.routes.models import ModelCatalog
from wholecall.proxy.routes.responses import make_response_routes
from wholecall.proxy.service_builder import (
    PINS_FILE,
    PinFile,
    Tools,
    make_models,
    responses_path,
    state_path,
)
from wholecall.storage import BlobStore
from wholecall.tools.mcp.tool_definitions import McpEvent
from wholecall.tools.tool import Tool

# The taps of a proxy: its log, its figures, its traces and its inspector.


class Observers:
    """The log, the metrics and the traces."""

    def __init__(
        self,
        config: Config,
        *,
        models: Callable[[], Container[str]],
        tools: Callable[[], Iterable[Tool]],
        stream: TextIO | None = None,
    ) -> None:
        self._hiding = Redactor()
        self._writer = LogWriter(config.log, stream or sys.stderr, hiding=self._hiding)
        log_tap = LogTap(self._writer.log, bodies=lambda: self._writer.bodies)
        names = Names(
            models=models,
            tools=lambda: frozenset(tool.name for tool in tools()),
        )
        self.figures = MetricsRegistry() if config.metrics.enabled else None
        inspected = config.inspector.enabled
        self.inspecting = (
            InspectorFeed(config, hides=self._hiding, on_approval=self.take_approval)
            if inspected
            else None
        )
        found: tuple[Tap | None, ...] = (
            log_tap,
            None if self.figures is None else MetricsTap(names, self.figures),
            find_trace_tap(),
            self.inspecting,
        )
        self.taps = tuple(tap for tap in found if tap is not None)

    @property
    def log(self) -> FilteringBoundLogger:
        """For what happens outside of any request."""
        return self._writer.log

    def learn(self, models: Iterable[ModelRoute]) -> None:
        """Never write down the secrets of these models."""
        for served in models:
            if served.pipe is not None:
                self._hiding.learn(served.pipe.endpoint.secrets)
        if self.inspecting is not None:
            self.inspecting.forget_names()

    def take_refusal(self, refusal: HttpRefusal) -> None:
        """A request was turned away at the door."""
        log_refusal(self.log, refusal)
        if self.figures is not None:
            self.figures.count("refusals", str(refusal.status), refusal.code)

    def take_approval(self, given: ApprovalGiven) -> None:
        """A person answered for a pending call."""
        log_approval(self.log, given)

    def take_server_event(self, event: McpEvent) -> None:
        """Something became of an MCP server."""
        log_server_event(self.log, event)

    def take_pin_trouble(self, error: OSError) -> None:
        """Log that the pins of MCP tools cannot be written."""
        self.log.warning("the pins of MCP tools cannot be kept", error=str(error))

    def reload(self, config: Config) -> None:
        """Go by other settings."""
        self._writer.reload(config.log)
        if self.inspecting is not None:
            self.inspecting.reload(config)

    async def close(self) -> None:
        """Write down what is left."""
        if self.inspecting is not None:
            await self.inspecting.close()


_NOT_READY = 503


Around: TypeAlias = "Callable[[Proxy], AbstractAsyncContextManager[None]]"
"""A context that lasts as long as the proxy."""


def make_app(
    config: Config | Loaded,
    *,
    environ: Mapping[str, str] = os.environ,
    tools: Iterable[Tool] = (),
    models: Iterable[ModelRoute] = (),
    around: Around = lambda _: nullcontext(),
) -> Proxy:
    """Return the proxy that a configuration describes.

    `tools` and `models` are added to those that it names.
    """
    if isinstance(config, Config):
        config = Loaded(config=config, file=None, places={})
    pins = PinFile(Path(config.config.keys.path).with_name(PINS_FILE))
    box = Tools(tools, pins=pins)
    return Proxy(config, environ=environ, tools=box, models=models, around=around)


class Proxy:
    """An ASGI application: the middleware around the routes."""

    def __init__(
        self,
        loaded: Loaded,
        *,
        environ: Mapping[str, str],
        tools: Tools,
        models: Iterable[ModelRoute] = (),
        around: Around,
    ) -> None:
        config = loaded.config
        self._loaded = loaded
        self._environ = environ
        self._around = around
        self._given = {served.name: served for served in models}
        configured = {served.name: served for served in make_models(config, environ)}
        self._models = configured | self._given
        self._tools = tools
        self._readiness = Readiness(environ)
        shelf = self._make_shelf(config)
        self.service = Service(self._models.values(), tools=self._tools.offer, shelf=shelf)
        self.service.notices = ToolNotices(shelf)
        self.observing = Observers(
            config, models=lambda: self.service.models, tools=self._tools.offer
        )
        self.observing.learn(self._models.values())
        self.service.taps = self.observing.taps
        if self.observing.inspecting is not None:
            self.service.approving = self.observing.inspecting.approving
        self.service.beat_seconds = config.limits.keep_alive_seconds
        self._hold_responses(config)
        keys = KeyStore(config.keys.path) if needs_keys(config) else None
        self._endpoints = {
            client.path: ClientRoute(self.service, client) for client in (CHAT, RESPONSES, MESSAGES)
        }
        self.routes = self._make_routes()
        self._routed = Starlette(
            routes=self.routes, exception_handlers=ERROR_HANDLERS, lifespan=self._live
        )
        self._edge = ProxyMiddleware(self._serve, config, keys=keys, rate_limits=RateLimits())
        self._edge.on_refusal = self.observing.take_refusal
        self._tools.on_event = self.observing.take_server_event
        self._tools.on_trouble = self.observing.take_pin_trouble
        self._told = False
        self._reloading = asyncio.Lock()
        self.draining = ShutdownDeadline()
        """The time that is left when the server ends."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: PLR0917 - ASGI
        """Serve one connection's event, as ASGI has it."""
        await self._edge(scope, receive, self._hush(send) if scope["type"] == "lifespan" else send)

    @property
    def config(self) -> Config:
        """The settings that hold now."""
        return self._loaded.config

    @property
    def limits(self) -> ServerLimits:
        """The current limits for clients."""
        return self._loaded.config.limits

    def leave(self) -> None:
        """The server begins to end: the time that answers have for it runs."""
        self.draining.begin()

    async def reload(self, loaded: Loaded) -> Changes:
        """Go by other settings, as far as that is possible without a restart.

        Answers that are under way come to their end as they began. Settings that are not safe
        without a restart, and a tool that cannot be loaded, are a `ConfigError` or a
        `ToolServerFailed`, and everything stays as it was.
        """
        async with self._reloading:  # MCP servers take their time, and the last settings count
            return await self._take_over(loaded)

    async def _take_over(self, loaded: Loaded) -> Changes:
        before, config = self._loaded.config, loaded.config
        changed = changes(before, config)
        # Whatever can be wrong with them comes first: by then nothing has changed.
        self._edge.check(config)
        models = self._renew_models(config)
        if config.tools != before.tools:
            servers = await self._tools.replace(loaded)
            if servers is not None:
                self.service.retirement.retire(servers.__aexit__)
        self._replace_models(models)
        self._edge.reload(config)
        self.observing.reload(config)
        self.service.beat_seconds = config.limits.keep_alive_seconds
        self.service.holding.settings = config.responses
        self._loaded = loaded
        return changed

    def _renew_models(self, config: Config) -> dict[str, ModelRoute]:
        """The models of a configuration. Whose settings are the same keep their connections."""
        before = self._loaded.config.models
        same = {name for name, model in config.models.items() if before.get(name) == model}
        fresh = {each.name: each for each in make_models(config, self._environ, without=same)}
        models = {name: fresh.get(name) or self._models[name] for name in config.models}
        return models | self._given

    def _replace_models(self, models: dict[str, ModelRoute]) -> None:
        retired = [each for name, each in self._models.items() if models.get(name) is not each]
        self._models = models
        self.observing.learn(models.values())
        self.service.serve(models.values())
        for served in retired:
            self.service.retirement.retire(served.close)

    def _make_shelf(self, config: Config) -> BlobStore:
        """A file, where tools of both sides may meet in a conversation, or where an upstream holds
        what belongs to one of several keys; else nothing is kept."""
        models = self._models.values()
        runs = any(served.mode is ProxyMode.RUN for served in models)
        held = any(served.upstream.protocol == RESPONSES.protocol for served in models)
        needed = runs or (held and needs_keys(config))
        return BlobStore(state_path(config) if needed else None)

    def _hold_responses(self, config: Config) -> None:
        """In memory; several processes hold what is over in a file that they share."""
        holding = ResponseStore(config.responses, background=config.listen.workers == 1)
        path = responses_path(config)
        self.service.hold_responses(holding, None if path is None else BlobStore(path))

    # ── Routes ──────────────────────────────────────────────────────────────────────

    def _serve(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:  # noqa: PLR0917 - ASGI
        """Questions to a model go straight to their endpoint; the router costs more than it."""
        app: ASGIApp = self._routed
        if scope["type"] == "http" and scope["method"] == "POST":
            app = self._endpoints.get(scope["path"], app)
        return app(scope, receive, send)

    def _make_routes(self) -> list[Route]:
        catalogue = ModelCatalog(self.service)
        return [
            *(Route(path, each, methods=["POST"]) for path, each in self._endpoints.items()),
            *make_response_routes(self.service),
            Route(COUNT_TOKENS.path, TokenCounter(self.service), methods=["POST"]),
            Route("/v1/models", catalogue.list_models),
            Route("/v1/models/{name:path}", catalogue.show_model),
            Route("/v1/tools", catalogue.list_tools),
            Route("/health", _say_alive),
            Route("/ready", self._say_ready),
            *([Route("/metrics", self._show_figures)] if self.observing.figures else []),
            *(self.observing.inspecting.make_routes() if self.observing.inspecting else []),
        ]

    async def _say_ready(self, _: Request) -> Response:
        reached = await self._readiness.check(self.service.models.values())
        ready = all(reached.values()) and self._tools.are_ready
        body = {
            "status": "ready" if ready else "not ready",
            "models": dict(reached),
            "servers": dict(self._tools.reached),
        }
        return JSONResponse(body, status_code=200 if ready else _NOT_READY)

    async def _show_figures(self, request: Request) -> Response:
        figures = self.observing.figures or MetricsRegistry()
        content, media_type = figures.render(request.headers.get("accept", ""))
        return Response(content, media_type=media_type)

    @asynccontextmanager
    async def _live(self, _: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._close)
            try:
                await self._tools.replace(self._loaded)
            except WholecallError as error:
                # An operator's mistake needs no traceback.
                self.observing.log.critical("the proxy cannot start", error=str(error))
                self._told = True
                raise
            await stack.enter_async_context(self._around(self))
            yield

    def _hush(self, send: Send) -> Send:
        """Suppress a second report, as a traceback, of a failed start."""

        async def send_once(message: Message) -> None:
            await send({**message, "message": ""} if self._told else message)

        return send_once

    async def _close(self) -> None:
        async with AsyncExitStack() as last_first:
            last_first.push_async_callback(self.observing.close)
            last_first.push_async_callback(self._tools.close)
            last_first.push_async_callback(self.service.close)
            await self.service.settle(self.draining.left_of(self.limits.drain_seconds))


async def _say_alive(_: Request) -> Response:
    return JSONResponse({"status": "ok"})
