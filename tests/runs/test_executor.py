"""The executor: side by side, at most once, one result each, in call order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from executing import Ear, make_call, until
from wholecall.core.conversation import CallResult
from wholecall.runs.approvals import Approvals
from wholecall.runs.calling import ExecutorSettings
from wholecall.runs.events import Status, ToolEnded, ToolEvent, ToolStarted
from wholecall.runs.executor import Executor
from wholecall.runs.limits import RunLimits
from wholecall.tools.from_function import make_tool
from wholecall.tools.tool import Tool
from wholecall.tools.toolbox import Toolbox


class Doors:
    """Tools that wait behind doors which the test opens, by the call's number."""

    def __init__(self) -> None:
        self.inside: list[int] = []
        self.most = 0
        self._open: dict[int, asyncio.Event] = {}

    def open(self, *numbers: int) -> None:
        for number in numbers:
            self._open.setdefault(number, asyncio.Event()).set()

    async def enter(self, door: int) -> str:
        self.inside.append(door)
        self.most = max(self.most, len(self.inside))
        try:
            await self._open.setdefault(door, asyncio.Event()).wait()
        finally:
            self.inside.remove(door)
        return f"door {door}"

    def tool(self, name: str, **rules: object) -> Tool:
        return replace(make_tool(self.enter, name=name), **rules)  # type: ignore[arg-type]


class House:
    """An executor over doors, with an ear at its events."""

    def __init__(
        self,
        *,
        limits: RunLimits | None = None,
        settings: ExecutorSettings | None = None,
        also: tuple[Tool, ...] = (),
    ) -> None:
        self.doors = Doors()
        self.ear = Ear()
        tools = [
            self.doors.tool("look", read_only=True),
            self.doors.tool("write"),
            self.doors.tool("alone", barrier=True),
            self.doors.tool("single", concurrency=1),
            self.doors.tool("pay", approve=True),
        ]
        self.executor = Executor(
            Toolbox([*tools, *also]),
            emit=self.ear,
            limits=limits,
            settings=settings or ExecutorSettings(grace=0.0),
        )

    def start(self, *names: str) -> None:
        for number, name in enumerate(names):
            self.executor.start(make_call(name, number, door=number))

    async def inside(self, *numbers: int) -> None:
        """Wait until exactly these are inside, and nobody else comes."""
        await until(lambda: sorted(self.doors.inside) == sorted(numbers))
        for _ in range(20):
            await asyncio.sleep(0)
        assert sorted(self.doors.inside) == sorted(numbers)


Scenario = Callable[[House], Awaitable[None]]


def play(scenario: Scenario, **options: RunLimits | ExecutorSettings) -> House:
    house = House(**options)  # type: ignore[arg-type]

    async def run() -> None:
        async with asyncio.timeout(60):
            await scenario(house)
        assert len(asyncio.all_tasks()) == 1, "no task is left behind"

    asyncio.run(run())
    return house


def texts(results: tuple[CallResult, ...]) -> list[str]:
    return [result.result.text for result in results]


# ── Order and overlap ───────────────────────────────────────────────────────────────


def test_calls_overlap_and_results_come_in_call_order() -> None:
    async def scenario(house: House) -> None:
        house.start("look", "write", "look")
        await house.inside(0, 1, 2)
        for number, left in [(2, [0, 1]), (0, [1]), (1, [])]:
            house.doors.open(number)
            await house.inside(*left)
        results = await house.executor.settle()
        assert [result.call_id for result in results] == ["c0", "c1", "c2"]
        assert [result.name for result in results] == ["look", "write", "look"]
        assert texts(results) == ["door 0", "door 1", "door 2"]

    house = play(scenario)
    assert house.ear.words[:3] == ["c0 started", "c1 started", "c2 started"]
    assert house.ear.words[3:] == ["c2 done", "c0 done", "c1 done"]


def test_start_returns_before_anything_runs() -> None:
    async def scenario(house: House) -> None:
        house.start("look")
        assert house.doors.inside == []
        house.doors.open(0)
        await house.executor.settle()

    play(scenario)


def test_no_more_run_than_allowed() -> None:
    async def scenario(house: House) -> None:
        house.start(*["look"] * 5)
        await house.inside(0, 1)
        house.doors.open(1)
        await house.inside(0, 2)
        house.doors.open(0, 2, 3, 4)
        assert len(await house.executor.settle()) == 5

    assert play(scenario, limits=RunLimits(parallel=2)).doors.most == 2


def test_a_tool_s_own_limit_holds_back_only_its_own() -> None:
    async def scenario(house: House) -> None:
        house.start("single", "single", "look")
        await house.inside(0, 2)
        house.doors.open(0)
        await house.inside(1, 2)
        house.doors.open(1, 2)
        await house.executor.settle()

    play(scenario)


def test_a_barrier_runs_alone_and_in_its_place() -> None:
    async def scenario(house: House) -> None:
        house.start("look", "alone", "look")
        await house.inside(0)
        house.doors.open(0)
        await house.inside(1)
        house.doors.open(1)
        await house.inside(2)
        house.doors.open(2)
        assert texts(await house.executor.settle()) == ["door 0", "door 1", "door 2"]

    play(scenario)


def test_results_follow_the_number_and_not_the_start() -> None:
    async def scenario(house: House) -> None:
        house.doors.open(0, 1)
        house.executor.start(make_call("look", 1, door=1))
        house.executor.start(make_call("look", 0, door=0))
        assert texts(await house.executor.settle()) == ["door 0", "door 1"]

    play(scenario)


@settings(max_examples=60)
@given(
    names=st.lists(st.sampled_from(["look", "write", "alone", "single"]), max_size=8),
    parallel=st.integers(1, 4),
    draw=st.data(),
)
def test_any_schedule_gives_every_call_one_result_in_call_order(
    *, names: list[str], parallel: int, draw: st.DataObject
) -> None:
    numbers = list(range(len(names)))
    opened = draw.draw(st.permutations(numbers), label="doors")
    started = draw.draw(st.permutations(numbers), label="starts")

    async def scenario(house: House) -> None:
        for number in started:
            house.executor.start(make_call(names[number], number, door=number))
            if draw.draw(st.booleans(), label="step"):
                await asyncio.sleep(0)
        for number in opened:
            house.doors.open(number)
            await asyncio.sleep(0)
        results = await house.executor.settle()
        assert texts(results) == [f"door {number}" for number in numbers]

    house = play(scenario, limits=RunLimits(parallel=parallel))
    assert house.ear.count(ToolStarted) == house.ear.count(ToolEnded) == len(names)
    assert house.doors.most <= parallel


# ── At most once, exactly one result ────────────────────────────────────────────────


def test_a_call_is_never_run_twice() -> None:
    async def scenario(house: House) -> None:
        house.doors.open(0)
        for _ in range(2):
            house.start("write")
        assert len(await house.executor.settle()) == 1
        house.start("write")
        house.executor.skip(make_call("write", 0), "too often")
        assert await house.executor.settle() == ()

    assert play(scenario).ear.words == ["c0 started", "c0 done"]


def test_a_skipped_call_has_its_result_and_is_not_run() -> None:
    async def scenario(house: House) -> None:
        call = make_call("write", 0, door=0)
        house.executor.skip(call, "the limit is reached")
        house.executor.start(call)
        [result] = await house.executor.settle()
        assert result.result.failed
        assert 'The call of "write" was not run: the limit is reached.' in result.result.text
        assert house.executor.ran == ()

    assert play(scenario).ear.words == ["c0 skipped"]


def test_a_skip_may_have_another_status() -> None:
    async def scenario(house: House) -> None:
        house.executor.skip(make_call("write"), "no", status=Status.DENIED)
        await house.executor.settle()

    assert play(scenario).ear.ended == {"c0": Status.DENIED}


@pytest.mark.parametrize("name", ["nothing", "click"])
def test_what_cannot_be_run_here_is_skipped(name: str) -> None:
    async def scenario() -> list[str]:
        ear = Ear()
        executor = Executor(Toolbox([{"name": "click"}]), emit=ear)
        executor.start(make_call(name))
        assert "nobody here can run it" in texts(await executor.settle())[0]
        return ear.words

    assert asyncio.run(scenario()) == ["c0 skipped"]


def test_each_turn_has_its_own_results_and_the_run_knows_what_ran() -> None:
    async def scenario(house: House) -> None:
        first, second = make_call("write", 0, door=0), make_call("look", 1, door=1)
        house.doors.open(0, 1)
        house.executor.start(first)
        assert texts(await house.executor.settle()) == ["door 0"]
        house.executor.start(second)
        assert texts(await house.executor.settle()) == ["door 1"]
        assert house.executor.ran == (first, second)
        assert await house.executor.settle() == ()

    play(scenario)


def test_siblings_survive_whatever_one_does() -> None:
    async def scenario(house: House) -> None:
        house.start("look", "fails", "exits", "look", "interrupts", "huge")
        house.doors.open(0, 3)
        results = await house.executor.settle()
        assert [result.result.failed for result in results] == [
            False,
            True,
            True,
            False,
            True,
            False,
        ]
        assert len(results[5].result.text) < 300_000

    def fails(door: int) -> None:
        raise ValueError(door)

    async def exits(door: int) -> None:
        raise SystemExit(door)

    def interrupts(door: int) -> None:
        raise KeyboardInterrupt(door)

    def huge(door: int) -> str:
        return "a" * (100_000_000 + door)

    play(scenario, also=tuple(map(make_tool, (fails, exits, interrupts, huge))))  # type: ignore[arg-type]


def test_retries_are_one_call_that_ran() -> None:
    left = [1, 1]

    async def flaky(door: int) -> str:
        if left:
            left.pop()
            raise ConnectionError
        return f"door {door}"

    async def no_wait(_seconds: float) -> None: ...

    async def scenario(house: House) -> None:
        house.start("flaky")
        assert texts(await house.executor.settle()) == ["door 0"]
        assert len(house.executor.ran) == 1

    house = play(
        scenario,
        also=(make_tool(flaky, read_only=True, retries=2),),  # type: ignore[arg-type]
        settings=ExecutorSettings(sleep=no_wait),
    )
    assert house.ear.words == ["c0 started", "c0 started (2)", "c0 started (3)", "c0 done"]


# ── Approvals ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("approved", [True, False])
def test_a_call_waits_for_its_approval_and_nobody_waits_with_it(approved: bool) -> None:
    approvals = Approvals()

    async def scenario(house: House) -> None:
        house.start("pay", "look")
        await house.inside(1)
        assert [call.id for call in approvals.pending] == ["c0"]
        answering = threading.Thread(
            target=approvals.answer, args=("c0", approved), kwargs={"why": "because"}
        )
        answering.start()
        house.doors.open(0, 1)
        paid, looked = texts(await house.executor.settle())
        assert looked == "door 1"
        assert paid == "door 0" if approved else "not approved: because" in paid

    house = play(
        scenario, settings=ExecutorSettings(approvals=approvals), limits=RunLimits(parallel=1)
    )
    assert house.ear.ended["c0"] is (Status.DONE if approved else Status.DENIED)
    assert house.ear.words[0] == "c0 asked"


def test_a_barrier_waits_for_a_call_that_waits_for_approval() -> None:
    approvals = Approvals()

    async def scenario(house: House) -> None:
        house.start("pay", "alone")
        await until(lambda: approvals.pending)
        await house.inside()
        approvals.answer("c0", True)
        await house.inside(0)
        house.doors.open(0)
        await house.inside(1)
        house.doors.open(1)
        await house.executor.settle()

    play(scenario, settings=ExecutorSettings(approvals=approvals))


# ── Cancellation ────────────────────────────────────────────────────────────────────


def test_cancelling_stops_what_runs_and_begins_nothing_more() -> None:
    async def scenario(house: House) -> None:
        house.start("write", "alone", "pay", "look")
        await house.inside(0)
        await house.executor.cancel()
        await house.executor.cancel()
        house.executor.start(make_call("look", 4, door=4))
        assert len(await house.executor.settle()) == 5
        assert [call.id for call in house.executor.ran] == ["c0"]

    assert play(scenario).ear.ended == {
        "c0": Status.CANCELLED,
        "c1": Status.SKIPPED,
        "c2": Status.SKIPPED,
        "c3": Status.SKIPPED,
        "c4": Status.SKIPPED,
    }


def test_what_changes_things_may_run_to_its_end() -> None:
    async def scenario(house: House) -> None:
        house.start("write", "look", "alone")
        await house.inside(0, 1)
        cancelling = asyncio.create_task(house.executor.cancel(keep_unsafe=True))
        await house.inside(0)
        assert not cancelling.done()
        house.doors.open(0)
        await cancelling
        assert texts(await house.executor.settle())[0] == "door 0"

    assert play(scenario).ear.ended == {
        "c0": Status.DONE,
        "c1": Status.CANCELLED,
        "c2": Status.SKIPPED,
    }


def test_cancelling_before_the_first_step_leaves_a_result_all_the_same() -> None:
    async def scenario(house: House) -> None:
        house.start("write", "look")
        await house.executor.cancel()
        assert len(await house.executor.settle()) == 2
        assert house.executor.ran == ()

    assert play(scenario).ear.words == ["c0 skipped", "c1 skipped"]


def test_leaving_the_context_leaves_nothing_behind() -> None:
    async def scenario(house: House) -> None:
        async def leave_by_error() -> None:
            async with house.executor as executor:
                executor.start(make_call("write", 0, door=0))
                await house.inside(0)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await leave_by_error()
        assert house.doors.inside == []

    assert play(scenario).ear.ended == {"c0": Status.CANCELLED}


def test_a_settle_that_is_cancelled_can_be_repeated() -> None:
    async def scenario(house: House) -> None:
        house.start("write")
        await house.inside(0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await house.executor.settle()
        house.doors.open(0)
        assert texts(await house.executor.settle()) == ["door 0"]

    play(scenario)


# ── Mistakes of ours ────────────────────────────────────────────────────────────────


def test_a_bug_is_raised_and_not_told_to_the_model() -> None:
    told: list[ToolEvent] = []

    def break_at_start(event: ToolEvent) -> None:
        told.append(event)
        if not isinstance(event, ToolEnded):
            raise LookupError("a bug")  # noqa: TRY004  # of ours, whatever it is about

    async def scenario() -> None:
        house = House()
        executor = Executor(Toolbox([house.doors.tool("look")]), emit=break_at_start)
        executor.start(make_call("look", 0, door=0))
        with pytest.raises(LookupError, match="a bug"):
            await executor.settle()
        assert len(await executor.settle()) == 1

    asyncio.run(scenario())
    assert isinstance(told[-1], ToolEnded)
    assert "a bug" not in told[-1].result.text
