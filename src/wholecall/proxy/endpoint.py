"""The API routes: one plain ASGI application for each client protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial

from starlette.types import Receive, Scope, Send

from wholecall.errors import WholecallError
from wholecall.proxy.answering import make_error
from wholecall.proxy.background import check_places, serve_background
from wholecall.proxy.client import ClientProtocol, RawRequest
from wholecall.proxy.copying import CopyingSink
from wholecall.proxy.departing import ClientGone, UntilGone, read_body
from wholecall.proxy.failing import SHUTTING_DOWN, explain
from wholecall.proxy.live import LiveAnswer
from wholecall.proxy.preparing import Forward, Gate, Prepared, Run, prepare, read_name
from wholecall.proxy.resends import Kept
from wholecall.proxy.serving import Service
from wholecall.proxy.sinks import ClientSink, Sink
from wholecall.proxy.taps import Exchange, Fate, Watch
from wholecall.proxy.turning import Turning

_WAYS: dict[type, str] = {Forward: "forward", Gate: "gate", Run: "run"}
"""How a way is named in logs, metrics and the inspector."""
_UNAVAILABLE = 503
_TRACE_HEADERS = ("traceparent", "tracestate")


class ClientEndpoint:
    """Answers the requests of one client protocol."""

    def __init__(self, service: Service, client: ClientProtocol) -> None:
        self._service = service
        self._client = client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: PLR0917 - ASGI
        """Answer one request."""
        sink = ClientSink(send)
        self._service.retirement.begin(sink)
        try:
            asked = RawRequest.read(self._client, scope, body=await read_body(receive))
            sink.beat_seconds = asked.shorten(self._service.beat_seconds)
            with UntilGone(receive, sink.note_departure, lookout=self._service.lookout):
                await self._serve(asked, sink)
        except ClientGone:
            return
        finally:
            sink.let_go()
            self._service.retirement.end(sink)

    async def _serve(self, asked: RawRequest, sink: ClientSink) -> None:
        try:
            prepared = await prepare(self._service, asked)
            is_run, waits = isinstance(prepared.way, Run), not prepared.in_background
            again = await self._find_again(asked) if is_run or not waits else None
        except WholecallError as error:
            await self._refuse(_describe(asked), error, sink=sink)
            return
        if not waits and again is None:
            check_places(self._service.holding, prepared)
        watch = Watch(_describe_prepared(prepared), self._service.taps)
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

    async def _find_again(self, asked: RawRequest) -> Kept | None:
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
        Watch(exchange, self._service.taps).end(
            Fate.FAILED,
            status=failure.status,
            code=failure.code or "",
            message=failure.message,
        )

    def _make_turning(self, prepared: Prepared, sink: Sink, *, watch: Watch) -> Turning:
        service = self._service
        if prepared.terms is not None or prepared.bound:
            sink = CopyingSink(sink, partial(_keep, service=service, prepared=prepared))
        return Turning(
            prepared,
            sink,
            watch=watch,
            ownership=service.ownership,
            approving=service.approving,
        )

    def _start_live(self, prepared: Prepared, watch: Watch) -> LiveAnswer:
        """Let tools run in a task of its own: a resend may read the answer, too."""
        answer, resends = LiveAnswer(), self._service.resends
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


async def _keep(response: bytes, *, service: Service, prepared: Prepared) -> None:
    """A response ended well: it is held here, and whose it is at the upstream is known."""
    key_id, terms = prepared.asked.key.id, prepared.terms
    if prepared.bound:
        await service.binding.bind(key_id, response)
    if terms is not None:
        await service.sharing.keep(response, key_id=key_id, items=terms.items)


async def _read_along(answer: LiveAnswer, sink: ClientSink, *, watch: Watch) -> None:
    """Let a resend read the answer. Events are reported for the first request."""
    try:
        await answer.copy_to(sink)
    except asyncio.CancelledError:
        if sink.gone:
            watch.leave()
        watch.end(Fate.STOPPED, status=_UNAVAILABLE, code=SHUTTING_DOWN)
        raise
    watch.end(Fate.DONE)


def _describe(asked: RawRequest) -> Exchange:
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


def _describe_prepared(prepared: Prepared) -> Exchange:
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
