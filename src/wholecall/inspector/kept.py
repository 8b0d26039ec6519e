"""A stored run, and the summary that is made of it when it is read.

Most stored runs are never viewed. So a run is stored as its events, and figures such as refusals
per tool are counted on demand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import msgspec

from wholecall.inspector.encoding import Fields
from wholecall.inspector.shown import AnyShown, Over, Run
from wholecall.inspector.tally import CallTally, Tally

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


class KeptRun(msgspec.Struct, array_like=True, gc=False):
    """The events of a run that does not change any more."""

    events: Sequence[AnyShown]
    """All of them: the first tells how it began, the last how it ended."""
    key: str = ""
    """Whose it is: the id of a client's key."""
    dropped: int = 0
    """Events that were left out."""

    @property
    def head(self) -> Run:
        """The first event."""
        return cast(Run, self.events[0])

    @property
    def over(self) -> Over:
        """The last event."""
        return cast(Over, self.events[-1])


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(list[KeptRun])


def write_runs(runs: Sequence[KeptRun]) -> bytes:
    """Runs as they are kept."""
    return _ENCODER.encode(runs)


def make_batch(runs: Sequence[KeptRun]) -> Batch:
    """Runs for the file. `TypeError`, `ValueError` and the like if one cannot be written."""
    return Batch(max(run.head.began for run in runs), write_runs(runs), len(runs))


def read_runs(content: bytes) -> list[KeptRun]:
    """Read what `write_runs` wrote."""
    return _DECODER.decode(content)


# ── What is made of it ──────────────────────────────────────────────────────────────


class Line(NamedTuple):
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

    line: Line
    calls: Sequence[CallTally]
    oddities: Sequence[tuple[str, int]]


def digest(run: KeptRun) -> Digest:
    """Count what happened in a run."""
    head, over, tally = run.head, run.over, Tally()
    tally.count(run.events)
    sums = tally.sum_up(dropped=run.dropped)
    line = Line(
        id=head.id,
        key=run.key,
        began=head.began,
        model=head.model,
        fate=over.fate,
        code=over.code,
        summary=msgspec.json.encode((head, sums, over)).decode(),
    )
    return Digest(line, tuple(tally.calls.values()), tuple(tally.oddities.items()))


def tell_events(run: KeptRun) -> bytes:
    """Its events, as a JSON array."""
    for event in run.events:
        event.at = round(event.at, _DIGITS)
    return msgspec.json.encode(run.events)


def read_summary(summary: str) -> Fields:
    """A run in a line of the list."""
    head, sums, over = msgspec.json.decode(summary)
    line = {**head, **sums, **over}
    return {name: value for name, value in line.items() if name not in _PLACE}
