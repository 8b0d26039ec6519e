"""Runs in a SQLite file with a TTL and a size cap."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import msgspec

from wholecall.inspector.page_encoder import Fields
from wholecall.inspector.run_record import Batch, Digest, digest, read_runs, read_summary
from wholecall.storage import (
    changing,
    find_excess,
    find_last_to_go,
    give_back,
    measure_use,
    open_database,
    telling,
)


def measure_durations(rows: Iterable[tuple[str, str, float]]) -> Sequence[Fields]:
    """Each tool: how often it ran, and how long in the middle and at its slowest."""
    tools: dict[str, list[float]] = {}
    failed: dict[str, int] = {}
    for name, status, seconds in rows:
        tools.setdefault(name, []).append(seconds)
        failed[name] = failed.get(name, 0) + (status != "done")
    return [
        {
            "name": name,
            "count": len(seconds),
            "failed": failed[name],
            "median": _at(sorted(seconds), 0.5),
            "p95": _at(sorted(seconds), 0.95),
            "longest": max(seconds),
        }
        for name, seconds in sorted(tools.items())
    ]


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


# The tables of the inspector's file, and what is asked of them.


VERSION = 10
"""Of the tables below. What older ones hold is not taken over: it would be gone soon anyway."""
PARTS = ("answers", "lines", "calls", "oddities")
"""Tables of what belongs to a run; all but the first are the index."""
SETTINGS = """
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
"""
SCHEMA = f"""
PRAGMA user_version = {VERSION};
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
    stop TEXT NOT NULL,
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
LAST = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'batches'"
"""The number of the last run that was kept, even if it is gone."""
BATCH = f"(({LAST}) + ?, ?, ?, ?, ?)"
"""A row of the batches. During a statement, the last number is the one before it."""
BEHIND = """
SELECT last, runs, content FROM batches
WHERE last > (SELECT coalesce(max(run), 0) FROM lines) ORDER BY last
"""
"""Runs that are not in the index yet. They are put there in their order, and whole batches."""
LIST = """
SELECT run, summary FROM lines
WHERE (:owner IS NULL OR key = :owner)
  AND (:model = '' OR model = :model)
  AND (:fate = '' OR fate = :fate)
  AND (:code = '' OR code = :code)
  AND (:stop = '' OR stop = :stop)
  AND (:before = 0 OR run < :before)
  AND began > :oldest
  AND (:tool || :verdict || :reason || :status = '' OR EXISTS (
    SELECT 1 FROM calls WHERE calls.run = lines.run
      AND (:tool = '' OR name = :tool)
      AND (:verdict = '' OR verdict = :verdict)
      AND (:reason = '' OR reason = :reason)
      AND (:status = '' OR status = :status)))
  AND (:oddity = '' OR EXISTS (
    SELECT 1 FROM oddities WHERE oddities.run = lines.run AND kind = :oddity))
ORDER BY run DESC LIMIT :limit
"""
FIND = """
SELECT summary, last - run, content
FROM lines JOIN batches ON last = (SELECT min(last) FROM batches WHERE last >= run)
WHERE id = :id AND (:owner IS NULL OR key = :owner)
"""
ANSWERS = """
SELECT answer FROM answers JOIN lines USING (run)
WHERE id = :id AND (:owner IS NULL OR key = :owner) ORDER BY answers.number
"""
VERDICTS = """
SELECT model, verdict, reason, count(*) FROM calls JOIN lines USING (run)
WHERE (:owner IS NULL OR key = :owner) AND verdict <> ''
GROUP BY model, verdict, reason ORDER BY model, verdict, reason
"""
ODDITIES = """
SELECT kind, sum(count) AS total FROM oddities JOIN lines USING (run)
WHERE (:owner IS NULL OR key = :owner) GROUP BY kind ORDER BY total DESC, kind
"""
DURATIONS = """
SELECT name, status, seconds FROM calls JOIN lines USING (run)
WHERE (:owner IS NULL OR key = :owner) AND seconds IS NOT NULL
ORDER BY run DESC LIMIT :limit
"""
FATES = """
SELECT model, fate, count(*) FROM lines
WHERE (:owner IS NULL OR key = :owner) GROUP BY model, fate ORDER BY model, fate
"""
NAMES = """
SELECT name FROM calls JOIN lines USING (run)
WHERE (:owner IS NULL OR key = :owner) AND name <> ''
GROUP BY name ORDER BY max(run) DESC, name LIMIT :limit
"""
CODES = """
SELECT code FROM lines WHERE (:owner IS NULL OR key = :owner) AND code <> ''
GROUP BY code ORDER BY max(run) DESC LIMIT :limit
"""


def make_tables(database: sqlite3.Connection) -> None:
    """Make what is missing. What an older version left is dropped, once: others may open the file
    at the same time."""
    database.executescript(SETTINGS)
    with changing(database):
        (version,) = database.execute("PRAGMA user_version").fetchone()
        for table in () if version == VERSION else ("runs", "batches", *PARTS):
            database.execute(f"DROP TABLE IF EXISTS {table}")
        for statement in SCHEMA.split(";"):
            database.execute(statement)


# Runs in a SQLite file, with a retention time and a size cap.
#
# Every run is written, and few are read. So writing appends a batch as one row. The list, its
# filters and the figures use tables of their own, the index, which is updated on reading. For a run
# that is deleted unread, it is never built.


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
    status: str = ""
    """Of running a call here: `failed`, `skipped` and so on."""
    oddity: str = ""
    fate: str = ""
    code: str = ""
    """Of the error with which it ended."""
    stop: str = ""
    """Why it ended, if not with an answer."""
    before: int = 0
    """The number of a run: only older ones."""
    limit: int = 50
    owner: str | None = None
    """Only runs of this key."""


class RunStore:
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
            # Usually no run is pending, and then no reader has to wait for a writer.
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
        self._insert_all("calls", [(run, *call) for run, each in found for call in each.calls])
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
            run = read_runs(content)[-1 - behind]
            return read_summary(summary), msgspec.json.encode(run.events)
        return None

    def find_answers(self, id: str, *, owner: str | None = None) -> list[bytes]:
        """Return the upstreams' answers, as `captured_answer.read` reads them."""
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
    *("model", "tool", "verdict", "reason", "status", "oddity", "fate", "code", "stop"),
    *("before", "limit", "owner"),
)


@cache
def _write_insert(table: str, rows: int, *, row: str) -> str:
    return f"INSERT INTO {table} VALUES {','.join([row] * rows)}"  # noqa: S608 - names of ours


def _measure(batch: Batch) -> int:
    return len(batch.content) + sum(map(len, batch.answers))


def _name(rows: Sequence[tuple[Any, ...]], *names: str) -> Sequence[Fields]:
    return [dict(zip(names, row, strict=True)) for row in rows]
