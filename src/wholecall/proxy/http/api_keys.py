"""Client keys: their rights, and the file that stores them.

A key is 256 random bits, so its SHA-256 can be stored without salt or stretching: it cannot be
guessed. It is looked up by that digest. The duration of the lookup reveals something about the
digest of a guess, which does not help to find a better guess.

Requests use a copy in memory. It is compared with the file every `FRESH_SECONDS`, so a key that
another process creates or revokes takes effect at most that much later.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from wholecall.errors import WholecallError
from wholecall.journal.postgres_server import PostgresSession
from wholecall.proxy.config.schema import ANYTHING, Config, find_shared_url, matches
from wholecall.storage import StoreFailed, damage, diagnose

_LOG = logging.getLogger(__name__)
PREFIX = "wc_"
"""Distinguishes our keys from others, also for programs that scan for leaked keys."""
FRESH_SECONDS = 2.0
_KEY_BYTES = 32
_ID_CHARACTERS = 12
_BUSY_SECONDS = 5.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS keys (
    digest BLOB PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    rights TEXT NOT NULL,
    created REAL NOT NULL,
    revoked REAL
) STRICT, WITHOUT ROWID
"""


class KeyStoreFailed(WholecallError):
    """The file of the keys cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """The rights of a key."""

    id: str
    """The beginning of the digest: a lost key can be traced to its entry, but not back."""
    name: str
    models: tuple[str, ...] = ANYTHING
    """Models it may use; `*` is a wildcard."""
    tools: tuple[str, ...] = ()
    """The server's tools that are run for it."""
    may_approve: bool = False
    """True if it may decide about the calls of its runs that wait for a person."""
    rpm: int | None = None
    """Requests per minute."""
    concurrent: int | None = None
    """Requests to models at a time."""
    expires: float | None = None
    """The expiry, in seconds since 1970."""

    def may_use(self, model: str) -> bool:
        """Return True if the model may be used with this key."""
        return self.models == ANYTHING or matches(model, self.models)

    def may_call(self, tool: str) -> bool:
        """Return True if the server's tool runs for this key."""
        return matches(tool, self.tools)


ANONYMOUS = Key(id="", name="anonymous", tools=ANYTHING, may_approve=True)
"""A client without a key if none is needed: on a loopback address, the user who started it."""

STRANGER = Key(id="", name="stranger", models=())
"""A viewer of a page that needs no key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyEntry:
    """A key as the file has it."""

    key: Key
    created: float
    revoked: float | None = None


class KeyStore:
    """The file of the keys. A store belongs to one thread; processes may share the file."""

    def __init__(self, path: str | Path, *, clock: Callable[[], float] = time.time) -> None:
        self._path = str(path)
        self._clock = clock
        self._valid: Mapping[bytes, Key] = {}
        self._seen_version: object = None
        self._looked_at = float("-inf")
        with self._telling():
            self._file = _open(self._path)

    def create(self, rights: Key) -> tuple[str, Key]:
        """Make a key with these rights; its text is to be had only here."""
        text = PREFIX + secrets.token_urlsafe(_KEY_BYTES)
        digest = _digest(text)
        key = replace(rights, id=f"key_{digest.hex()[:_ID_CHARACTERS]}")
        row = (digest, key.id, msgspec.json.encode(key).decode(), self._clock())
        with self._telling(), self._file:
            self._file.execute(
                "INSERT INTO keys (digest, id, rights, created) VALUES (?,?,?,?)", row
            )
        self._forget()
        return text, key

    def list(self) -> list[KeyEntry]:
        """Every key, the oldest first; revoked ones, too."""
        query = "SELECT rights, created, revoked FROM keys ORDER BY created, id"
        with self._telling():
            rows = self._file.execute(query).fetchall()
            return [
                KeyEntry(key=_decode(rights), created=created, revoked=revoked)
                for rights, created, revoked in rows
            ]

    def revoke(self, id: str) -> bool:
        """Revoke a key; return False if no valid key has this id."""
        query = "UPDATE keys SET revoked = ? WHERE id = ? AND revoked IS NULL"
        with self._telling(), self._file:
            changed = self._file.execute(query, (self._clock(), id)).rowcount
        self._forget()
        return bool(changed)

    def check(self, text: str) -> Key | None:
        """Return the key; None if it is unknown, revoked or expired."""
        now = self._clock()
        # A clock that was set back must not keep a revoked key alive.
        if not self._looked_at <= now < self._looked_at + FRESH_SECONDS:
            self._refresh(now)
        key = self._valid.get(_digest(text))
        if key is None or (key.expires is not None and key.expires <= now):
            return None
        return key

    def find(self, id: str) -> Key | None:
        """Return the valid key of an id."""
        self._refresh(self._clock())
        keys = (key for key in self._valid.values() if key.id == id)
        return next(
            (key for key in keys if key.expires is None or key.expires > self._clock()), None
        )

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    def _refresh(self, now: float) -> None:
        """Look whether the file has changed, which takes microseconds; if so, read it.

        Readers never wait for writers here: that is what WAL is for.
        """
        with self._telling():
            [version] = self._file.execute("PRAGMA data_version").fetchone()
            if version != self._seen_version:
                query = "SELECT digest, rights FROM keys WHERE revoked IS NULL"
                self._valid = {
                    digest: _decode(rights) for digest, rights in self._file.execute(query)
                }
                self._seen_version = version
        self._looked_at = now

    def _forget(self) -> None:
        """Drop the copy: the file's version does not show our own writes."""
        self._seen_version = None
        self._looked_at = float("-inf")

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise self._fail(diagnose(error, Path(self._path))) from error
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            said = damage(f"the rights of a key are not what was written: {error}")
            raise self._fail(diagnose(said, Path(self._path))) from error

    def _fail(self, why: str) -> KeyStoreFailed:
        return KeyStoreFailed(f"the keys cannot be read or written: {why}")


class SharedKeyStore(KeyStore):
    """The keys in PostgreSQL, for proxies on several machines.

    A request never waits for the server: the copy in memory is renewed in a thread. While the
    server is away the copy stays in use, so a key that is revoked then is accepted until it is
    back.
    """

    def __init__(self, url: str, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._valid = {}
        self._looked_at = float("-inf")
        self._is_known = False
        self._renewing = threading.Lock()
        self._session = PostgresSession(url)
        self._renew()

    def create(self, rights: Key) -> tuple[str, Key]:
        """Make a key with these rights; its text is to be had only here."""
        text = PREFIX + secrets.token_urlsafe(_KEY_BYTES)
        digest = _digest(text)
        key = replace(rights, id=f"key_{digest.hex()[:_ID_CHARACTERS]}")
        row = (digest, key.id, msgspec.json.encode(key).decode(), self._clock())
        with self._telling(), self._session.change() as database:
            insert = (
                "INSERT INTO wholecall.keys (digest, id, rights, created) VALUES (%s, %s, %s, %s)"
            )
            database.execute(insert, row)
        self._renew()
        return text, key

    def list(self) -> list[KeyEntry]:
        """Every key, the oldest first; revoked ones, too."""
        query = "SELECT rights, created, revoked FROM wholecall.keys ORDER BY created, id"
        with self._telling():
            return [
                KeyEntry(key=_decode(rights), created=created, revoked=revoked)
                for rights, created, revoked in self._session.ask(query)
            ]

    def revoke(self, id: str) -> bool:
        """Revoke a key; return False if no valid key has this id."""
        query = "UPDATE wholecall.keys SET revoked = %s WHERE id = %s AND revoked IS NULL"
        with self._telling(), self._session.change() as database:
            changed = database.execute(query, (self._clock(), id)).rowcount
        self._renew()
        return bool(changed)

    def close(self) -> None:
        """Close the connection."""
        self._session.close()

    def _refresh(self, now: float) -> None:
        self._looked_at = now
        threading.Thread(target=self._renew, name="wholecall keys", daemon=True).start()
        if not self._is_known:
            raise self._fail("the server has not answered yet")

    def _renew(self) -> None:
        """Read the keys anew, unless another thread does; keep the copy if that fails."""
        if not self._renewing.acquire(blocking=False):
            return
        try:
            query = "SELECT digest, rights FROM wholecall.keys WHERE revoked IS NULL"
            rows = self._session.ask(query)
            self._valid = {bytes(digest): _decode(rights) for digest, rights in rows}
            self._is_known = True
        except (StoreFailed, msgspec.MsgspecError) as error:
            _LOG.warning("the keys cannot be read: %s", getattr(error, "why", error))
        finally:
            self._renewing.release()

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except StoreFailed as error:
            raise self._fail(error.why) from error
        except msgspec.MsgspecError as error:
            raise self._fail(f"the rights of a key are not what was written: {error}") from error


def open_keys(config: Config) -> KeyStore:
    """Return the keys of a proxy; `KeyStoreFailed` if their file cannot be used."""
    url = find_shared_url(config)
    return SharedKeyStore(url) if url else KeyStore(config.keys.path)


def needs_keys(config: Config) -> bool:
    """Return True if keys are checked: they are required, or there is a file of them."""
    has_file = not find_shared_url(config) and Path(config.keys.path).is_file()
    return config.keys.required or has_file


def find_key_trouble(path: str) -> str:
    """Return why a file cannot hold the keys, and what to do; empty if it can. Write nothing."""
    file, folder = Path(path), Path(path).parent
    if not folder.is_dir():
        return f"there is no folder {str(folder)!r}: make it, or name another file"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"the folder {str(folder)!r} cannot be written: allow it, or name another file"
    if not file.exists():
        return ""
    if not os.access(file, os.R_OK | os.W_OK):
        return f"{path!r} cannot be read and written: allow it, or name another file"
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=rw", uri=True)) as opened:
            if opened.execute("SELECT 1 FROM sqlite_schema WHERE name = 'keys'").fetchone():
                opened.execute("SELECT digest, id, rights, created, revoked FROM keys LIMIT 0")
    except sqlite3.Error as error:
        return f"{path!r} is no file of keys ({error}): name another file"
    return ""


def _open(path: str) -> sqlite3.Connection:
    """Only its owner may read the file: it says who may do what."""
    Path(path).touch(mode=0o600)
    file = sqlite3.connect(path, timeout=_BUSY_SECONDS)
    file.execute("PRAGMA journal_mode = WAL")
    file.execute(_SCHEMA)
    return file


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def _decode(rights: str) -> Key:
    return msgspec.json.decode(rights, type=Key)
