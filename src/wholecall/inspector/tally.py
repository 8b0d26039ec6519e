"""The summary of a run: its line in the list, and the values for filters and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from wholecall.inspector import shown
from wholecall.inspector.shown import Shown


class CallTally(msgspec.Struct, kw_only=True):
    """One call of a run."""

    turn: int
    number: int
    name: str = ""
    verdict: str = ""
    """`released`, `repaired` (which is released, too), `rejected`; empty if it never had one."""
    reason: str = ""
    status: str = ""
    """The status of running it here."""
    seconds: float | None = None


class Sums(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """The sums of a run for its line in the list. Empty fields are omitted."""

    turns: int
    calls: int
    tools: Sequence[str] = ()
    verdicts: Mapping[str, int] = {}
    reasons: Sequence[str] = ()
    oddities: Mapping[str, int] = {}
    faults: Mapping[str, int] = {}
    input_tokens: int
    output_tokens: int
    dropped: int
    """Events that were left out."""


class Tally:
    """Counts the events of one run."""

    __slots__ = (
        *("calls", "oddities", "turns"),
        *("_faults", "_ids", "_input_tokens", "_output_tokens", "_usage"),
    )

    def __init__(self) -> None:
        self.turns = 0
        self.calls: dict[tuple[int, int], CallTally] = {}
        self.oddities: dict[str, int] = {}
        self._ids: dict[str, CallTally] = {}
        self._input_tokens = 0
        self._output_tokens = 0
        self._usage = (0, 0)
        """Input and output of the current turn."""
        self._faults: dict[str, int] = {}

    def count(self, events: Iterable[Shown]) -> None:
        """Count events, in the order in which they came."""
        for event in events:
            count = _COUNTS.get(type(event))
            if count is not None:
                count(self, event)

    def sum_up(self, *, dropped: int = 0) -> Sums:
        """Return the sums of all events."""
        sums = Sums(
            turns=self.turns or 1,
            calls=len(self.calls),
            oddities=self.oddities,
            faults=self._faults,
            input_tokens=self._input_tokens,
            output_tokens=self._output_tokens,
            dropped=dropped,
        )
        if self.calls:
            calls = self.calls.values()
            sums.tools = tuple(sorted({call.name for call in calls if call.name}))
            sums.verdicts = _count([call.verdict for call in calls if call.verdict])
            sums.reasons = tuple(sorted({call.reason for call in calls if call.reason}))
        return sums

    def _call(self, number: int) -> CallTally:
        place = (self.turns, number)
        call = self.calls.get(place)
        if call is None:
            call = self.calls[place] = CallTally(turn=self.turns, number=number)
        return call

    def _turn(self, _: shown.Turn) -> None:
        self.turns += 1

    def _opened(self, event: shown.Opened) -> None:
        self._call(event.number).name = event.name

    def _released(self, event: shown.Released) -> None:
        call = self._call(event.number)
        call.name = event.name
        call.verdict = "repaired" if event.repairs else "released"
        self._ids[event.id] = call

    def _rejected(self, event: shown.Rejected) -> None:
        call = self._call(event.number)
        call.name = event.name or call.name
        call.verdict, call.reason = "rejected", event.reason

    def _repeated(self, event: shown.Repeated) -> None:
        self.calls.pop((self.turns, event.number), None)

    def _tool_ended(self, event: shown.ToolEnded) -> None:
        call = self._ids.get(event.id)
        if call is not None:
            call.status, call.seconds = event.status, event.seconds

    def _odd(self, event: shown.Odd) -> None:
        _count_one(self.oddities, event.oddity)

    def _fault(self, event: shown.Fault) -> None:
        _count_one(self._faults, event.fault)

    def _take_usage(self, event: shown.Usage) -> None:
        """Take usage, which is reported repeatedly and in parts during a turn; the last value of
        each counts."""
        before_input, before_output = self._usage
        self._usage = (
            before_input if event.input is None else event.input,
            before_output if event.output is None else event.output,
        )

    def _ended(self, _: shown.Ended) -> None:
        self._input_tokens += self._usage[0]
        self._output_tokens += self._usage[1]
        self._usage = (0, 0)


def _count(words: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for word in words:
        _count_one(counts, word)
    return counts


# A `Counter` takes ten times as long to make as a dict, and nearly all of them stay empty.
def _count_one(counts: dict[str, int], word: str) -> None:
    counts[word] = counts.get(word, 0) + 1


_COUNTS: Mapping[type[Shown], Callable[[Tally, Any], None]] = {
    shown.Turn: Tally._turn,
    shown.Opened: Tally._opened,
    shown.Released: Tally._released,
    shown.Rejected: Tally._rejected,
    shown.Repeated: Tally._repeated,
    shown.ToolEnded: Tally._tool_ended,
    shown.Odd: Tally._odd,
    shown.Fault: Tally._fault,
    shown.Usage: Tally._take_usage,
    shown.Ended: Tally._ended,
}
"""The counter for each kind of event; others are not counted."""
