"""Runs of which nothing that was said is wanted; those that nobody sees are written in a short way.

What holds for others stands in test_tap.py.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from inspector.recorded import (
    ARGUMENTS,
    CALL,
    OVER,
    SECRET,
    TELLING,
    Done,
    Hider,
    Note,
    SlowStore,
    describing,
)
from upstreams.fake_endpoint import in_loop
from wholecall.agent.run_events import TurnStarted
from wholecall.events import Ended, Hint, HintGiven, Opened, Released, Text, Usage
from wholecall.inspector.live_runs import LiveRuns
from wholecall.inspector.page_encoder import Quoting
from wholecall.inspector.run_record import RecordedRequest
from wholecall.inspector.run_store import Filter, RunStore
from wholecall.inspector.stored_run import tell_events
from wholecall.inspector.tap import (
    FEW,
    MANY,
    MOST_ENDED,
    MOST_WAITING,
    TOGETHER,
    BriefWriter,
    InspectorTap,
    Paces,
    WaitingBytes,
)
from wholecall.messages import Message, Request, Role, ToolSpec

BRIEF = Quoting(bodies=False, hides=Hider())
STORY: tuple[object, ...] = (
    TurnStarted(1),
    Opened(0, "c1", "look"),
    HintGiven(Hint.TOOL_CALLS, "tool_calls"),
    Released(CALL),
    Ended("tool_calls", Hint.TOOL_CALLS, "tool_calls", None),
)
KINDS = ["run", "turn", "opened", "hint", "released", "ended", "over"]
NEVER = Paces(3600, 3600)
QUICK = Paces(0.001, 0.001)


def write() -> BriefWriter:
    """One that no tap waits for."""
    describe = describing(started=0.0)
    return BriefWriter(describe, BRIEF, WaitingBytes(lambda: None), lambda _: None, TELLING)


def tell(writer: BriefWriter, *events: object) -> None:
    for event in (*STORY, *events):
        writer.take(event)


def read(writer: BriefWriter) -> list[dict[str, Any]]:
    """What goes into the file."""
    run = writer.conclude()
    assert run is not None
    return list(json.loads(tell_events(run)))


def find(store: RunStore) -> list[dict[str, Any]]:
    """The events of the only run that is kept."""
    [run] = store.list_runs(Filter())
    found = store.find(run["id"])
    assert found is not None
    return list(json.loads(found[1]))


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["kind"] for event in events]


# ── In words ────────────────────────────────────────────────────────────────────────


def test_arguments_do_not_wait_where_nobody_wants_them() -> None:
    writer = write()
    writer.tell(Released(CALL))
    assert ARGUMENTS not in repr(writer.items)
    writer.end(OVER)
    [_, verdict, _] = read(writer)
    assert verdict["characters"] == len(ARGUMENTS)


def test_a_secret_is_nowhere_in_what_is_kept() -> None:
    writer = write()
    writer.take(Note(f"the key is {SECRET}"))
    writer.end(Done("failed", f"bad {SECRET}"))
    run = writer.conclude()
    assert run is not None
    assert SECRET not in repr(run)
    assert [event.get("message") for event in read(writer)] == [None, "the key is ***", "bad ***"]


def test_events_have_their_number_and_their_time() -> None:
    writer = write()
    tell(writer)
    writer.end(OVER)
    events = read(writer)
    assert kinds(events) == KINDS
    assert [event["n"] for event in events] == list(range(len(KINDS)))
    times = [event["at"] for event in events]
    assert times == sorted(times)
    assert times[0] < times[1]


def test_a_question_tells_how_many_messages_were_told_before() -> None:
    hello = Message(Role.USER, (Text("hi"),))
    writer = write()
    for count in (3, 5):
        tools = (ToolSpec("look"),)
        writer.ask(RecordedRequest(Request(model="m", messages=(hello,) * count, tools=tools)))
    writer.ask(RecordedRequest(None))
    writer.end(OVER)
    asked = [event for event in read(writer) if event["kind"] == "asked"]
    assert [(event["tools"], event["left_out"]) for event in asked] == [
        (["look"], 0),
        (["look"], 3),
    ]


# ── When it is over ─────────────────────────────────────────────────────────────────


@in_loop
@pytest.mark.parametrize("looks", ["never", "always", "in the middle", "until the middle"])
async def test_what_is_kept_is_the_same_whoever_looks_and_when(looks: str) -> None:
    store, live = RunStore(), LiveRuns()
    tap = InspectorTap(store, live, paces=NEVER, encoders=TELLING)
    writer = tap.open_briefly(describing(), BRIEF)
    for number, event in enumerate((*STORY, OVER)):
        ((*[writer.take] * len(STORY), writer.end)[number])(event)
        if looks == "always" or (number, looks) in {(2, "in the middle"), (1, "until the middle")}:
            with live.listen(None):
                await live.catch_up()
    await tap.close()
    events = find(store)
    assert kinds(events) == KINDS
    assert [event["n"] for event in events] == list(range(len(KINDS)))
    assert (live.failed, live.running) == (0, {})
    store.close()


@in_loop
async def test_a_run_that_nobody_saw_is_kept_once_and_is_over() -> None:
    store, live = RunStore(), LiveRuns()
    tap = InspectorTap(store, live, paces=NEVER, encoders=TELLING)
    writer = tap.open_briefly(describing(), BRIEF)
    tell(writer)
    writer.end(OVER)
    writer.take(Note("behind the end"))
    writer.end(OVER)
    await live.catch_up()
    assert kinds(find(store)) == KINDS
    await tap.close()
    assert kinds(find(store)) == KINDS
    store.close()


@in_loop
async def test_runs_that_nobody_sees_are_put_into_words_together_and_before_it_is_time() -> None:
    store, live = SlowStore(full=True), LiveRuns()
    tap = InspectorTap(store, live, paces=NEVER, encoders=TELLING)
    writers = [tap.open_briefly(describing(), BRIEF) for _ in range(2 * TOGETHER + 3)]
    long = writers[5]
    for _ in range(FEW):
        long.take(Note("again"))
    for writer in writers:
        tell(writer)
        writer.end(OVER)
        if writer in {writers[TOGETHER - 1], writers[2 * TOGETHER - 1]}:
            await asyncio.sleep(0)
    assert [batch.runs for batch in tap._batches] == [TOGETHER - 1, TOGETHER]
    await tap.close()
    assert [batch.runs for batch in store.given] == [TOGETHER - 1, TOGETHER, 3, 1]
    assert live.failed == len(writers)
    store.close()


@in_loop
async def test_where_many_runs_end_at_once_no_stream_waits_for_their_words() -> None:
    store = SlowStore(full=True)
    tap = InspectorTap(store, LiveRuns(), paces=NEVER, encoders=TELLING)
    for _ in range(2 * TOGETHER + 1):
        tap.open_briefly(describing(), BRIEF).end(OVER)
    await asyncio.sleep(0)
    assert not tap._batches
    await tap.close()
    assert [batch.runs for batch in store.given] == [1] * (2 * TOGETHER + 1)
    store.close()


@in_loop
async def test_a_run_that_cannot_be_written_is_lost_alone(caplog: pytest.LogCaptureFixture) -> None:
    store, live = RunStore(), LiveRuns()
    tap = InspectorTap(store, live, paces=NEVER, encoders=TELLING)
    for number in range(5):
        writer = tap.open_briefly(describing(), BRIEF)
        writer.take(Usage(10**22 if number == 2 else number, 1))
        writer.end(OVER)
    await live.catch_up()
    await tap.close()
    assert (len(store.list_runs(Filter())), live.failed) == (4, 1)
    assert "could not be put into words" in caplog.text
    store.close()


@in_loop
async def test_runs_with_many_events_are_left_to_the_thread() -> None:
    store = SlowStore(full=True)
    tap = InspectorTap(store, LiveRuns(), paces=NEVER, encoders=TELLING)
    for _ in range(TOGETHER):
        writer = tap.open_briefly(describing(), BRIEF)
        for _ in range(FEW // 2 - 1):
            writer.take(Note("again"))
        writer.end(OVER)
    await asyncio.sleep(0)
    assert [batch.runs for batch in tap._batches] == [8]
    await tap.close()
    assert [batch.runs for batch in store.given] == [8] + [1] * (TOGETHER - 8)
    store.close()


@in_loop
async def test_what_is_in_words_waits_up_to_a_size() -> None:
    store, live = SlowStore(full=True), LiveRuns()
    tap = InspectorTap(store, live, paces=NEVER, encoders=TELLING)
    for _ in range(4 * TOGETHER):
        writer = tap.open_briefly(describing(), BRIEF)
        writer.take(Note("x" * (MOST_WAITING // TOGETHER // 2)))
        writer.end(OVER)
        await asyncio.sleep(0)
    assert len(tap._batches) == 2
    assert live.failed == 2 * TOGETHER
    await tap.close()
    store.close()


@in_loop
async def test_while_somebody_looks_nothing_is_put_into_words_that_was_not_shown() -> None:
    store, live = RunStore(), LiveRuns()
    tap = InspectorTap(store, live, paces=NEVER, encoders=TELLING)
    with live.listen(None) as listener:
        for _ in range(TOGETHER + 1):
            tap.open_briefly(describing(), BRIEF).end(OVER)
        await asyncio.sleep(0)
        await live.catch_up()
        assert len(json.loads(await listener.next())) == TOGETHER + 1
    await tap.close()
    assert len(store.list_runs(Filter())) == TOGETHER + 1
    store.close()


@in_loop
async def test_a_run_is_kept_when_it_is_time_although_no_other_goes_on() -> None:
    store = RunStore()
    tap = InspectorTap(store, LiveRuns(), paces=QUICK, encoders=TELLING)
    tap.open_briefly(describing(), BRIEF).end(OVER)
    while not store.list_runs(Filter()):
        await asyncio.sleep(0)
    await tap.close()
    store.close()


@in_loop
async def test_whoever_looks_sees_a_run_that_is_over_at_once() -> None:
    store, live = RunStore(), LiveRuns()
    tap = InspectorTap(store, live, paces=QUICK, encoders=TELLING)
    with live.listen(None) as listener:
        writer = tap.open_briefly(describing(), BRIEF)
        tell(writer)
        writer.end(OVER)
        async with asyncio.timeout(20):
            [shown] = json.loads(await listener.next())
    assert kinds(shown["events"]) == KINDS
    await tap.close()
    store.close()


@in_loop
async def test_a_run_that_lost_events_says_so() -> None:
    store = RunStore()
    tap = InspectorTap(store, LiveRuns(), paces=NEVER, encoders=TELLING)
    writer = tap.open_briefly(describing(), BRIEF)
    for _ in range(MOST_WAITING // 128 + 1):
        writer.take(Note("again"))
    writer.drop()
    writer.end(OVER)
    await tap.close()
    [_, lost, over] = find(store)
    assert (lost["events"], over["kind"]) == (MOST_WAITING // 128 + 1, "over")
    store.close()


@in_loop
async def test_a_very_long_run_is_not_left_until_it_is_over() -> None:
    store, live = RunStore(), LiveRuns()
    tap = InspectorTap(store, live, paces=NEVER, encoders=TELLING)
    writer = tap.open_briefly(describing(), BRIEF)
    for _ in range(MANY):
        writer.take(Note("again"))
    await live.catch_up()
    [record] = live.show(None)
    assert len(record.events) == MANY + 1
    writer.end(OVER)
    await tap.close()
    assert len(find(store)) == MANY + 2
    store.close()


@in_loop
async def test_a_run_that_ends_while_the_disk_is_slow_is_kept_the_next_time() -> None:
    store, live = SlowStore(), LiveRuns()
    tap = InspectorTap(store, live, paces=QUICK, encoders=TELLING)
    tap.open_briefly(describing(), BRIEF).end(OVER)
    await asyncio.to_thread(store.reached.wait, 20)
    tap.open_briefly(describing(), BRIEF).end(OVER)
    with live.listen(None):
        """Now it is time to, and nobody takes it."""
    store.go_on.set()
    async with asyncio.timeout(20):
        while len(store.list_runs(Filter())) < 2:
            await asyncio.sleep(0)
    await tap.close()
    store.close()


@in_loop
async def test_while_the_disk_is_slow_so_many_runs_wait_and_others_are_counted_as_lost() -> None:
    store, live = SlowStore(), LiveRuns()
    tap = InspectorTap(store, live, paces=QUICK, encoders=TELLING)
    seen = tap.open_briefly(describing(), BRIEF)
    tell(seen)
    await live.catch_up()
    tap.open_briefly(describing(), BRIEF).end(OVER)
    await asyncio.to_thread(store.reached.wait, 20)
    for _ in range(MOST_ENDED + 10):
        tap.open_briefly(describing(), BRIEF).end(OVER)
    seen.end(OVER)
    assert live.failed == 10
    store.go_on.set()
    await tap.close()
    [runs] = store.read_figures()["runs"]
    assert runs["count"] == MOST_ENDED + 2
    assert live.running == {}
    store.close()


@in_loop
async def test_where_others_must_drop_something_a_run_keeps_what_it_cannot_do_without() -> None:
    store = RunStore()
    tap = InspectorTap(store, LiveRuns(), paces=NEVER, encoders=TELLING)
    writer = tap.open_briefly(describing(), BRIEF)
    tell(writer)
    before = list(writer.items)
    writer.drop()
    assert writer.items == before
    writer.end(OVER)
    await tap.close()
    assert kinds(find(store)) == KINDS
    store.close()
