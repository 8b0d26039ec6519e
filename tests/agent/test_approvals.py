"""Approvals fail closed: whatever goes wrong, the call does not run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from executor_calls import Ear, make_call, until
from wholecall.agent.approvals import Approval, Approvals
from wholecall.agent.run_events import ApprovalAnswered, ApprovalAsked, ToolEvent
from wholecall.errors import Fenced, WholecallError
from wholecall.events import JSON, Call
from wholecall.storage import StoreFailed
from wholecall.tools.tool import Approve

CALL = make_call("pay")


async def ask(approvals: Approvals, rule: Approve = True) -> tuple[Approval, list[str]]:
    ear = Ear()
    approval = await approvals.ask(CALL, rule, emit=ear)
    assert approvals.pending == ()
    return approval, ear.words


async def approve(_call: Call) -> bool:
    return True


async def deny(_call: Call) -> bool:
    return False


async def forget(_call: Call) -> Any:
    return None


async def nod(_call: Call) -> Any:
    return "yes"


async def explain(_call: Call) -> Approval:
    return Approval(False, "not today")


async def agree(_call: Call) -> Approval:
    return Approval(True, "as agreed")


async def nod_in_words(_call: Call) -> Approval:
    word: Any = "yes"
    return Approval(word)


async def crash(_call: Call) -> bool:
    raise KeyError("secret")


async def hang(_call: Call) -> bool:
    await asyncio.Event().wait()
    return True


async def break_off(_call: Call) -> bool:
    raise asyncio.CancelledError


def crash_at_once(_call: Call) -> bool:
    raise KeyError("secret")


ASKED = ["c0 asked", "c0 approved"]
REFUSED = ["c0 asked", "c0 not approved"]
FAILED = ["c0 not approved"]

# what holds, the tool's rule, the approver, the approval, the events
ROWS: list[tuple[str, Approve, Any, Approval, list[str]]] = [
    ("never", False, deny, Approval(True), []),
    ("always, and yes", True, approve, Approval(True), ASKED),
    ("always, and no", True, deny, Approval(False), REFUSED),
    ("the rule says no need", lambda _: False, deny, Approval(True), []),
    ("the rule says it needs one", lambda _: True, approve, Approval(True), ASKED),
    ("a rule may take its time", deny, deny, Approval(True), []),
    ("… and then say it needs one", approve, deny, Approval(False), REFUSED),
    ("a rule that says nothing lets nothing pass", forget, deny, Approval(False), REFUSED),
    ("a yes of another type is none", True, nod, Approval(False), REFUSED),
    ("an approver may say why not", True, explain, Approval(False, "not today"), REFUSED),
    ("… or why", True, agree, Approval(True, "as agreed"), ASKED),
    ("… and then only True is a yes", True, nod_in_words, Approval(False), REFUSED),
    ("no answer at all is a no", True, forget, Approval(False), REFUSED),
    (
        "a rule that fails",
        crash_at_once,
        approve,
        Approval(False, "the rule for approvals failed (KeyError)"),
        FAILED,
    ),
    (
        "a rule that fails later",
        crash,
        approve,
        Approval(False, "the rule for approvals failed (KeyError)"),
        FAILED,
    ),
    (
        "an approver that fails",
        True,
        crash,
        Approval(False, "the approver failed (KeyError)"),
        REFUSED,
    ),
    (
        "an approver that is cancelled",
        True,
        break_off,
        Approval(False, "the approver broke off"),
        REFUSED,
    ),
]


@pytest.mark.parametrize(
    ("rule", "approver", "approval", "events"),
    [row[1:] for row in ROWS],
    ids=[row[0] for row in ROWS],
)
def test_only_a_clear_yes_lets_a_call_run(
    *, rule: Approve, approver: Any, approval: Approval, events: list[str]
) -> None:
    assert asyncio.run(ask(Approvals(approver), rule)) == (approval, events)


@pytest.mark.parametrize(
    "error", [Fenced("another worker has it"), StoreFailed("the disk is full")]
)
def test_a_run_that_was_cancelled_or_taken_over_gets_no_answer(error: WholecallError) -> None:
    async def lose(_: Call) -> bool:
        raise error

    approvals = Approvals(lose)
    with pytest.raises(type(error), match=str(error)):
        asyncio.run(ask(approvals))
    assert approvals.pending == ()


@pytest.mark.parametrize(
    ("rule", "approver", "events"),
    [(True, None, REFUSED), (True, hang, REFUSED), (hang, approve, FAILED)],
    ids=["nobody", "the approver", "the rule"],
)
def test_who_takes_too_long_says_no(*, rule: Approve, approver: Any, events: list[str]) -> None:
    approval = Approval(False, "nobody answered in time")
    assert asyncio.run(ask(Approvals(approver, seconds=0), rule)) == (approval, events)


def answer_directly(approvals: Approvals) -> None:
    assert approvals.answer("c0", True, why="as agreed")


def answer_from_a_thread(approvals: Approvals) -> None:
    threading.Thread(target=answer_directly, args=(approvals,)).start()


@pytest.mark.parametrize("answer", [answer_directly, answer_from_a_thread])
@pytest.mark.parametrize("approver", [None, hang])
def test_an_answer_may_come_from_outside(
    answer: Callable[[Approvals], None], approver: Any
) -> None:
    async def scenario() -> None:
        approvals = Approvals(approver)
        asking = asyncio.create_task(ask(approvals))
        await until(lambda: approvals.pending)
        assert approvals.pending == (CALL,)
        answer(approvals)
        assert await asking == (Approval(True, "as agreed"), ASKED)

    asyncio.run(scenario())


def test_the_first_answer_counts() -> None:
    async def scenario() -> None:
        approvals = Approvals()
        asking = asyncio.create_task(ask(approvals))
        await until(lambda: approvals.pending)
        assert approvals.answer("c0", False, why="no")
        assert not approvals.answer("c0", True)
        assert await asking == (Approval(False, "no"), REFUSED)

    asyncio.run(scenario())


def test_nobody_waits_for_an_answer_about_an_unknown_call() -> None:
    assert Approvals().answer("c9", True) is False


def test_who_is_cancelled_waits_no_more() -> None:
    async def scenario() -> None:
        approvals = Approvals(hang)
        asking = asyncio.create_task(ask(approvals))
        await until(lambda: approvals.pending)
        asking.cancel()
        await asyncio.wait([asking])
        assert approvals.pending == ()
        assert approvals.answer("c0", True) is False
        await until(lambda: len(asyncio.all_tasks()) == 1)

    asyncio.run(scenario())


def test_an_answer_that_meets_a_cancellation_does_no_harm() -> None:
    async def scenario() -> None:
        approvals = Approvals()
        asking = asyncio.create_task(ask(approvals))
        await until(lambda: approvals.pending)
        assert approvals.answer("c0", True)
        asking.cancel()
        await asyncio.wait([asking])
        assert asking.cancelled()

    asyncio.run(scenario())


def test_an_answer_after_the_end_of_the_loop_reaches_nobody() -> None:
    approvals = Approvals()
    loop = asyncio.new_event_loop()
    asking = loop.create_task(ask(approvals))
    loop.run_until_complete(until(lambda: approvals.pending))
    loop.close()
    assert approvals.answer("c0", True) is False
    asking.get_coro().close()


def test_runs_that_share_it_do_not_get_each_other_s_answers() -> None:
    """Ids are unique in a conversation, and not over conversations."""

    async def test() -> None:
        approvals = Approvals()
        mine, theirs = make_call("pay", door=1), make_call("pay", door=2)
        assert mine.id == theirs.id
        first = asyncio.create_task(approvals.ask(mine, True, emit=Ear()))
        await until(lambda: approvals.pending == (mine,))
        ear = Ear()
        denied = await approvals.ask(theirs, True, emit=ear)
        assert denied == Approval(False, "another call with the same id waits for an answer")
        assert ear.words == ["c0 not approved"]
        assert approvals.pending == (mine,)
        assert approvals.answer(mine.id, True)
        # The answered one has not gone on yet, and its place is free.
        second = asyncio.create_task(approvals.ask(theirs, True, emit=Ear()))
        assert await first == Approval(True)
        await until(lambda: approvals.pending == (theirs,))
        assert approvals.answer(theirs.id, False)
        assert await second == Approval(False)

    asyncio.run(test())


def test_an_approver_that_comes_too_late_answers_for_no_other_call_of_that_id() -> None:
    """It was told to stop, goes on, and says yes while the call of another run waits."""
    asked = asyncio.Event()
    go_on = asyncio.Event()

    async def stubborn(call: Call) -> bool:
        if call.name != "pay":
            return await hang(call)
        asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await go_on.wait()
        return True

    async def test() -> Approval:
        approvals, ear = Approvals(stubborn), Ear()
        first = asyncio.create_task(approvals.ask(CALL, True, emit=ear))
        await asked.wait()
        assert approvals.answer(CALL.id, False)
        await first
        other = replace(CALL, name="delete")
        second = asyncio.create_task(approvals.ask(other, True, emit=ear))
        await until(lambda: bool(approvals.pending))
        go_on.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not second.done()
        assert approvals.answer(CALL.id, False, why="mine")
        return await second

    assert asyncio.run(test()) == Approval(False, "mine")


def test_nobody_can_change_what_the_others_see() -> None:
    """What was approved is what runs."""
    call = make_call("pay", amount=1000)
    seen: list[object] = []

    def look(shown: Call) -> None:
        seen.append(shown.arguments["amount"])
        cast(dict[str, JSON], shown.arguments)["amount"] = 1

    def rule(shown: Call) -> bool:
        look(shown)
        return True

    async def approver(shown: Call) -> bool:
        look(shown)
        look(approvals.pending[0])
        return True

    def hear(event: ToolEvent) -> None:
        assert isinstance(event, ApprovalAsked | ApprovalAnswered)
        look(event.call)

    approvals = Approvals(approver)
    approval = asyncio.run(approvals.ask(call, rule, emit=hear))
    assert approval.approved
    assert seen == [1000] * 5
    assert call.arguments == {"amount": 1000}
