"""Runs in a SQLite file, with a retention time and a size cap.

Every run is written, and few are read. So writing appends a batch as one row. The list, its filters
and the figures use tables of their own, the index, which is updated when somebody reads: for a run
that is deleted unread, it is never made.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

from wholecall.files.database import changing, open_database, telling
from wholecall.files.room import find_excess, find_last_to_go, give_back, measure_use
from wholecall.inspector.durations import measure_durations
from wholecall.inspector.encoding import Fields
from wholecall.inspector.kept import Batch, Digest, digest, read_runs, read_summary, tell_events
from wholecall.inspector.tables import (
    ANSWERS,
    BATCH,
    BEHIND,
    CODES,
    DURATIONS,
    FATES,
    FIND,
    LAST,
    LIST,
    NAMES,
    ODDITIES,
    PARTS,
    VERDICTS,
    make_tables,
)
from wholecall.inspector.tally import CallTally

KEPT_SECONDS = 7 * 24 * 3600.0
MOST_BYTES = 256 * 1024 * 1024
MOST_LISTED = 200
"""Runs in one page of the list."""
_MOST_WORDS = 500
"""The latest words that a filter offers."""
_MOST_DURATIONS = 5000
"""Of one tool that a figure is drawn from: the last ones."""
_AGAIN = 30.0
"""Seconds between two searches for old runs. Until then they are hidden, but still there."""
_ROWS = 64
"""Rows written by one statement. Each number of rows is a statement of its own, and the most
recently used ones are already compiled."""
_SHARE = 1 / 64
"""Of the room that is left: so much is written before it is measured again. Others write, too."""
_INDEXED = 512
"""Runs, plus at most one batch, that are indexed at a time. Others can write in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """The selected runs; an empty field selects all."""

    model: str = ""
    tool: str = ""
    verdict: str = ""
    reason: str = ""
    oddity: str = ""
    fate: str = ""
    code: str = ""
    """Of the error with which it ended."""
    before: int = 0
    """The number of a run: only older ones."""
    limit: int = 50
    owner: str | None = None
    """Only runs of this key."""


class Store:
    """One file; several processes may use it. Without a path it lives in memory.

    Its methods block and may be called from any thread.
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        seconds: float = KEPT_SECONDS,
        most_bytes: int = MOST_BYTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = path
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._clock = clock
        self._lock = threading.Lock()
        self._looked_at = float("-inf")
        """The time of the last search for old runs."""
        self._unmeasured = float("inf")
        """Bytes that may have been written since it was known how full the file is."""
        self._room = 0
        """Bytes that it had left then."""
        self._database = open_database(path, make_tables)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    # ── Writing ─────────────────────────────────────────────────────────────────────

    def put(self, *batches: Batch) -> None:
        """Keep runs, all of them or none. `StoreFailed` if that is not possible."""
        if not batches:
            return
        with telling("a run could not be kept", self.path), self._lock:
            self._unmeasured += sum(map(_measure, batches))
            if self._is_soon_done(batches):
                self._insert(batches)
                return
            with changing(self._database):
                self._insert(batches)
                self._make_room()
            self._give_back()

    def _is_soon_done(self, batches: Sequence[Batch]) -> bool:
        """Return True if one statement is enough. Each statement makes two threads take turns,
        which costs more than its work."""
        is_one = len(batches) <= _ROWS and not any(batch.answers for batch in batches)
        has_room = self._unmeasured < self._room * _SHARE
        return is_one and has_room and self._clock() < self._looked_at + _AGAIN

    def _insert(self, batches: Sequence[Batch]) -> None:
        for start in range(0, len(batches), _ROWS):
            self._insert_batches(batches[start : start + _ROWS])
        if not any(batch.answers for batch in batches):
            return
        (last,) = self._database.execute(LAST).fetchone()
        number, answers = last - sum(batch.runs for batch in batches), []
        for batch in batches:
            number += batch.runs
            answers += [(number, *answer) for answer in enumerate(batch.answers, 1)]
        self._insert_all("answers", answers)

    def _insert_batches(self, batches: Sequence[Batch]) -> None:
        numbers = accumulate(batch.runs for batch in batches)
        rows = [
            (number, batch.runs, batch.began, _measure(batch), batch.content)
            for number, batch in zip(numbers, batches, strict=True)
        ]
        statement = _write_insert("batches", len(rows), row=BATCH)
        self._database.execute(statement, tuple(chain.from_iterable(rows)))

    def _insert_all(self, table: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Several rows a statement: at each end of one the streams' thread takes over, and it
        may be long until it is this one's turn again."""
        start = 0
        while start < len(rows):
            some = rows[start : start + _ROWS]
            row = f"({','.join('?' * len(some[0]))})"
            statement = _write_insert(table, len(some), row=row)
            self._database.execute(statement, tuple(chain.from_iterable(some)))
            start += len(some)

    def _make_room(self) -> None:
        """Delete what is too old or too much."""
        now, used = self._clock(), measure_use(self._database)
        self._unmeasured, self._room = 0, self._most_bytes - used
        excess = find_excess(used, self._most_bytes)
        if not excess and now < self._looked_at + _AGAIN:
            return
        self._looked_at = now
        batches = self._database.execute("SELECT last, began, size FROM batches ORDER BY last")
        last = find_last_to_go(batches, oldest=self._oldest(), excess=excess)
        batches.close()
        if last is not None:
            self._database.execute("DELETE FROM batches WHERE last <= ?", (last,))
            for part in PARTS:
                self._database.execute(f"DELETE FROM {part} WHERE run <= ?", (last,))  # noqa: S608 - names of ours

    def _give_back(self) -> None:
        if not give_back(self._database, self._most_bytes):
            self._room = 0  # there is more to do, the next time

    # ── The index ───────────────────────────────────────────────────────────────────

    def _index(self) -> None:
        """Bring it up to date."""
        while self._index_some() >= _INDEXED:
            pass

    def _index_some(self) -> int:
        """Returns how many runs were put into it."""
        with self._lock, closing(self._database.execute(BEHIND)) as behind:
            # Usually there are none, and then no reader has to wait for a writer.
            if behind.fetchone() is None:
                return 0
        with self._lock:
            with changing(self._database):
                found = self._digest_some()
                self._insert_index(found)
                self._make_room()
            self._give_back()
        return len(found)

    def _digest_some(self) -> list[tuple[int, Digest]]:
        found: list[tuple[int, Digest]] = []
        with closing(self._database.execute(BEHIND)) as behind:
            for last, count, content in behind:
                runs = enumerate(read_runs(content), last - count + 1)
                found += [(number, digest(run)) for number, run in runs]
                if len(found) >= _INDEXED:
                    break
        return found

    def _insert_index(self, found: Sequence[tuple[int, Digest]]) -> None:
        self._insert_all("lines", [(run, *each.line) for run, each in found])
        self._insert_all("calls", [_row(run, call) for run, each in found for call in each.calls])
        odd = [(run, *oddity) for run, each in found for oddity in each.oddities]
        self._insert_all("oddities", odd)

    # ── Reading ─────────────────────────────────────────────────────────────────────

    def list_runs(self, wanted: Filter) -> list[Fields]:
        """Runs in a line each, the last first."""
        named = {name: getattr(wanted, name) for name in _FILTERS}
        named["limit"] = min(max(wanted.limit, 1), MOST_LISTED)
        self._index()
        rows = self._ask(LIST, **named, oldest=self._oldest())
        return [{**read_summary(summary), "number": number} for number, summary in rows]

    def find(self, id: str, *, owner: str | None = None) -> tuple[Fields, bytes] | None:
        """A run in a line, and its events as a JSON array."""
        self._index()
        for summary, behind, content in self._ask(FIND, id=id, owner=owner):
            return read_summary(summary), tell_events(read_runs(content)[-1 - behind])
        return None

    def find_answers(self, id: str, *, owner: str | None = None) -> list[bytes]:
        """Return the upstreams' answers, as `raw.read` reads them."""
        self._index()
        return [answer for (answer,) in self._ask(ANSWERS, id=id, owner=owner)]

    def read_figures(self, *, owner: str | None = None) -> Fields:
        """Sums over all runs that are kept, and words by which these can be filtered."""
        self._index()
        durations = self._ask(DURATIONS, owner=owner, limit=_MOST_DURATIONS)
        return {
            "runs": _name(self._ask(FATES, owner=owner), "model", "fate", "count"),
            "calls": _name(self._ask(VERDICTS, owner=owner), "model", "verdict", "reason", "count"),
            "oddities": _name(self._ask(ODDITIES, owner=owner), "kind", "count"),
            "tools": measure_durations(durations),
            "names": self._list_words(NAMES, owner),
            "codes": self._list_words(CODES, owner),
        }

    def _list_words(self, query: str, owner: str | None) -> list[str]:
        return [word for (word,) in self._ask(query, owner=owner, limit=_MOST_WORDS)]

    def _ask(self, query: str, **named: Any) -> Sequence[tuple[Any, ...]]:
        with self._lock:
            return self._database.execute(query, named).fetchall()

    def _oldest(self) -> float:
        return self._clock() - self._seconds


_FILTERS = (
    *("model", "tool", "verdict", "reason", "oddity", "fate", "code"),
    *("before", "limit", "owner"),
)


@cache
def _write_insert(table: str, rows: int, *, row: str) -> str:
    return f"INSERT INTO {table} VALUES {','.join([row] * rows)}"  # noqa: S608 - names of ours


def _measure(batch: Batch) -> int:
    return len(batch.content) + sum(map(len, batch.answers))


def _row(run: int, call: CallTally) -> tuple[object, ...]:
    return (
        run,
        call.turn,
        call.number,
        call.name,
        call.verdict,
        call.reason,
        call.status,
        call.seconds,
    )


def _name(rows: Sequence[tuple[Any, ...]], *names: str) -> Sequence[Fields]:
    return [dict(zip(names, row, strict=True)) for row in rows]
