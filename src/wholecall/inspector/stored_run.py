"""A run as it is stored, and its summary for lists, filters and charts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from wholecall.inspector import page_events
from wholecall.inspector.page_encoder import Fields
from wholecall.inspector.page_events import AnyPageEvent, PageEvent, PageOver, PageRun


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


class RunSummary:
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

    def count(self, events: Iterable[PageEvent]) -> None:
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

    def _turn(self, _: page_events.PageTurn) -> None:
        self.turns += 1

    def _opened(self, event: page_events.PageOpened) -> None:
        self._call(event.number).name = event.name

    def _released(self, event: page_events.PageReleased) -> None:
        call = self._call(event.number)
        call.name = event.name
        call.verdict = "repaired" if event.repairs else "released"
        self._ids[event.id] = call

    def _rejected(self, event: page_events.PageRejected) -> None:
        call = self._call(event.number)
        call.name = event.name or call.name
        call.verdict, call.reason = "rejected", event.reason

    def _repeated(self, event: page_events.PageRepeated) -> None:
        self.calls.pop((self.turns, event.number), None)

    def _tool_ended(self, event: page_events.PageToolEnded) -> None:
        call = self._ids.get(event.id)
        if call is not None:
            call.status, call.seconds = event.status, event.seconds

    def _odd(self, event: page_events.PageOdd) -> None:
        _count_one(self.oddities, event.oddity)

    def _fault(self, event: page_events.PageFault) -> None:
        _count_one(self._faults, event.fault)

    def _take_usage(self, event: page_events.PageUsage) -> None:
        """Take usage, which is reported repeatedly and in parts during a turn; the last value of
        each counts."""
        before_input, before_output = self._usage
        self._usage = (
            before_input if event.input is None else event.input,
            before_output if event.output is None else event.output,
        )

    def _ended(self, _: page_events.PageEnded) -> None:
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


_COUNTS: Mapping[type[PageEvent], Callable[[RunSummary, Any], None]] = {
    page_events.PageTurn: RunSummary._turn,
    page_events.PageOpened: RunSummary._opened,
    page_events.PageReleased: RunSummary._released,
    page_events.PageRejected: RunSummary._rejected,
    page_events.PageRepeated: RunSummary._repeated,
    page_events.PageToolEnded: RunSummary._tool_ended,
    page_events.PageOdd: RunSummary._odd,
    page_events.PageFault: RunSummary._fault,
    page_events.PageUsage: RunSummary._take_usage,
    page_events.PageEnded: RunSummary._ended,
}
"""The counter for each kind of event; others are not counted."""


# A stored run, and the summary that is made of it when it is read.
#
# Most stored runs are never viewed. So a run is stored as its events, and figures such as refusals
# per tool are counted on demand.


_PLACE = frozenset({"kind", "n", "at"})
"""Fields that only give an event's position among the others."""
_DIGITS = 4
"""Decimals of a second: a browser does not return all digits of a position in a run."""


class Batch(msgspec.Struct, frozen=True, gc=False):
    """Runs that are over, for the file: they are written together, and go together."""

    began: float
    """The start of the latest of them, in seconds since 1970."""
    content: bytes
    """As `write_runs` writes them."""
    runs: int = 1
    answers: Sequence[bytes] = ()
    """The upstreams' answers, as `raw.write` writes them. A run that has any is alone in its
    batch."""


class StoredRun(msgspec.Struct, array_like=True, gc=False):
    """The events of a run that does not change any more."""

    events: Sequence[AnyPageEvent]
    """All of them: the first tells how it began, the last how it ended."""
    key: str = ""
    """Whose it is: the id of a client's key."""
    dropped: int = 0
    """Events that were left out."""

    @property
    def head(self) -> PageRun:
        """The first event."""
        return cast(PageRun, self.events[0])

    @property
    def over(self) -> PageOver:
        """The last event."""
        return cast(PageOver, self.events[-1])


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(list[StoredRun])


def write_runs(runs: Sequence[StoredRun]) -> bytes:
    """Runs as they are kept."""
    return _ENCODER.encode(runs)


def make_batch(runs: Sequence[StoredRun]) -> Batch:
    """Runs for the file. `TypeError`, `ValueError` and the like if one cannot be written."""
    return Batch(max(run.head.began for run in runs), write_runs(runs), len(runs))


def read_runs(content: bytes) -> list[StoredRun]:
    """Read what `write_runs` wrote."""
    return _DECODER.decode(content)


# ── What is made of it ──────────────────────────────────────────────────────────────


class SummaryLine(NamedTuple):
    """The columns for filters and figures."""

    id: str
    key: str
    began: float
    model: str
    fate: str
    code: str
    summary: str
    """The beginning, the sums and the end: a JSON array."""


class Digest(NamedTuple):
    """All that is counted of a run."""

    line: SummaryLine
    calls: Sequence[CallTally]
    oddities: Sequence[tuple[str, int]]


def digest(run: StoredRun) -> Digest:
    """Count what happened in a run."""
    head, over, tally = run.head, run.over, RunSummary()
    tally.count(run.events)
    sums = tally.sum_up(dropped=run.dropped)
    line = SummaryLine(
        id=head.id,
        key=run.key,
        began=head.began,
        model=head.model,
        fate=over.fate,
        code=over.code,
        summary=msgspec.json.encode((head, sums, over)).decode(),
    )
    return Digest(line, tuple(tally.calls.values()), tuple(tally.oddities.items()))


def tell_events(run: StoredRun) -> bytes:
    """Its events, as a JSON array."""
    for event in run.events:
        event.at = round(event.at, _DIGITS)
    return msgspec.json.encode(run.events)


def read_summary(summary: str) -> Fields:
    """A run in a line of the list."""
    head, sums, over = msgspec.json.decode(summary)
    line = {**head, **sums, **over}
    return {name: value for name, value in line.items() if name not in _PLACE}
