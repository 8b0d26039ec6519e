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
    closing,
    nullcontext,
)
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TextIO, TypeAlias

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.typing import FilteringBoundLogger

from wholecall.errors import WholecallError
from wholecall.journal.postgres_server import PostgresBlobs, PostgresSession
from wholecall.journal.run_journal import JournalStore
from wholecall.proxy.config.load import Changes, Loaded, changes, take_over
from wholecall.proxy.config.schema import Config, ServerLimits, find_shared_url
from wholecall.proxy.handlers.background import BackgroundResponses
from wholecall.proxy.handlers.request_handler import HandlerFactory
from wholecall.proxy.handlers.request_plan import ModelRoute, ModelRoutes, RequestPlanner
from wholecall.proxy.handlers.response_store import ResponseOwners, ResponseStore
from wholecall.proxy.handlers.run_mode import MixedTools
from wholecall.proxy.http.api_keys import ANONYMOUS, Key, needs_keys, open_keys
from wholecall.proxy.http.client_connection import ClientConnections
from wholecall.proxy.http.middleware import ERROR_HANDLERS, ProxyMiddleware
from wholecall.proxy.http.rate_limits import RateLimits
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
from wholecall.proxy.observe.taps import Tap
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
from wholecall.proxy.service_builder import (
    RESPONSES_FILE,
    STATE_FILE,
    Tools,
    find_pins,
    make_models,
    make_runs,
    responses_path,
    state_path,
)
from wholecall.storage import BlobStore, StoreFailed
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
        self.log.warning("the pins of MCP tools cannot be kept", error=str(error))

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
        self._builder = ModelBuilder(environ, {route.name: route for route in models})
        self._tools = tools
        self.work = WorkInProgress()
        self.models = ModelRoutes(self._builder.make(config, {}).values(), tools=tools.offer)
        self.runs = make_runs(config)
        self.observers = Observers(config, models=self.models, find_store=self.runs.find_store)
        self._blobs = self._make_blobs(config)
        self.responses = _make_responses(config, self._blobs)
        self.connections = ClientConnections(
            self.work, keep_alive_seconds=config.limits.keep_alive_seconds
        )
        client_routes = self._make_client_routes()
        sockets = self._make_sockets(client_routes)
        self.routes = [*client_routes, *self._make_other_routes(environ)]
        routed = Starlette(
            routes=self.routes,
            exception_handlers=ERROR_HANDLERS,
            lifespan=lambda _: self._live(around),
        )
        direct = {route.path: route.endpoint for route in client_routes}
        self._middleware = ProxyMiddleware(
            partial(_route, _Apps(direct, sockets, routed)),
            config,
            keys=open_keys(config) if needs_keys(config) else None,
            rate_limits=RateLimits(),
        )
        self._connect_observers()
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
            # The first key may have been made, or keys be required, since the start.
            new_keys = needs_keys(config) and not self._middleware.has_keys
            keys = undo.enter_context(closing(open_keys(config))) if new_keys else None
            models = self._builder.make(config, self.models.by_name, same=same)
            for name in models.keys() - same - self._builder.given.keys():
                undo.push_async_callback(models[name].close)
            if _needs_state(models.values(), config):
                self._blobs.move_to(state_path(config))
            if config.tools != before.tools:
                servers = await self._tools.replace(loaded)
                if servers is not None:
                    self.work.retire(servers.__aexit__)
            undo.pop_all()
        self.observers.learn(models)
        for route in self.models.replace(models):
            self.work.retire(route.close)
        self._middleware.reload(config, keys=keys)
        self.observers.reload(config)
        self.connections.keep_alive_seconds = config.limits.keep_alive_seconds
        self.responses.settings = config.responses
        self._planner.limits = config.limits
        self._loaded = replace(loaded, config=config)
        stale = self._tools.find_stale(config.tools)
        return replace(changed, restart=(*changed.restart, *stale))

    def _connect_observers(self) -> None:
        self._middleware.on_refusal = self.observers.take_refusal
        self._tools.on_event = self.observers.take_server_event
        self._tools.on_trouble = self.observers.take_pin_trouble

    # ── Parts ───────────────────────────────────────────────────────────────────────

    def _make_blobs(self, config: Config) -> BlobStore:
        url = find_shared_url(config)
        if url:
            return PostgresBlobs(PostgresSession(url), STATE_FILE)
        needed = _needs_state(self.models.by_name.values(), config)
        return BlobStore(state_path(config) if needed else None)

    def _make_client_routes(self) -> list[Route]:
        inspector, mixed_tools = self.observers.inspector, MixedTools(self._blobs)
        self._planner = planner = RequestPlanner(
            routes=self.models,
            responses=self.responses,
            mixed_tools=mixed_tools,
            limits=self.limits,
        )
        handlers = HandlerFactory(
            taps=self.observers.taps,
            responses=self.responses,
            mixed_tools=mixed_tools,
            approvals=ApprovalRequests() if inspector is None else inspector.approving,
        )
        self._forwarder = Forwarder(self.models, self.connections, handlers)
        self.background = BackgroundResponses(
            runs=self.runs,
            responses=self.responses,
            make_handler=handlers.make,
            hold=self.work.hold,
        )
        self.responses.load_background = self.background.load
        routes = [
            ClientRoute(
                client=client,
                planner=planner,
                connections=self.connections,
                handlers=handlers,
                runs=self.runs,
                background=self.background,
            )
            for client in _CLIENTS
        ]
        self._takeover = RunTakeover(
            clients={client.path: client for client in _CLIENTS},
            planner=planner,
            handlers=handlers,
            background=self.background,
            find_key=self._find_key,
        )
        counters = (TokenCounter(form, planner, self.connections) for form in COUNTS)
        return [
            *(Route(route.client.path, route, methods=["POST"]) for route in routes),
            *(Route(each.form.client.path, each, methods=["POST"]) for each in counters),
            *make_compact_routes(routes),
        ]

    def _make_sockets(self, client_routes: Iterable[Route]) -> Mapping[str, ASGIApp]:
        endpoints = (each.endpoint for each in client_routes)
        return {
            route.client.path: ResponsesSocket(
                route, self.responses, lambda: self.work.deadline.begun
            )
            for route in endpoints
            if isinstance(route, ClientRoute) and route.client.holds
        }

    def _make_other_routes(self, environ: Mapping[str, str]) -> list[Route]:
        catalog = ModelCatalog(self.models)
        runs = RunRoutes(
            background=self.background,
            hide=self.observers.hide,
            on_decision=self.observers.take_approval,
        )
        inspector, metrics = self.observers.inspector, self.observers.metrics
        return [
            Route(RESPONSES_CLIENT.path, _demand_upgrade),
            *make_response_routes(self.responses, self.connections, background=self.background),
            *make_conversation_routes(self.responses, self.connections),
            *runs.make_routes(),
            *self._forwarder.make_routes(),
            Route("/v1/models", catalog.list_models),
            Route("/v1/models/{name:path}", catalog.show_model),
            Route("/v1/tools", catalog.list_tools),
            Route("/health", _say_alive),
            Route("/ready", partial(self._say_ready, Readiness(environ))),
            *([] if metrics is None else [Route("/metrics", self._make_metrics_page(metrics))]),
            *([] if inspector is None else [Route("/", _show_inspector), *inspector.make_routes()]),
        ]

    def _make_metrics_page(
        self, metrics: MetricsRegistry
    ) -> Callable[[Request], Awaitable[Response]]:
        async def show(request: Request) -> Response:
            for status, count in (await self.runs.count_open()).items():
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

    def _find_key(self, id: str) -> Key | None:
        """Return the key that a run is carried out for; None if it is not valid any more."""
        return self._middleware.find_key(id) if id else ANONYMOUS

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
            takeover = asyncio.create_task(self._takeover.work(), name="take over runs")
            stack.callback(takeover.cancel)
            yield

    async def _open_journal(self) -> None:
        """Open the journal where tools run, or where one is named. Plain traffic is served without
        it."""
        runs_tools = any(route.runs_tools for route in self.models.by_name.values())
        if not runs_tools and not self.config.journal.url:
            return
        self.runs.on_commit = self.observers.take_commit
        try:
            journal = await self.runs.connect()
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
            last_first.callback(self.responses.close)
            last_first.callback(self._blobs.close)
            last_first.callback(self._middleware.close)
            last_first.callback(self.runs.close)
            last_first.push_async_callback(self.models.close)
            self.background.hand_over()
            await self.work.settle(self.work.deadline.left_of(self.limits.drain_seconds))


_CLIENTS = (CHAT_CLIENT, RESPONSES_CLIENT, MESSAGES_CLIENT)


def _needs_state(routes: Iterable[ModelRoute], config: Config) -> bool:
    """Return True if other processes, or this one after a restart, must know what was begun.

    That is where tools run here, and where an upstream holds what belongs to one of several keys.
    """
    keys = needs_keys(config)
    return any(
        route.runs_tools or (keys and route.upstream.protocol == RESPONSES_CLIENT.protocol)
        for route in routes
    )


def _make_responses(config: Config, blobs: BlobStore) -> ResponseStore:
    """In memory; several processes hold finished responses in a file that they share."""
    path, url = responses_path(config), find_shared_url(config)
    shared = None if path is None else BlobStore(path)
    if url and config.responses.kept_seconds > 0:
        shared = PostgresBlobs(PostgresSession(url), RESPONSES_FILE)
    return ResponseStore(
        config.responses,
        blobs=shared,
        owners=ResponseOwners(blobs),
    )


class _Apps(NamedTuple):
    """The applications inside of the middleware."""

    direct: Mapping[str, ASGIApp]
    """Requests to a model go straight to their route; the router costs more than it."""
    sockets: Mapping[str, ASGIApp]
    others: ASGIApp


def _route(apps: _Apps, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:  # noqa: PLR0917 - ASGI
    app = apps.others
    if scope["type"] == "http" and scope["method"] == "POST":
        app = apps.direct.get(scope["path"], app)
    elif scope["type"] == "websocket":
        if scope["path"] not in apps.sockets:
            raise RequestRefused(404, _NO_SOCKET, code="not_found")
        app = apps.sockets[scope["path"]]
    return app(scope, receive, send)


async def _demand_upgrade(_: Request) -> Response:
    """Refuse a GET where a client expects a WebSocket: after a 426 it uses HTTP at once."""
    raise RequestRefused(426, _NEEDS_UPGRADE, code="upgrade_required")


async def _show_inspector(_: Request) -> Response:
    return RedirectResponse("/inspector")


async def _say_alive(_: Request) -> Response:
    return JSONResponse({"status": "ok"})
