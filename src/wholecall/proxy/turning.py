"""From a client's request to the bytes of its answer: the way that all protocols share."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from starlette.types import Receive, Scope, Send

from wholecall.core.conversation import Request
from wholecall.errors import WholecallError
from wholecall.protocols.answers import Failure, Head
from wholecall.proxy.answering import Answering, StreamedAnswer, WholeAnswer, make_error
from wholecall.proxy.client import Asked, ClientProtocol
from wholecall.proxy.departing import ClientGone, read_body, until_gone
from wholecall.proxy.failing import NEVER_AGAIN, explain, explain_break, explain_bug
from wholecall.proxy.forwarding import Forwarding
from wholecall.proxy.gating import Gating, Question
from wholecall.proxy.live import LiveAnswer
from wholecall.proxy.originals import PeekingUpstream
from wholecall.proxy.preparing import Forward, Gate, Prepared, Run, prepare
from wholecall.proxy.running import Owner, Running
from wholecall.proxy.serving import Service
from wholecall.proxy.sinks import ClientSink, Headers, Sink
from wholecall.runs.plan import Plan
from wholecall.runs.sending import sender_for

_LOG = logging.getLogger(__name__)


class Endpoint:
    """Answers the requests of one client protocol. A plain ASGI application."""

    def __init__(self, service: Service, client: ClientProtocol) -> None:
        self._service = service
        self._client = client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: PLR0917 - ASGI
        """Answer one request."""
        asked = Asked.read(self._client, scope)
        sink = ClientSink(send, beat_seconds=self._service.beat_seconds)
        try:
            asked = replace(asked, body=await read_body(receive))
            async with until_gone(receive):
                await _serve(self._service, asked, sink=sink)
        except ClientGone:
            return
        finally:
            sink.stop()


async def _serve(service: Service, asked: Asked, *, sink: ClientSink) -> None:
    try:
        prepared = await prepare(service, asked)
        again = service.resends.find(asked) if isinstance(prepared.way, Run) else None
    except WholecallError as error:
        failure, headers = explain(error, place="", request_id=asked.request_id)
        await sink.send_body(make_error(asked.client.protocol, failure, headers=headers))
        return
    if prepared.stream:
        sink.start_beating()
    if not isinstance(prepared.way, Run):
        await Turning(service, prepared, sink=sink).run()
        return
    answer = again or _start_live(service, prepared)
    await answer.copy_to(sink)


def _start_live(service: Service, prepared: Prepared) -> LiveAnswer:
    """Let tools run in a task of its own: a resend may read the answer, too."""
    asked = prepared.asked
    answer = LiveAnswer()

    async def work(sink: LiveAnswer) -> None:
        turning = Turning(service, prepared, sink=sink)
        answer.break_off = turning.break_off
        try:
            await turning.run()
        except asyncio.CancelledError:
            if not turning.ran:
                service.resends.forget(answer)
            raise
        finally:
            service.resends.forget_later(answer)

    service.resends.keep(asked, answer)
    service.watch(answer.start(work))
    return answer


class Turning:
    """One request on its way to one sink."""

    def __init__(self, service: Service, prepared: Prepared, *, sink: Sink) -> None:
        self._service = service
        self._prepared = prepared
        self._sink = sink
        self._peeking = PeekingUpstream(prepared.served.upstream)
        self._answering = self._make_answering()
        self._running: Running | None = None

    @property
    def ran(self) -> bool:
        """Whether a tool has begun: what it did is done."""
        return self._running is not None and self._running.ran

    async def run(self) -> None:
        """Answer, or say why not; in either case the client hears of it."""
        request_id = self._prepared.asked.request_id
        try:
            await self._answer()
        except WholecallError as error:
            place = self._prepared.served.place
            failure, headers = explain(error, place=place, request_id=request_id)
            await self._fail(failure, headers)
        except asyncio.CancelledError:
            # A client that is gone does not read this. The others do: the server ends, or they
            # ask for the same answer again.
            await self.break_off()
            raise
        # A mistake of ours would otherwise cut the connection without a word.
        except Exception:  # noqa: BLE001
            _LOG.exception("request %s failed", request_id)
            await self._fail(explain_bug(request_id))

    async def break_off(self) -> None:
        """Say that the answer ends here."""
        request_id = self._prepared.asked.request_id
        await self._fail(explain_break(request_id, ran=self.ran))

    async def _answer(self) -> None:
        match self._prepared.way:
            case Forward() as way:
                forwarding = Forwarding(way.pipe, self._sink, answering=self._answering, tap=None)
                await forwarding.run(way.letter)
            case Gate() as way:
                await self._gate(way.request)
                await self._answering.finish()
            case Run() as way:
                await self._run(way)
                await self._answering.finish()

    async def _gate(self, request: Request) -> None:
        served = self._prepared.served
        question = Question(
            request=request,
            upstream=self._peeking,
            sender=sender_for(served.model, request.messages, emulation=served.emulate),
            reask=served.reask,
        )
        await Gating(question, self._answering).run()

    async def _run(self, way: Run) -> None:
        served, asked = self._prepared.served, self._prepared.asked
        plan = Plan(
            request=way.request,
            upstream=self._peeking,
            toolbox=way.toolbox,
            sender=sender_for(served.model, way.request.messages, emulation=served.emulate),
            limits=served.limits,
        )
        owner = Owner(
            key_id=asked.key.id, request_id=asked.request_id, ownership=self._service.ownership
        )
        self._running = Running(plan, self._answering, owner=owner, wake=self._sink.wake)
        await self._running.run()

    # ── The answer ──────────────────────────────────────────────────────────────────

    def _make_answering(self) -> Answering:
        prepared, protocol = self._prepared, self._prepared.asked.client.protocol

        def make_head() -> Head:
            return self._peeking.make_head(protocol, prepared.served.name)

        if not prepared.stream:
            upstream = prepared.served.upstream.protocol
            return WholeAnswer(self._sink, protocol, make_head=make_head, upstream=upstream)
        return StreamedAnswer(
            self._sink,
            protocol,
            make_head=make_head,
            style=prepared.style,
            progress=prepared.asked.wants_progress,
        )

    async def _fail(self, failure: Failure, headers: Headers = ()) -> None:
        again = NEVER_AGAIN if self.ran else ()
        await self._answering.fail(failure, (*headers, *(h for h in again if h not in headers)))
