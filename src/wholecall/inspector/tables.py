"""The tables of the inspector's file, and what is asked of them."""

from __future__ import annotations

import sqlite3

from wholecall.files.database import changing

VERSION = 8
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
