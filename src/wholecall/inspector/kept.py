"""What is kept of a run, and what is made of it when somebody wants to read it.

Of a thousand runs that are kept nobody may ever look at one. So a run is written down as it was
told, and that is all; how often which tool was refused is counted when somebody asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import msgspec

from wholecall.inspector.encoding import Fields
from wholecall.inspector.shown import AnyShown, Over, Run
from wholecall.inspector.tally import CallTally, Tally

_PLACE = frozenset({"kind", "n", "at"})
"""What says of an event only where it stands among the others."""
_DIGITS = 4
"""Of a second that are told: a browser does not give back all digits of a place in a run."""


class Batch(msgspec.Struct, frozen=True, gc=False):
    """Runs that are over, for the file: they are written together, and go together."""

    began: float
    """When the youngest of them began, in seconds since 1970."""
    content: bytes
    """As `write_runs` writes them."""
    runs: int = 1
    answers: Sequence[bytes] = ()
    """What upstreams sent, as `raw.write` writes it. Who has any stands alone."""


class KeptRun(msgspec.Struct, array_like=True, gc=False):
    """What happened in a run. It does not change any more."""

    events: Sequence[AnyShown]
    """All of them: the first tells how it began, the last how it ended."""
    key: str = ""
    """Whose it is: the id of a client's key."""
    dropped: int = 0
    """Events that were left out."""

    @property
    def head(self) -> Run:
        """How it began."""
        return cast(Run, self.events[0])

    @property
    def over(self) -> Over:
        """How it ended."""
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
    """What `write_runs` wrote."""
    return _DECODER.decode(content)


# ── What is made of it ──────────────────────────────────────────────────────────────


class Line(NamedTuple):
    """What filters and figures go by."""

    id: str
    key: str
    began: float
    model: str
    fate: str
    code: str
    summary: str
    """How it began, what it comes to, and how it ended: a JSON array."""


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
