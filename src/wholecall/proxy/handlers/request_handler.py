"""Handle one request from its plan to the bytes of its response."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import msgspec

from wholecall.agent.run import Plan
from wholecall.agent.turn import RescueRule, Sender, sender_for
from wholecall.errors import WholecallError
from wholecall.messages import Request
from wholecall.protocols.reader import Chunk
from wholecall.protocols.response_base import Failure, ResponseHead, make_answer_id
from wholecall.proxy.handlers.gate_mode import GateMode, GateRequest
from wholecall.proxy.handlers.mixed_tools import MixedTools
from wholecall.proxy.handlers.passthrough import Passthrough
from wholecall.proxy.handlers.request_plan import GatePlan, PassthroughPlan, RequestPlan, RunPlan
from wholecall.proxy.handlers.response_writer import (
    NEVER_AGAIN,
    ResponseWriter,
    StreamedResponse,
    WholeResponse,
    explain,
    explain_break,
    explain_bug,
)
from wholecall.proxy.handlers.run_mode import Owner, RunMode
from wholecall.proxy.http.asgi_response import RawHeaders, ResponseSink, pick_headers
from wholecall.proxy.observe.inspector_feed import ApprovalRequester, ApprovalRequests
from wholecall.proxy.observe.taps import ExchangeWatch, Fate, WatchedUpstream
from wholecall.proxy.responses.response_store import UNREADABLE
from wholecall.tools.toolbox import Toolbox


@dataclass(frozen=True, slots=True)
class _Form:
    """The place of the fields in one protocol, and which of them the encoder writes itself."""

    within: str
    """The field of the stream's first event that holds them; empty: its top level."""
    created: str
    written: frozenset[str]


_FORMS = {
    "openai-chat": _Form(
        # An error belongs to an answer that was retried.
        "",
        "created",
        frozenset({"object", "choices", "usage", "error"}),
    ),
    "openai-responses": _Form(
        "response",
        "created_at",
        frozenset({"object", "output", "usage", "status", "error", "incomplete_details"})
        | {"completed_at", "output_text"},
    ),
    "anthropic": _Form(
        "message",
        "",
        frozenset({"type", "role", "content", "usage", "stop_reason", "stop_sequence"})
        | {"stop_details"},
    ),
}
_DATA = b"data:"


class UpstreamEnvelope:
    """The metadata of an upstream's answer, from its first chunk."""

    def __init__(self, protocol: str) -> None:
        self._protocol = protocol
        self._first: bytes | None = None

    def look(self, chunk: Chunk) -> None:
        """An answer begins. Only that of the first one counts."""
        if self._first is None:
            self._first = chunk if isinstance(chunk, bytes) else b""

    def make_head(self, protocol: str, model: str) -> ResponseHead:
        """Return the metadata in a client's protocol; `model` is the name that the client used."""
        fields = self._fields() if protocol == self._protocol else {}
        form = _FORMS[protocol]
        rest = {name: value for name, value in fields.items() if name not in form.written}
        id, created = rest.pop("id", None), rest.pop(form.created, None)
        return ResponseHead(
            id=id if isinstance(id, str) and id else make_answer_id(protocol),
            model=str(rest.pop("model", None) or model),
            created=int(created) if isinstance(created, int | float) else int(time.time()),
            rest=rest,
        )

    def _fields(self) -> Mapping[str, Any]:
        payload = _read_first(self._first or b"")
        within = _FORMS[self._protocol].within
        inner = payload.get(within, payload) if within else payload
        return inner if isinstance(inner, Mapping) else {}


def _read_first(chunk: bytes) -> Mapping[str, Any]:
    """The first payload of a stream, or a whole body. What is cut says nothing."""
    if not chunk.lstrip().startswith(b"{"):
        chunk = chunk.partition(_DATA)[2].partition(b"\n")[0]
    try:
        payload = msgspec.json.decode(chunk)
    except UNREADABLE:
        return {}
    return payload if isinstance(payload, Mapping) else {}


# One request on its way from what it asks for to the bytes of its answer.


_LOG = logging.getLogger(__name__)


class RequestHandler:
    """Makes one answer, for one sink."""

    def __init__(
        self,
        prepared: RequestPlan,
        sink: ResponseSink,
        *,
        watch: ExchangeWatch,
        ownership: MixedTools,
        approving: ApprovalRequests,
    ) -> None:
        self._prepared = prepared
        self._sink = sink
        self._watch = watch
        self._ownership = ownership
        self._approving = approving
        self._original = UpstreamEnvelope(prepared.served.upstream.protocol)
        upstream = prepared.served.upstream
        same = upstream.protocol == prepared.asked.client.protocol
        # Of a run of many turns no answer's headers say anything.
        hands_on = same and isinstance(prepared.way, GatePlan)
        self._upstream = WatchedUpstream(
            upstream,
            watch,
            peek=self._original.look,
            on_headers=partial(_hand_on, sink) if hands_on else None,
        )
        self._answering = self._make_answering()
        self._running: RunMode | None = None
        self._gating: GateMode | None = None
        self._end: Callable[[], None] | None = None
        """Reports the end once, as the client got it."""

    @property
    def request_id(self) -> str:
        """The id of the request that it answers."""
        return self._prepared.asked.request_id

    @property
    def ran(self) -> bool:
        """True if a tool has begun: its effects remain."""
        return self._running is not None and self._running.ran

    async def run(self) -> None:
        """Answer, or say why not; in either case the client hears of it."""
        request_id = self._prepared.asked.request_id
        try:
            await self._answer()
            self._end = self._end or partial(self._watch.end, Fate.DONE)
        except WholecallError as error:
            place = self._prepared.served.place
            failure, headers = explain(error, place=place, request_id=request_id)
            await self._fail(failure, headers)
        except asyncio.CancelledError:
            # A client that is gone does not read this. The others do: the server ends, or they
            # ask for the same answer again.
            await self.break_off()
            raise
        # Our own bug would otherwise cut the connection without a message.
        except Exception:  # noqa: BLE001
            _LOG.exception("request %s failed", request_id)
            await self._fail(explain_bug(request_id))
        finally:
            # Not when the client is answered: tools that finish are seen first.
            if self._end is not None:
                self._end()

    async def break_off(self) -> None:
        """Say that the answer ends here: its client hung up, or the server ends."""
        gone = self._sink.gone
        failure = explain_break(self.request_id, ran=self.ran, gone=gone)
        end = self._watch.leave if gone else self._make_end(Fate.STOPPED, failure)
        await self._fail(failure, end=end)

    async def stop(self, failure: Failure) -> None:
        """Write that the answer ends here, and why. The caller cancels the work."""
        await self._fail(failure)

    # ── Three ways ──────────────────────────────────────────────────────────────────

    def _answer(self) -> Awaitable[None]:
        match self._prepared.way:
            case PassthroughPlan() as way:
                return self._forward(way)
            case GatePlan() as way:
                return self._gate(way.request)
            case RunPlan() as way:
                return self._run(way)

    def _forward(self, way: PassthroughPlan) -> Awaitable[None]:
        forwarding = Passthrough(way.pipe, self._sink, answering=self._answering, watch=self._watch)
        return forwarding.run(way.letter)

    async def _gate(self, request: Request) -> None:
        served = self._prepared.served
        question = GateRequest(
            request=request,
            upstream=self._upstream,
            sender=self._make_sender(request, Toolbox(request.tools)),
            # What was shown of a call cannot be taken back.
            reask=0 if self._prepared.style.live else served.reask,
            live=self._prepared.style.live,
            limits=served.limits,
        )
        self._gating = GateMode(question, self._answering, watch=self._watch)
        await self._gating.run()
        await self._answering.finish()

    async def _run(self, way: RunPlan) -> None:
        served, asked = self._prepared.served, self._prepared.asked
        plan = Plan(
            request=way.request,
            upstream=self._upstream,
            toolbox=way.toolbox,
            sender=self._make_sender(way.request, way.toolbox),
            limits=served.limits,
        )
        asker = ApprovalRequester(asked.key.id, asked.request_id, served.name)
        owner = Owner(
            key_id=asked.key.id,
            request_id=asked.request_id,
            ownership=self._ownership,
            approvals=self._approving.open(asker),
            notice=way.notice,
        )
        self._running = RunMode(
            plan, self._answering, owner=owner, watch=self._watch, wake=self._sink.wake
        )
        await self._running.run()
        await self._answering.finish()

    def _make_sender(self, request: Request, toolbox: Toolbox) -> Sender:
        served = self._prepared.served
        rule = RescueRule(toolbox, served.rescue)
        return sender_for(served.model, request.messages, rule=rule, emulation=served.emulate)

    # ── The answer ──────────────────────────────────────────────────────────────────

    def _make_answering(self) -> ResponseWriter:
        prepared, protocol = self._prepared, self._prepared.asked.client.protocol
        # Not `self.…`: a reference cycle is freed only by the garbage collector.
        make_head = partial(_make_head, self._original, prepared)
        if not prepared.stream:
            return WholeResponse(self._sink, protocol, make_head=make_head, style=prepared.style)
        answer = StreamedResponse(
            self._sink,
            protocol,
            make_head=make_head,
            style=prepared.style,
            progress=prepared.progress,
        )
        if prepared.head is not None:
            answer.open()
        return answer

    def _make_end(self, fate: Fate, failure: Failure) -> Callable[[], None]:
        code, message = failure.code or "", failure.message
        return partial(self._watch.end, fate, status=failure.status, code=code, message=message)

    async def _fail(
        self, failure: Failure, headers: RawHeaders = (), *, end: Callable[[], None] | None = None
    ) -> None:
        if self._end is not None:
            return
        self._end = end or self._make_end(Fate.FAILED, failure)
        asked_again = self._gating is not None and self._gating.asked_again
        again = NEVER_AGAIN if self.ran or asked_again else ()
        await self._answering.fail(failure, (*headers, *(h for h in again if h not in headers)))


def _hand_on(sink: ResponseSink, headers: Mapping[str, str]) -> None:
    raw = ((_encode(name.lower()), _encode(value)) for name, value in headers.items())
    sink.add_headers(pick_headers(raw))


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _make_head(original: UpstreamEnvelope, prepared: RequestPlan) -> ResponseHead:
    """Return the metadata of the answer: as it was promised, or as the upstream gave it."""
    if prepared.head is not None:
        return prepared.head
    head = original.make_head(prepared.asked.client.protocol, prepared.served.name)
    echo = {} if prepared.terms is None else prepared.terms.echo
    return replace(head, rest={**head.rest, **echo}) if echo else head
