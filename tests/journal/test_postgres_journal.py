"""What is special about PostgreSQL: many workers at once, restarts, lost answers, poolers."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from journal_stores import Stores, open_postgres
from local_postgres import LocalPostgres, start_postgres
from wholecall.errors import Fenced
from wholecall.journal.journal_rows import Row
from wholecall.journal.postgres_journal import PostgresJournal, find_store
from wholecall.journal.postgres_server import connect
from wholecall.journal.run_journal import Claim, ClaimState, RunRow, RunStatus
from wholecall.storage import StoreFailed

NEW = RunRow("one", model="m", plan=b"{}")


@pytest.fixture
def url(postgres: LocalPostgres) -> str:
    return postgres.make_database()


@pytest.fixture
def make_postgres(url: str) -> Iterator[Stores]:
    stores = open_postgres(url)
    yield stores
    stores.close()


def read(url: str, query: str) -> list[Any]:
    with connect(url) as connection:
        return [row[0] for row in connection.execute(query).fetchall()]


# ── Starting ────────────────────────────────────────────────────────────────────────


def test_ten_workers_start_at_once(make_postgres: Stores, url: str) -> None:
    barrier = threading.Barrier(10)

    def start(_: int) -> str:
        barrier.wait()
        return make_postgres().worker

    with ThreadPoolExecutor(10) as pool:
        workers = set(pool.map(start, range(10)))
    assert read(url, "SELECT number FROM wholecall.migrations") == [1, 2]
    assert set(read(url, "SELECT id FROM wholecall.workers")) == workers


def test_tables_of_a_newer_version_are_refused(make_postgres: Stores) -> None:
    make_postgres()
    make_postgres.change("INSERT INTO wholecall.migrations VALUES (99)")
    with pytest.raises(StoreFailed, match="newer version of wholecall made the tables"):
        make_postgres()


def test_a_server_that_is_away_is_named_without_the_password(postgres: LocalPostgres) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(StoreFailed, match=rf"^postgresql://127.0.0.1:{port}/x: ") as failed:
        PostgresJournal(postgres.make_url("x", port=port))
    assert "secret-word" not in str(failed.value) + failed.value.why


def test_a_journal_is_opened_once_in_a_process(url: str) -> None:
    journal = find_store(url)
    assert find_store(url) is journal
    assert find_store(journal) is journal
    journal.close()


# ── Fencing ─────────────────────────────────────────────────────────────────────────


def test_the_end_and_the_status_are_one_statement(make_postgres: Stores) -> None:
    journal = make_postgres()
    journal.open_run(NEW).result()
    make_postgres.change(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'refused'; END $$; "
        "CREATE TRIGGER refuse BEFORE UPDATE OF status ON wholecall.runs "
        "FOR EACH ROW EXECUTE FUNCTION refuse()"
    )
    with pytest.raises(StoreFailed) as failed:
        journal.append("one", [Row("end", b"")], epoch=1, status=RunStatus.DONE).result()
    assert "refused" in failed.value.why
    make_postgres.change("DROP TRIGGER refuse ON wholecall.runs")
    found = journal.load("one").result()
    assert found is not None
    assert found.rows == ()


def test_no_row_of_an_old_epoch_comes_after_a_claim(make_postgres: Stores) -> None:
    workers = [make_postgres(lease=-1.0) for _ in range(3)]
    workers[0].open_run(NEW).result()
    claims: list[Claim] = []

    def fight(number: int) -> None:
        for _ in range(25):
            claim = workers[number].claim("one").result()
            assert claim is not None
            claims.append(claim)
            epoch = claim.run.epoch
            rows = [[Row(f"intent {epoch} {place}", b"")] for place in range(4)]
            for made in [workers[number].append("one", each, epoch=epoch) for each in rows]:
                made.exception()
            workers[number].let_go("one")

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(fight, range(3)))
    found = workers[0].load("one").result()
    assert found is not None
    assert len({claim.run.epoch for claim in claims}) == len(claims)
    for claim in claims:
        older = {row.key for row in found.rows if row.epoch < claim.run.epoch}
        assert older == {row.key for row in claim.rows}


def test_a_row_that_is_there_with_other_words_is_refused_alone(make_postgres: Stores) -> None:
    journal = make_postgres()
    journal.open_run(NEW).result()
    journal.append("one", [Row("turn 1", b"a")], epoch=1).result()
    other, next_one = (
        journal.append("one", [Row(key, b"b")], epoch=1) for key in ("turn 1", "turn 2")
    )
    with pytest.raises(ValueError, match="has other rows of these keys"):
        other.result()
    next_one.result()


# ── Signs of life ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("grace", "state"),
    [
        pytest.param(0.0, ClaimState.TAKEN, id="a worker without a session is dead"),
        pytest.param(1e9, ClaimState.BUSY, id="after a restart of the server it may come back"),
    ],
)
def test_a_worker_lives_as_long_as_its_session(
    url: str, *, grace: float, state: ClaimState
) -> None:
    one, other = PostgresJournal(url), PostgresJournal(url)
    other.grace = grace
    one.open_run(NEW).result()
    alive = other.claim("one").result()
    assert alive is not None
    assert alive.state is ClaimState.BUSY
    with connect(url) as connection:
        # A lock that no session holds, as after a kill.
        connection.execute("UPDATE wholecall.workers SET id = 'x' WHERE id = %s", (one.worker,))
        connection.execute(
            "INSERT INTO wholecall.workers (id, seen, locked) VALUES (%s, now(), true)",
            (one.worker,),
        )
    found = other.claim("one").result()
    assert found is not None
    assert found.state is state
    one.close()
    other.close()


def test_behind_a_pooler_the_lease_decides(
    postgres: LocalPostgres, url: str, *, caplog: pytest.LogCaptureFixture
) -> None:
    with relay(postgres.port) as port, caplog.at_level(logging.WARNING):
        journal = PostgresJournal(postgres.make_url(url.rpartition("/")[2], port=port))
        journal.open_run(NEW).result()
        assert "reached through a pooler such as PgBouncer" in caplog.text
        assert "secret-word" not in caplog.text
        assert read(url, "SELECT locked FROM wholecall.workers") == [False]
        direct = PostgresJournal(url)
        direct.grace = 0.0
        found = direct.claim("one").result()
        assert found is not None
        assert found.state is ClaimState.BUSY
        journal.close()
        direct.close()


@contextmanager
def relay(port: int) -> Iterator[int]:
    """Answer as a pooler does: a session begins with a number that is not the server's."""
    listener = socket.create_server(("127.0.0.1", 0))

    def pump(source: socket.socket, sink: socket.socket, *, renumber: bool) -> None:
        # The other direction may have closed both.
        with source, sink, suppress(OSError):
            while data := source.recv(65536):
                place = data.find(b"K\x00\x00\x00\x0c") if renumber else -1
                if place >= 0:
                    pid = struct.pack("!I", 7)
                    data, renumber = data[: place + 5] + pid + data[place + 9 :], False
                sink.sendall(data)

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", port))
            for ends, renumber in (((client, server), False), ((server, client), True)):
                options = {"renumber": renumber}
                threading.Thread(target=pump, args=ends, kwargs=options, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()[1]
    listener.close()


# ── Restarts ────────────────────────────────────────────────────────────────────────


def test_runs_pause_while_the_server_is_away_and_resume_by_themselves() -> None:
    with start_postgres() as server:
        journal = PostgresJournal(server.make_database())
        journal.open_run(NEW).result()
        server.crash()
        waiting = journal.append("one", [Row("intent 1 a", b"")], epoch=1)
        with pytest.raises(StoreFailed) as failed:
            journal.open_run(NEW._replace(id="two")).result()
        assert "postgresql://127.0.0.1" in failed.value.why
        assert "secret-word" not in failed.value.why
        assert not waiting.done()
        server.start()
        waiting.result(60)
        assert journal.claim("one").result().state is ClaimState.BUSY  # type: ignore[union-attr]
        journal.close()


def test_a_run_gives_up_when_the_server_stays_away() -> None:
    with start_postgres() as server:
        journal = PostgresJournal(server.make_database(), patience=0.0)
        journal.open_run(NEW).result()
        server.crash()
        with pytest.raises(StoreFailed):
            journal.append("one", [Row("intent 1 a", b"")], epoch=1).result()
        journal.close()
        server.start()


class ForgetfulJournal(PostgresJournal):
    """Loses the answer to every commit once, as a network can."""

    loses = True

    def _commit(self, changes: Sequence[Any]) -> list[Any]:
        outcomes = super()._commit(changes)
        self.loses = not self.loses
        if not self.loses:
            raise self._driver.OperationalError("the answer was lost")
        return outcomes


def test_a_commit_whose_answer_was_lost_counts_once(url: str) -> None:
    journal = ForgetfulJournal(url)
    assert journal.open_run(NEW, ["handle"]).result().state is ClaimState.NEW
    journal.append("one", [Row("intent 1 a", b"x")], epoch=1).result()
    journal.append("one", [b"1", b"2"], epoch=1).result()
    journal.append("one", [b"3"], epoch=1).result()
    assert journal.append_result("one", "a", body=b"paid", epoch=1).result() == b"paid"
    journal.append("one", [Row("end", b"")], epoch=1, status=RunStatus.DONE).result()
    found, frames = journal.load("one").result(), journal.read_frames("one").result()
    assert found is not None
    assert frames is not None
    assert [row.key for row in found.rows] == ["intent 1 a", "result a", "end"]
    assert frames.bodies == (b"1", b"2", b"3")
    assert (found.run.status, found.run.epoch) == (RunStatus.DONE, 1)
    journal.close()


def test_a_fenced_change_does_not_undo_its_neighbours(make_postgres: Stores) -> None:
    journal = make_postgres()
    journal.open_run(NEW).result()
    made = [journal.append("one", [Row(f"turn {e}", b"")], epoch=e) for e in (1, 2, 1)]
    made[0].result()
    with pytest.raises(Fenced):
        made[1].result()


def test_futures_can_be_awaited(make_postgres: Stores) -> None:
    async def wait() -> ClaimState:
        return (await asyncio.wrap_future(make_postgres().open_run(NEW))).state

    assert asyncio.run(wait()) is ClaimState.NEW
