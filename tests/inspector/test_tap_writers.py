"""Runs of which nothing that was said is wanted, and how many are written together.

What holds for others stands in test_tap.py.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from inspector.recorded import (
    ARGUMENTS,
    CALL,
    OVER,
    SECRET,
    TELLING,
    Hider,
    Note,
    SlowStore,
    describing,
    end,
)
from upstreams.fake_endpoint import in_loop
from wholecall.agent.run_events import TurnStarted
from wholecall.events import Ended, Hint, HintGiven, Opened, Released, Text
from wholecall.inspector.page_encoder import Quoting
from wholecall.inspector.run_record import RecordedForm
from wholecall.inspector.run_store import Filter, RunStore
from wholecall.inspector.tap import (
    MANY,
    MOST_ENDED,
    MOST_WAITING,
    TOGETHER,
    InspectorTap,
    LiveRuns,
    Paces,
    RunWriter,
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
KINDS = ["Exchange", *(type(event).__name__ for event in STORY), "ExchangeEnded"]
NEVER = Paces(3600, 3600)
QUICK = Paces(0.001, 0.001)


def tell(writer: RunWriter) -> None:
    for event in STORY:
        writer.take(event)


def find(store: RunStore) -> list[dict[str, Any]]:
    """The events of the only run that is kept."""
    [run] = store.list_runs(Filter())
    found = store.find(run["id"])
    assert found is not None
    return list(json.loads(found[1]))


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


# ── What is written ─────────────────────────────────────────────────────────────────


async def keep(write: Callable[[RunWriter], None]) -> tuple[bytes, list[dict[str, Any]]]:
    """What is stored of one run, and its events."""
    store = SlowStore()
    store.go_on.set()
    tap = InspectorTap(store, LiveRuns(), paces=NEVER, encoders=TELLING)
    write(tap.open(describing(), BRIEF))
    await tap.close()
    [batch], events = store.given, find(store)
    store.close()
    return batch.content, events


@in_loop
async def test_arguments_do_not_wait_where_nobody_wants_them() -> None:
    def write(writer: RunWriter) -> None:
        writer.encode(Released(CALL))
        assert ARGUMENTS not in repr(writer.items)
        writer.end(OVER)

    _, [_, verdict, _] = await keep(write)
    assert verdict["call"]["raw"] == len(ARGUMENTS)


@in_loop
async def test_a_secret_is_nowhere_in_what_is_kept() -> None:
    def write(writer: RunWriter) -> None:
        writer.take(Note(f"the key is {SECRET}"))
        writer.end(end("failed", f"bad {SECRET}"))

    content, [_, note, over] = await keep(write)
    assert SECRET.encode() not in content
    assert (note["text"], over["message"]) == ("the key is ***", "bad ***")


@in_loop
async def test_events_have_their_number_and_their_time() -> None:
    def write(writer: RunWriter) -> None:
        tell(writer)
        writer.end(OVER)

    _, events = await keep(write)
    assert kinds(events) == KINDS
    assert [event["n"] for event in events] == list(range(len(KINDS)))
    times = [event["at"] for event in events]
    assert times == sorted(times)


@in_loop
async def test_a_question_tells_how_many_messages_were_told_before() -> None:
    def write(writer: RunWriter) -> None:
        hello, tools = Message(Role.USER, (Text("hi"),)), (ToolSpec("look"),)
        for count in (3, 5):
            writer.ask(Request(model="m", messages=(hello,) * count, tools=tools))
        writer.ask(None)
        writer.end(OVER)

    _, events = await keep(write)
    asked = [event for event in events if event["type"] == "UpstreamAsked"]
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
    writer = tap.open(describing(), BRIEF)
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
    writer = tap.open(describing(), BRIEF)
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
async def test_many_runs_are_written_before_it_is_time_and_together() -> None:
    store, live = SlowStore(), LiveRuns()
    tap = InspectorTap(store, live, paces=NEVER, encoders=TELLING)
    going_on = tap.open(describing(), BRIEF)
    tell(going_on)
    for number in range(3 * TOGETHER + 1):
        writer = tap.open(describing(), BRIEF)
        tell(writer)
        writer.end(OVER)
        if number == TOGETHER - 1:
            await asyncio.to_thread(store.reached.wait, 20)
    assert going_on.items  # nobody sees it, so it has time
    store.go_on.set()
    await tap.close()
    assert [batch.runs for batch in store.given] == [TOGETHER, TOGETHER, TOGETHER, 1]
    assert live.failed == 0
    store.close()


@in_loop
async def test_a_run_with_answers_is_written_alone() -> None:
    store = SlowStore()
    store.go_on.set()
    tap = InspectorTap(store, LiveRuns(), paces=NEVER, encoders=TELLING)
    for bodies in (False, True, False, True):
        writer = tap.open(describing(), BRIEF._replace(bodies=bodies))
        writer.ask(None)
        writer.listen(RecordedForm("openai-chat"))(b"data: [DONE]\n\n")
        writer.end(OVER)
    await tap.close()
    assert [(batch.runs, len(batch.answers)) for batch in store.given] == [(2, 0), (1, 1), (1, 1)]
    store.close()


@in_loop
async def test_a_run_that_cannot_be_written_is_lost_alone(caplog: pytest.LogCaptureFixture) -> None:
    store, live = RunStore(), LiveRuns()
    tap = InspectorTap(store, live, paces=NEVER, encoders=TELLING)
    for number in range(5):
        writer = tap.open(describing(), BRIEF)
        writer.take(Ended("half \ud83d" if number == 2 else "stop", None, None, None))
        writer.end(OVER)
    await live.catch_up()
    await tap.close()
    assert (len(store.list_runs(Filter())), live.failed) == (4, 1)
    assert "cannot be written" in caplog.text
    store.close()


@in_loop
async def test_while_somebody_looks_every_run_is_shown_and_kept() -> None:
    store, live = RunStore(), LiveRuns()
    tap = InspectorTap(store, live, paces=NEVER, encoders=TELLING)
    with live.listen(None) as listener:
        for _ in range(TOGETHER + 1):
            tap.open(describing(), BRIEF).end(OVER)
        await live.catch_up()
        assert len(json.loads(await listener.next())) == TOGETHER + 1
    await tap.close()
    assert len(store.list_runs(Filter(limit=2 * TOGETHER))) == TOGETHER + 1
    store.close()


@in_loop
async def test_a_run_is_kept_when_it_is_time_although_no_other_goes_on() -> None:
    store = RunStore()
    tap = InspectorTap(store, LiveRuns(), paces=QUICK, encoders=TELLING)
    tap.open(describing(), BRIEF).end(OVER)
    while not store.list_runs(Filter()):
        await asyncio.sleep(0)
    await tap.close()
    store.close()


@in_loop
async def test_whoever_looks_sees_a_run_that_is_over_at_once() -> None:
    store, live = RunStore(), LiveRuns()
    tap = InspectorTap(store, live, paces=QUICK, encoders=TELLING)
    with live.listen(None) as listener:
        writer = tap.open(describing(), BRIEF)
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
    writer = tap.open(describing(), BRIEF)
    for _ in range(MOST_WAITING // 128 + 1):
        writer.take(Note("again"))
    writer.drop()
    writer.end(OVER)
    await tap.close()
    [_, lost, over] = find(store)
    assert (lost["events"], over["type"]) == (MOST_WAITING // 128 + 1, "ExchangeEnded")
    store.close()


@in_loop
async def test_a_very_long_run_is_not_left_until_it_is_over() -> None:
    store, live = RunStore(), LiveRuns()
    tap = InspectorTap(store, live, paces=NEVER, encoders=TELLING)
    writer = tap.open(describing(), BRIEF)
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
    tap.open(describing(), BRIEF).end(OVER)
    await asyncio.to_thread(store.reached.wait, 20)
    tap.open(describing(), BRIEF).end(OVER)
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
    seen = tap.open(describing(), BRIEF)
    tell(seen)
    await live.catch_up()
    tap.open(describing(), BRIEF).end(OVER)
    await asyncio.to_thread(store.reached.wait, 20)
    for _ in range(MOST_ENDED + 10):
        tap.open(describing(), BRIEF).end(OVER)
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
    writer = tap.open(describing(), BRIEF)
    tell(writer)
    before = list(writer.items)
    writer.drop()
    assert writer.items == before
    writer.end(OVER)
    await tap.close()
    assert kinds(find(store)) == KINDS
    store.close()
