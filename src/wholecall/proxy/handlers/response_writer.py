"""Write a response to one client, streamed or whole, and the errors that it may read."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import msgspec

from wholecall.agent.budget import Stop
from wholecall.agent.call_runner import CAPS
from wholecall.agent.run import RunResult
from wholecall.agent.run_events import (
    ApprovalAsked,
    ElicitationAsked,
    RunEnded,
    RunEvent,
    ToolEnded,
    ToolReported,
    ToolStarted,
    TurnRetried,
    TurnStarted,
)
from wholecall.arguments.describe import cut
from wholecall.errors import (
    Fenced,
    InadmissibleTools,
    RunFailed,
    RunWaiting,
    UnreadableRequest,
    UpstreamError,
    WholecallError,
)
from wholecall.events import (
    JSON,
    Call,
    Ended,
    Event,
    ProviderBlock,
    Reasoning,
    Released,
    Text,
    Usage,
)
from wholecall.journal.journal_rows import Restored
from wholecall.messages import Message, Role
from wholecall.protocols.registry import encode_answer, encode_failure, make_encoder
from wholecall.protocols.response_base import (
    KEEP_ALIVE,
    Failure,
    ResponseHead,
    ResponseStyle,
    dump,
    is_about_request,
    read_failure,
)
from wholecall.protocols.response_encoder import Encoder
from wholecall.proxy.http.client_connection import RawHeaders, ResponseBody, ResponseSink
from wholecall.proxy.observe.taps import CLIENT_GONE, RUN_TAKEN_OVER, RUN_WAITING
from wholecall.storage import CODE, StoreFailed
from wholecall.upstreams.retry import is_repeatable

_LOG = logging.getLogger(__name__)
LONGEST_RETRY_AFTER = 60.0
"""Seconds. SDKs wait as long as the header says, and no one waits an hour for an answer."""
NEVER_AGAIN: RawHeaders = ((b"x-should-retry", b"false"),)
"""Official SDKs resend a failed request by themselves. After a tool ran they must not. If a model
got its call wrong despite feedback, resending is useless."""
BAD_CALL = "bad_call"
"""The code of answers whose calls were wrong."""
BROKEN_OFF = "broken_off"
"""The code of the refusal of a request that was interrupted after a tool had begun."""
SHUTTING_DOWN = "shutting_down"
"""The code of answers that the end of the server broke off."""
HANDED_OVER = frozenset({SHUTTING_DOWN, RUN_TAKEN_OVER})
"""The codes of answers whose runs continue when the request is sent again."""
_BUG = "the proxy failed; its log says why under this request's id"
_CLOSING = "the proxy is shutting down"
_HANDED_OVER = f"{_CLOSING}; send the request again, and the run continues where it stopped"
_LEFT = "the client that asked for this answer hung up before it was over"
_CREDENTIALS = (
    "the upstream of this model refuses the proxy's own credentials; it is not your key that is "
    "wrong, and whoever runs the proxy has to mend it"
)
MOST_OF_A_REASON = 400
"""Characters of the message that says what is wrong with a request."""
MOST_OF_A_PARAM = 100
_ABOUT_CREDENTIALS = frozenset({401, 403})
_UNAVAILABLE = 503
_CONFLICT = 409
"""Of a run that waits."""
_BAD_GATEWAY = 502


_RUN_FAILED: Mapping[str, Any] = {"status": _BAD_GATEWAY, "code": "run_failed"}
_RUN_FAILURES: Mapping[type[RunFailed], Mapping[str, Any]] = {
    RunWaiting: {"status": _CONFLICT, "code": RUN_WAITING},
    Fenced: {"status": _UNAVAILABLE, "code": RUN_TAKEN_OVER},
}


def explain(error: WholecallError, *, place: str, request_id: str) -> tuple[Failure, RawHeaders]:
    """A failure in words for the client, without the upstream's address."""
    failure = read_failure(error, request_id=request_id)
    if isinstance(error, StoreFailed):
        _LOG.error("request %s: %s", request_id, error.why)
        failure = replace(failure, status=_UNAVAILABLE, code=CODE)
    if isinstance(error, RunFailed):
        failure = replace(failure, **_RUN_FAILURES.get(type(error), _RUN_FAILED))
    if isinstance(error, UnreadableRequest | InadmissibleTools):
        # The client's own words are repeated in it, which may be long.
        param = None if failure.param is None else cut(failure.param, MOST_OF_A_PARAM)
        failure = replace(failure, message=cut(failure.message, MOST_OF_A_REASON), param=param)
    refusal = _find_refusal(error)
    if refusal and refusal.status in _ABOUT_CREDENTIALS and not is_about_request(refusal):
        # Some upstreams repeat a part of the key in their words.
        failure = replace(failure, message=_CREDENTIALS, code="upstream_credentials")
    hidden = failure.message.replace(place, "the upstream") if place else failure.message
    told = replace(failure, message=hidden)
    return told, _headers(error, told.status, refusal=refusal)


def explain_bug(request_id: str) -> Failure:
    """Return the failure for our own bug. Its message could hold anything, so it stays here."""
    return Failure(message=_BUG, code="internal_error", request_id=request_id)


def explain_break(request_id: str, *, ran: bool, gone: bool) -> Failure:
    """Return the failure for a cancelled answer: the server stops, or the client disconnected.

    A disconnected client does not read it, but another reader of the same answer may.
    """
    closing = _HANDED_OVER if ran else _CLOSING
    message, code = (_LEFT, CLIENT_GONE) if gone else (closing, SHUTTING_DOWN)
    return Failure(message=message, status=_UNAVAILABLE, code=code, request_id=request_id)


def _find_refusal(error: BaseException | None) -> UpstreamError | None:
    """Return the refusal of an upstream, also as the cause of a failed run."""
    if isinstance(error, RunFailed):
        return _find_refusal(error.__cause__)
    return error if isinstance(error, UpstreamError) else None


def _headers(error: WholecallError, told: int, *, refusal: UpstreamError | None) -> RawHeaders:
    if isinstance(error, RunFailed) and error.ran:
        return NEVER_AGAIN
    if isinstance(error, UpstreamError) and error.status is None and error.code == BAD_CALL:
        return NEVER_AGAIN
    refused = refusal.status if refusal else None
    if told == _BAD_GATEWAY and refused is not None and not is_repeatable(refused, {}):
        # Its key, its address: SDKs would take it for a passing failure.
        return NEVER_AGAIN
    if isinstance(error, UpstreamError) and error.retry_after is not None:
        seconds = math.ceil(min(error.retry_after, LONGEST_RETRY_AFTER))
        return ((b"retry-after", str(seconds).encode()),)
    return ()


# An answer on its way to one client: events in, a stream or one body out.


_OK = 200
_BETWEEN_TURNS = "\n\n"


class ResponseWriter(Protocol):
    """Takes the events of an answer. It is finished or it fails, once."""

    def put(self, *events: Event) -> None:
        """Take what is for the client."""

    def recall(self, text: str) -> None:
        """Take what the model said before the run was restored."""

    def begin_turn(self, *, void: bool) -> None:
        """The model answers once more; `void`: what it said before is not wanted any more."""

    def report(self, progress: JSON) -> None:
        """Report progress to clients that requested it."""

    async def flush(self) -> None:
        """Send what there is; wait while the client is slow."""

    async def finish(self) -> None:
        """All events have come."""

    async def fail(self, failure: Failure, headers: RawHeaders = ()) -> None:
        """No more comes, and what came is not an answer."""


class _Seam:
    """Keeps the texts of two turns apart: they were not written to be read as one word."""

    __slots__ = ("_last", "_open")

    def __init__(self) -> None:
        self._last = ""
        self._open = False

    def begin_turn(self) -> None:
        self._open = bool(self._last)

    def join(self, event: Text) -> Text:
        if self._open:
            self._open = False
            ends = self._last.endswith("\n") or event.text.startswith("\n")
            event = event if ends else Text(_BETWEEN_TURNS + event.text)
        self._last = event.text or self._last
        return event


class ResumedStream(NamedTuple):
    """A stream that another worker began."""

    sent: bytes
    steps: tuple[Any, ...]
    """What was written: pieces of text and of reasoning, and reports of progress."""


class StreamedResponse:
    """Writes a stream. Its metadata is read when the first event comes."""

    def __init__(
        self,
        sink: ResponseSink,
        protocol: str,
        *,
        make_head: Callable[[], ResponseHead],
        style: ResponseStyle,
        progress: bool = False,
    ) -> None:
        self._sink = sink
        self._protocol = protocol
        self._make_head = make_head
        self._style = style
        self._progress = progress
        self._encoder: Encoder | None = None
        self._seam = _Seam()
        self._said = ""
        """The text that another worker sent before this one continues."""
        sink.beat = self._beat

    def resume(self, resumed: ResumedStream) -> None:
        """Continue a stream: bring the encoder to where the other worker was."""
        encoder = self._begin()
        written = [encoder.begin()]
        for step in resumed.steps:
            is_event = isinstance(step, Text | Reasoning)
            written.append(encoder.encode(step) if is_event else encoder.report(step))
        if b"".join(written) != resumed.sent:
            raise RunFailed("the stream of this response cannot be continued")
        self._said = "".join(step.text for step in resumed.steps if isinstance(step, Text))
        self._seam.join(Text(self._said))

    def recall(self, text: str) -> None:
        """Write what was not sent of it yet."""
        if text.startswith(self._said):
            self.put(Text(text[len(self._said) :]))
        else:  # the turn that was cut is requested again
            self._seam.begin_turn()

    def open(self) -> None:
        """Begin the stream before there is anything to say: its client shall know its id."""
        self._sink.put((self._encoder or self._begin()).begin())

    def put(self, *events: Event) -> None:
        """Encode events."""
        join = self._seam.join
        said = [join(event) if isinstance(event, Text) else event for event in events]
        encode = (self._encoder or self._begin()).encode
        self._sink.put(b"".join(map(encode, said)))

    def begin_turn(self, *, void: bool) -> None:  # noqa: ARG002 - what was sent cannot be taken back
        """Keep what was sent, and separate it from what follows."""
        self._seam.begin_turn()

    def report(self, progress: JSON) -> None:
        """Encode progress, if it is wanted."""
        if self._progress:
            self._sink.put((self._encoder or self._begin()).report(progress))

    async def flush(self) -> None:
        """Send what was encoded."""
        await self._sink.flush()

    async def finish(self) -> None:
        """End the stream. An answer that did not end well is an `UpstreamError`."""
        encoder = self._encoder or self._begin()
        encoder.demand_end()
        self._sink.put(encoder.finish())
        await self._sink.close()

    async def fail(self, failure: Failure, headers: RawHeaders = ()) -> None:
        """An HTTP error as long as nothing was sent; then an error in the stream."""
        if not self._sink.begun:
            await self._sink.send_body(make_error(self._protocol, failure, headers=headers))
            return
        self._sink.put((self._encoder or self._begin()).fail(failure))
        await self._sink.close()

    def _begin(self) -> Encoder:
        self._encoder = make_encoder(self._protocol, self._make_head(), style=self._style)
        return self._encoder

    def _beat(self) -> bytes:
        return KEEP_ALIVE if self._encoder is None else self._encoder.keep_alive()


class WholeResponse:
    """Collects the events and writes one body."""

    def __init__(
        self,
        sink: ResponseSink,
        protocol: str,
        *,
        make_head: Callable[[], ResponseHead],
        style: ResponseStyle,
    ) -> None:
        self._sink = sink
        self._protocol = protocol
        self._make_head = make_head
        self._style = style
        self._events: list[Event] = []
        self._rejected = 0
        self._seam = _Seam()

    def recall(self, text: str) -> None:
        """Keep it."""
        self.put(Text(text))

    def put(self, *events: Event) -> None:
        """Keep events."""
        join = self._seam.join
        self._events += [join(event) if isinstance(event, Text) else event for event in events]

    def begin_turn(self, *, void: bool) -> None:
        """Drop void content, and separate the rest from what follows."""
        if void:
            self._events = [event for event in self._events if isinstance(event, Usage)]
            self._seam = _Seam()
        self._seam.begin_turn()

    def report(self, progress: JSON) -> None:
        """Ignore progress, for which a body has no place; a header reports rejected calls."""
        rejected = progress.get("rejected") if isinstance(progress, Mapping) else None
        if isinstance(rejected, list):
            self._rejected = len(rejected)

    async def flush(self) -> None:
        """There is nothing to send yet."""

    async def finish(self) -> None:
        """Send the body. An answer that did not end well is an `UpstreamError`."""
        body = encode_answer(
            self._protocol,
            self._events,
            head=self._make_head(),
            upstream=self._style.upstream,
            functions=self._style.functions,
        )
        count = str(self._rejected).encode()
        headers = ((b"x-wholecall-rejected", count),) if self._rejected else ()
        await self._sink.send_body(ResponseBody(_OK, dump(body), headers))

    async def fail(self, failure: Failure, headers: RawHeaders = ()) -> None:
        """An HTTP error."""
        await self._sink.send_body(make_error(self._protocol, failure, headers=headers))


def make_error(protocol: str, failure: Failure, *, headers: RawHeaders = ()) -> ResponseBody:
    """An HTTP error in the client's shape."""
    content = dump(encode_failure(protocol, failure))
    return ResponseBody(failure.status, content, headers)


# A run as its client sees it: one answer.
#
# The server's tools, their calls and results stay here. The model's text is shown as it comes, that
# of turns in between as well: it is unknown whether a turn is the last before it is over, and text
# that waits for that is not a stream. The client's own calls, the sum of the usage and the one
# finish reason come at the end.


_STOPPED = "length"
"""The finish reason of a run that a limit stopped without an answer. No protocol has a word of its
own for that; every client knows by this one that the answer is not all there is."""
_FINISHES = {Stop.LENGTH.value: "length", Stop.CONTENT_FILTER.value: "content_filter"}
"""The finish reasons of runs that are over, where it is not `stop`."""


class RunView:
    """Shows a run to one client."""

    def __init__(self, writer: ResponseWriter) -> None:
        self._writer = writer
        self._ended: Ended | None = None
        self._shown = False
        """True if the client has seen a part of this turn."""
        self._turns = 0
        self._recalled = False
        """True if a part of the run was made before it was restored."""
        self.ran = False
        """True if a tool has begun: its effects remain."""

    def recall(self, restored: Restored) -> None:
        """Show what the model said before the run was restored."""
        self._recalled = True
        self.ran = bool(restored.intents)
        answer, end = restored.open_answer, restored.end
        messages = (*restored.messages, *(() if answer is None else answer.messages))
        said = [_read_text(message) for message in messages if message.role is Role.ASSISTANT]
        self._turns = len(said)
        if end is not None:
            said.append(end.no_answer)
            finish = "tool_calls" if end.pending else _FINISHES.get(end.stop, "stop")
            self._ended = Ended(finish, None, None, None)
        elif answer is not None:
            self._ended = Ended(answer.outcome.finish_reason, None, None, None)
        seam = _Seam()
        for place, text in enumerate(said):
            seam.begin_turn()
            said[place] = seam.join(Text(text)).text if text else ""
        self._writer.recall("".join(said))

    def take(self, event: RunEvent) -> None:
        """Show what may be shown."""
        step = _STEPS.get(type(event))
        if step is not None:
            step(self, event)
        describe = _PROGRESS.get(type(event))
        if describe is not None:
            self._writer.report(describe(event))

    def conclude(self, result: RunResult, calls: tuple[Call, ...]) -> None:
        """The run is over; `calls` are those that the client has to run."""
        if result.stop is Stop.TOOL:
            self._writer.begin_turn(void=False)
            self._writer.put(Text(result.text))
        for number, call in enumerate(calls):
            self._writer.put(Released(_renumber(call, number)))
        if self._turns > 1 or self._recalled:
            self._writer.put(result.usage)
        if self._ended is not None:
            self._writer.put(_name_stop(self._ended, result))

    # ── Events ──────────────────────────────────────────────────────────────────────

    def _start_turn(self, _: TurnStarted) -> None:
        if self._turns:
            self._writer.begin_turn(void=False)
        self._turns += 1
        self._shown = False

    def _retry(self, event: TurnRetried) -> None:
        if self._shown:
            raise RunFailed(f"{event.why}, and a part of it was already sent")

    def _show(self, event: Text | Reasoning | ProviderBlock) -> None:
        self._shown = True
        self._writer.put(event)

    def _take_usage(self, usage: Usage) -> None:
        """Report only the sum of later turns, at the end."""
        if self._turns == 1:
            self._writer.put(usage)

    def _take_end(self, event: Ended) -> None:
        self._ended = event

    def _take_start(self, _: ToolStarted) -> None:
        self.ran = True


def _read_text(message: Message) -> str:
    return "".join(part.text for part in message.parts if isinstance(part, Text))


def _name_stop(ended: Ended, result: RunResult) -> Ended:
    """Say in the finish reason that a limit stopped the run, and which."""
    if result.stop not in CAPS:
        return ended
    reason = _STOPPED if result.no_answer else ended.finish_reason
    return msgspec.structs.replace(ended, finish_reason=reason, native=result.stop.value)


def _renumber(call: Call, number: int) -> Call:
    return call if call.number == number else replace(call, number=number)


_STEPS: dict[type[RunEvent], Callable[[RunView, Any], None]] = {
    TurnStarted: RunView._start_turn,
    TurnRetried: RunView._retry,
    Text: RunView._show,
    Reasoning: RunView._show,
    ProviderBlock: RunView._show,
    Usage: RunView._take_usage,
    Ended: RunView._take_end,
    ToolStarted: RunView._take_start,
}

# ── Progress ────────────────────────────────────────────────────────────────────────


def _describe_turn(event: TurnStarted) -> JSON:
    return {"type": "turn_started", "turn": event.turn}


def describe_retry(event: TurnRetried) -> JSON:
    """Describe a retried answer."""
    return {"type": "turn_retried", "turn": event.turn, "why": event.why}


def _describe_start(event: ToolStarted) -> JSON:
    call = event.call
    return {"type": "tool_started", "id": call.id, "name": call.name, "attempt": event.attempt}


def _describe_report(event: ToolReported) -> JSON:
    return {"type": "tool_reported", "id": event.call_id, "progress": event.progress}


def _describe_end(event: ToolEnded) -> JSON:
    return {
        "type": "tool_ended",
        "id": event.call.id,
        "name": event.call.name,
        "status": event.status.value,
        "seconds": round(event.seconds, 3),
    }


def _describe_approval(event: ApprovalAsked) -> JSON:
    return {"type": "approval_asked", "id": event.call.id, "name": event.call.name}


def _describe_elicitation(event: ElicitationAsked) -> JSON:
    return {"type": "elicitation_asked", "id": event.call.id, "name": event.call.name}


def _describe_run_end(event: RunEnded) -> JSON:
    return {"type": "run_ended", "stop": event.stop.value, "answered": not event.no_answer}


_PROGRESS: dict[type[RunEvent], Callable[[Any], JSON]] = {
    TurnStarted: _describe_turn,
    TurnRetried: describe_retry,
    ToolStarted: _describe_start,
    ToolReported: _describe_report,
    ToolEnded: _describe_end,
    ApprovalAsked: _describe_approval,
    ElicitationAsked: _describe_elicitation,
    RunEnded: _describe_run_end,
}
