"""The API routes: one plain ASGI application for each client protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial

from starlette.types import Receive, Scope, Send

from wholecall.errors import WholecallError
from wholecall.proxy.handlers.background import check_places, serve_background
from wholecall.proxy.handlers.idempotency import KeptAnswer, SharedStream
from wholecall.proxy.handlers.request_handler import RequestHandler
from wholecall.proxy.handlers.request_plan import (
    GatePlan,
    PassthroughPlan,
    RequestPlan,
    RunPlan,
    prepare,
    read_name,
)
from wholecall.proxy.handlers.response_writer import SHUTTING_DOWN, explain, make_error
from wholecall.proxy.handlers.service import Service
from wholecall.proxy.http.asgi_response import ClientSink, ResponseSink
from wholecall.proxy.http.client_request import ClientProtocol, ClientRequest
from wholecall.proxy.http.disconnect import ClientDisconnected, UntilDisconnect, read_body
from wholecall.proxy.observe.taps import Exchange, ExchangeWatch, Fate
from wholecall.proxy.responses.response_store import CaptureSink

_WAYS: dict[type, str] = {PassthroughPlan: "forward", GatePlan: "gate", RunPlan: "run"}
"""How a way is named in logs, metrics and the inspector."""
_UNAVAILABLE = 503
_TRACE_HEADERS = ("traceparent", "tracestate")


class ClientRoute:
    """Answers the requests of one client protocol."""

    def __init__(self, service: Service, client: ClientProtocol) -> None:
        self._service = service
        self._client = client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: PLR0917 - ASGI
        """Answer one request."""
        sink = ClientSink(send)
        self._service.retirement.begin(sink)
        try:
            asked = ClientRequest.read(self._client, scope, body=await read_body(receive))
            sink.beat_seconds = asked.shorten(self._service.beat_seconds)
            with UntilDisconnect(receive, sink.note_departure, lookout=self._service.lookout):
                await self._serve(asked, sink)
        except ClientDisconnected:
            return
        finally:
            sink.let_go()
            self._service.retirement.end(sink)

    async def _serve(self, asked: ClientRequest, sink: ClientSink) -> None:
        try:
            prepared = await prepare(self._service, asked)
            is_run, waits = isinstance(prepared.way, RunPlan), not prepared.in_background
            again = await self._find_again(asked) if is_run or not waits else None
        except WholecallError as error:
            await self._refuse(_describe(asked), error, sink=sink)
            return
        if not waits and again is None:
            check_places(self._service.holding, prepared)
        watch = ExchangeWatch(_describe_prepared(prepared), self._service.taps)
        sink.on_begin = watch.begin
        if not waits:
            await serve_background(self._service, prepared, sink=sink, watch=watch, again=again)
            return
        if prepared.stream:
            sink.start_beating()
        if not is_run:
            await self._make_turning(prepared, sink, watch=watch).run()
        elif again is None:
            await self._start_live(prepared, watch).copy_to(sink)
        else:
            await _read_along(again.answer, sink, watch=watch)

    async def _find_again(self, asked: ClientRequest) -> KeptAnswer | None:
        """Return the answer to a resent request; raise `Refused` if another process made it."""
        resends, notices = self._service.resends, self._service.notices
        again = resends.find(asked)
        if again is None and notices.are_kept:
            await notices.check(asked)
            again = resends.find(asked)  # the first may have come meanwhile
        return again

    async def _refuse(self, exchange: Exchange, error: WholecallError, *, sink: ClientSink) -> None:
        failure, headers = explain(error, place="", request_id=exchange.request_id)
        await sink.send_body(make_error(self._client.protocol, failure, headers=headers))
        ExchangeWatch(exchange, self._service.taps).end(
            Fate.FAILED,
            status=failure.status,
            code=failure.code or "",
            message=failure.message,
        )

    def _make_turning(
        self, prepared: RequestPlan, sink: ResponseSink, *, watch: ExchangeWatch
    ) -> RequestHandler:
        service = self._service
        if prepared.terms is not None or prepared.bound:
            sink = CaptureSink(sink, partial(_keep, service=service, prepared=prepared))
        return RequestHandler(
            prepared,
            sink,
            watch=watch,
            ownership=service.ownership,
            approving=service.approving,
        )

    def _start_live(self, prepared: RequestPlan, watch: ExchangeWatch) -> SharedStream:
        """Let tools run in a task of its own: a resend may read the answer, too."""
        answer, resends = SharedStream(), self._service.resends
        turning = self._make_turning(prepared, answer, watch=watch)

        async def work() -> None:
            try:
                await turning.run()
            except asyncio.CancelledError:
                if not turning.ran:
                    resends.forget(answer)
                raise
            finally:
                resends.forget_later(answer)

        resends.keep(prepared.asked, answer)
        self._service.hold(answer.start(work, break_off=turning.break_off))
        return answer


async def _keep(response: bytes, *, service: Service, prepared: RequestPlan) -> None:
    """A response ended well: it is held here, and whose it is at the upstream is known."""
    key_id, terms = prepared.asked.key.id, prepared.terms
    if prepared.bound:
        await service.binding.bind(key_id, response)
    if terms is not None:
        await service.sharing.keep(response, key_id=key_id, items=terms.items)


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


def _describe(asked: ClientRequest) -> Exchange:
    """Describe a refused request: it could not be read, or its model is not served."""
    return Exchange(
        request_id=asked.request_id,
        protocol=asked.client.protocol,
        path=asked.client.path,
        model=read_name(asked),
        key_id=asked.key.id,
        started=asked.came,
        trace_headers=_find_trace(asked.headers),
    )


def _describe_prepared(prepared: RequestPlan) -> Exchange:
    asked, served = prepared.asked, prepared.served
    return Exchange(
        request_id=asked.request_id,
        protocol=asked.client.protocol,
        path=asked.client.path,
        model=served.name,
        key_id=asked.key.id,
        way=_WAYS[type(prepared.way)],
        stream=prepared.stream,
        upstream=served.upstream.protocol,
        upstream_model=served.model,
        started=asked.came,
        trace_headers=_find_trace(asked.headers),
    )


def _find_trace(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: headers[name] for name in _TRACE_HEADERS if name in headers}
