"""Every store holds runs for its workers: one owner, one end, no lost result."""

from __future__ import annotations

import asyncio
import threading

import pytest

from journal_stores import Stores
from wholecall.errors import Fenced
from wholecall.journal.journal_rows import Row
from wholecall.journal.run_journal import (
    REFUSED_SECONDS,
    Claim,
    ClaimState,
    JournalStore,
    NewRows,
    RunRow,
    RunStatus,
)
from wholecall.storage import StoreFailed

NEW = RunRow("one", model="m", plan=b"{}")


def read_keys(journal: JournalStore, id: str = "one") -> list[str]:
    found = journal.load(id).result()
    assert found is not None
    return [row.key for row in found.rows]


def hold_commit(journal: JournalStore) -> tuple[threading.Event, threading.Event]:
    """Hold up the store after its next commit, which sets the first event, until the second is."""
    held, go_on = threading.Event(), threading.Event()

    def hold(_: float) -> None:
        held.set()
        go_on.wait()

    journal.on_commit = hold
    return held, go_on


def test_of_two_equal_handles_the_second_leads_to_the_first(
    make: Stores,
) -> None:
    one, other = make(), make()
    claims: list[Claim] = []
    barrier = threading.Barrier(8)

    def claim(number: int) -> None:
        barrier.wait()
        journal = (one, other)[number % 2]
        claims.append(journal.open_run(NEW._replace(id=f"run {number}"), ["key a"]).result())

    threads = [threading.Thread(target=claim, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({claim.run.id for claim in claims}) == 1
    states = sorted(claim.state.value for claim in claims)
    assert states == ["busy"] * 7 + ["new"]


def test_a_worker_whose_run_was_taken_over_is_fenced(make: Stores) -> None:
    one, other = make(), make()
    one.open_run(NEW).result()
    taken = make.take_over(other)
    with pytest.raises(Fenced, match="has taken over the run 'one'"):
        one.append("one", [Row("intent 1 b", b"")], epoch=1).result()
    other.append("one", [Row("intent 1 b", b"")], epoch=taken.run.epoch).result()
    assert read_keys(one) == ["intent 1 b"]


def test_a_result_counts_from_the_worker_that_wrote_the_intent(
    make: Stores,
) -> None:
    one, other = make(), make()
    one.open_run(NEW).result()
    one.append("one", [Row("intent 1 a b", b"")], epoch=1).result()
    epoch = make.take_over(other).run.epoch
    assert one.append_result("one", "a b", body=b"real", epoch=1).result() == b"real"
    assert other.append_result("one", "a b", body=b"unknown", epoch=epoch).result() == b"real"
    with pytest.raises(Fenced):
        one.append_result("one", "c", body=b"real", epoch=1).result()


def test_why_a_run_stopped_is_stored_without_keys(make: Stores) -> None:
    journal = make()
    journal.open_run(NEW).result()
    stop = "401 for Bearer abcdefgh12345678: the key sk-ant-aaaabbbbccccdddd is not valid"
    journal.append("one", (), epoch=1, status=RunStatus.FAILED, stop=stop).result()
    (run,) = journal.list_runs().result()
    assert run.stop == "401 for Bearer ***: the key sk-*** is not valid"


# ── Rows of many runs in one statement ──────────────────────────────────────────────


def write(journal: JournalStore, id: str, *keys: str, epoch: int = 1) -> list[BaseException]:
    """Write rows for which no one waits; return the list of what prevents them."""
    errors: list[BaseException] = []
    rows = [Row(key, b"lazy") for key in keys]
    journal.write(
        NewRows(NEW._replace(id=id, epoch=epoch), rows, note=errors.append, lazy=True), lazy=True
    )
    return errors


def test_rows_of_several_runs_are_written_in_their_order(make: Stores) -> None:
    journal = make()
    for id in ("one", "two"):
        journal.open_run(NEW._replace(id=id)).result()
    errors = [
        *write(journal, "one", "answer 1", "result a"),
        *write(journal, "two", "answer 1"),
        *write(journal, "one", "turn 1"),
    ]
    assert read_keys(journal) == ["answer 1", "result a", "turn 1"]
    assert read_keys(journal, "two") == ["answer 1"]
    assert errors == []


@pytest.mark.parametrize(
    ("keys", "written"),
    [
        pytest.param(["turn 1"], [], id="fenced"),
        pytest.param(["result b"], [], id="the result of what another one began"),
        pytest.param(["result a", "turn 1"], ["result a"], id="the result of what it began"),
    ],
)
def test_a_fenced_run_does_not_hold_up_the_others(
    make: Stores, *, keys: list[str], written: list[str]
) -> None:
    one, other = make(), make()
    for id in ("one", "two"):
        one.open_run(NEW._replace(id=id)).result()
    one.append("one", [Row("intent 1 a", b"")], epoch=1).result()
    make.take_over(other)
    fenced, errors = write(one, "one", *keys), write(one, "two", "answer 1")
    assert read_keys(one, "two") == ["answer 1"]
    assert read_keys(one) == ["intent 1 a", *written]
    assert [type(error) for error in fenced] == [Fenced]
    assert errors == []


def test_a_lazy_result_after_another_one_counted_is_kept_as_late(make: Stores) -> None:
    one, other = make(), make()
    one.open_run(NEW).result()
    one.append("one", [Row("intent 1 a", b"")], epoch=1).result()
    epoch = make.take_over(other).run.epoch
    other.append_result("one", "a", body=b"unknown", epoch=epoch).result()
    errors = write(one, "one", "result a")
    assert read_keys(one) == ["intent 1 a", "result a", "late a"]
    assert [type(error) for error in errors] == [Fenced]


def test_who_awaits_rows_hears_what_prevents_them(make: Stores) -> None:
    journal = make()
    journal.open_run(NEW).result()
    errors: list[BaseException] = []

    async def write_row(key: str, *, epoch: int) -> None:
        new = NewRows(NEW._replace(epoch=epoch), [Row(key, b"")], note=errors.append, lazy=False)
        journal.write(new, lazy=False)
        await new

    asyncio.run(write_row("intent 1 a", epoch=1))
    with pytest.raises(Fenced, match="has taken over the run 'one'"):
        asyncio.run(write_row("intent 1 b", epoch=2))
    journal.close()
    with pytest.raises(StoreFailed, match="it is closed"):
        asyncio.run(write_row("intent 1 c", epoch=1))
    assert [type(error) for error in errors] == [Fenced, StoreFailed]
    assert read_keys(make()) == ["intent 1 a"]


def test_rows_that_no_one_awaits_any_more_are_not_written(make: Stores) -> None:
    journal = make()
    journal.open_run(NEW).result()
    held, go_on = hold_commit(journal)

    async def write_row() -> None:
        new = NewRows(NEW._replace(epoch=1), [Row("intent 1 a", b"")], note=print, lazy=False)
        busy = journal.load("one")
        assert await asyncio.to_thread(held.wait, 10)
        journal.write(new, lazy=False)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(new, 0.01)
        go_on.set()
        await asyncio.wrap_future(busy)

    asyncio.run(write_row())
    assert read_keys(journal) == []


def test_a_result_after_another_one_counted_is_kept_as_late(
    make: Stores,
) -> None:
    one, other = make(), make()
    one.open_run(NEW).result()
    one.append("one", [Row("intent 1 a", b"")], epoch=1).result()
    epoch = make.take_over(other).run.epoch
    other.append_result("one", "a", body=b"unknown", epoch=epoch).result()
    assert one.append_result("one", "a", body=b"real", epoch=1).result() == b"unknown"
    assert read_keys(one) == ["intent 1 a", "result a", "late a"]


def test_a_run_is_busy_while_its_worker_lives_and_not_longer(
    make: Stores,
) -> None:
    one, other = make(), make()
    one.open_run(NEW).result()
    found = other.claim("one").result()
    assert found is not None
    assert found.state is ClaimState.BUSY
    one.close()
    found = other.claim("one").result()
    assert found is not None
    assert (found.state, found.before, found.run.epoch) == (ClaimState.TAKEN, one.worker, 2)


def test_a_worker_without_a_sign_of_life_has_lost_its_runs(
    make: Stores,
) -> None:
    one, other = make(), make(lease=-1.0)
    one.open_run(NEW).result()
    found = other.claim("one").result()
    assert found is not None
    assert found.state is ClaimState.TAKEN


def test_a_cancelled_run_fences_its_owner(make: Stores) -> None:
    journal = make()
    journal.open_run(NEW).result()
    assert journal.cancel("one", "not wanted any more").result()
    assert not journal.cancel("one", "again").result()
    with pytest.raises(Fenced):
        journal.append("one", [Row("intent 1 a", b"")], epoch=1).result()
    (run,) = journal.list_runs([RunStatus.CANCELLED]).result()
    assert (run.id, run.stop) == ("one", "not wanted any more")
    assert journal.list_runs([RunStatus.RUNNING]).result() == []
    assert journal.list_runs(key_id="other").result() == []


def test_a_finished_run_is_kept_for_its_time(make: Stores) -> None:
    now = [1000.0]
    journal = make(kept_seconds=60, clock=lambda: now[0])
    journal.open_run(NEW, ["key a"]).result()
    journal.append("one", (), epoch=1, status=RunStatus.DONE).result()
    for id, at, found in (("two", 1059.0, "one"), ("three", 1061.0, None)):
        now[0] = at
        journal.open_run(NEW._replace(id=id)).result()
        journal.append(id, (), epoch=1, status=RunStatus.DONE).result()
        assert journal.find("key a").result() == found


# ── Handles ─────────────────────────────────────────────────────────────────────────


def end(journal: JournalStore, id: str, *, status: RunStatus) -> None:
    journal.append(id, (), epoch=1, status=status).result()


@pytest.mark.parametrize(
    ("status", "begun", "states"),
    [
        pytest.param(RunStatus.DONE, True, ["new", "busy", "busy"], id="after an answer: new"),
        pytest.param(RunStatus.FAILED, False, ["new", "busy", "busy"], id="nothing had begun: new"),
        pytest.param(RunStatus.FAILED, True, ["over", "over", "new"], id="a tool had begun"),
        pytest.param(RunStatus.CANCELLED, True, ["over", "over", "new"], id="cancelled"),
    ],
)
def test_a_bare_request_takes_the_handle_of_a_run_that_is_over(
    make: Stores, *, status: RunStatus, begun: bool, states: list[str]
) -> None:
    now = [1000.0]
    journal = make(clock=lambda: now[0])
    journal.open_run(NEW, ["words"]).result()
    if begun:
        journal.append("one", [Row("intent 1 a", b"")], epoch=1).result()
    end(journal, "one", status=status)
    named = journal.open_run(NEW._replace(id="named"), ["words"]).result()
    assert (named.state, named.run.id) == (ClaimState.OVER, "one")
    found = []
    for after in (0.0, REFUSED_SECONDS - 1, REFUSED_SECONDS):
        now[0] = 1000.0 + after
        again = journal.open_run(NEW._replace(id=f"bare {after}"), ["words"], bare=True).result()
        found.append(again.state.value)
    assert found == states


def test_a_handle_leads_to_one_run_and_keeps_it(make: Stores) -> None:
    now = [1000.0]
    journal = make(kept_seconds=60, clock=lambda: now[0])
    for id in ("one", "two", "three"):
        journal.open_run(NEW._replace(id=id)).result()
    assert journal.add_handles("one", ["call a", "call b"], until=5000.0).result()
    assert journal.add_handles("one", ["call a"], until=6000.0).result()
    assert not journal.add_handles("two", ["call c", "call a"], until=9000.0).result()
    assert journal.find("call c").result() is None
    end(journal, "one", status=RunStatus.DONE)
    end(journal, "two", status=RunStatus.DONE)
    now[0] = 5999.0
    end(journal, "three", status=RunStatus.DONE)
    found = [journal.load(id).result() is not None for id in ("one", "two")]
    assert found == [True, False]
    assert journal.delete("one").result()
    assert not journal.delete("one").result()
    assert journal.find("call a").result() is None


# ── Frames and takeover ─────────────────────────────────────────────────────────────


def test_frames_are_numbered_on_under_every_epoch(make: Stores) -> None:
    one, other = make(), make()
    one.open_run(NEW).result()
    one.append("one", [b"a", b"b"], epoch=1).result()
    epoch = make.take_over(other).run.epoch
    with pytest.raises(Fenced):
        one.append("one", [b"x"], epoch=1).result()
    other.append("one", [b"c"], epoch=epoch, status=RunStatus.DONE).result()
    read = one.read_frames("one", 1).result()
    assert read is not None
    assert (read.bodies, read.run.status, read.run.plan) == ((b"b", b"c"), RunStatus.DONE, b"")
    assert one.read_frames("none").result() is None


def test_a_run_is_cancelled_with_its_last_frame(make: Stores) -> None:
    journal = make()
    journal.open_run(NEW).result()
    assert journal.cancel("one", "enough", frames=[b"end"]).result()
    read = journal.read_frames("one").result()
    assert read is not None
    assert (read.bodies, read.run.status) == ((b"end",), RunStatus.CANCELLED)


def test_the_background_runs_of_a_dead_worker_are_taken_over_a_few_at_a_time(
    make: Stores,
) -> None:
    one, other = make(), make()
    for number in range(6):
        one.open_run(NEW._replace(id=f"run {number}", background=True)).result()
    one.open_run(NEW._replace(id="foreground")).result()
    end(one, "run 5", status=RunStatus.READY)
    assert [claim.run.id for claim in other.claim_abandoned().result()] == ["run 5"]
    one.close()
    taken = [other.claim_abandoned().result() for _ in range(3)]
    assert [len(claims) for claims in taken] == [4, 1, 0]
    claims = [*taken[0], *taken[1]]
    assert {claim.run.id for claim in claims} == {f"run {number}" for number in range(5)}
    assert all(claim.before == one.worker and claim.run.background for claim in claims)


def test_a_change_that_no_one_waits_for_any_more_is_not_made(
    make: Stores,
) -> None:
    journal = make()
    held, go_on = hold_commit(journal)
    first = journal.open_run(NEW)
    assert held.wait(10)
    cancelled = journal.open_run(NEW._replace(id="two"))
    assert cancelled.cancel()
    go_on.set()
    assert first.result().state is ClaimState.NEW
    assert journal.load("two").result() is None


def test_a_run_that_is_over_is_not_opened_again(make: Stores) -> None:
    journal = make()
    journal.open_run(NEW).result()
    end(journal, "one", status=RunStatus.FAILED)
    with pytest.raises(Fenced):
        end(journal, "one", status=RunStatus.READY)


def test_a_run_that_is_let_go_is_free_for_the_others(make: Stores) -> None:
    one, other = make(), make()
    one.open_run(NEW).result()
    one.let_go("one")
    assert one.claim("none").result() is None  # changes are made in order
    found = other.claim("one").result()
    assert found is not None
    assert found.state is ClaimState.TAKEN


@pytest.mark.parametrize(
    ("begun", "states"),
    [
        pytest.param(False, ["new", "busy"], id="nothing had begun: a new run"),
        pytest.param(True, ["taken", "busy"], id="a tool had begun: it is claimed"),
    ],
)
def test_a_bare_request_takes_the_handle_of_a_run_whose_worker_died(
    make: Stores, *, begun: bool, states: list[str]
) -> None:
    one, other = make(), make()
    one.open_run(NEW, ["words"]).result()
    if begun:
        one.append("one", [Row("intent 1 a", b"")], epoch=1).result()
    one.close()
    again = (
        other.open_run(NEW._replace(id=f"bare {number}"), ["words"], bare=True).result()
        for number in (1, 2)
    )
    assert [claim.state.value for claim in again] == states
    found = other.load("one").result()
    assert found is not None
    assert found.run.status is (RunStatus.RUNNING if begun else RunStatus.CANCELLED)


def test_a_damaged_run_fails_alone(make: Stores) -> None:
    journal = make()
    journal.open_run(NEW).result()
    journal.open_run(NEW._replace(id="two")).result()
    make.change("UPDATE wholecall.runs SET status = 'asleep' WHERE id = 'one'")
    broken, good = journal.claim("one"), journal.claim("two")
    with pytest.raises(ValueError, match="asleep"):
        broken.result()
    assert good.result() is not None


# ── People ──────────────────────────────────────────────────────────────────────────

QUESTIONS = [("ask a b", "decision a b"), ("approval_ask a b", "approval a b")]


@pytest.mark.parametrize(("asked", "decision"), QUESTIONS)
def test_a_question_is_open_until_it_is_decided(make: Stores, *, asked: str, decision: str) -> None:
    journal = make()
    for id in ("one", "two"):
        journal.open_run(NEW._replace(id=id, key_id=f"key {id}")).result()
        journal.append(id, [Row(asked, b"{}")], epoch=1, status=RunStatus.WAITING).result()
    found = journal.list_asked().result()
    assert [(each.run.id, each.row.key, each.row.body) for each in found] == [
        ("one", asked, b"{}"),
        ("two", asked, b"{}"),
    ]
    assert [each.run.id for each in journal.list_asked(key_id="key two").result()] == ["two"]
    assert journal.read_row("one", decision).result() is None
    assert journal.decide("one", decision, body=b"yes").result()
    assert not journal.decide("one", decision, body=b"no").result()
    assert not journal.decide("none", decision, body=b"no").result()
    assert journal.read_row("one", decision).result() == b"yes"
    assert [each.run.id for each in journal.list_asked().result()] == ["two"]
    assert journal.count_open().result() == {RunStatus.READY: 1, RunStatus.WAITING: 1}
    assert journal.cancel("two", "it takes too long").result()
    assert journal.list_asked().result() == []


def test_an_approval_does_not_answer_what_became_of_the_call(make: Stores) -> None:
    journal = make()
    journal.open_run(NEW).result()
    journal.append("one", [Row("ask a", b"{}")], epoch=1).result()
    assert journal.decide("one", "approval a", body=b"yes").result()
    assert [each.row.key for each in journal.list_asked().result()] == ["ask a"]
    journal.append("one", [Row("intent 1 a", b"")], epoch=1).result()
    journal.append_result("one", "a", body=b"real", epoch=1).result()
    assert journal.list_asked().result() == []


def test_a_run_does_not_wait_for_what_was_decided_meanwhile(make: Stores) -> None:
    journal = make()
    journal.open_run(NEW).result()
    journal.append("one", [Row("ask a", b"{}")], epoch=1).result()
    assert journal.decide("one", "decision a", body=b"yes").result()
    journal.append("one", (), epoch=1, status=RunStatus.WAITING, stop="decide").result()
    journal.let_go("one")
    assert [run.status for run in journal.list_runs().result()] == [RunStatus.READY]
    claim = journal.claim("one").result()
    assert claim is not None
    epoch = claim.run.epoch
    journal.append("one", (), epoch=epoch, status=RunStatus.WAITING, stop="another").result()
    assert [run.status for run in journal.list_runs().result()] == [RunStatus.WAITING]


def test_an_operator_lets_a_run_go_on_that_waits(make: Stores) -> None:
    journal = make()
    journal.open_run(NEW).result()
    assert not journal.release("one").result()
    assert not journal.release("none").result()
    journal.append("one", (), epoch=1, status=RunStatus.WAITING, stop="no tool").result()
    assert journal.release("one").result()
    assert not journal.release("one").result()
    (run,) = journal.list_runs([RunStatus.READY]).result()
    assert (run.id, run.stop, read_keys(journal)) == ("one", "", ["release 1"])
