"""Runs of which nothing that was said is wanted: in words at once, and written when they are over.

What is said of others stands in test_tap.py.
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
    make_about,
    make_head,
)
from upstreams.serving import in_loop
from wholecall.core.conversation import Message, Request, Role
from wholecall.core.spec import ToolSpec
from wholecall.core.values import Ended, Hint, HintGiven, Opened, Released, Text
from wholecall.inspector.encoding import Quoting
from wholecall.inspector.kept import EndedRun, read_run, tell_events
from wholecall.inspector.live import Live
from wholecall.inspector.record import About, Asked
from wholecall.inspector.store import Filter, Store
from wholecall.inspector.tap import InspectorTap, Paces
from wholecall.inspector.writers import MANY, MOST_WAITING, BriefWriter, Waiting
from wholecall.runs.events import TurnStarted

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
    about = About(make_head(), "k1", started=0.0)
    return BriefWriter(about, BRIEF, Waiting(lambda: None), lambda _: None, TELLING)


def tell(writer: BriefWriter, *events: object) -> None:
    for event in (*STORY, *events):
        writer.take(event)


def read(ended: EndedRun | None) -> list[dict[str, Any]]:
    assert ended is not None
    return list(json.loads(tell_events(read_run(ended.content))))


def find(store: Store) -> list[dict[str, Any]]:
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
    writer.take(Released(CALL))
    assert ARGUMENTS not in repr(writer.items)
    writer.end(OVER)
    [_, verdict, _] = read(writer.keep())
    assert verdict["characters"] == len(ARGUMENTS)


def test_a_secret_is_nowhere_in_what_is_kept() -> None:
    writer = write()
    writer.take(Note(f"the key is {SECRET}"))
    writer.end(Done("failed", f"bad {SECRET}"))
    ended = writer.keep()
    assert ended is not None
    assert SECRET.encode() not in ended.content
    assert [event.get("message") for event in read(ended)] == [None, "the key is ***", "bad ***"]


def test_events_have_their_number_and_their_time() -> None:
    writer = write()
    tell(writer)
    writer.end(OVER)
    events = read(writer.keep())
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
        writer.ask(Asked(Request(model="m", messages=(hello,) * count, tools=tools)))
    writer.ask(Asked(None))
    writer.end(OVER)
    asked = [event for event in read(writer.keep()) if event["kind"] == "asked"]
    assert [(event["tools"], event["left_out"]) for event in asked] == [
        (["look"], 0),
        (["look"], 3),
    ]


# ── When it is over ─────────────────────────────────────────────────────────────────


@in_loop
@pytest.mark.parametrize("looks", ["never", "always", "in the middle", "until the middle"])
async def test_what_is_kept_is_the_same_whoever_looks_and_when(looks: str) -> None:
    store, live = Store(), Live()
    tap = InspectorTap(store, live, paces=NEVER, encoders=TELLING)
    writer = tap.open_briefly(make_about(), BRIEF)
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
    store, live = Store(), Live()
    tap = InspectorTap(store, live, paces=NEVER, encoders=TELLING)
    writer = tap.open_briefly(make_about(), BRIEF)
    tell(writer)
    writer.end(OVER)
    writer.take(Note("behind the end"))
    writer.end(OVER)
    await live.catch_up()
    assert kinds(find(store)) == KINDS
    assert tap.waiting.bytes == 0
    await tap.close()
    assert kinds(find(store)) == KINDS
    store.close()


@in_loop
async def test_a_run_is_kept_when_it_is_time_although_no_other_goes_on() -> None:
    store = Store()
    tap = InspectorTap(store, Live(), paces=QUICK, encoders=TELLING)
    tap.open_briefly(make_about(), BRIEF).end(OVER)
    while not store.list_runs(Filter()):
        await asyncio.sleep(0)
    await tap.close()
    store.close()


@in_loop
async def test_whoever_looks_sees_a_run_that_is_over_at_once() -> None:
    store, live = Store(), Live()
    tap = InspectorTap(store, live, paces=QUICK, encoders=TELLING)
    with live.listen(None) as listener:
        writer = tap.open_briefly(make_about(), BRIEF)
        tell(writer)
        writer.end(OVER)
        async with asyncio.timeout(20):
            [shown] = json.loads(await listener.next())
    assert kinds(shown["events"]) == KINDS
    await tap.close()
    store.close()


@in_loop
async def test_a_run_that_lost_events_says_so() -> None:
    store = Store()
    tap = InspectorTap(store, Live(), paces=NEVER, encoders=TELLING)
    writer = tap.open_briefly(make_about(), BRIEF)
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
    store, live = Store(), Live()
    tap = InspectorTap(store, live, paces=NEVER, encoders=TELLING)
    writer = tap.open_briefly(make_about(), BRIEF)
    for _ in range(MANY):
        writer.take(Note("again"))
    writer.end(OVER)
    assert writer.keep() is None
    await tap.close()
    assert len(find(store)) == MANY + 2
    store.close()


@in_loop
async def test_a_run_that_ends_while_the_disk_is_slow_is_kept_the_next_time() -> None:
    store, live = SlowStore(), Live()
    tap = InspectorTap(store, live, paces=QUICK, encoders=TELLING)
    tap.open_briefly(make_about(), BRIEF).end(OVER)
    await asyncio.to_thread(store.reached.wait, 20)
    tap.open_briefly(make_about(), BRIEF).end(OVER)
    with live.listen(None):
        """Now it is time to, and nobody takes it."""
    store.go_on.set()
    async with asyncio.timeout(20):
        while len(store.list_runs(Filter())) < 2:
            await asyncio.sleep(0)
    await tap.close()
    store.close()


@in_loop
async def test_while_the_disk_is_slow_runs_wait_up_to_a_size_and_are_then_counted_as_lost() -> None:
    store, live = SlowStore(), Live()
    tap = InspectorTap(store, live, paces=QUICK, encoders=TELLING)
    tap.open_briefly(make_about(), BRIEF).end(OVER)
    await asyncio.to_thread(store.reached.wait, 20)
    size, ended = MOST_WAITING // 100, 110
    for _ in range(ended):
        tap.open_briefly(make_about(), BRIEF).end(Done("failed", "x" * size))
    assert live.failed == pytest.approx(10, abs=2)
    store.go_on.set()
    await tap.close()
    assert tap.waiting.bytes == 0
    assert [each["count"] for each in store.read_figures()["runs"]] == [1, ended - live.failed]
    store.close()
