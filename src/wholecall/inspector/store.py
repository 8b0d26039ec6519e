"""Runs in a SQLite file: kept for some days, and not more than fits.

What the page shows is kept as it is sent, in JSON. Beside it stands what filters and figures go
by, in columns. All of it is written for every run, and read for few of them: so what can be put
together when it is read is kept once.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from wholecall.files.database import changing, open_database, telling
from wholecall.inspector.durations import measure_durations
from wholecall.inspector.encoding import Fields
from wholecall.inspector.shown import Over, Run
from wholecall.inspector.tally import CallTally, Sums

KEPT_SECONDS = 7 * 24 * 3600.0
MOST_BYTES = 256 * 1024 * 1024
MOST_LISTED = 200
"""Runs in one page of the list."""
_MOST_DURATIONS = 5000
"""Of one tool that a figure is drawn from: the last ones."""
_AGAIN = 30.0
"""Seconds after which old runs are looked for, and the others counted anew: other processes write
to the file, too. Until then an old run is listed no more, but still there."""
_ROWS = 256
"""That are written by one statement."""
_SIZE = 6
"""Where the size stands in a row of `runs`."""
_FREED_PAGES = 1000
"""Given back to the disk at a time: at 4 kB each, as much as a run may have."""
_VERSION = 5
"""Of the tables below. What older ones hold is not taken over: it would be gone soon anyway."""
_PARTS = ("answers", "oddities", "calls")
"""Tables of what belongs to a run."""
_PLACE = frozenset({"kind", "n", "at"})
"""What says of an event only where it stands among the others."""
_SCHEMA = f"""
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
PRAGMA user_version = {_VERSION};
CREATE TABLE IF NOT EXISTS runs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    key TEXT NOT NULL,
    began REAL NOT NULL,
    model TEXT NOT NULL,
    fate TEXT NOT NULL,
    size INTEGER NOT NULL,
    summary TEXT NOT NULL,
    events BLOB NOT NULL -- the longest, so it is the last: what is before it is read without it
) STRICT;
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
CREATE TABLE IF NOT EXISTS answers (
    run INTEGER NOT NULL,
    number INTEGER NOT NULL,
    answer BLOB NOT NULL,
    PRIMARY KEY (run, number)
) STRICT, WITHOUT ROWID;
"""
_LAST = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'runs'"
"""The number of the last run that was kept, even if it is gone."""
_LIST = """
SELECT number, summary FROM runs
WHERE (:owner IS NULL OR key = :owner)
  AND (:model = '' OR model = :model)
  AND (:fate = '' OR fate = :fate)
  AND (:code = '' OR json_extract(summary, '$[2].code') = :code)
  AND (:before = 0 OR number < :before)
  AND began > :oldest
  AND (:tool || :verdict || :reason = '' OR EXISTS (
    SELECT 1 FROM calls WHERE run = runs.number
      AND (:tool = '' OR name = :tool)
      AND (:verdict = '' OR verdict = :verdict)
      AND (:reason = '' OR reason = :reason)))
  AND (:oddity = '' OR EXISTS (SELECT 1 FROM oddities WHERE run = runs.number AND kind = :oddity))
ORDER BY number DESC LIMIT :limit
"""
_VERDICTS = """
SELECT model, verdict, reason, count(*) FROM calls JOIN runs ON run = runs.number
WHERE (:owner IS NULL OR key = :owner) AND verdict <> ''
GROUP BY model, verdict, reason ORDER BY model, verdict, reason
"""
_ODDITIES = """
SELECT kind, sum(count) AS total FROM oddities JOIN runs ON run = runs.number
WHERE (:owner IS NULL OR key = :owner) GROUP BY kind ORDER BY total DESC, kind
"""
_DURATIONS = """
SELECT name, status, seconds FROM calls JOIN runs ON run = runs.number
WHERE (:owner IS NULL OR key = :owner) AND seconds IS NOT NULL
ORDER BY run DESC LIMIT :limit
"""
_FATES = """
SELECT model, fate, count(*) FROM runs
WHERE (:owner IS NULL OR key = :owner) GROUP BY model, fate ORDER BY model, fate
"""


class KeptRun(msgspec.Struct, kw_only=True):
    """A run that is over. It does not change."""

    id: str
    began: float
    """In seconds since 1970."""
    key: str = ""
    model: str = ""
    fate: str = ""
    summary: str
    """As `write_summary` writes it."""
    events: bytes = b"[]"
    """What happened between its beginning and its end: a JSON array."""
    calls: Sequence[CallTally] = ()
    oddities: Mapping[str, int] = {}
    answers: Sequence[bytes] = ()
    """What upstreams sent, as `raw.write` writes it."""


def write_summary(head: Run, sums: Sums, *, over: Over) -> str:
    """How a run began, what it comes to, and how it ended: a JSON array."""
    return msgspec.json.encode((head, sums, over)).decode()


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
        self._size = 0.0
        """Bytes of all runs, as far as this process knows."""
        self._counted_at = float("-inf")
        self._free = True
        """Whether the file may have pages that nobody needs."""
        self._database = open_database(path, _make_tables)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    # ── Writing ─────────────────────────────────────────────────────────────────────

    def put(self, *runs: KeptRun) -> None:
        """Keep runs, all of them or none. `StoreFailed` if that is not possible."""
        if not runs:
            return
        with telling("a run could not be kept", self.path):
            with self._lock, changing(self._database):
                self._insert(runs)
                if self._make_room():
                    self._free = True
            if self._free:
                self._give_back()

    def _give_back(self) -> None:
        """What was freed goes back to the disk, a part at a time."""
        with self._lock:
            before = self._database.execute("PRAGMA freelist_count").fetchone()
            self._database.execute(f"PRAGMA incremental_vacuum({_FREED_PAGES})").fetchall()
        self._free = before[0] > _FREED_PAGES

    def _insert(self, runs: Sequence[KeptRun]) -> None:
        (last,) = self._database.execute(_LAST).fetchone()
        numbered = list(enumerate(runs, last + 1))
        heads = [_head(number, run) for number, run in numbered]
        self._size += sum(head[_SIZE] for head in heads)
        self._insert_all("runs", heads)
        calls = (_row(number, call) for number, run in numbered for call in run.calls)
        self._insert_all("calls", list(calls))
        oddities = ((number, *odd) for number, run in numbered for odd in run.oddities.items())
        self._insert_all("oddities", list(oddities))
        answers = (
            (number, *answer) for number, run in numbered for answer in enumerate(run.answers, 1)
        )
        self._insert_all("answers", list(answers))

    def _insert_all(self, table: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Several rows a statement: at each end of one the streams' thread takes over, and it
        may be long until it is this one's turn again."""
        start = 0
        while start < len(rows):
            some = rows[start : start + _choose_size(len(rows) - start)]
            statement = _write_insert(table, len(some), columns=len(some[0]))
            self._database.execute(statement, tuple(chain.from_iterable(some)))
            start += len(some)

    def _make_room(self) -> bool:
        """Delete what is too old or too much; whether anything was."""
        now = self._clock()
        if self._size <= self._most_bytes and now < self._counted_at + _AGAIN:
            return False
        (self._size,) = self._database.execute("SELECT total(size) FROM runs").fetchone()
        self._counted_at = now
        last = self._find_last_to_go()
        if last is None:
            return False
        self._database.execute("DELETE FROM runs WHERE number <= ?", (last,))
        for part in _PARTS:
            self._database.execute(f"DELETE FROM {part} WHERE run <= ?", (last,))  # noqa: S608 - names of ours
        return True

    def _find_last_to_go(self) -> int | None:
        """They go in the order in which they ended, which is nearly that of their beginnings."""
        last, oldest = None, self._oldest()
        runs = self._database.execute("SELECT number, began, size FROM runs ORDER BY number")
        for number, began, size in runs:
            if began > oldest and self._size <= self._most_bytes:
                break
            last = number
            self._size -= size
        runs.close()
        return last

    # ── Reading ─────────────────────────────────────────────────────────────────────

    def list_runs(self, wanted: Filter) -> list[Fields]:
        """Runs in a line each, the last first."""
        named = {name: getattr(wanted, name) for name in _FILTERS}
        named["limit"] = min(max(wanted.limit, 1), MOST_LISTED)
        rows = self._ask(_LIST, **named, oldest=self._oldest())
        return [{**_join_summary(summary), "number": number} for number, summary in rows]

    def find(self, id: str, *, owner: str | None = None) -> tuple[Fields, bytes] | None:
        """A run in a line, and its events as a JSON array."""
        rows = self._ask(
            "SELECT summary, events FROM runs WHERE id = :id AND (:owner IS NULL OR key = :owner)",
            id=id,
            owner=owner,
        )
        return next(((_join_summary(each[0]), _join_events(*each)) for each in rows), None)

    def find_answers(self, id: str, *, owner: str | None = None) -> list[bytes]:
        """What upstreams sent, as `raw.read` reads it."""
        rows = self._ask(
            "SELECT answer FROM answers JOIN runs ON run = runs.number "
            "WHERE id = :id AND (:owner IS NULL OR key = :owner) ORDER BY answers.number",
            id=id,
            owner=owner,
        )
        return [answer for (answer,) in rows]

    def read_figures(self, *, owner: str | None = None) -> Fields:
        """Sums over all runs that are kept."""
        durations = self._ask(_DURATIONS, owner=owner, limit=_MOST_DURATIONS)
        return {
            "runs": _name(self._ask(_FATES, owner=owner), "model", "fate", "count"),
            "calls": _name(
                self._ask(_VERDICTS, owner=owner), "model", "verdict", "reason", "count"
            ),
            "oddities": _name(self._ask(_ODDITIES, owner=owner), "kind", "count"),
            "tools": measure_durations(durations),
        }

    def _ask(self, query: str, **named: Any) -> Sequence[tuple[Any, ...]]:
        with self._lock:
            return self._database.execute(query, named).fetchall()

    def _oldest(self) -> float:
        return self._clock() - self._seconds


def _make_tables(database: sqlite3.Connection) -> None:
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version != _VERSION:
        database.executescript(
            "".join(f"DROP TABLE IF EXISTS {table};" for table in ("runs", *_PARTS))
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


def _head(number: int, run: KeptRun) -> tuple[Any, ...]:
    size = len(run.summary) + len(run.events) + sum(map(len, run.answers))
    return number, run.id, run.key, run.began, run.model, run.fate, size, run.summary, run.events


def _join_summary(summary: str) -> Fields:
    """A run in a line."""
    head, sums, over = msgspec.json.decode(summary)
    line = {**head, **sums, **over}
    return {name: value for name, value in line.items() if name not in _PLACE}


def _join_events(summary: str, between: bytes) -> bytes:
    """All events, as a JSON array."""
    head, _, over = msgspec.json.decode(summary, type=tuple[Raw, Raw, Raw])
    return msgspec.json.encode([head, *msgspec.json.decode(between, type=list[Raw]), over])


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
