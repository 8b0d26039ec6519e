"""Runs in a SQLite file: kept for some days, and not more than fits.

Every run is written, and few are read. So to write some is to append them as they are, a batch in
a row. What the list, its filters and the figures go by stands in tables of their own, the index,
and it is brought up to date when somebody reads: for a run that goes before anybody looked, it is
never made.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from wholecall.files.database import changing, open_database, telling
from wholecall.files.room import find_last_to_go, give_back, measure_excess
from wholecall.inspector.durations import measure_durations
from wholecall.inspector.encoding import Fields
from wholecall.inspector.kept import Batch, Digest, digest, read_runs, read_summary, tell_events
from wholecall.inspector.tally import CallTally

KEPT_SECONDS = 7 * 24 * 3600.0
MOST_BYTES = 256 * 1024 * 1024
MOST_LISTED = 200
"""Runs in one page of the list."""
_MOST_WORDS = 500
"""That a filter knows: the last ones."""
_MOST_DURATIONS = 5000
"""Of one tool that a figure is drawn from: the last ones."""
_AGAIN = 30.0
"""Seconds after which old runs are looked for. Until then they are listed no more, but there."""
_ROWS = 256
"""That are written by one statement."""
_INDEXED = 512
"""Runs, and a batch at most besides, that are put into the index at a time. In between others can
write."""
_VERSION = 8
"""Of the tables below. What older ones hold is not taken over: it would be gone soon anyway."""
_PARTS = ("answers", "lines", "calls", "oddities")
"""Tables of what belongs to a run; all but the first are the index."""
_SCHEMA = f"""
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
PRAGMA user_version = {_VERSION};
CREATE TABLE IF NOT EXISTS batches (
    last INTEGER PRIMARY KEY AUTOINCREMENT, -- the number of its last run
    runs INTEGER NOT NULL,
    began REAL NOT NULL,
    size INTEGER NOT NULL,
    content BLOB NOT NULL -- the longest, so it is the last: what is before it is read without it
) STRICT;
CREATE TABLE IF NOT EXISTS answers (
    run INTEGER NOT NULL,
    number INTEGER NOT NULL,
    answer BLOB NOT NULL,
    PRIMARY KEY (run, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS lines (
    run INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    key TEXT NOT NULL,
    began REAL NOT NULL,
    model TEXT NOT NULL,
    fate TEXT NOT NULL,
    code TEXT NOT NULL,
    summary TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS lines_by_id ON lines (id);
CREATE TABLE IF NOT EXISTS calls (
    run INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    number INTEGER NOT NULL,
    name TEXT NOT NULL,
    verdict TEXT NOT NULL,
    reason TEXT NOT NULL,
    status TEXT NOT NULL,
    seconds REAL,
    PRIMARY KEY (run, turn, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS oddities (
    run INTEGER NOT NULL,
    kind TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (run, kind)
) STRICT, WITHOUT ROWID;
"""
_LAST = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'batches'"
"""The number of the last run that was kept, even if it is gone."""
_BEHIND = """
SELECT last, runs, content FROM batches
WHERE last > (SELECT coalesce(max(run), 0) FROM lines) ORDER BY last
"""
"""Runs that are not in the index yet. They are put there in their order, and whole batches."""
_LIST = """
SELECT run, summary FROM lines
WHERE (:owner IS NULL OR key = :owner)
  AND (:model = '' OR model = :model)
  AND (:fate = '' OR fate = :fate)
  AND (:code = '' OR code = :code)
  AND (:before = 0 OR run < :before)
  AND began > :oldest
  AND (:tool || :verdict || :reason = '' OR EXISTS (
    SELECT 1 FROM calls WHERE calls.run = lines.run
      AND (:tool = '' OR name = :tool)
      AND (:verdict = '' OR verdict = :verdict)
      AND (:reason = '' OR reason = :reason)))
  AND (:oddity = '' OR EXISTS (
    SELECT 1 FROM oddities WHERE oddities.run = lines.run AND kind = :oddity))
ORDER BY run DESC LIMIT :limit
"""
_FIND = """
SELECT summary, last - run, content
FROM lines JOIN batches ON last = (SELECT min(last) FROM batches WHERE last >= run)
WHERE id = :id AND (:owner IS NULL OR key = :owner)
"""
_ANSWERS = """
SELECT answer FROM answers JOIN lines USING (run)
WHERE id = :id AND (:owner IS NULL OR key = :owner) ORDER BY answers.number
"""
_VERDICTS = """
SELECT model, verdict, reason, count(*) FROM calls JOIN lines USING (run)
WHERE (:owner IS NULL OR key = :owner) AND verdict <> ''
GROUP BY model, verdict, reason ORDER BY model, verdict, reason
"""
_ODDITIES = """
SELECT kind, sum(count) AS total FROM oddities JOIN lines USING (run)
WHERE (:owner IS NULL OR key = :owner) GROUP BY kind ORDER BY total DESC, kind
"""
_DURATIONS = """
SELECT name, status, seconds FROM calls JOIN lines USING (run)
WHERE (:owner IS NULL OR key = :owner) AND seconds IS NOT NULL
ORDER BY run DESC LIMIT :limit
"""
_FATES = """
SELECT model, fate, count(*) FROM lines
WHERE (:owner IS NULL OR key = :owner) GROUP BY model, fate ORDER BY model, fate
"""
_NAMES = """
SELECT name FROM calls JOIN lines USING (run)
WHERE (:owner IS NULL OR key = :owner) AND name <> ''
GROUP BY name ORDER BY max(run) DESC, name LIMIT :limit
"""
_CODES = """
SELECT code FROM lines WHERE (:owner IS NULL OR key = :owner) AND code <> ''
GROUP BY code ORDER BY max(run) DESC LIMIT :limit
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which runs are wanted; what is empty lets all pass."""

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
        """When old runs were looked for."""
        self._database = open_database(path, _make_tables)

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
            with changing(self._database):
                self._insert(batches)
                self._make_room()
            give_back(self._database, self._most_bytes)

    def _insert(self, batches: Sequence[Batch]) -> None:
        (last,) = self._database.execute(_LAST).fetchone()
        rows, answers = [], []
        for batch in batches:
            last += batch.runs
            rows.append((last, batch.runs, batch.began, _measure(batch), batch.content))
            answers += [(last, *answer) for answer in enumerate(batch.answers, 1)]
        self._insert_all("batches", rows)
        self._insert_all("answers", answers)

    def _insert_all(self, table: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Several rows a statement: at each end of one the streams' thread takes over, and it
        may be long until it is this one's turn again."""
        start = 0
        while start < len(rows):
            some = rows[start : start + _choose_size(len(rows) - start)]
            statement = _write_insert(table, len(some), columns=len(some[0]))
            self._database.execute(statement, tuple(chain.from_iterable(some)))
            start += len(some)

    def _make_room(self) -> None:
        """Delete what is too old or too much."""
        now, excess = self._clock(), measure_excess(self._database, self._most_bytes)
        if not excess and now < self._looked_at + _AGAIN:
            return
        self._looked_at = now
        batches = self._database.execute("SELECT last, began, size FROM batches ORDER BY last")
        last = find_last_to_go(batches, oldest=self._oldest(), excess=excess)
        batches.close()
        if last is not None:
            self._database.execute("DELETE FROM batches WHERE last <= ?", (last,))
            for part in _PARTS:
                self._database.execute(f"DELETE FROM {part} WHERE run <= ?", (last,))  # noqa: S608 - names of ours

    # ── The index ───────────────────────────────────────────────────────────────────

    def _index(self) -> None:
        """Bring it up to date."""
        while self._index_some() >= _INDEXED:
            pass

    def _index_some(self) -> int:
        """Returns how many runs were put into it."""
        with self._lock, closing(self._database.execute(_BEHIND)) as behind:
            # Most of the time there are none, and then nobody has to wait for who writes.
            if behind.fetchone() is None:
                return 0
        with self._lock, changing(self._database):
            found = self._digest_some()
            self._insert_index(found)
            self._make_room()
        return len(found)

    def _digest_some(self) -> list[tuple[int, Digest]]:
        found: list[tuple[int, Digest]] = []
        with closing(self._database.execute(_BEHIND)) as behind:
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
        rows = self._ask(_LIST, **named, oldest=self._oldest())
        return [{**read_summary(summary), "number": number} for number, summary in rows]

    def find(self, id: str, *, owner: str | None = None) -> tuple[Fields, bytes] | None:
        """A run in a line, and its events as a JSON array."""
        self._index()
        for summary, behind, content in self._ask(_FIND, id=id, owner=owner):
            return read_summary(summary), tell_events(read_runs(content)[-1 - behind])
        return None

    def find_answers(self, id: str, *, owner: str | None = None) -> list[bytes]:
        """What upstreams sent, as `raw.read` reads it."""
        self._index()
        return [answer for (answer,) in self._ask(_ANSWERS, id=id, owner=owner)]

    def read_figures(self, *, owner: str | None = None) -> Fields:
        """Sums over all runs that are kept, and words by which these can be filtered."""
        self._index()
        durations = self._ask(_DURATIONS, owner=owner, limit=_MOST_DURATIONS)
        return {
            "runs": _name(self._ask(_FATES, owner=owner), "model", "fate", "count"),
            "calls": _name(
                self._ask(_VERDICTS, owner=owner), "model", "verdict", "reason", "count"
            ),
            "oddities": _name(self._ask(_ODDITIES, owner=owner), "kind", "count"),
            "tools": measure_durations(durations),
            "names": self._list_words(_NAMES, owner),
            "codes": self._list_words(_CODES, owner),
        }

    def _list_words(self, query: str, owner: str | None) -> list[str]:
        return [word for (word,) in self._ask(query, owner=owner, limit=_MOST_WORDS)]

    def _ask(self, query: str, **named: Any) -> Sequence[tuple[Any, ...]]:
        with self._lock:
            return self._database.execute(query, named).fetchall()

    def _oldest(self) -> float:
        return self._clock() - self._seconds


def _make_tables(database: sqlite3.Connection) -> None:
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version != _VERSION:
        database.executescript(
            "".join(f"DROP TABLE IF EXISTS {table};" for table in ("runs", "batches", *_PARTS))
        )
    database.executescript(_SCHEMA)


_FILTERS = (
    *("model", "tool", "verdict", "reason", "oddity", "fate", "code"),
    *("before", "limit", "owner"),
)


def _choose_size(left: int) -> int:
    """A power of two: each number of rows is a statement of its own, which has to be compiled."""
    return _ROWS if left > _ROWS else 1 << left.bit_length() - 1


@cache
def _write_insert(table: str, rows: int, *, columns: int) -> str:
    row = f"({','.join('?' * columns)})"
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
