"""The proxy as one ASGI application."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    nullcontext,
)
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TextIO, TypeAlias

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.typing import FilteringBoundLogger

from wholecall.errors import WholecallError
from wholecall.journal.run_journal import JournalStore
from wholecall.proxy.config.load import Changes, Loaded, changes, take_over
from wholecall.proxy.config.schema import Config, ServerLimits
from wholecall.proxy.handlers.background import BackgroundResponses
from wholecall.proxy.handlers.idempotency import DurableRuns
from wholecall.proxy.handlers.request_handler import HandlerFactory
from wholecall.proxy.handlers.request_plan import ModelRoute, ModelRoutes, RequestPlanner
from wholecall.proxy.handlers.run_mode import MixedTools
from wholecall.proxy.http.api_keys import KeyStore
from wholecall.proxy.http.client_connection import ClientConnections
from wholecall.proxy.http.client_request import ClientProtocol
from wholecall.proxy.http.middleware import ERROR_HANDLERS, ProxyMiddleware
from wholecall.proxy.http.refusals import HttpRefusal, RequestRefused
from wholecall.proxy.http.shutdown import WorkInProgress
from wholecall.proxy.observe.access_log import (
    LogTap,
    LogWriter,
    log_approval,
    log_refusal,
    log_server_event,
)
from wholecall.proxy.observe.inspector_feed import ApprovalGiven, ApprovalRequests, InspectorFeed
from wholecall.proxy.observe.metrics import MetricsRegistry, MetricsTap, Names
from wholecall.proxy.observe.redaction import Redactor
from wholecall.proxy.observe.taps import ExchangeWatch, Tap
from wholecall.proxy.observe.traces import find_trace_tap
from wholecall.proxy.preflight import Readiness
from wholecall.proxy.routes.client_route import (
    CHAT_CLIENT,
    MESSAGES_CLIENT,
    RESPONSES_CLIENT,
    ClientRoute,
    RunTakeover,
)
from wholecall.proxy.routes.count_tokens import COUNTS, TokenCounter
from wholecall.proxy.routes.forwarded_routes import Forwarder
from wholecall.proxy.routes.models import ModelCatalog
from wholecall.proxy.routes.responses import (
    make_compact_routes,
    make_conversation_routes,
    make_response_routes,
)
from wholecall.proxy.routes.responses_socket import ResponsesSocket
from wholecall.proxy.routes.run_routes import RunRoutes
from wholecall.proxy.service_builder import Stores, Tools, find_pins, make_models
from wholecall.storage import StoreFailed
from wholecall.tools.mcp.tool_definitions import McpEvent
from wholecall.tools.tool import Tool

# ── Taps: the log, the metrics, the traces and the inspector ────────────────────────


class Observers:
    """The log, the metrics, the traces and the inspector."""

    def __init__(
        self,
        config: Config,
        *,
        models: ModelRoutes,
        find_store: Callable[[], JournalStore | None] = lambda: None,
        stream: TextIO | None = None,
    ) -> None:
        """`find_store` returns the journal of runs, if there is one."""
        self._redactor = Redactor()
        self._writer = LogWriter(config.log, stream or sys.stderr, redactor=self._redactor)
        log_tap = LogTap(self._writer)
        names = Names(tools=lambda: frozenset(tool.name for tool in models.offer_tools()))
        self.metrics = MetricsRegistry() if config.metrics.enabled else None
        self._metrics_tap = None if self.metrics is None else MetricsTap(names, self.metrics)
        self.inspector = (
            InspectorFeed(
                config,
                hides=self._redactor,
                find_store=find_store,
                on_approval=self.take_approval,
            )
            if config.inspector.enabled
            else None
        )
        found: tuple[Tap | None, ...] = (
            log_tap,
            self._metrics_tap,
            find_trace_tap(),
            self.inspector,
        )
        self.taps = [tap for tap in found if tap is not None]
        self.learn(models.by_name)

    @property
    def log(self) -> FilteringBoundLogger:
        """For what happens outside of any request."""
        return self._writer.log

    def hide(self, text: str) -> str:
        """Take secrets out of a text."""
        return self._redactor.hide(text)

    def learn(self, routes: Mapping[str, ModelRoute]) -> None:
        """Count these models by their names, and never write down their secrets."""
        if self._metrics_tap is not None:
            self._metrics_tap.models = frozenset(routes)
        for route in routes.values():
            if route.pipe is not None:
                self._redactor.learn(route.pipe.endpoint.secrets)
        if self.inspector is not None:
            self.inspector.forget_names()

    def take_refusal(self, refusal: HttpRefusal) -> None:
        """Log and count a request that was refused before it reached a route."""
        log_refusal(self.log, refusal)
        if self.metrics is not None:
            self.metrics.count("refusals", str(refusal.status), refusal.code)

    def take_commit(self, seconds: float) -> None:
        """Measure a commit to the journal of runs, in any thread."""
        if self.metrics is not None:
            self.metrics.observe("journal_commit_seconds", seconds)

    def take_approval(self, given: ApprovalGiven) -> None:
        """Log a person's answer for a pending call."""
        log_approval(self.log, given)

    def take_server_event(self, event: McpEvent) -> None:
        """Log an event of an MCP server."""
        log_server_event(self.log, event)

    def take_pin_trouble(self, error: OSError) -> None:
        """Log that the pins of MCP tools cannot be written."""
        self.log.warning("the pins of MCP tools cannot be saved", error=str(error))

    def reload(self, config: Config) -> None:
        """Use other settings."""
        self._writer.reload(config.log)
        if self.inspector is not None:
            self.inspector.reload(config)

    async def close(self) -> None:
        """Write down what is left."""
        if self.inspector is not None:
            await self.inspector.close()


# ── Composition ─────────────────────────────────────────────────────────────────────

_NOT_READY = 503
_NO_SOCKET = f"WebSockets are served at {RESPONSES_CLIENT.path}"
_NEEDS_UPGRADE = f"{RESPONSES_CLIENT.path} takes a POST, or a WebSocket where the server has them"


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
    pins = find_pins(config.config)
    box = Tools(tools, pins=pins)
    return Proxy(config, environ=environ, tools=box, models=models, around=around)


class ModelBuilder(NamedTuple):
    """Makes the routes of a configuration's models, and adds those that a program gave."""

    environ: Mapping[str, str]
    given: Mapping[str, ModelRoute]

    def make(
        self, config: Config, before: Mapping[str, ModelRoute], *, same: Collection[str] = ()
    ) -> dict[str, ModelRoute]:
        """Make the routes; models whose settings are the `same` keep their connections."""
        fresh = {each.name: each for each in make_models(config, self.environ, without=same)}
        return {name: fresh.get(name) or before[name] for name in config.models} | {**self.given}


class ModelApi:
    """The API of the models: the parts that answer a client."""

    def __init__(
        self,
        limits: ServerLimits,
        *,
        models: ModelRoutes,
        stores: Stores,
        observers: Observers,
        work: WorkInProgress,
    ) -> None:
        mixed_tools = MixedTools(stores.runs.find_store)
        inspector = observers.inspector
        self.connections = ClientConnections(work, keep_alive_seconds=limits.keep_alive_seconds)
        self.planner = RequestPlanner(
            routes=models, responses=stores.responses, mixed_tools=mixed_tools, limits=limits
        )
        self.handlers = HandlerFactory(
            watch=partial(ExchangeWatch, taps=observers.taps),
            responses=stores.responses,
            mixed_tools=mixed_tools,
            approvals=ApprovalRequests() if inspector is None else inspector.approving,
        )
        self.background = BackgroundResponses(
            runs=stores.runs,
            responses=stores.responses,
            make_handler=self.handlers.make,
            hold=work.hold,
        )
        stores.responses.load_background = self.background.load
        self._clients = [self._make_route(client, stores.runs) for client in _CLIENTS]
        self.takeover = RunTakeover(
            clients={client.path: client for client in _CLIENTS},
            planner=self.planner,
            handlers=self.handlers,
            background=self.background,
            find_key=stores.find_key,
        )
        self.sockets = {
            route.client.path: ResponsesSocket(route, stores.responses, lambda: work.deadline.begun)
            for route in self._clients
            if route.client.holds
        }
        """By their paths."""

    def _make_route(self, client: ClientProtocol, runs: DurableRuns) -> ClientRoute:
        return ClientRoute(
            client=client,
            planner=self.planner,
            connections=self.connections,
            handlers=self.handlers,
            runs=runs,
            background=self.background,
        )

    def make_post_routes(self) -> list[Route]:
        """Return the routes of requests to a model."""
        counters = [TokenCounter(form, self.planner, self.connections) for form in COUNTS]
        return [
            *(Route(route.client.path, route, methods=["POST"]) for route in self._clients),
            *(Route(each.form.client.path, each, methods=["POST"]) for each in counters),
            *make_compact_routes(self._clients),
        ]

    def reload(self, limits: ServerLimits) -> None:
        """Use other limits."""
        self.connections.keep_alive_seconds = limits.keep_alive_seconds
        self.planner.limits = limits


class Proxy:
    """An ASGI application: the middleware around the routes.

    Its parts, in the order in which they need each other: the models and tools that are served, the
    stores, which outlive a request, the observers, which see it, and the API, which answers it.
    """

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
        self._tools = tools
        self._builder = ModelBuilder(environ, {route.name: route for route in models})
        self.models = ModelRoutes(self._builder.make(config, {}).values(), tools=tools.offer)
        self.stores = Stores(config, self.models.by_name.values())
        self.observers = Observers(
            config, models=self.models, find_store=self.stores.runs.find_store
        )
        self.work = WorkInProgress()
        self.api = ModelApi(
            config.limits,
            models=self.models,
            stores=self.stores,
            observers=self.observers,
            work=self.work,
        )
        posts = self.api.make_post_routes()
        self.routes = [*posts, *self._make_other_routes(Readiness(environ))]
        self._middleware = ProxyMiddleware(
            self._make_router(posts, around),
            config,
            keys=self.stores.keys,
            rate_limits=self.stores.rate_limits,
            on_refusal=self.observers.take_refusal,
        )
        tools.on_event = self.observers.take_server_event
        tools.on_trouble = self.observers.take_pin_trouble
        self._start_reported = False
        self._reloading = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: PLR0917 - ASGI
        """Serve one connection's event, as ASGI has it."""
        send = self._hush(send) if scope["type"] == "lifespan" else send
        await self._middleware(scope, receive, send)

    @property
    def config(self) -> Config:
        """The current settings."""
        return self._loaded.config

    @property
    def limits(self) -> ServerLimits:
        """The current limits for clients."""
        return self._loaded.config.limits

    def leave(self) -> None:
        """Start the time that answers have to end, and log how many there are."""
        if self.work.deadline.begin() and len(self.work):
            self.observers.log.info(
                "waiting for requests to end",
                requests=len(self.work),
                drain_seconds=self.limits.drain_seconds,
            )

    # ── Reload ──────────────────────────────────────────────────────────────────────

    async def reload(self, loaded: Loaded) -> Changes:
        """Use other settings, as far as that is possible without a restart.

        Answers that are under way end as they began. Settings that are not safe without a restart,
        and a tool that cannot be loaded, are a `ConfigError` or a `ToolServerFailed`, and
        everything stays as it was.
        """
        async with self._reloading:  # MCP servers take their time, and the last settings count
            return await self._take_over(loaded)

    async def _take_over(self, loaded: Loaded) -> Changes:
        before = self._loaded.config
        changed = changes(before, loaded.config)
        # Whatever can be wrong with them comes first: by then nothing has changed.
        config = take_over(before, loaded.config)
        same = {name for name, model in config.models.items() if before.models.get(name) == model}
        async with AsyncExitStack() as undo:
            keys = self.stores.open_keys(config)
            if keys is not None and keys is not self.stores.keys:
                undo.callback(keys.close)
            models = self._builder.make(config, self.models.by_name, same=same)
            for name in models.keys() - same - self._builder.given.keys():
                undo.push_async_callback(models[name].close)
            self.stores.keep_state(config, models.values())
            if config.tools != before.tools:
                servers = await self._tools.replace(loaded)
                if servers is not None:
                    self.work.retire(servers.__aexit__)
            undo.pop_all()
        self._loaded = replace(loaded, config=config)
        self._assign(config, models, keys=keys)
        stale = self._tools.find_stale(config.tools)
        return replace(changed, restart=(*changed.restart, *stale))

    def _assign(
        self, config: Config, models: Mapping[str, ModelRoute], *, keys: KeyStore | None
    ) -> None:
        """Hand other settings to each part that keeps some."""
        self.observers.learn(models)
        for route in self.models.replace(models):
            self.work.retire(route.close)
        self.stores.reload(config, keys=keys)
        self.observers.reload(config)
        self.api.reload(config.limits)
        self._middleware.reload(config, keys=keys)

    # ── Routes ──────────────────────────────────────────────────────────────────────

    def _make_router(self, posts: Iterable[Route], around: Around) -> PathRouter:
        others = Starlette(
            routes=self.routes,
            exception_handlers=ERROR_HANDLERS,
            lifespan=lambda _: self._live(around),
        )
        return PathRouter({each.path: each.endpoint for each in posts}, self.api.sockets, others)

    def _make_other_routes(self, readiness: Readiness) -> list[Route]:
        api, responses, catalog = self.api, self.stores.responses, ModelCatalog(self.models)
        runs = RunRoutes(
            background=api.background,
            hide=self.observers.hide,
            on_decision=self.observers.take_approval,
        )
        inspector, metrics = self.observers.inspector, self.observers.metrics
        return [
            Route(RESPONSES_CLIENT.path, _demand_upgrade),
            *make_response_routes(responses, api.connections, background=api.background),
            *make_conversation_routes(responses, api.connections),
            *runs.make_routes(),
            *Forwarder(self.models, api.connections, api.handlers).make_routes(),
            Route("/v1/models", catalog.list_models),
            Route("/v1/models/{name:path}", catalog.show_model),
            Route("/v1/tools", catalog.list_tools),
            Route("/health", _say_alive),
            Route("/ready", partial(self._say_ready, readiness)),
            *([] if metrics is None else [Route("/metrics", self._make_metrics_page(metrics))]),
            *([] if inspector is None else [Route("/", _show_inspector), *inspector.make_routes()]),
        ]

    def _make_metrics_page(
        self, metrics: MetricsRegistry
    ) -> Callable[[Request], Awaitable[Response]]:
        async def show(request: Request) -> Response:
            for status, count in (await self.stores.runs.count_open()).items():
                metrics.set("runs_open", count, status)
            content, media_type = metrics.render(request.headers.get("accept", ""))
            return Response(content, media_type=media_type)

        return show

    async def _say_ready(self, readiness: Readiness, _: Request) -> Response:
        reached = await readiness.check(self.models.by_name.values())
        ready = all(reached.values()) and self._tools.are_ready
        body = {
            "status": "ready" if ready else "not ready",
            "models": dict(reached),
            "servers": dict(self._tools.reached),
        }
        return JSONResponse(body, status_code=200 if ready else _NOT_READY)

    # ── Start and end ───────────────────────────────────────────────────────────────

    @asynccontextmanager
    async def _live(self, around: Around) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._close)
            try:
                await self._tools.replace(self._loaded)
            except WholecallError as error:
                # An operator's mistake needs no traceback.
                self.observers.log.critical("the proxy cannot start", error=str(error))
                self._start_reported = True
                raise
            await stack.enter_async_context(around(self))
            await self._open_journal()
            takeover = asyncio.create_task(self.api.takeover.work(), name="take over runs")
            stack.callback(takeover.cancel)
            yield

    async def _open_journal(self) -> None:
        """Open the journal where tools run, or where one is named. Plain traffic is served without
        it."""
        runs_tools = any(route.runs_tools for route in self.models.by_name.values())
        if not runs_tools and not self.config.journal.url:
            return
        self.stores.runs.on_commit = self.observers.take_commit
        try:
            journal = await self.stores.runs.connect()
            self.observers.log.info("journal opened", worker=journal.worker)
        except StoreFailed as error:
            self.observers.log.warning("the journal of runs cannot be used", error=error.why)

    def _hush(self, send: Send) -> Send:
        """Suppress a second report, as a traceback, of a failed start."""

        async def send_once(message: Message) -> None:
            await send({**message, "message": ""} if self._start_reported else message)

        return send_once

    async def _close(self) -> None:
        """Give back connections and files. What fails keeps nothing else open, and is raised."""
        async with AsyncExitStack() as last_first:
            last_first.push_async_callback(self.observers.close)
            last_first.push_async_callback(self._tools.close)
            last_first.push_async_callback(self.work.close)
            last_first.callback(self.stores.close)
            last_first.push_async_callback(self.models.close)
            self.api.background.hand_over()
            await self.work.settle(self.work.deadline.left_of(self.limits.drain_seconds))


_CLIENTS = (CHAT_CLIENT, RESPONSES_CLIENT, MESSAGES_CLIENT)


@dataclass(frozen=True, slots=True)
class PathRouter:
    """The routes by their paths. Requests to a model go straight to theirs: starlette's router
    costs more than it."""

    posts: Mapping[str, ASGIApp]
    sockets: Mapping[str, ASGIApp]
    others: ASGIApp

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:  # noqa: PLR0917 - ASGI
        """Hand a connection's event to its route."""
        app = self.others
        if scope["type"] == "http" and scope["method"] == "POST":
            app = self.posts.get(scope["path"], app)
        elif scope["type"] == "websocket":
            if scope["path"] not in self.sockets:
                raise RequestRefused(404, _NO_SOCKET, code="not_found")
            app = self.sockets[scope["path"]]
        return app(scope, receive, send)


async def _demand_upgrade(_: Request) -> Response:
    """Refuse a GET where a client expects a WebSocket: after a 426 it uses HTTP at once."""
    raise RequestRefused(426, _NEEDS_UPGRADE, code="upgrade_required")


async def _show_inspector(_: Request) -> Response:
    return RedirectResponse("/inspector")


async def _say_alive(_: Request) -> Response:
    return JSONResponse({"status": "ok"})
