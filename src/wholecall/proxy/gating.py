"""The mode `gate`: calls are checked here and run by the client.

Text goes to the client as it comes. Calls wait for the end of the answer, because only then it
is known whether all of them are right. One that is wrong is never handed over:

- The model is told what was wrong and asked again, as often as the model's settings allow. The
  right calls of the same answer are asked for again with it, because their results would have
  to stand in the history beside the wrong one's.
- Then the right calls of the last answer are handed over. If there are none, and the answer did
  not end at its output limit or by a filter, which clients know how to treat, the answer fails:
  a client that saw a good end would take the work for done.

A model may be set to be `live`: then calls are shown as they grow, and one that turns out to be
wrong ends the stream with an error, because what was sent cannot be taken back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from wholecall.core.choice import obeyed
from wholecall.core.conversation import CallResult, Message, Request, Result, Role
from wholecall.core.feedback import feedback
from wholecall.core.outcome import Outcome
from wholecall.core.values import (
    Call,
    Event,
    OfChoice,
    ProviderBlock,
    Reasoning,
    Rejected,
    Text,
    Usage,
)
from wholecall.errors import UpstreamError
from wholecall.proxy.answering import Answering
from wholecall.proxy.taps import Watch
from wholecall.proxy.viewing import describe_retry
from wholecall.runs.events import TurnRetried, TurnStarted
from wholecall.runs.ledger import add_usage
from wholecall.runs.sending import Sender
from wholecall.runs.turn import PASSING, ReadAnswer, Turn
from wholecall.upstreams.base import Upstream

_SHOWN = (Text, Reasoning, ProviderBlock)
# Ends that say of themselves that something is missing.
_TELLING_ENDS = frozenset({"length", "content_filter"})
_WRONG = "a call was wrong"
_DISOBEYED = "the choice of tools was not obeyed"
_NOT_RUN = (
    "This call was not run, because another call of the same answer was wrong. "
    "Send it again together with the corrected one."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked, and of whom."""

    request: Request
    upstream: Upstream
    sender: Sender
    reask: int = 0
    """How often the model is asked again for a call that it got wrong."""
    live: bool = False
    """Whether the client sees calls grow, before they are checked."""


class Gating:
    """Asks one question and hands the answer over."""

    def __init__(self, question: Question, answering: Answering, *, watch: Watch) -> None:
        self._question = question
        self._answering = answering
        self._watch = watch
        self._offer = {spec.name: spec for spec in question.request.tools}
        self._held: list[Event] = []
        self._usage = Usage()
        self._turns = 0

    async def run(self) -> None:
        """Ask until the calls are right, or until it has been asked often enough."""
        request = self._question.request
        while True:
            answered = await self._ask(request)
            told = self._tell(answered.outcome)
            if not told or self._turns > self._question.reask:
                break
            request = replace(request, messages=(*request.messages, answered.message, *told))
            self._begin_again(answered.outcome)
        self._hand_over(answered.outcome)

    def _begin_again(self, outcome: Outcome) -> None:
        """What came is void. The words of it are nobody's business but the model's."""
        retried = TurnRetried(self._turns, _WRONG if outcome.rejected else _DISOBEYED)
        self._watch.take(retried)
        self._answering.report(describe_retry(retried))
        self._answering.begin_turn(void=True)

    async def _ask(self, request: Request) -> ReadAnswer:
        self._held.clear()
        self._watch.take(TurnStarted(self._turns + 1))
        turn = Turn(emit=self._take, start=_leave_to_client, room=self._answering.flush)
        answered = await turn.read(self._question.upstream, self._question.sender(request))
        self._turns += 1
        self._usage = add_usage(self._usage, answered.outcome.usage or Usage())
        return answered

    def _take(self, event: Event) -> None:
        self._watch.take(event)
        if isinstance(event, _SHOWN):
            self._answering.put(event)
        elif isinstance(event, Usage):
            self._take_usage(event)
        elif isinstance(event, OfChoice):
            self._take_other(event)
        elif self._question.live:
            self._answering.put(event)
        elif not isinstance(event, PASSING):
            self._held.append(event)

    def _take_usage(self, usage: Usage) -> None:
        """Of further answers only the sum is told, at the end."""
        if not self._turns:
            self._answering.put(usage)

    def _take_other(self, event: OfChoice[Event]) -> None:
        """Other choices than the first cannot be asked for again on their own."""
        if not isinstance(event.value, Rejected):
            self._answering.put(event)

    # ── What was wrong ──────────────────────────────────────────────────────────────

    def _tell(self, outcome: Outcome) -> tuple[Message, ...]:
        """What the model is told of its answer; nothing if it will do."""
        if outcome.error is not None or outcome.finish_reason in _TELLING_ENDS:
            return ()
        if outcome.rejected:
            return tuple(self._explain(outcome))
        breach = obeyed(self._question.request.choice, outcome.calls)
        if breach is None:
            return ()
        return (Message(Role.USER, (Text(breach.message),)),)

    def _explain(self, outcome: Outcome) -> list[Message]:
        """A result for every call of the answer, in order; what was no call, told as by a user."""
        made: list[Call | Rejected] = [*outcome.calls, *(r for r in outcome.rejected if r.id)]
        results = tuple(
            CallResult(
                call_id=call.id,
                name=call.name or "",
                result=Result((Text(self._say(call)),), failed=True),
            )
            for call in sorted(made, key=lambda call: call.number)
        )
        unnamed = tuple(Text(self._say(each)) for each in outcome.rejected if not each.id)
        messages = [Message(Role.TOOL, results)] if results else []
        return messages + ([Message(Role.USER, unnamed)] if unnamed else [])

    def _say(self, call: Call | Rejected) -> str:
        if isinstance(call, Call):
            return _NOT_RUN
        return feedback(call, self._offer.get(call.name or ""), offer=self._offer)

    # ── What the client gets ────────────────────────────────────────────────────────

    def _hand_over(self, outcome: Outcome) -> None:
        if self._turns > 1:
            self._answering.put(self._usage)
        if outcome.rejected:
            self._answering.report({"rejected": [_describe(each) for each in outcome.rejected]})
        if _is_void(outcome):
            raise UpstreamError(_complain(outcome.rejected), code="bad_call")
        for event in self._held:
            if not isinstance(event, Rejected):
                self._answering.put(event)


def _leave_to_client(_: Call) -> None:
    """The client runs it, after the end of the answer."""


def _is_void(outcome: Outcome) -> bool:
    """Whether all calls of an answer were wrong and its end does not say so."""
    whole = outcome.error is None and outcome.finish_reason not in _TELLING_ENDS
    return whole and bool(outcome.rejected) and not outcome.calls


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
