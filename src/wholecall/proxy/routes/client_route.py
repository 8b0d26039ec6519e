"""The client protocols that the proxy speaks, and the ASGI application that answers one of them."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from functools import partial

import msgspec
from starlette.types import Receive, Scope, Send

from wholecall.errors import WholecallError
from wholecall.events import Ended
from wholecall.protocols import registry
from wholecall.protocols.registry import make_answer_id
from wholecall.protocols.response_base import ResponseHead
from wholecall.proxy.handlers.background import BackgroundResponses
from wholecall.proxy.handlers.idempotency import KeptAnswer, ResendStore, SharedStream
from wholecall.proxy.handlers.request_handler import HandlerFactory
from wholecall.proxy.handlers.request_plan import (
    GatePlan,
    PassthroughPlan,
    RequestPlan,
    RequestPlanner,
    RunPlan,
    read_name,
)
from wholecall.proxy.handlers.response_writer import (
    SHUTTING_DOWN,
    StreamedResponse,
    explain,
    make_error,
)
from wholecall.proxy.http.client_connection import (
    ClientConnections,
    ClientDisconnected,
    ClientSink,
    ResponseBody,
    read_body,
)
from wholecall.proxy.http.client_request import ClientProtocol, ClientRequest, UnsupportedField
from wholecall.proxy.observe.taps import Exchange, ExchangeWatch, Fate
from wholecall.proxy.responses.response_store import NOT_FOUND, NOT_HELD, PREVIOUS

_CONVERSATION = UnsupportedField(
    "only an upstream that speaks Responses has conversations: send all items of it, or go on with "
    "`previous_response_id`"
)
_PROMPT = UnsupportedField(
    "only an upstream that speaks Responses has stored prompts: send the words of it as "
    "`instructions`"
)


def _serve(protocol: str) -> ClientProtocol:
    """Return the proxy's view of a protocol."""
    side = registry.client_side(protocol)
    client = ClientProtocol(protocol=protocol, path=side.path, beta=side.beta_header)
    return client if side.read_style is None else replace(client, read_style=side.read_style)


CHAT_CLIENT = _serve(registry.CHAT)
MESSAGES_CLIENT = _serve(registry.MESSAGES)
RESPONSES_CLIENT = replace(
    _serve(registry.RESPONSES),
    only_there={
        PREVIOUS: UnsupportedField(NOT_HELD, NOT_FOUND),
        "conversation": _CONVERSATION,
        "prompt": _PROMPT,
    },
    holds=True,
)


# ── The application ────────────────────────────────────────────────────────────────────

_WAYS: dict[type, str] = {PassthroughPlan: "forward", GatePlan: "gate", RunPlan: "run"}
"""How a way is named in logs, metrics and the inspector."""
_OK = 200
_UNAVAILABLE = 503


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRoute:
    """Answers the requests of one client protocol."""

    client: ClientProtocol
    planner: RequestPlanner
    connections: ClientConnections
    handlers: HandlerFactory
    resends: ResendStore
    background: BackgroundResponses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: PLR0917 - ASGI
        """Answer one request."""
        sink = self.connections.open(send)
        try:
            request = ClientRequest.read(self.client, scope, body=await read_body(receive))
            sink.beat_seconds = request.shorten(sink.beat_seconds)
            with self.connections.watch(receive, sink):
                await self._serve(request, sink)
        except ClientDisconnected:
            return
        finally:
            self.connections.close(sink)

    async def _serve(self, request: ClientRequest, sink: ClientSink) -> None:
        try:
            plan = await self.planner.plan(request)
            is_run, waits = isinstance(plan.way, RunPlan), not plan.in_background
            first = await self.resends.find_first(request) if is_run or not waits else None
        except WholecallError as error:
            await self.refuse(request, error, sink=sink)
            return
        if not waits and first is None:
            self.background.check_places(request.key)
        watch = self.handlers.watch(_describe(request, plan))
        sink.on_begin = watch.begin
        if not waits:
            await self._serve_background(plan, sink, watch=watch, first=first)
            return
        if plan.stream:
            sink.start_beating()
        if not is_run:
            await self.handlers.make(plan, sink, watch=watch).run()
        elif first is None:
            await self._start_run(plan, watch).copy_to(sink)
        else:
            await _read_along(first.answer, sink, watch=watch)

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

    async def _serve_background(
        self,
        plan: RequestPlan,
        sink: ClientSink,
        *,
        watch: ExchangeWatch,
        first: KeptAnswer | None,
    ) -> None:
        """Start a response, unless a resent request already did, and answer with its state."""
        if first is not None:
            watch.end(Fate.DONE)
        begun = first or self.background.start(plan, partial(self.handlers.make, watch=watch))
        if plan.params is not None and plan.params.streamed:
            sink.start_beating()
            await begun.answer.copy_to(sink)
        else:
            await sink.send_body(ResponseBody(_OK, begun.show()))

    def _start_run(self, plan: RequestPlan, watch: ExchangeWatch) -> SharedStream:
        """Let tools run in a task of its own: a resend may read the answer, too."""
        answer, resends = SharedStream(), self.resends
        handler = self.handlers.make(plan, answer, watch=watch)

        async def work() -> None:
            try:
                await handler.run()
            except asyncio.CancelledError:
                if not handler.ran:
                    resends.forget(answer)
                raise
            finally:
                resends.forget_later(answer)

        resends.keep(plan.request, answer)
        self.connections.hold(answer.start(work, break_off=handler.break_off))
        return answer


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


def _describe(request: ClientRequest, plan: RequestPlan | None = None) -> Exchange:
    """Describe a request; without a plan it was refused."""
    exchange = Exchange(
        request_id=request.request_id,
        protocol=request.client.protocol,
        path=request.client.path,
        model=read_name(request) if plan is None else plan.route.name,
        key_id=request.key.id,
        started=request.came,
        trace_headers=request.trace_headers,
    )
    if plan is None:
        return exchange
    return msgspec.structs.replace(
        exchange,
        way=_WAYS[type(plan.way)],
        stream=plan.stream,
        upstream=plan.route.upstream.protocol,
        upstream_model=plan.route.model,
        dropped=plan.dropped,
    )
