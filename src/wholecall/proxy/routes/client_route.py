"""The client protocols that the proxy speaks, and the ASGI application that answers one of them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import msgspec
from starlette.types import Receive, Scope, Send

from wholecall.errors import RunFailed, WholecallError
from wholecall.events import Ended
from wholecall.journal.journal_rows import BrokenRow, decode_row
from wholecall.journal.run_journal import Claim, ClaimState, RunRow, RunStatus, find_last_release
from wholecall.protocols import registry
from wholecall.protocols.registry import make_answer_id
from wholecall.protocols.response_base import ResponseHead
from wholecall.proxy.handlers.background import MOST_TAKEOVERS, BackgroundResponses
from wholecall.proxy.handlers.idempotency import DurableRuns, RequestRow, SharedStream
from wholecall.proxy.handlers.request_handler import HandlerFactory
from wholecall.proxy.handlers.request_plan import (
    GatePlan,
    ModelRoute,
    PassthroughPlan,
    RequestPlan,
    RequestPlanner,
    RunPlan,
    read_name,
)
from wholecall.proxy.handlers.response_store import (
    COMPACTION,
    CONVERSATION,
    CONVERSATION_NOT_FOUND,
    NO_CONVERSATION,
    NOT_FOUND,
    NOT_HELD,
    PREVIOUS,
    REFERENCE,
)
from wholecall.proxy.handlers.response_writer import (
    SHUTTING_DOWN,
    StreamedResponse,
    explain,
    make_error,
)
from wholecall.proxy.http.api_keys import Key
from wholecall.proxy.http.client_connection import (
    ClientConnections,
    ClientSink,
    ResponseBody,
    read_body,
)
from wholecall.proxy.http.client_request import ClientProtocol, ClientRequest, UnsupportedField
from wholecall.proxy.observe.taps import Exchange, ExchangeWatch, Fate
from wholecall.storage import StoreFailed

_PROMPT = UnsupportedField(
    "only an upstream that speaks Responses has stored prompts: send the words of it as "
    "`instructions`"
)
_NO_ITEM = UnsupportedField(
    "no item of this id is held here (it may have been sent with `store: false`, or be older than "
    "responses.kept_seconds): send the item itself",
    "item_not_found",
)
_SEALED = UnsupportedField(
    "only the provider that wrote this item can read it: send the conversation itself"
)


def _serve(protocol: str) -> ClientProtocol:
    """Return the proxy's view of a protocol."""
    side = registry.client_side(protocol)
    return ClientProtocol(
        protocol=protocol,
        path=side.path,
        beta=side.beta_header,
        tool_items=side.tool_items,
        read_style=side.read_style,
    )


CHAT_CLIENT = _serve(registry.CHAT)
MESSAGES_CLIENT = _serve(registry.MESSAGES)
RESPONSES_CLIENT = replace(
    _serve(registry.RESPONSES),
    only_there={
        PREVIOUS: UnsupportedField(NOT_HELD, NOT_FOUND),
        CONVERSATION: UnsupportedField(NO_CONVERSATION, CONVERSATION_NOT_FOUND),
        "prompt": _PROMPT,
    },
    held_items={REFERENCE: _NO_ITEM, COMPACTION: _SEALED},
    holds=True,
)


# ── The application ────────────────────────────────────────────────────────────────────

_WAYS: dict[type, str] = {PassthroughPlan: "forward", GatePlan: "gate", RunPlan: "run"}
"""How a way is named in logs, metrics and the inspector."""
_OK = 200
_UNAVAILABLE = 503
_LOOK_SECONDS = 0.5
"""Seconds between two looks for runs to take over."""
_NO_JOURNAL_SECONDS = 5.0
"""The same before a journal exists."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRoute:
    """Answers the requests of one client protocol."""

    client: ClientProtocol
    planner: RequestPlanner
    connections: ClientConnections
    handlers: HandlerFactory
    runs: DurableRuns
    background: BackgroundResponses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: PLR0917 - ASGI
        """Answer one request."""
        with self.connections.open(send) as sink:
            request = ClientRequest.read(self.client, scope, body=await read_body(receive))
            sink.beat_seconds = request.shorten(sink.beat_seconds)
            with self.connections.watch(receive, sink):
                await self._serve(request, sink)

    async def _serve(self, request: ClientRequest, sink: ClientSink) -> None:
        try:
            plan = await self.planner.plan(request)
            if plan.in_background:
                await self._serve_background(plan, sink)
                return
            claim = None
            if isinstance(plan.way, RunPlan):
                claim = await self.runs.open(plan)
        except WholecallError as error:
            await self.refuse(request, error, sink=sink)
            return
        watch = self.handlers.watch(_describe(request, plan))
        sink.on_begin = watch.begin
        if plan.stream:
            sink.start_beating()
        if claim is None:
            await self.handlers.make(plan, sink, watch=watch).run()
        elif claim.state is ClaimState.BUSY and claim.run.id in self.runs.live:
            await _read_along(self.runs.live[claim.run.id], sink, watch=watch)
        else:
            await self._start_run(plan, claim, watch=watch).copy_to(sink)

    async def refuse(
        self, request: ClientRequest, error: WholecallError, *, sink: ClientSink
    ) -> None:
        """Say why a request is not answered."""
        failure, headers = explain(error, place="", request_id=request.request_id)
        await sink.send_body(make_error(self.client.protocol, failure, headers=headers))
        # It could not be read, or its model is not served.
        self.handlers.watch(_describe(request)).end(
            Fate.FAILED, status=failure.status, code=failure.code or "", message=failure.message
        )

    async def warm_up(self, request: ClientRequest, sink: ClientSink) -> None:
        """Answer with an empty response, which a later request may continue: no model is asked."""
        try:
            plan = await self.planner.plan(request)
        except WholecallError as error:
            await self.refuse(request, error, sink=sink)
            return
        watch = self.handlers.watch(_describe(request, plan))
        protocol = self.client.protocol
        head = ResponseHead(
            id=make_answer_id(protocol),
            model=plan.route.name,
            created=int(time.time()),
            rest=plan.echo,
            clock=time.time,
        )
        writer = StreamedResponse(sink, protocol, make_head=lambda: head, style=plan.style)
        writer.put(Ended("stop", hint=None, native=None, error=None))
        await writer.finish()
        watch.end(Fate.DONE)

    async def _serve_background(self, plan: RequestPlan, sink: ClientSink) -> None:
        """Start a response, unless a resent request already did, and answer with its state."""
        watch = self.handlers.watch(_describe(plan.request, plan))
        sink.on_begin = watch.begin
        id = await self.background.start(plan, watch=watch)
        if plan.params is not None and plan.params.streamed:
            sink.start_beating()
            await self.background.copy(id, sink)
        else:
            await sink.send_body(ResponseBody(_OK, await self.background.show(id)))

    def _start_run(self, plan: RequestPlan, claim: Claim, *, watch: ExchangeWatch) -> SharedStream:
        """Let tools run in a task of its own: a resend may read the answer, too."""
        answer, runs = SharedStream(), self.runs
        handler = self.handlers.make(plan, answer, watch=watch)
        handler.open_journal = partial(runs.restore, claim)

        async def work() -> None:
            try:
                await handler.run()
            finally:
                if runs.live.get(claim.run.id) is answer:
                    del runs.live[claim.run.id]
                if claim.state in (ClaimState.NEW, ClaimState.TAKEN):
                    runs.store.let_go(claim.run.id)

        runs.live[claim.run.id] = answer
        self.connections.hold(answer.start(work, break_off=handler.break_off))
        return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTakeover:
    """Continues the background runs of workers that died, and those that were handed over."""

    clients: Mapping[str, ClientProtocol]
    """By their paths."""
    planner: RequestPlanner
    handlers: HandlerFactory
    background: BackgroundResponses
    find_key: Callable[[str], Key | None]

    async def work(self) -> None:
        """Look for such runs until the proxy ends."""
        while True:
            kept = self.background.runs.is_kept
            if kept:
                await self.look()
            await asyncio.sleep(_LOOK_SECONDS if kept else _NO_JOURNAL_SECONDS)

    async def look(self) -> None:
        """Take over a few runs. A store that fails is asked again later."""
        try:
            store = await self.background.runs.connect()
            claims = await asyncio.wrap_future(store.claim_abandoned())
        except StoreFailed as error:
            _LOG.warning("runs cannot be taken over: %s", error.why)
            return
        for claim in claims:
            try:
                await self._continue(claim)
            except WholecallError as error:
                await self._leave(claim.run, error)

    async def _continue(self, claim: Claim) -> None:
        run = claim.run
        ended = run.epoch - 1 - find_last_release(claim)
        if ended >= MOST_TAKEOVERS:
            raise RunFailed(f"{ended} workers have ended while they worked on it")
        row = decode_row(RequestRow, run.plan)
        key = self.find_key(run.key_id)
        if key is None:
            raise RunFailed(f"the key {run.key_id!r} is not valid any more")
        request = ClientRequest(
            client=self.clients[row.path],
            body=row.body.encode(),
            headers=row.headers,
            request_id=row.request_id,
            key=key,
        )
        plan = await self.planner.plan(request)
        watch = self.handlers.watch(_describe(request, plan))
        await self.background.carry_out(plan, claim, watch=watch)

    async def _leave(self, run: RunRow, error: WholecallError) -> None:
        """Say why a run cannot be continued. It waits for an operator, unless it is broken."""
        _LOG.error("run %s cannot be continued: %s", run.id, error)
        status = RunStatus.BROKEN if isinstance(error, BrokenRow) else RunStatus.WAITING
        store = self.background.runs.store
        with suppress(WholecallError):  # another worker has it, or it is marked already
            left = store.append(run.id, (), epoch=run.epoch, status=status, stop=str(error))
            await asyncio.wrap_future(left)
        store.let_go(run.id)


async def _read_along(answer: SharedStream, sink: ClientSink, *, watch: ExchangeWatch) -> None:
    """Let a resend read the answer. Events are reported for the first request."""
    try:
        await answer.copy_to(sink)
    except asyncio.CancelledError:
        if sink.gone:
            watch.leave()
        watch.end(Fate.STOPPED, status=_UNAVAILABLE, code=SHUTTING_DOWN)
        raise
    watch.end(Fate.DONE)


def describe_forwarded(request: ClientRequest, route: ModelRoute) -> Exchange:
    """Describe a request that a route other than those of the clients' protocols passes on."""
    return msgspec.structs.replace(
        _describe(request),
        model=route.name,
        way=_WAYS[PassthroughPlan],
        upstream=route.upstream.protocol,
        upstream_model=route.model,
    )


def _describe(request: ClientRequest, plan: RequestPlan | None = None) -> Exchange:
    """Describe a request; without a plan it was refused."""
    client = request.client
    if plan is None:
        return Exchange(
            request_id=request.request_id,
            protocol=client.protocol,
            path=client.path,
            model=read_name(request),
            key_id=request.key.id,
            started=request.came,
            trace_headers=request.trace_headers,
        )
    route = plan.route
    return Exchange(
        request_id=request.request_id,
        protocol=client.protocol,
        path=client.path,
        model=route.name,
        key_id=request.key.id,
        way=_WAYS[type(plan.way)],
        stream=plan.stream,
        upstream=route.upstream.protocol,
        upstream_model=route.model,
        dropped=plan.dropped,
        started=request.came,
        trace_headers=request.trace_headers,
    )
