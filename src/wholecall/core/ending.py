"""The end of a turn: the hint, the terminator, the faults, and how they are reported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wholecall.core.hints import worse
from wholecall.core.values import (
    Call,
    Ended,
    Event,
    Fault,
    FaultKind,
    Hint,
    HintGiven,
    Inconsistent,
    Oddity,
    Reason,
    Rejected,
)
from wholecall.core.verdict import Ending, ending_of

_FAULTS: dict[Ending, Fault] = {
    Ending.DROPPED: Fault(
        FaultKind.STREAM_DROPPED, "the stream ended without a finish reason and without its end"
    ),
    Ending.FAILED: Fault(FaultKind.UPSTREAM_ERROR, "the upstream ended the answer with an error"),
    Ending.MALFORMED: Fault(
        FaultKind.MALFORMED_FUNCTION_CALL, "the provider says that it made a malformed call"
    ),
}
_SOUND = (Ending.GOOD, Ending.LENGTH)
_FINISH_REASON: dict[Ending, str | None] = {
    Ending.GOOD: "stop",
    Ending.LENGTH: "length",
    Ending.DROPPED: None,
    Ending.FAILED: None,
    Ending.MALFORMED: None,
    Ending.FILTERED: "content_filter",
}


OVERRUN = Inconsistent(Oddity.AFTER_END, "more came after the answer's own end")
"""Reported once."""


class EndSigns:
    """The signs of the end that the stream gave."""

    __slots__ = ("_changed", "fault", "hint", "limited", "native", "overrun", "terminated")

    def __init__(self) -> None:
        self.hint: Hint | None = None
        self.native: str | None = None
        self.limited = False
        """Whether the answer has as many output tokens as the request allowed."""
        self.terminated = False
        self.overrun = False
        """True if something came after the end."""
        self.fault: Fault | None = None
        self._changed = False

    def take_hint(self, given: HintGiven) -> None:
        """Of several hints the worst is kept."""
        worst = worse(self.hint, given.hint)
        self._changed = self._changed or self.hint not in (None, given.hint)
        if worst is not self.hint:
            self.hint, self.native = worst, given.native

    @property
    def is_sound(self) -> bool:
        """True if nothing so far forbids all calls of the turn."""
        return self.fault is None and ending_of(self.hint) in _SOUND

    def ending(self) -> Ending:
        """Return the ending, now that nothing more can come.

        A hint followed by the end of the stream counts as an end: many servers never send their
        terminator, and no part of a call follows the hint.
        """
        if self.fault is not None:
            return Ending.FAILED
        if self.hint is None and not self.terminated:
            return Ending.DROPPED
        return ending_of(worse(self.hint, Hint.LENGTH) if self.limited else self.hint)

    def faults(self, ending: Ending) -> list[Event]:
        """The fault that the ending means, if it was not reported yet."""
        if self.fault is not None or ending not in _FAULTS:
            return []
        self.fault = _FAULTS[ending]
        return [self.fault]

    def conclude(self, ending: Ending, verdicts: Iterable[Call | Rejected]) -> list[Event]:
        """Report the oddities of the end, and the end itself."""
        settled = tuple(verdicts)
        events: list[Event] = [
            Inconsistent(oddity, f"finish reason {self.native!r}")
            for oddity in self._oddities(ending, settled)
        ]
        error = self.fault.kind.value if self.fault is not None else None
        reason = _finish_reason(ending, settled)
        return [*events, Ended(reason, self.hint, self.native, error)]

    def _oddities(self, ending: Ending, verdicts: tuple[Call | Rejected, ...]) -> Iterator[Oddity]:
        if _has_call(verdicts) and self.hint not in (Hint.TOOL_CALLS, None):
            at_length = ending is Ending.LENGTH
            yield Oddity.CALLS_AT_LENGTH if at_length else Oddity.CALLS_WITH_OTHER_HINT
        if self.limited and ending is Ending.LENGTH and self.hint is not Hint.LENGTH:
            yield Oddity.LIMIT_REACHED
        if self.hint is Hint.TOOL_CALLS and not verdicts:
            yield Oddity.TOOL_CALLS_WITHOUT_CALLS
        if self.hint is Hint.UNKNOWN:
            yield Oddity.HINT_UNKNOWN
        if self._changed:
            yield Oddity.HINT_CHANGED
        if self.hint is None and self.terminated:
            yield Oddity.HINT_MISSING
        if self.hint is not None and not self.terminated:
            yield Oddity.NO_TERMINATOR


def _finish_reason(ending: Ending, verdicts: tuple[Call | Rejected, ...]) -> str | None:
    """Return what was really delivered, whatever the upstream's hint says."""
    if ending in _SOUND and _has_call(verdicts):
        return "tool_calls"
    if ending is Ending.GOOD and any(map(_was_cut, verdicts)):
        return "length"
    return _FINISH_REASON[ending]


def _has_call(verdicts: tuple[Call | Rejected, ...]) -> bool:
    return Call in map(type, verdicts)


def _was_cut(verdict: Call | Rejected) -> bool:
    return isinstance(verdict, Rejected) and verdict.reason is Reason.TRUNCATED
