"""The executor: side by side, at most once, one result each, in call order."""

from __future__ import annotations

import asyncio
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.doors import House, play, texts
from example_counts import examples
from executor_calls import Ear, make_call
from wholecall.agent.budget import RunLimits
from wholecall.agent.call_runner import ExecutorSettings
from wholecall.agent.executor import Executor
from wholecall.agent.run_events import Status, ToolEnded, ToolEvent, ToolStarted
from wholecall.tools.function_tool import make_tool
from wholecall.tools.toolbox import Toolbox

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

    assert play(scenario, limits=RunLimits(concurrency=2)).doors.most == 2


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


@settings(max_examples=examples(60))
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

    house = play(scenario, limits=RunLimits(concurrency=parallel))
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


def fails(door: int) -> None:
    raise ValueError(door)


async def exits(door: int) -> None:
    raise SystemExit(door)


def interrupts(door: int) -> None:
    raise KeyboardInterrupt(door)


async def hangs(door: int) -> int:
    await asyncio.get_running_loop().create_future()
    return door


def opaque(door: int) -> object:
    return threading.Lock(), door


def huge(door: int) -> str:
    return "a" * (100_000_000 + door)


def test_siblings_survive_whatever_one_does() -> None:
    failing = ("fails", "exits", "interrupts", "hangs", "blocks", "opaque")
    released = threading.Event()

    def blocks(door: int) -> int:
        released.wait()
        return door

    async def scenario(house: House) -> None:
        house.start("look", *failing, "look", "huge")
        house.doors.open(0, 7)
        results = await house.executor.settle()
        released.set()
        failed = {result.name: result.result.failed for result in results}
        assert failed == {"look": False, "huge": False, **dict.fromkeys(failing, True)}
        looked = [result for result in results if result.name == "look"]
        assert texts(tuple(looked)) == ["door 0", "door 7"]
        assert len(results[-1].result.text) < 300_000

    others = [make_tool(each) for each in (fails, exits, interrupts, opaque, huge)]
    slow = [make_tool(each, timeout=0.01) for each in (hangs, blocks)]
    play(scenario, also=(*others, *slow))  # type: ignore[arg-type]


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
