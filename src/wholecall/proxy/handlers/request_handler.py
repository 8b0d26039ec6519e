"""Answer one request, from its plan to the bytes of its response."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from wholecall.agent.run import Plan
from wholecall.agent.turn import RescueRule, sender_for
from wholecall.dialects.rescue import Rescue
from wholecall.errors import RunWaiting, WholecallError
from wholecall.journal.run_journal import RunJournal
from wholecall.messages import Request
from wholecall.protocols.reader import Chunk
from wholecall.protocols.registry import client_side, make_answer_id
from wholecall.protocols.response_base import Failure, ResponseHead
from wholecall.proxy.handlers.gate_mode import GateMode
from wholecall.proxy.handlers.passthrough import Passthrough
from wholecall.proxy.handlers.request_plan import GatePlan, PassthroughPlan, RequestPlan, RunPlan
from wholecall.proxy.handlers.response_store import UNREADABLE, CaptureSink, ResponseStore, add_turn
from wholecall.proxy.handlers.response_writer import (
    HANDED_OVER,
    NEVER_AGAIN,
    SHUTTING_DOWN,
    ResponseWriter,
    StreamedResponse,
    WholeResponse,
    explain,
    explain_break,
    explain_bug,
)
from wholecall.proxy.handlers.run_mode import MixedTools, Owner, RunMode
from wholecall.proxy.http.client_connection import RawHeaders, ResponseSink, pick_headers
from wholecall.proxy.observe.inspector_feed import ApprovalRequests
from wholecall.proxy.observe.taps import RUN_WAITING, Exchange, ExchangeWatch, Fate, WatchedUpstream
from wholecall.tools.toolbox import Toolbox

_DATA = b"data:"
_MOST_OF_HEAD = 65_536
"""Bytes in which the first payload of a stream is expected."""


class UpstreamEnvelope:
    """The metadata of an upstream's answer, from its first payload."""

    def __init__(self, protocol: str) -> None:
        self._protocol = protocol
        self._first = b""
        self._has_first = False

    def look(self, chunk: Chunk) -> bool:
        """Read the first payload, however it is cut; return True when no more is needed.

        Only that of the first answer counts.
        """
        if not self._has_first:
            self._first += chunk if isinstance(chunk, bytes) else b""
            is_body = self._first.lstrip().startswith(b"{") or not isinstance(chunk, bytes)
            begin = self._first.find(_DATA)
            end = -1 if begin < 0 or is_body else self._first.find(b"\n", begin)
            self._has_first = is_body or end >= 0 or 0 <= begin < len(self._first) - _MOST_OF_HEAD
            if end >= 0:
                self._first = self._first[:end]
        return self._has_first

    def make_head(self, protocol: str, model: str) -> ResponseHead:
        """Return the metadata in a client's protocol; `model` is the name that the client used."""
        fields = self._fields() if protocol == self._protocol else {}
        side = client_side(protocol)
        written = side.written_fields
        rest = {name: fields[name] for name in fields if name not in written} if fields else {}
        id, created = rest.pop("id", None), rest.pop(side.created_field, None)
        return ResponseHead(
            id=id if isinstance(id, str) and id else make_answer_id(protocol),
            model=str(rest.pop("model", None) or model),
            created=int(created) if isinstance(created, int | float) else int(time.time()),
            rest=rest,
            clock=time.time,
        )

    def _fields(self) -> Mapping[str, Any]:
        payload = _read_first(self._first)
        within = client_side(self._protocol).head_within
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


# ── One request ─────────────────────────────────────────────────────────────────────

_LOG = logging.getLogger(__name__)
LEFT_OUT_HEADER = b"x-wholecall-unsupported-tools"
"""Names the tools and the content that were left out, because the upstream cannot be given them."""


_FIELD = re.compile(r"[\w.-]{1,64}", re.ASCII)
_MOST_FIELDS = 32
"""Fields that a header names."""


def _list_names(fields: Sequence[str]) -> bytes:
    """Fields for a header. They are a client's words, so not all can stand in one."""
    named = [name for name in fields if _FIELD.fullmatch(name)]
    return ", ".join(named[:_MOST_FIELDS]).encode()


class RequestHandler:
    """Makes one answer, for one sink."""

    def __init__(
        self,
        plan: RequestPlan,
        sink: ResponseSink,
        *,
        watch: ExchangeWatch,
        mixed_tools: MixedTools,
        approvals: ApprovalRequests,
    ) -> None:
        self._plan = plan
        self._sink = sink
        self._watch = watch
        self._mixed_tools = mixed_tools
        self._approvals = approvals
        self._envelope = UpstreamEnvelope(plan.route.upstream.protocol)
        if plan.dropped:
            sink.add_headers(((b"x-wholecall-dropped", _list_names(plan.dropped)),))
        if plan.left_out:
            self._report_left_out()
        self._writer = self._make_writer()
        self._run_mode: RunMode | None = None
        self._gate_mode: GateMode | None = None
        self._end: Callable[[], None] | None = None
        """Reports the end once, as the client got it."""
        self.open_journal: Callable[[], Awaitable[RunJournal]] | None = None
        """Waits for the journal of a durable run."""

    @property
    def request_id(self) -> str:
        """The id of the request that it answers."""
        return self._plan.request.request_id

    @property
    def ran(self) -> bool:
        """True if a tool has begun: its effects remain."""
        return self._run_mode is not None and self._run_mode.ran

    async def run(self) -> None:
        """Answer, or say why not; in either case the client hears of it."""
        try:
            await self._answer()
            self._end = self._end or partial(self._watch.end, Fate.DONE)
        except RunWaiting as error:
            if self._plan.in_background:  # it is continued after the decision
                self._end = partial(
                    self._watch.end, Fate.STOPPED, code=RUN_WAITING, message=str(error)
                )
            else:
                await self._explain(error)
        except WholecallError as error:
            await self._explain(error)
        except asyncio.CancelledError:
            # A disconnected client does not read this. Others do: the server ends, or they
            # ask for the same answer again. A response in the background is handed over.
            if self._plan.in_background:
                self._end = self._end or partial(self._watch.end, Fate.STOPPED, code=SHUTTING_DOWN)
            else:
                await self.break_off()
            raise
        # Our own bug would otherwise cut the connection without a message.
        except Exception:  # noqa: BLE001
            _LOG.exception("request %s failed", self.request_id)
            await self._fail(explain_bug(self.request_id))
        finally:
            # Not when the client is answered: tools that finish are seen first.
            if self._end is not None:
                self._end()

    async def _explain(self, error: WholecallError) -> None:
        place = self._plan.route.place
        failure, headers = explain(error, place=place, request_id=self.request_id)
        await self._fail(failure, headers)

    async def break_off(self) -> None:
        """Say that the answer ends here: its client disconnected, or the server ends."""
        gone = self._sink.gone
        failure = explain_break(self.request_id, ran=self.ran, gone=gone)
        end = self._watch.leave if gone else self._make_end(Fate.STOPPED, failure)
        await self._fail(failure, end=end)

    async def stop(self, failure: Failure) -> None:
        """Write that the answer ends here, and why. The caller cancels the work."""
        await self._fail(failure)

    # ── Three ways ──────────────────────────────────────────────────────────────────

    async def _answer(self) -> None:
        match self._plan.way:
            case PassthroughPlan(pipe, outgoing):
                passthrough = Passthrough(pipe, self._sink, writer=self._writer, watch=self._watch)
                await passthrough.run(outgoing)
                return
            case GatePlan(request):
                await self._gate(self._plan_run(request, Toolbox(request.tools)))
            case RunPlan(request, toolbox):
                await self._run(request, toolbox)
        await self._writer.finish()

    async def _gate(self, plan: Plan) -> None:
        live = self._plan.style.live
        # What was shown of a call cannot be taken back.
        retries = 0 if live else self._plan.route.settings.reask
        self._gate_mode = GateMode(
            plan, self._writer, watch=self._watch, retries=retries, live=live
        )
        await self._gate_mode.run()

    async def _run(self, asked: Request, toolbox: Toolbox) -> None:
        request = self._plan.request
        journal = None if self.open_journal is None else await self.open_journal()
        taken = () if journal is None else journal.restored.ids
        plan = self._plan_run(asked, toolbox, taken=taken)
        if journal is not None:
            journal.request_id = request.request_id
            journal.parks = self._plan.in_background
        owner = Owner(
            key_id=request.key.id,
            request_id=request.request_id,
            mixed_tools=self._mixed_tools,
            approvals=self._approvals.open(journal),
            journal=journal,
        )
        self._run_mode = RunMode(
            plan, self._writer, owner=owner, watch=self._watch, wake=self._sink.wake
        )
        await self._run_mode.run()

    def _plan_run(self, request: Request, toolbox: Toolbox, *, taken: Iterable[str] = ()) -> Plan:
        route, settings = self._plan.route, self._plan.route.settings
        rule = RescueRule(toolbox, Rescue(settings.rescue) if settings.rescue else None)
        return Plan(
            request=request,
            upstream=self._watch_upstream(),
            toolbox=toolbox,
            sender=sender_for(
                route.model, request.messages, taken=taken, rule=rule, emulation=settings.emulate
            ),
            limits=settings.limits,
        )

    def _watch_upstream(self) -> WatchedUpstream:
        plan, upstream = self._plan, self._plan.route.upstream
        same = upstream.protocol == plan.request.client.protocol
        # Of a run of many turns no answer's headers say anything.
        passes_headers = same and isinstance(plan.way, GatePlan)
        return WatchedUpstream(
            upstream,
            self._watch,
            # An answer in another protocol has no metadata for this client.
            peek=self._envelope.look if same else None,
            on_headers=partial(_pass_headers, self._sink) if passes_headers else None,
        )

    # ── The answer ──────────────────────────────────────────────────────────────────

    def _report_left_out(self) -> None:
        """Tell client and operator what the upstream is not given."""
        listed = ", ".join(self._plan.left_out)
        self._sink.add_headers(((LEFT_OUT_HEADER, listed.encode("ascii", "replace")),))
        _LOG.warning(
            "request %s: model %r cannot be given %s: left out",
            *(self.request_id, self._plan.route.name, listed),
        )

    def _make_writer(self) -> ResponseWriter:
        plan, protocol = self._plan, self._plan.request.client.protocol
        # Not `self.…`: a reference cycle is freed only by the garbage collector.
        make_head = partial(_make_head, self._envelope, plan)
        if not plan.stream:
            return WholeResponse(self._sink, protocol, make_head=make_head, style=plan.style)
        writer = StreamedResponse(
            self._sink, protocol, make_head=make_head, style=plan.style, progress=plan.progress
        )
        if plan.resumed is not None:
            writer.resume(plan.resumed)
        elif plan.head is not None:
            writer.open()
        return writer

    def _make_end(self, fate: Fate, failure: Failure) -> Callable[[], None]:
        code, message = failure.code or "", failure.message
        return partial(self._watch.end, fate, status=failure.status, code=code, message=message)

    async def _fail(
        self, failure: Failure, headers: RawHeaders = (), *, end: Callable[[], None] | None = None
    ) -> None:
        if self._end is not None:
            return
        self._end = end or self._make_end(Fate.FAILED, failure)
        retried = self._gate_mode is not None and self._gate_mode.retried
        # A run that is handed over is continued by the resend.
        ran = self.ran and failure.code not in HANDED_OVER
        again = NEVER_AGAIN if ran or retried else ()
        await self._writer.fail(failure, (*headers, *(h for h in again if h not in headers)))


def _pass_headers(sink: ResponseSink, headers: Mapping[str, str]) -> None:
    encode = partial(str.encode, encoding="utf-8", errors="surrogateescape")
    raw = ((encode(name.lower()), encode(value)) for name, value in headers.items())
    sink.add_headers(pick_headers(raw))


def _make_head(envelope: UpstreamEnvelope, plan: RequestPlan) -> ResponseHead:
    """Return the metadata of the answer: as it was promised, or as the upstream gave it."""
    if plan.head is not None:
        return msgspec.structs.replace(plan.head, kinds=plan.kinds)
    head = envelope.make_head(plan.request.client.protocol, plan.route.name)
    return msgspec.structs.replace(head, rest={**head.rest, **plan.echo}, kinds=plan.kinds)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerFactory:
    """Makes the handler of each request."""

    watch: Callable[[Exchange], ExchangeWatch]
    """Shows an exchange to the taps."""
    responses: ResponseStore
    mixed_tools: MixedTools
    approvals: ApprovalRequests

    def make(
        self, plan: RequestPlan, sink: ResponseSink, *, watch: ExchangeWatch
    ) -> RequestHandler:
        """Make the handler of a request. A background response is stored with its stream."""
        if (plan.params is not None or plan.bound) and not plan.in_background:
            sink = CaptureSink(sink, partial(_keep, self.responses, plan=plan))
        return RequestHandler(
            plan, sink, watch=watch, mixed_tools=self.mixed_tools, approvals=self.approvals
        )


async def _keep(responses: ResponseStore, response: bytes, *, plan: RequestPlan) -> None:
    """Store a response that ended well, and who owns it at the upstream."""
    key_id, params = plan.request.key.id, plan.params
    if plan.bound:
        await responses.owners.bind(key_id, response)
    if params is not None and params.stored:
        await responses.share(response, key_id=key_id, items=params.items)
    if params is not None and params.conversation:
        await add_turn(responses, response, key_id=key_id, params=params)
