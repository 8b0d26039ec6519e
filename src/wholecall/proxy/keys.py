"""The keys of clients: what each may do, and the file that remembers them.

A key is 256 random bits, so its SHA-256 can be stored without salt or stretching: nobody
finds it by trying words. It is looked up by that digest. How long the lookup takes tells
something about the digest of a guess, which says nothing about how to come closer.

Requests ask a copy in memory. It is compared with the file every `FRESH_SECONDS`, so that a
key that another process makes or revokes counts that much later, at most.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from wholecall.errors import WholecallError
from wholecall.files.database import damage, diagnose
from wholecall.proxy.config.settings import ANYTHING, Config, matches

PREFIX = "wc_"
"""By it a key of ours is known from those of others, also to programs that look for lost ones."""
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
    """What the holder of a key may do."""

    id: str
    """The beginning of the digest: a lost key can be traced to its entry, but not back."""
    name: str
    models: tuple[str, ...] = ANYTHING
    """Models it may use; `*` stands for anything."""
    tools: tuple[str, ...] = ()
    """The server's tools that are run for it."""
    rpm: int | None = None
    """Requests per minute."""
    concurrent: int | None = None
    """Requests to models at a time."""
    expires: float | None = None
    """When it ends, in seconds since 1970."""

    def may_use(self, model: str) -> bool:
        """Whether the model may be asked with this key."""
        return matches(model, self.models)

    def may_call(self, tool: str) -> bool:
        """Whether the server's tool is run for this key."""
        return matches(tool, self.tools)


ANONYMOUS = Key(id="", name="anonymous", tools=ANYTHING)
"""Who comes without a key where none is needed: on a loopback address, whoever started it."""

STRANGER = Key(id="", name="stranger", models=())
"""Who looks at a page that needs no key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
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

    def list(self) -> list[Entry]:
        """Every key, the oldest first; revoked ones, too."""
        query = "SELECT rights, created, revoked FROM keys ORDER BY created, id"
        with self._telling():
            rows = self._file.execute(query).fetchall()
            return [
                Entry(key=_decode(rights), created=created, revoked=revoked)
                for rights, created, revoked in rows
            ]

    def revoke(self, id: str) -> bool:
        """End a key; False if there is none of this id that is still good."""
        query = "UPDATE keys SET revoked = ? WHERE id = ? AND revoked IS NULL"
        with self._telling(), self._file:
            changed = self._file.execute(query, (self._clock(), id)).rowcount
        self._forget()
        return bool(changed)

    def check(self, text: str) -> Key | None:
        """Whose key this is; None if it is nobody's, or no longer good."""
        now = self._clock()
        # A clock that was set back must not keep a revoked key alive.
        if not self._looked_at <= now < self._looked_at + FRESH_SECONDS:
            self._refresh(now)
        key = self._valid.get(_digest(text))
        if key is None or (key.expires is not None and key.expires <= now):
            return None
        return key

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
        """What this store wrote itself, the file's version does not show."""
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


def needs_keys(config: Config) -> bool:
    """Whether keys are looked at: they are asked for, or there are some."""
    return config.keys.required or Path(config.keys.path).is_file()


def find_key_trouble(path: str) -> str:
    """Why a file cannot hold the keys, and what to do; empty if it can. Nothing is written."""
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
