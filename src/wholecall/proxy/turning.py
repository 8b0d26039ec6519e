"""From a client's request to the bytes of its answer: the way that all protocols share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from wholecall.core.conversation import Request
from wholecall.errors import UnreadableRequest, WholecallError
from wholecall.protocols.answers import Failure, Head
from wholecall.protocols.requests import decode_request
from wholecall.proxy.answering import Answering, StreamedAnswer, WholeAnswer, make_error
from wholecall.proxy.client import Asked, ClientProtocol
from wholecall.proxy.departing import ClientGone, read_body, until_gone
from wholecall.proxy.failing import explain, explain_bug, explain_closing
from wholecall.proxy.gating import Gating, Question
from wholecall.proxy.originals import PeekingUpstream
from wholecall.proxy.serving import Served, Service
from wholecall.proxy.sinks import ClientSink, Headers
from wholecall.runs.sending import sender_for

_LOG = logging.getLogger(__name__)


class Endpoint:
    """Answers the requests of one client protocol. A plain ASGI application."""

    def __init__(self, service: Service, client: ClientProtocol) -> None:
        self._service = service
        self._client = client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        asked = Asked.read(self._client, scope)
        sink = ClientSink(send, headers=asked.answer_headers)
        try:
            asked = replace(asked, body=await read_body(receive))
            async with until_gone(receive):
                await Turning(self._service, asked, sink=sink).run()
        except ClientGone:
            return
        finally:
            sink.stop()


class Turning:
    """One request on its way."""

    def __init__(self, service: Service, asked: Asked, *, sink: ClientSink) -> None:
        self._service = service
        self._asked = asked
        self._sink = sink
        self._answering: Answering | None = None
        self._place = ""

    async def run(self) -> None:
        """Answer, or say why not; in either case the client hears of it."""
        request_id = self._asked.request_id
        try:
            await self._answer()
        except WholecallError as error:
            failure, headers = explain(error, place=self._place, request_id=request_id)
            await self._fail(failure, headers)
        except asyncio.CancelledError:
            # The client is gone and reads nothing of this, or the server ends and it does.
            await self._fail(explain_closing(request_id))
            raise
        # Here a mistake of ours would cut the connection without a word.
        except Exception:
            _LOG.exception("request %s failed", request_id)
            await self._fail(explain_bug(request_id))

    async def _answer(self) -> None:
        body = _read_json(self._asked.body)
        request = decode_request(self._asked.client.protocol, body)
        served = self._service.find(request.model, self._asked)
        self._place = served.place
        request = replace(request, model=served.model)
        peeking = PeekingUpstream(served.upstream)
        answering = self._make_answering(request, served, peeking=peeking, body=body)
        self._answering = answering
        if request.stream:
            self._sink.start_beating()
        sender = sender_for(served.model, request.messages, emulation=served.emulate)
        question = Question(request=request, upstream=peeking, sender=sender, reask=served.reask)
        await Gating(question, answering).run()
        await answering.finish()

    def _make_answering(
        self, request: Request, served: Served, *, peeking: PeekingUpstream, body: Mapping[str, Any]
    ) -> Answering:
        client = self._asked.client
        upstream = served.upstream.protocol

        def make_head() -> Head:
            return peeking.make_head(client.protocol, served.name)

        if not request.stream:
            return WholeAnswer(
                self._sink, client.protocol, make_head=make_head, upstream=upstream
            )
        return StreamedAnswer(
            self._sink,
            client.protocol,
            make_head=make_head,
            style=replace(client.read_style(body), upstream=upstream),
            progress=self._asked.wants_progress,
        )

    async def _fail(self, failure: Failure, headers: Headers = ()) -> None:
        if self._answering is not None:
            await self._answering.fail(failure, headers)
        else:
            error = make_error(self._asked.client.protocol, failure, headers=headers)
            await self._sink.send_body(error)


def _read_json(body: bytes) -> Mapping[str, Any]:
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableRequest(f"the body is no JSON: {error}", param="") from None
    if not isinstance(value, Mapping):
        raise UnreadableRequest("the body is no JSON object", param="")
    return value
