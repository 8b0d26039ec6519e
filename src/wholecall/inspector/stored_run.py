"""A run as it is stored, and its summary for lists, filters and charts.

Most stored runs are never viewed. So a run is stored as its events, and figures such as refusals
per tool are counted when it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from wholecall.inspector.page_encoder import Fields


class StoredRun(msgspec.Struct, array_like=True, gc=False):
    """The events of a run that does not change any more."""

    events: Sequence[Fields]
    """All of them: the first tells how it began, the last how it ended."""
    key: str = ""
    """Whose it is: the id of a client's key."""
    dropped: int = 0
    """Events that were left out."""

    @property
    def head(self) -> Fields:
        """The first event."""
        return self.events[0]

    @property
    def over(self) -> Fields:
        """The last event."""
        return self.events[-1]


class Batch(msgspec.Struct, frozen=True, gc=False):
    """Runs that are over, for the file: they are written together, and go together."""

    began: float
    """The start of the latest of them, in seconds since 1970."""
    content: bytes
    """The runs as a JSON array."""
    runs: int = 1
    answers: Sequence[bytes] = ()
    """The upstreams' answers, as `CapturedAnswer.write` writes them. A run that has any is alone in
    its batch."""


_DECODER = msgspec.json.Decoder(list[StoredRun])


def write_run(run: StoredRun, answers: Sequence[bytes] = ()) -> Batch:
    """Return the batch of one run. `TypeError`, `ValueError` and the like if it cannot be
    written."""
    return Batch(run.head["began"], msgspec.json.encode([run]), answers=answers)


def join_batches(batches: Sequence[Batch]) -> Batch:
    """Return one batch with all of these runs."""
    began, runs = max(batch.began for batch in batches), sum(batch.runs for batch in batches)
    return Batch(began, b"[%b]" % b",".join([batch.content[1:-1] for batch in batches]), runs)


def read_runs(content: bytes) -> list[StoredRun]:
    """Read the runs of a batch."""
    return _DECODER.decode(content)


# ── The summary ─────────────────────────────────────────────────────────────────────

_PLACE = frozenset({"type", "n", "at"})
"""Fields that only give an event's position among the others."""


class CallTally(msgspec.Struct, kw_only=True):
    """One call of a run. Its fields are the columns of its row."""

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

    def __init__(self, events: Iterable[Fields] = ()) -> None:
        self.turns = 0
        self.calls: dict[tuple[int, int], CallTally] = {}
        self.oddities: dict[str, int] = {}
        self._faults: dict[str, int] = {}
        self._ids: dict[str, CallTally] = {}
        self._tokens = {"input_tokens": 0, "output_tokens": 0}
        self._usage: dict[str, int] = {}
        """Of the current turn."""
        for event in events:
            count = _COUNTS.get(event["type"])
            if count is not None:
                count(self, event)

    def sum_up(self, *, dropped: int = 0) -> Sums:
        """Return the sums of all events."""
        calls = self.calls.values()
        return Sums(
            turns=self.turns or 1,
            calls=len(calls),
            tools=tuple(sorted({call.name for call in calls if call.name})),
            verdicts=_count(call.verdict for call in calls if call.verdict),
            reasons=tuple(sorted({call.reason for call in calls if call.reason})),
            oddities=self.oddities,
            faults=self._faults,
            dropped=dropped,
            **self._tokens,
        )

    def _call(self, number: int) -> CallTally:
        tally = CallTally(turn=self.turns, number=number)
        return self.calls.setdefault((self.turns, number), tally)

    def _begin_turn(self, _: Fields) -> None:
        self.turns += 1

    def _open(self, event: Fields) -> None:
        self._call(event["number"]).name = event.get("name", "")

    def _release(self, event: Fields) -> None:
        shown = event["call"]
        call = self._ids[shown.get("id", "")] = self._call(shown["number"])
        call.name = shown.get("name", "")
        call.verdict = "repaired" if "repairs" in shown else "released"

    def _reject(self, event: Fields) -> None:
        call = self._call(event["number"])
        call.name = event.get("name", call.name)
        call.verdict, call.reason = "rejected", event["reason"]

    def _drop_repeated(self, event: Fields) -> None:
        self.calls.pop((self.turns, event["number"]), None)

    def _end_tool(self, event: Fields) -> None:
        call = self._ids.get(event["call"]["id"])
        if call is not None:
            call.status, call.seconds = event["status"], event["seconds"]

    def _take_oddity(self, event: Fields) -> None:
        _count_one(self.oddities, event["oddity"])

    def _take_fault(self, event: Fields) -> None:
        _count_one(self._faults, event["kind"])

    def _take_usage(self, event: Fields) -> None:
        """Take usage, which is reported repeatedly and in parts during a turn; the last value of
        each counts."""
        self._usage |= {name: event[name] for name in self._tokens if name in event}

    def _end_turn(self, _: Fields) -> None:
        for name, count in self._usage.items():
            self._tokens[name] += count
        self._usage.clear()


def _count(words: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for word in words:
        _count_one(counts, word)
    return counts


# A `Counter` takes ten times as long to make as a dict, and nearly all of them stay empty.
def _count_one(counts: dict[str, int], word: str) -> None:
    counts[word] = counts.get(word, 0) + 1


_COUNTS: Mapping[str, Callable[[RunSummary, Fields], None]] = {
    "TurnStarted": RunSummary._begin_turn,
    "Opened": RunSummary._open,
    "Released": RunSummary._release,
    "Rejected": RunSummary._reject,
    "Repeated": RunSummary._drop_repeated,
    "ToolEnded": RunSummary._end_tool,
    "Inconsistent": RunSummary._take_oddity,
    "Fault": RunSummary._take_fault,
    "Usage": RunSummary._take_usage,
    "Ended": RunSummary._end_turn,
}
"""The counter for each type of event; others are not counted."""


class Digest(NamedTuple):
    """All that is counted of a run: its rows in the tables of the index."""

    line: tuple[object, ...]
    """Its id, key, beginning, model, end and code, and its line in the list: the beginning, the
    sums and the end, as a JSON array."""
    calls: Sequence[tuple[object, ...]]
    oddities: Sequence[tuple[str, int]]


def digest(run: StoredRun) -> Digest:
    """Count what happened in a run."""
    head, over, tally = run.head, run.over, RunSummary(run.events)
    summary = msgspec.json.encode((head, tally.sum_up(dropped=run.dropped), over)).decode()
    ended = over["fate"], over.get("code", "")
    line = (head["id"], run.key, head["began"], head.get("model", ""), *ended, summary)
    calls = tuple([msgspec.structs.astuple(call) for call in tally.calls.values()])
    return Digest(line, calls, tuple(tally.oddities.items()))


def read_summary(summary: str) -> Fields:
    """A run in a line of the list."""
    parts: Any = msgspec.json.decode(summary)
    return {name: value for part in parts for name, value in part.items() if name not in _PLACE}
