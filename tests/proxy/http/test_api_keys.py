"""The keys of clients, in a real file."""

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from wholecall.proxy.http.api_keys import (
    ANONYMOUS,
    FRESH_SECONDS,
    STRANGER,
    Key,
    KeyEntry,
    KeyStore,
    KeyStoreFailed,
)

RIGHTS = Key(id="", name="ops")


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[KeyStore]:
    with closing(KeyStore(tmp_path / "keys.sqlite", clock=clock)) as store:
        yield store


def test_a_key_is_256_random_bits_and_its_id_is_that_of_its_digest(store: KeyStore) -> None:
    made = [store.create(RIGHTS) for _ in range(20)]
    texts = {text for text, _ in made}
    assert len(texts) == 20
    for text, key in made:
        assert text.startswith("wc_")
        assert len(text) == len("wc_") + 43  # 32 bytes in base64
        assert key.id == f"key_{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def test_the_file_holds_the_digest_and_not_the_key(store: KeyStore, tmp_path: Path) -> None:
    text, _ = store.create(RIGHTS)
    store.close()
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert hashlib.sha256(text.encode()).digest() in written
    assert text.encode() not in written
    assert text.removeprefix("wc_").encode() not in written


def test_only_its_owner_may_read_the_file(store: KeyStore, tmp_path: Path) -> None:
    store.create(RIGHTS)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    assert len(list(tmp_path.iterdir())) == 3  # WAL keeps two files beside it


def test_a_key_opens_with_its_rights(store: KeyStore) -> None:
    rights = Key(
        id="", name="ops", models=("gpt-*",), tools=("search",), rpm=5, concurrent=2, expires=2e9
    )
    text, key = store.create(rights)
    found = store.check(text)
    assert found == key
    assert found is not None
    assert (found.models, found.tools, found.rpm, found.concurrent) == (
        ("gpt-*",),
        ("search",),
        5,
        2,
    )


@pytest.mark.parametrize("guess", ["", "wc_", "wc_" + "A" * 43, "sk-x", "ä\udcff"])
def test_a_guess_opens_nothing(store: KeyStore, guess: str) -> None:
    text, _ = store.create(RIGHTS)
    assert store.check(guess) is None
    assert store.check(text[:-1]) is None
    assert store.check(text + "A") is None


def test_a_key_may_use_all_models_and_no_tools_by_default() -> None:
    assert RIGHTS.may_use("gpt-x")
    assert not RIGHTS.may_call("search")
    limited = Key(id="", name="x", models=("gpt-*",), tools=("time__*",))
    assert (limited.may_use("gpt-x"), limited.may_use("claude")) == (True, False)
    assert (limited.may_call("time__now"), limited.may_call("search")) == (True, False)
    assert ANONYMOUS.may_call("search")
    assert not STRANGER.may_use("gpt-x")
    assert not STRANGER.may_call("search")


def test_a_key_ends_at_its_time(store: KeyStore, clock: Clock) -> None:
    text, _ = store.create(Key(id="", name="x", expires=clock.now + 10))
    assert store.check(text) is not None
    clock.now += 9.9
    assert store.check(text) is not None
    clock.now += 0.1
    assert store.check(text) is None


def test_a_revoked_key_is_closed_at_once_where_it_was_revoked(store: KeyStore) -> None:
    text, key = store.create(RIGHTS)
    other, _ = store.create(RIGHTS)
    assert store.check(text) is not None
    assert store.revoke(key.id)
    assert store.check(text) is None
    assert store.check(other) is not None
    assert not store.revoke(key.id)
    assert not store.revoke("key_nothing")


def test_other_processes_notice_within_seconds(
    store: KeyStore, clock: Clock, *, tmp_path: Path
) -> None:
    with closing(KeyStore(tmp_path / "keys.sqlite", clock=clock)) as elsewhere:
        text, key = store.create(RIGHTS)
        assert elsewhere.check(text) is not None
        store.revoke(key.id)
        late, _ = store.create(RIGHTS)
        assert elsewhere.check(text) is not None
        assert elsewhere.check(late) is None
        clock.now += FRESH_SECONDS
        assert elsewhere.check(text) is None
        assert elsewhere.check(late) is not None


def test_a_clock_that_is_set_back_keeps_no_key_alive(
    store: KeyStore, clock: Clock, *, tmp_path: Path
) -> None:
    with closing(KeyStore(tmp_path / "keys.sqlite", clock=clock)) as elsewhere:
        text, key = store.create(RIGHTS)
        assert elsewhere.check(text) is not None
        store.revoke(key.id)
        clock.now -= 3600
        assert elsewhere.check(text) is None


def test_requests_do_not_read_the_file(store: KeyStore, clock: Clock) -> None:
    text, _ = store.create(RIGHTS)
    assert store.check(text) is not None
    # The file is gone, and nobody asks for it.
    store.close()
    assert store.check(text) is not None
    assert store.check("wc_guess") is None
    clock.now += FRESH_SECONDS
    with pytest.raises(KeyStoreFailed):
        store.check(text)


def test_a_file_that_has_not_changed_is_not_read_again(store: KeyStore, clock: Clock) -> None:
    text, _ = store.create(RIGHTS)
    first = store.check(text)
    clock.now += FRESH_SECONDS
    assert store.check(text) is first


def test_keys_are_listed_from_the_oldest_on(store: KeyStore, clock: Clock) -> None:
    _, first = store.create(RIGHTS)
    clock.now += 1
    _, second = store.create(RIGHTS)
    clock.now += 1
    store.revoke(first.id)
    assert store.list() == [
        KeyEntry(key=first, created=1_000_000.0, revoked=1_000_002.0),
        KeyEntry(key=second, created=1_000_001.0),
    ]


@pytest.mark.parametrize("name", ["missing/keys.sqlite", "text.sqlite"])
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "text.sqlite").write_text("this is no database, but a text of some length " * 20)
    with pytest.raises(KeyStoreFailed, match=name):
        KeyStore(tmp_path / name)


def test_the_file_is_in_wal_mode_so_that_readers_never_wait(
    store: KeyStore, tmp_path: Path
) -> None:
    text, _ = store.create(RIGHTS)
    with closing(sqlite3.connect(tmp_path / "keys.sqlite", isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM keys")
        assert store.check(text) is not None
        writer.execute("ROLLBACK")
