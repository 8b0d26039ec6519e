"""One request on its way from what it asks for to the bytes of its answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial

from wholecall.core.conversation import Request
from wholecall.errors import WholecallError
from wholecall.protocols.answers import Failure, Head
from wholecall.proxy.answering import Answering, StreamedAnswer, WholeAnswer
from wholecall.proxy.approving import Approving, Asker
from wholecall.proxy.failing import NEVER_AGAIN, explain, explain_break, explain_bug
from wholecall.proxy.forwarding import Forwarding
from wholecall.proxy.gating import Gating, Question
from wholecall.proxy.originals import Original
from wholecall.proxy.ownership import Ownership
from wholecall.proxy.preparing import Forward, Gate, Prepared, Run
from wholecall.proxy.running import Owner, Running
from wholecall.proxy.sinks import RawHeaders, Sink, pick_headers
from wholecall.proxy.taps import Fate, Watch, WatchedUpstream
from wholecall.runs.plan import Plan
from wholecall.runs.sending import RescueRule, Sender, sender_for
from wholecall.tools.toolbox import Toolbox

_LOG = logging.getLogger(__name__)


class Turning:
    """Makes one answer, for one sink."""

    def __init__(
        self,
        prepared: Prepared,
        sink: Sink,
        *,
        watch: Watch,
        ownership: Ownership,
        approving: Approving,
    ) -> None:
        self._prepared = prepared
        self._sink = sink
        self._watch = watch
        self._ownership = ownership
        self._approving = approving
        self._original = Original(prepared.served.upstream.protocol)
        upstream = prepared.served.upstream
        same = upstream.protocol == prepared.asked.client.protocol
        # Of a run of many turns no answer's headers say anything.
        hands_on = same and isinstance(prepared.way, Gate)
        self._upstream = WatchedUpstream(
            upstream,
            watch,
            peek=self._original.look,
            on_headers=partial(_hand_on, sink) if hands_on else None,
        )
        self._answering = self._make_answering()
        self._running: Running | None = None
        self._gating: Gating | None = None
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
            case Forward() as way:
                return self._forward(way)
            case Gate() as way:
                return self._gate(way.request)
            case Run() as way:
                return self._run(way)

    def _forward(self, way: Forward) -> Awaitable[None]:
        forwarding = Forwarding(way.pipe, self._sink, answering=self._answering, watch=self._watch)
        return forwarding.run(way.letter)

    async def _gate(self, request: Request) -> None:
        served = self._prepared.served
        question = Question(
            request=request,
            upstream=self._upstream,
            sender=self._make_sender(request, Toolbox(request.tools)),
            # What was shown of a call cannot be taken back.
            reask=0 if self._prepared.style.live else served.reask,
            live=self._prepared.style.live,
            limits=served.limits,
        )
        self._gating = Gating(question, self._answering, watch=self._watch)
        await self._gating.run()
        await self._answering.finish()

    async def _run(self, way: Run) -> None:
        served, asked = self._prepared.served, self._prepared.asked
        plan = Plan(
            request=way.request,
            upstream=self._upstream,
            toolbox=way.toolbox,
            sender=self._make_sender(way.request, way.toolbox),
            limits=served.limits,
        )
        asker = Asker(asked.key.id, asked.request_id, served.name)
        owner = Owner(
            key_id=asked.key.id,
            request_id=asked.request_id,
            ownership=self._ownership,
            approvals=self._approving.open(asker),
            notice=way.notice,
        )
        self._running = Running(
            plan, self._answering, owner=owner, watch=self._watch, wake=self._sink.wake
        )
        await self._running.run()
        await self._answering.finish()

    def _make_sender(self, request: Request, toolbox: Toolbox) -> Sender:
        served = self._prepared.served
        rule = RescueRule(toolbox, served.rescue)
        return sender_for(served.model, request.messages, rule=rule, emulation=served.emulate)

    # ── The answer ──────────────────────────────────────────────────────────────────

    def _make_answering(self) -> Answering:
        prepared, protocol = self._prepared, self._prepared.asked.client.protocol
        # Not `self.…`: a reference cycle is freed only by the garbage collector.
        make_head = partial(_make_head, self._original, prepared)
        if not prepared.stream:
            return WholeAnswer(self._sink, protocol, make_head=make_head, style=prepared.style)
        answer = StreamedAnswer(
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


def _hand_on(sink: Sink, headers: Mapping[str, str]) -> None:
    raw = ((_encode(name.lower()), _encode(value)) for name, value in headers.items())
    sink.add_headers(pick_headers(raw))


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _make_head(original: Original, prepared: Prepared) -> Head:
    """Return the metadata of the answer: as it was promised, or as the upstream gave it."""
    if prepared.head is not None:
        return prepared.head
    head = original.make_head(prepared.asked.client.protocol, prepared.served.name)
    echo = {} if prepared.terms is None else prepared.terms.echo
    return replace(head, rest={**head.rest, **echo}) if echo else head
