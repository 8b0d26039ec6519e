"""What a run comes to: the line in the list, and what filters and figures go by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from wholecall.inspector.encoding import Fields


@dataclass(slots=True, kw_only=True)
class CallTally:
    """One call of a run."""

    turn: int
    number: int
    name: str = ""
    verdict: str = ""
    """`released`, `repaired` (which is released, too), `rejected`; empty if it never had one."""
    reason: str = ""
    repairs: tuple[str, ...] = ()
    coerced: bool = False
    characters: int = 0
    status: str = ""
    """How running it here ended."""
    seconds: float | None = None


class Tally:
    """Counts the events of one run."""

    def __init__(self) -> None:
        self.turns = 0
        self.calls: dict[tuple[int, int], CallTally] = {}
        self.oddities: dict[str, int] = {}
        self.over: Fields | None = None
        self._ids: dict[str, CallTally] = {}
        self._input_tokens = 0
        self._output_tokens = 0
        self._usage: Fields = {}
        self._faults: dict[str, int] = {}

    def take(self, event: Fields) -> None:
        """Count one event."""
        count = _COUNTS.get(event["kind"])
        if count is not None:
            count(self, event)

    def summarise(self) -> Fields:
        """The run in a line."""
        calls = self.calls.values()
        return {
            "turns": max(self.turns, 1),
            "calls": len(calls),
            "tools": sorted({call.name for call in calls if call.name}),
            "verdicts": _count(call.verdict for call in calls if call.verdict),
            "reasons": sorted({call.reason for call in calls if call.reason}),
            "oddities": dict(self.oddities),
            "faults": dict(self._faults),
            "input_tokens": self._input_tokens,
            "output_tokens": self._output_tokens,
            **{name: value for name, value in (self.over or {}).items() if name in _OF_THE_END},
        }

    def _call(self, number: int) -> CallTally:
        place = (self.turns, number)
        call = self.calls.get(place)
        if call is None:
            call = self.calls[place] = CallTally(turn=self.turns, number=number)
        return call

    def _turn(self, _: Fields) -> None:
        self.turns += 1

    def _opened(self, event: Fields) -> None:
        self._call(event["number"]).name = event.get("name", "")

    def _released(self, event: Fields) -> None:
        call = self._call(event["number"])
        repairs = event.get("repairs", [])
        call.name = event.get("name", "")
        call.verdict = "repaired" if repairs else "released"
        call.repairs = tuple(repair["kind"] for repair in repairs)
        call.coerced = bool(event.get("coercions"))
        call.characters = event["characters"]
        self._ids[event.get("id", "")] = call

    def _rejected(self, event: Fields) -> None:
        call = self._call(event["number"])
        call.name = event.get("name", call.name)
        call.verdict, call.reason = "rejected", event["reason"]
        call.characters = event["characters"]

    def _repeated(self, event: Fields) -> None:
        self.calls.pop((self.turns, event["number"]), None)

    def _tool_ended(self, event: Fields) -> None:
        call = self._ids.get(event.get("id", ""))
        if call is not None:
            call.status, call.seconds = event["status"], event["seconds"]

    def _odd(self, event: Fields) -> None:
        _count_one(self.oddities, event["oddity"])

    def _fault(self, event: Fields) -> None:
        _count_one(self._faults, event["fault"])

    def _take_usage(self, event: Fields) -> None:
        """It is told anew, and in parts, as a turn goes on; the last word on each counts."""
        self._usage |= {name: value for name, value in event.items() if value is not None}

    def _ended(self, _: Fields) -> None:
        self._input_tokens += self._usage.get("input", 0)
        self._output_tokens += self._usage.get("output", 0)
        self._usage = {}

    def _over(self, event: Fields) -> None:
        self.over = event


def _count(words: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for word in words:
        _count_one(counts, word)
    return counts


# A `Counter` takes ten times as long to make as a dict, and nearly all of them stay empty.
def _count_one(counts: dict[str, int], word: str) -> None:
    counts[word] = counts.get(word, 0) + 1


_OF_THE_END = frozenset({"fate", "status", "code", "message", "seconds"})
_COUNTS: Mapping[str, Callable[[Tally, Any], None]] = {
    "turn": Tally._turn,
    "opened": Tally._opened,
    "released": Tally._released,
    "rejected": Tally._rejected,
    "repeated": Tally._repeated,
    "tool_ended": Tally._tool_ended,
    "odd": Tally._odd,
    "fault": Tally._fault,
    "usage": Tally._take_usage,
    "ended": Tally._ended,
    "over": Tally._over,
}
