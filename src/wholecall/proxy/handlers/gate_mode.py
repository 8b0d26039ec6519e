"""Mode `gate`: calls are checked here and run by the client.

Text goes to the client as it arrives. Calls wait for the end of the answer, because only then is it
known whether all of them are right. A wrong call is never handed over:

| what is wrong                       | how the model is asked again (up to `reask` times)        |
|-------------------------------------|------------------------------------------------------------|
| the output limit cut a call         | with twice the room; the last time with feedback as well   |
| the answer broke off                | with the same request, if what was sent of it can stand    |
| arguments, name or form             | with feedback as the result of the call                    |
| the form of the final answer        | with feedback, if the client has seen nothing of it        |
| the same call, again and again      | without tools: it shall answer from the results            |

Right calls next to a wrong one are kept, and handed over together with the corrected one. Text that
a stream has sent stays; the next answer does not repeat it. If the calls of the last answer are
wrong, too, the answer fails: a client that saw a good end would take the work for done.

A model may be set to `live`: then calls are shown as they grow, and one that turns out to be wrong
ends the stream with an error, because what was sent cannot be taken back.
"""

from __future__ import annotations

import asyncio
import enum
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial

from wholecall.agent.answer_retry import RetryRequest, is_broken, was_cut, with_more_room
from wholecall.agent.budget import Guard, RunLimits, add_usage
from wholecall.agent.run import Plan, explain_format
from wholecall.agent.run_events import TurnRetried, TurnStarted
from wholecall.agent.turn import MANY_PARTS, PASSING, ReadAnswer, Turn
from wholecall.arguments.argument_reader import RefusedArguments, read_arguments
from wholecall.arguments.feedback import feedback
from wholecall.assembly.json_scanner import same_json
from wholecall.errors import UpstreamError
from wholecall.events import (
    Call,
    Ended,
    Event,
    Hint,
    OfChoice,
    Outcome,
    ProviderBlock,
    Reasoning,
    Rejected,
    Released,
    Text,
    Usage,
)
from wholecall.messages import (
    CallResult,
    Choice,
    Message,
    Mode,
    PastCall,
    Request,
    Result,
    Role,
    ToolSpec,
    obeyed,
)
from wholecall.protocols.history import LEFT_OUT
from wholecall.protocols.registry import find_protocol
from wholecall.proxy.handlers.response_writer import BAD_CALL, ResponseWriter, describe_retry
from wholecall.proxy.observe.taps import ExchangeWatch

_CONTENT_FILTER = "content_filter"
_LENGTH = "length"
_REFUSED = frozenset({400, 422})
_WRONG = "a call was wrong"
_MISFIT = "the answer did not have the requested format"
_DISOBEYED = "the choice of tools was not obeyed"
_CUT = "a call was cut off; there is more room now"
_REPEATED = "the same call was made too often"
_KEPT = (
    "This call is right. It is run together with the corrected one, and its result follows then: "
    "do not send it again."
)
# Extras that describe a text without being a part of it. They are left out together with the text.
_OF_TEXT = LEFT_OUT | {"citations", "message", "notes"}


class GateMode:
    """The gate for one request and its answer."""

    def __init__(
        self,
        plan: Plan,
        writer: ResponseWriter,
        *,
        watch: ExchangeWatch,
        retries: int = 0,
        live: bool = False,
    ) -> None:
        """`retries`: for calls that the model got wrong; `live`: the client sees calls grow, before
        they are checked."""
        self._plan = plan
        self._retries = retries
        self._live = live
        self._writer = writer
        self._watch = watch
        self._guarded = _without_call_limit(plan.limits)
        self._offer = {spec.name: spec for spec in plan.request.tools}
        self._held: list[Event] = []
        self._kept: list[Call] = []
        """Right calls from answers that were retried because of other calls."""
        self._repeated: list[Call] = []
        """Calls of the answer that were made too often."""
        self._stopped = ""
        """The reason why the model gets no further tools, in words for the client."""
        self._words = _Words(held=_checks_format(plan))
        self._usage = Usage()
        self._turns = 0

    @property
    def retried(self) -> bool:
        """True if the model was asked more than once: resending the request is useless."""
        return self._turns > 1

    async def run(self) -> None:
        """Ask until the calls are right or the retries are used up."""
        large = sum(len(each.parts) for each in self._plan.request.messages) > MANY_PARTS
        warn = partial(_warn, self._plan.request, self._guarded)
        request = await asyncio.to_thread(warn) if large else warn()
        answered = await self._ask(request)
        judge = partial(self._judge, request, answered)
        outcome, retry = answered.outcome, await asyncio.to_thread(judge) if large else judge()
        while retry is not None:
            self._begin_retry(retry)
            try:
                answered = await self._retry(retry.request, room=request.max_tokens)
            except UpstreamError:
                if not (self._kept or self._stopped or outcome.rejected):
                    raise
                outcome = replace(outcome, text="")  # the earlier mistake is reported instead
                break
            outcome, request = answered.outcome, retry.request
            retry = self._judge(request, answered)
        self._hand_over(outcome)

    def _begin_retry(self, retry: RetryRequest) -> None:
        retried = TurnRetried(self._turns, retry.why)
        self._watch.take(retried)
        self._writer.report(describe_retry(retried))
        self._writer.begin_turn(void=True)
        self._words.begin_retry(void=not self._plan.request.stream)

    async def _ask(self, request: Request) -> ReadAnswer:
        self._held.clear()
        self._watch.take(TurnStarted(self._turns + 1))
        turn = Turn(emit=self._take_all, start=_leave_to_client, room=self._writer.flush)
        # A model that is stuck must answer in words: a call that it writes as text is not one.
        sent = self._plan.sender(request, silent=bool(self._stopped))
        answered = await turn.read(self._plan.upstream, sent)
        self._turns += 1
        self._usage = add_usage(self._usage, answered.outcome.usage or Usage())
        return answered

    async def _retry(self, request: Request, *, room: int | None) -> ReadAnswer:
        """Retry the request, without more room if the upstream refuses that."""
        try:
            return await self._ask(request)
        except UpstreamError as error:
            if error.status not in _REFUSED or request.max_tokens == room:
                raise
        return await self._ask(replace(request, max_tokens=room))

    def _take_all(self, events: list[Event]) -> None:
        wanted = self._watch.wanted
        seen = [event for event in events if type(event) in wanted]
        if seen:
            self._watch.take(*seen)
        for event in events:
            self._take(event)

    def _take(self, event: Event) -> None:
        if isinstance(event, Text):
            self._say(self._words.take(event.text))
        elif isinstance(event, Reasoning | ProviderBlock):
            self._show(event)
        elif isinstance(event, Usage):
            self._take_usage(event)
        elif isinstance(event, OfChoice):
            self._take_other(event)
        elif self._live:
            self._writer.put(event)
        elif not isinstance(event, PASSING):
            self._held.append(event)

    def _say(self, text: str) -> None:
        if text:
            self._writer.put(Text(text))

    def _show(self, event: Reasoning | ProviderBlock) -> None:
        of_text = (
            isinstance(event, Reasoning) and not event.text and event.extras.keys() <= _OF_TEXT
        )
        if not (of_text and self._words.are_held):
            self._writer.put(event)

    def _take_usage(self, usage: Usage) -> None:
        """Report the usage of the first answer. For further answers, only the sum is reported at
        the end."""
        if not self._turns:
            self._writer.put(usage)

    def _take_other(self, event: OfChoice[Event]) -> None:
        """Report other choices, which cannot be requested again on their own."""
        if not isinstance(event.value, Rejected):
            self._writer.put(event)

    # ── Retries ─────────────────────────────────────────────────────────────────────

    def _judge(self, request: Request, answered: ReadAnswer) -> RetryRequest | None:
        """Return how to ask the model again; None if the answer will do, or has to."""
        outcome = answered.outcome
        if self._stopped or outcome.choices or outcome.finish_reason == _CONTENT_FILTER:
            return None
        self._repeated = _find_repeated(
            self._plan.request.messages, outcome.calls, limits=self._guarded
        )
        left = self._retries + 1 - self._turns
        if self._is_stuck(outcome):
            self._stopped = _tell_client(self._repeated[0], self._plan.limits)
            return self._without_tools(request, answered) if left > 0 else None
        if left <= 0:
            return None
        if outcome.error is not None and is_broken(outcome):
            why = f"the answer broke off ({outcome.error})"
            return RetryRequest(why, request) if self._can_stand(outcome) else None
        if outcome.rejected:
            return self._correct(request, answered, last=left == 1)
        return self._remind(request, answered) or self._check_format(request, answered)

    def _is_stuck(self, outcome: Outcome) -> bool:
        """Return True if all calls of the answer were made too often."""
        only = len(self._repeated) == len(outcome.calls) and not self._kept
        return bool(self._repeated) and only and not self._live

    def _can_stand(self, outcome: Outcome) -> bool:
        """Return True if what the client has seen may precede another answer.

        Text before a call is whole. Text that broke off is not, and the work of a provider's own
        tools would be done and shown twice.
        """
        if not self._plan.request.stream:
            return True
        begun = bool(outcome.calls or outcome.rejected)
        silent = not (outcome.text or outcome.reasoning or outcome.reasoning_extras)
        return not outcome.provider_blocks and (begun or silent)

    def _correct(
        self, request: Request, answered: ReadAnswer, *, last: bool
    ) -> RetryRequest | None:
        """Request the right call: with more room if there was too little, or with feedback."""
        outcome = answered.outcome
        if outcome.calls and not request.choice.parallel:
            return None  # the one call that is allowed is already there
        if was_cut(outcome):
            most = self._plan.limits.output_tokens
            more = with_more_room(request, outcome, most=most)
            if more and not last and not outcome.calls and not outcome.provider_blocks:
                return RetryRequest(_CUT, more)
            request = more or request
        self._kept += [call for call in outcome.calls if call not in self._repeated]
        return RetryRequest(_WRONG, _add(request, answered, told=self._explain(outcome)))

    def _remind(self, request: Request, answered: ReadAnswer) -> RetryRequest | None:
        if answered.outcome.finish_reason == _LENGTH:
            return None
        choice = self._plan.request.choice
        breach = None if choice == _ANY else obeyed(choice, answered.outcome.calls)
        if breach is None or self._kept:
            return None
        told = Message(Role.USER, (Text(breach.message),))
        return RetryRequest(_DISOBEYED, _add(request, answered, told=[told]))

    def _check_format(self, request: Request, answered: ReadAnswer) -> RetryRequest | None:
        """Check the form of the final answer, as long as the client has seen nothing of it."""
        output, outcome = self._plan.request.output, answered.outcome
        if output is None or outcome.calls or self._kept or outcome.finish_reason == _LENGTH:
            return None
        if self._plan.request.stream and not self._words.are_held:
            return None
        if output.schema.get("type") != "object":
            return None  # the reader of arguments knows objects only
        found = read_arguments(outcome.text, ToolSpec(output.name, output.schema), whole=True)
        if not isinstance(found, RefusedArguments):
            return None
        told = Message(Role.USER, (Text(explain_format(found)),))
        return RetryRequest(_MISFIT, _add(request, answered, told=[told]))

    def _without_tools(self, request: Request, answered: ReadAnswer) -> RetryRequest:
        results = tuple(_result_of(call, _tell_model(call)) for call in answered.outcome.calls)
        asked = _add(request, answered, told=[Message(Role.TOOL, results)])
        return RetryRequest(_REPEATED, replace(asked, choice=Choice(Mode.NONE)))

    def _explain(self, outcome: Outcome) -> list[Message]:
        """Return a result for every call of the answer, in order. Feedback on anything that was not
        a call is a user message."""
        made: list[Call | Rejected] = [*outcome.calls, *(r for r in outcome.rejected if r.id)]
        results = tuple(
            _result_of(call, self._tell(call), failed=isinstance(call, Rejected))
            for call in sorted(made, key=lambda call: call.number)
        )
        unnamed = tuple(Text(self._tell(each)) for each in outcome.rejected if not each.id)
        messages = [Message(Role.TOOL, results)] if results else []
        return messages + ([Message(Role.USER, unnamed)] if unnamed else [])

    def _tell(self, call: Call | Rejected) -> str:
        if isinstance(call, Call):
            return _tell_model(call) if call in self._repeated else _KEPT
        return feedback(call, self._offer.get(call.name or ""), offer=self._offer)

    # ── The answer to the client ────────────────────────────────────────────────────

    def _hand_over(self, outcome: Outcome) -> None:
        if self._turns > 1:
            self._writer.put(self._usage)
        if outcome.rejected:
            self._writer.report({"rejected": [_describe(each) for each in outcome.rejected]})
        calls = self._gather_calls()
        if not calls and self._stopped:
            self._conclude(outcome)
            return
        shown = self._live and bool(outcome.calls)
        if not calls and not shown and _is_void(outcome):
            raise UpstreamError(_complain(outcome.rejected), code=BAD_CALL)
        self._deliver(calls, broken=outcome.error is not None)

    def _deliver(self, calls: Sequence[Call], *, broken: bool) -> None:
        self._say(self._words.rest(called=bool(calls)))
        events: list[Event] = [
            Released(call if call.number == number else replace(call, number=number))
            for number, call in enumerate(calls)
        ]
        events += (event for event in self._held if not isinstance(event, Rejected | Released))
        if self._kept and (broken or not self._held):
            events.append(_GOOD_END)  # the right calls count, although no other one came
        self._writer.put(*events)

    def _gather_calls(self) -> list[Call]:
        """Return the right calls of all answers. A call that was sent again runs once."""
        came = [event.call for event in self._held if isinstance(event, Released)]
        calls = [*self._kept]
        for call in came:
            again = any(_is_same(call, kept) for kept in self._kept)
            if not again and not any(call.id == each.id for each in self._repeated):
                calls.append(call)
        return calls

    def _conclude(self, outcome: Outcome) -> None:
        """End with text: the model's own, if it has any."""
        self._say(self._words.rest(called=False))
        if is_broken(outcome) or not outcome.text.strip():
            self._say(self._stopped)
        self._writer.put(_GOOD_END)


_ANY = Choice()
_GOOD_END = Ended("stop", Hint.STOP, None, None)


def _checks_format(plan: Plan) -> bool:
    """Return True if only the check here holds the answer to its form."""
    output = plan.request.output
    if output is None or not output.any_object:
        return False
    side = find_protocol(plan.upstream.protocol).upstream
    return side is not None and not side.any_object


def _leave_to_client(_: Call) -> None:
    """Do nothing: the client runs the call after the end of the answer."""


def _add(request: Request, answered: ReadAnswer, *, told: Sequence[Message]) -> Request:
    return replace(request, messages=(*request.messages, answered.message, *told))


def _result_of(call: Call | Rejected, text: str, *, failed: bool = True) -> CallResult:
    result = Result((Text(text),), failed=failed)
    return CallResult(call_id=call.id, name=call.name or "", result=result)


def _is_same(call: Call, other: Call) -> bool:
    return call.name == other.name and same_json(call.arguments, other.arguments)


def _is_void(outcome: Outcome) -> bool:
    """Return True if an answer without right calls had wrong ones, and its end does not say so.

    At the output limit, a call without a name next to some text was text; and of several choices
    one may be cut.
    """
    broken = outcome.error is not None and is_broken(outcome)
    if broken or outcome.finish_reason == _CONTENT_FILTER:
        return False
    if outcome.finish_reason == _LENGTH and (outcome.text.strip() or outcome.choices):
        return not outcome.choices and any(rejected.name for rejected in outcome.rejected)
    return bool(outcome.rejected)


def _complain(rejected: tuple[Rejected, ...]) -> str:
    told = "; ".join(f"{each.name or 'a call without a name'}: {each.detail}" for each in rejected)
    return f"the model's calls cannot be run ({told})"


def _describe(rejected: Rejected) -> dict[str, str]:
    return {
        "id": rejected.id,
        "name": rejected.name or "",
        "reason": rejected.reason.value,
        "detail": rejected.detail,
    }


# ── Text that was sent ──────────────────────────────────────────────────────────────


class _Stage(enum.Enum):
    OPEN = "open"
    """Text is sent as it arrives."""
    SAME = "same"
    """So far, the text is the same as what was sent before."""
    APART = "apart"
    """The text differs, and waits: next to a call it is not needed."""


class _Words:
    """The text of the answers. A client reads no part of it twice."""

    def __init__(self, *, held: bool = False) -> None:
        """`held` is True if no text is sent before the end of the answer."""
        self._sent: list[str] = []
        self._first = _Stage.APART if held else _Stage.OPEN
        self._before = ""
        self._at = 0
        """The number of characters sent before that the current answer has repeated so far."""
        self._stage = self._first
        self._waiting: list[str] = []

    @property
    def are_held(self) -> bool:
        """True if text that arrives now is not sent."""
        return self._stage is not _Stage.OPEN

    def begin_retry(self, *, void: bool) -> None:
        """Prepare for another answer; `void` is True if nothing of the others was sent."""
        if void:
            self._sent.clear()
        self._before, self._at = "".join(self._sent).strip(), 0
        self._sent = [self._before]
        self._waiting.clear()
        self._stage = _Stage.SAME if self._before else self._first

    def take(self, text: str) -> str:
        """Return the part of a piece that is sent now."""
        if self.are_held:
            self._waiting.append(text)
        if self._stage is _Stage.SAME:
            text = self._compare(text)
        if self.are_held:
            return ""
        self._sent.append(text)
        return text

    def rest(self, *, called: bool) -> str:
        """Return the text to send at the end of the answer."""
        waiting = self._stage is _Stage.APART and not called
        return "".join(self._waiting) if waiting else ""

    def _compare(self, text: str) -> str:
        piece = text if self._at else text.lstrip()
        left = len(self._before) - self._at
        if self._before.startswith(piece, self._at):
            self._at += len(piece)
        elif len(piece) > left and piece.startswith(self._before[self._at :]):
            self._stage = _Stage.OPEN
            return piece[left:].lstrip()
        else:
            self._stage = _Stage.APART
        return ""


# ── Repeated calls ──────────────────────────────────────────────────────────────────


def _warn(request: Request, limits: RunLimits) -> Request:
    """Return the request with a note on each result of a call that was repeated too often.

    Only the upstream reads the note; the client's own messages stay as they are.
    """
    messages, start = list(request.messages), _find_start(request.messages)
    if start == len(messages) - 1:
        return request  # no call was made since the question
    guard, notes = Guard(limits), dict[str, str]()
    for at, message in enumerate(messages[start:], start):
        for part in message.parts:
            if isinstance(part, PastCall):
                guard.refuse(part)
                notes[part.id] = guard.warning(part)
        if any(isinstance(part, CallResult) and notes.get(part.call_id) for part in message.parts):
            parts = tuple(
                _with_note(part, notes.get(part.call_id, ""))
                if isinstance(part, CallResult)
                else part
                for part in message.parts
            )
            messages[at] = replace(message, parts=parts, native=None)
    return replace(request, messages=tuple(messages)) if any(notes.values()) else request


def _with_note(part: CallResult, note: str) -> CallResult:
    if not note:
        return part
    content = (*part.result.content, Text(f"\n{note}"))
    return replace(part, result=replace(part.result, content=content))


def _find_repeated(
    messages: Sequence[Message], calls: Sequence[Call], *, limits: RunLimits
) -> list[Call]:
    """Return the calls that were made too often since the user's question."""
    question = messages[_find_start(messages) :] if calls else ()
    past = [part for each in question for part in each.parts if isinstance(part, PastCall)]
    if len(past) + len(calls) < limits.stop_identical:
        return []  # to compare calls, their arguments are written anew
    guard = Guard(limits)
    for call in past:
        guard.refuse(call)
    return [*filter(guard.refuse, calls)]


@cache
def _without_call_limit(limits: RunLimits) -> RunLimits:
    """Return the limits for a guard of a client's calls, of which it may make any number."""
    return replace(limits, calls=sys.maxsize)


def _find_start(messages: Sequence[Message]) -> int:
    """Return the index at which the current question begins: earlier calls may be made again.

    Clients put notes of their own after results, as user messages. They are not questions.
    """
    for at in range(len(messages) - 1, 0, -1):
        if messages[at].role is Role.USER and messages[at - 1].role is not Role.TOOL:
            return at
    return 0


def _tell_model(call: Call) -> str:
    return (
        f"The call of {call.name!r} was not run: it was made too often with the same arguments. "
        "The same call would give the same result. Answer from the results that you have, and "
        "say what you could not find out."
    )


def _tell_client(call: Call, limits: RunLimits) -> str:
    return (
        f"The model called {call.name!r} {limits.stop_identical} times with the same arguments. "
        "It was stopped, and the last of these calls was not made."
    )
