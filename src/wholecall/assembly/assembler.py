"""The assembler: from the deltas of one turn to calls that are proven whole.

It collects deltas into drafts, notes the evidence that each gains, and releases or rejects every
draft exactly once: early where the tool's policy allows it, at the end of the turn otherwise. It
waits for nothing and knows no clock. Feed it deltas, take events, and call `end` when the stream is
over, whether or not it ended well.

    delta ──routing──▶ draft (call_builder) ──evidence──▶ verdict ──▶ Released | Rejected
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from wholecall.arguments.coerce import STRICT, CoercionOptions
from wholecall.arguments.limits import DEFAULT, Limits
from wholecall.assembly.call_builder import UNSETTLED, BuildStep, Draft, State, TextForm
from wholecall.assembly.json_scanner import digest_json, outgrows
from wholecall.assembly.routing import Router, is_settled
from wholecall.assembly.verdict import OVERRUN, Ending, EndSigns, Judge
from wholecall.events import (
    Call,
    CallDelta,
    CallPieces,
    CallSealed,
    Delta,
    Event,
    Evidence,
    Fault,
    FaultKind,
    Followed,
    Grew,
    HintGiven,
    Inconsistent,
    LimitReached,
    Oddity,
    Opened,
    ProviderBlock,
    Reason,
    Reasoning,
    Rejected,
    Terminated,
    Text,
    Usage,
)
from wholecall.messages import ReadOffer, ToolSpec, read_offer

# Looked up for each piece; see `call_builder`.
_BUILDING, _CLOSED, _UNPROVED = State.BUILDING, TextForm.CLOSED, Evidence.NONE


def make_id() -> str:
    """A call id that no conversation has seen."""
    return f"call_{secrets.token_hex(12)}"


class CallIds:
    """The ids of one conversation. All its turns share one, so that none is given twice.

    Providers leave ids out, repeat them, and count them anew in every turn (`list_dir:0`). A result
    finds its call by the id, so what leaves the assembler is unique.
    """

    def __init__(self, taken: Iterable[str] = (), *, make: Callable[[], str] = make_id) -> None:
        """`taken` are the ids of earlier turns."""
        self._taken = set(taken)
        self._make = make

    def claim(self, wanted: str | None) -> str:
        """The wanted id if it is free, else a new one. It is taken from now on."""
        while wanted is None or wanted in self._taken:
            wanted = self._make()
        self._taken.add(wanted)
        return wanted


class Assembler:
    """Builds the calls of one turn."""

    def __init__(
        self,
        tools: Iterable[ToolSpec | Mapping[str, Any]] | ReadOffer | None = None,
        *,
        limits: Limits = DEFAULT,
        hides_truncation: bool = False,
        coercion: CoercionOptions = STRICT,
        ids: CallIds | None = None,
    ) -> None:
        """`tools` None means that any name is taken; `ids` are shared by a conversation's turns."""
        offer = tools if tools is None or isinstance(tools, ReadOffer) else read_offer(tools)
        self._offer = offer
        self._judge = Judge(offer, limits, hides_truncation, coercion)
        self._router = Router(offer, limits)
        self._turn = EndSigns()
        self._verdicts: dict[int, Call | Rejected] = {}
        self._wrappers: dict[int, Call] = {}
        """The wrappers that were replaced by their calls."""
        self._marks: dict[int, tuple[object, ...]] = {}
        self._ids = CallIds() if ids is None else ids
        self._events: list[Event] = []
        self._over = False
        self._followed = False
        """True if the answer continued after the call that the last piece belonged to."""
        self._handlers = _HANDLERS

    def feed(self, delta: Delta) -> list[Event]:
        """Process one delta; return the events that it caused."""
        self._events = []
        self._handlers[type(delta)](self, delta)
        return self._events

    def end(self) -> list[Event]:
        """The stream is over, with or without a terminator: settle every draft, once."""
        self._events = []
        if self._over:
            return self._events
        self._over = True
        for draft in self._router.drafts:
            draft.relations.is_last = self._is_last(draft)
            if draft.state is State.RELEASED:
                self._look_behind(draft)
        ending = self._turn.ending()
        self._events += self._turn.faults(ending)
        self._refuse_parts(ending)
        for draft in self._router.drafts:
            if draft.state in UNSETTLED:
                self._settle(draft, ending)
        self._events += self._turn.conclude(ending, self._verdicts.values())
        return self._events

    # ── Deltas ──────────────────────────────────────────────────────────────────────

    def _pass_on(self, delta: Text | Reasoning | ProviderBlock | Usage) -> None:
        self._events.append(delta)

    def _call_delta(self, delta: CallDelta) -> None:
        # What has an address of its own is routed; only the rest may be more of a call.
        addressed = delta.id or delta.name
        self._grow(None if addressed else self._router.at(delta.slot), delta)

    def _grow(self, draft: Draft | None, delta: CallDelta) -> None:
        """Add a delta to a call; `draft` is the one in its slot."""
        if draft is not None and _flows_on(draft, delta):
            # The hot path: one more piece of a call being built.
            self._router.current = draft
            arguments = draft.arguments
            arguments.append(delta.arguments)  # type: ignore[arg-type]  # _flows_on says str
            if arguments.form is not _CLOSED and arguments.excess is None:
                self._events.append(Grew(draft.number, arguments.fresh()))
                return
        else:
            draft = self._route(delta)
        self._advance(draft)

    def _call_pieces(self, delta: CallPieces) -> None:
        """Take several pieces, together as soon as it is certain that they only add to one call."""
        slot, pieces, start = delta.slot, delta.pieces, 0
        draft = self._router.at(slot)
        while start < len(pieces):
            together = draft is not None and draft.only_grows
            end = len(pieces) if together else start + 1
            self._grow(draft, CallDelta(slot, "".join(pieces[start:end])))
            if self._router.current is not draft:
                draft = self._router.at(slot)
            start = end

    def _route(self, delta: CallDelta) -> Draft:
        self._followed = False
        previous, known = self._router.current, len(self._router.drafts)
        draft = self._router.route(delta)
        if previous is not None and len(self._router.drafts) > known:
            self._begun_after(previous)
        if delta.extras:
            draft.extras.update(delta.extras)
        draft.boundary.guessed = draft.boundary.guessed or delta.guessed
        self._add_arguments(draft, delta.arguments)
        return draft

    def _add_arguments(self, draft: Draft, arguments: object) -> None:
        if arguments is None or arguments == "":
            return
        if draft.allows(BuildStep.TEXT):
            draft.add(arguments)
        elif not (isinstance(arguments, str) and arguments.isspace()):
            self._fault(f"arguments for call {draft.number} after it was {draft.state.value}")

    def _call_sealed(self, delta: CallSealed) -> None:
        draft = self._router.at(delta.slot)
        if draft is None:
            self._fault(f"the end of a call in slot {delta.slot!r} that never began")
            return
        if delta.flaw:
            draft.refuse(delta.reason, delta.flaw)
        draft.boundary.written = delta.written
        draft.seal(delta.arguments)
        self._advance(draft)

    def _begun_after(self, previous: Draft) -> None:
        """Another call began. That seals a closed one; an open one may be interleaved."""
        if previous.is_closed:
            previous.gain(Evidence.SEALED)
            self._advance(previous)

    def _went_on(self, _: Followed) -> None:
        self._followed = True

    def _limit_reached(self, _: LimitReached) -> None:
        self._turn.limited = True

    def _hint_given(self, delta: HintGiven) -> None:
        self._turn.take_hint(delta)
        self._events.append(delta)

    def _terminated(self, delta: Terminated) -> None:
        self._turn.terminated = True
        if delta.closes:
            self._handlers = _BEHIND_THE_END

    def _leave_out(self, _: Delta) -> None:
        """Ignore a delta after the end of the turn, and report the first one."""
        if not self._turn.overrun:
            self._turn.overrun = True
            self._events.append(OVERRUN)

    def _faulted(self, delta: Fault) -> None:
        self._turn.fault = self._turn.fault or delta
        self._events.append(delta)

    def _fault(self, message: str) -> None:
        """Report a protocol error, once: the turn has failed."""
        if self._turn.fault is None:
            self._faulted(Fault(FaultKind.PROTOCOL, message))

    # ── Progress ────────────────────────────────────────────────────────────────────

    def _advance(self, draft: Draft) -> None:
        """Show what is new of a draft, and settle it if that is possible already."""
        if draft.state in UNSETTLED:
            if not draft.id and draft.name and self._is_named(draft):
                self._open(draft)
            if draft.id or not draft.name:
                self._events += draft.show()
            # Without evidence no tool starts: most pieces need no question.
            if draft.early_end is not None or (
                draft.shown is not _UNPROVED and self._may_start(draft)
            ):
                self._settle(draft, None)
        if draft.oddities.notes:
            self._events += draft.oddities.take()

    def _may_start(self, draft: Draft) -> bool:
        return self._turn.is_sound and self._judge.may_start(draft)

    def _is_named(self, draft: Draft) -> bool:
        if self._judge.wraps(draft):
            return False
        return is_settled(draft.name, self._offer) or draft.has_begun

    def _open(self, draft: Draft) -> None:
        draft.id = self._ids.claim(draft.provider_id)
        if draft.provider_id is None and draft.relations.wrapper is None:
            draft.oddities.note(Oddity.ID_MISSING)
        self._events.append(Opened(draft.number, draft.id, draft.name))

    def _is_last(self, draft: Draft) -> bool:
        """Return whether the answer ended with this call, or with the same one sent again."""
        last = self._router.current
        if last is None or self._followed:
            return False
        again = draft.number in last.relations.repeat_of
        return draft is last or (again and draft.arguments.value == last.arguments.value)

    def _refuse_parts(self, ending: Ending) -> None:
        """Refuse calls that came again with more of them; and the last, if it may be another."""
        for draft in self._router.drafts:
            repeated = draft.relations.repeat_of[-1:]
            early = self._router.drafts[repeated[0]] if repeated else None
            if early is not None and _outgrows(draft, early):
                early.refuse(Reason.AMBIGUOUS, _OUTGROWN)
                if ending is Ending.LENGTH:
                    draft.refuse(Reason.AMBIGUOUS, _OUTGROWN)

    # ── Settling ────────────────────────────────────────────────────────────────────

    def _settle(self, draft: Draft, ending: Ending | None) -> None:
        """Release or reject a draft. This happens once: the table has no way back."""
        if self._judge.wraps(draft) and self._unwrap(draft, ending):
            return
        if not draft.id and draft.name:
            self._open(draft)
        verdict = self._judge.judge(draft, ending)
        original = self._original(draft, verdict)
        self._verdicts[draft.number] = original or verdict
        self._events += draft.settle(verdict, original)

    def _unwrap(self, draft: Draft, ending: Ending | None) -> bool:
        """Put the calls in a wrapper in its place, unless it is rejected itself."""
        whole = self._judge.judge(draft, ending)
        if isinstance(whole, Rejected):
            return False
        original = self._original(draft, whole)
        self._wrappers[draft.number] = whole
        told = draft.settle(whole, original)
        self._events += [each for each in told if isinstance(each, Inconsistent)]
        uses = () if original else self._judge.list_uses(whole)
        for call in self._router.unwrap(draft, whole=whole, uses=uses):
            self._advance(call)
        return True

    def _original(self, draft: Draft, verdict: Call | Rejected) -> Call | Rejected | None:
        """The settled call that this draft only repeats."""
        if not draft.relations.repeat_of:
            return None
        mine = self._mark(verdict)
        known, wrappers = self._verdicts, self._wrappers
        settled = (known.get(at) or wrappers.get(at) for at in draft.relations.repeat_of)
        return next((each for each in settled if each and self._mark(each) == mine), None)

    def _mark(self, verdict: Call | Rejected) -> tuple[object, ...]:
        """The same for calls that are. Each is written out once, however many share their id."""
        mark = self._marks.get(verdict.number)
        if mark is None:
            said = digest_json(verdict.arguments) if isinstance(verdict, Call) else verdict.raw
            mark = self._marks[verdict.number] = (type(verdict), verdict.name, said)
        return mark

    def _look_behind(self, draft: Draft) -> None:
        """Check what came after the release: a repeat is an oddity, anything else an error."""
        tail = draft.arguments.tail()
        if tail.differs or tail.rest.strip("}] \t\r\n"):
            draft.oddities.note(Oddity.TEXT_AFTER_RELEASE)
            self._fault(f"text arrived for call {draft.number} after it was released")
        elif tail.repeats or tail.rest:
            draft.oddities.note(Oddity.TEXT_AFTER_RELEASE)
        self._events += draft.oddities.take()


_OUTGROWN = "the call was sent again with more arguments, so this was a part of it"


def _outgrows(draft: Draft, early: Draft) -> bool:
    """Return True if this is the same call again with more of its arguments.

    Servers that close a call's JSON after each piece send it this way: every piece looks whole.
    """
    again = draft.provider_id is not None and draft.provider_id == early.provider_id
    if draft.boundary.written or not again or draft.name != early.name:
        return False
    return outgrows(draft.arguments.value, early.arguments.value)


def _flows_on(draft: Draft, delta: CallDelta) -> bool:
    return (
        draft.arguments.flowing
        and draft.state is _BUILDING
        and draft.arguments.form is not _CLOSED
        and draft.slot == delta.slot
        and not delta.name
        and not delta.id
        and not delta.opens
        and not delta.extras
        and not delta.guessed
        and type(delta.arguments) is str
        and delta.arguments != ""
    )


_HANDLERS: dict[type[Delta], Callable[[Assembler, Any], None]] = {
    CallDelta: Assembler._call_delta,
    CallPieces: Assembler._call_pieces,
    CallSealed: Assembler._call_sealed,
    Text: Assembler._pass_on,
    Reasoning: Assembler._pass_on,
    ProviderBlock: Assembler._pass_on,
    Usage: Assembler._pass_on,
    Followed: Assembler._went_on,
    HintGiven: Assembler._hint_given,
    LimitReached: Assembler._limit_reached,
    Terminated: Assembler._terminated,
    Fault: Assembler._faulted,
}
# A client stops reading at the protocol's end. Usage and a failure may still follow.
_BEHIND_THE_END = _HANDLERS | dict.fromkeys(
    (CallDelta, CallPieces, CallSealed, Followed, Text, Reasoning, ProviderBlock),
    Assembler._leave_out,
)
