"""A tap that never slows a stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from inspector.recorded import (
    OVER,
    SECRET,
    STORY,
    TELLING,
    Hider,
    Note,
    SlowStore,
    describing,
    kept,
    told,
)
from upstreams.fake_endpoint import in_loop
from wholecall.events import Text
from wholecall.inspector.captured_answer import read
from wholecall.inspector.page_encoder import Quoting
from wholecall.inspector.run_record import RecordedForm
from wholecall.inspector.run_store import Filter, RunStore
from wholecall.inspector.tap import MOST_WAITING, PACE, UNSEEN_PACE, InspectorTap, LiveRuns, Paces
from wholecall.protocols.reader import Chunk

HIDING = Quoting(bodies=True, hides=Hider())
CHAT = RecordedForm("openai-chat")
QUICK = Paces(0.001, 0.001)


@in_loop
async def test_a_run_is_shown_while_it_goes_on_and_kept_when_it_is_over() -> None:
    store, live = RunStore(), LiveRuns()
    tap = InspectorTap(store, live, paces=QUICK, encoders=TELLING)
    with live.listen(None) as listener:
        writer = tap.open(describing(), HIDING)
        for event in STORY:
            writer.take(event)
        [shown] = json.loads(await listener.next())
        assert list(live.running) == [shown["run"]]
        assert shown["events"][0]["type"] == "Exchange"
        writer.end(OVER)
        while live.running:
            await asyncio.sleep(0)
    [run] = store.list_runs(Filter(owner="k1"))
    assert (run["id"], run["fate"]) == (shown["run"], "done")
    await tap.close()
    store.close()


@in_loop
async def test_what_is_left_is_written_at_the_end_and_nothing_twice() -> None:
    store, live = RunStore(), LiveRuns()
    tap = InspectorTap(store, live, paces=Paces(3600, 3600), encoders=TELLING)
    writer = tap.open(describing(), HIDING)
    for event in STORY:
        writer.take(event)
    writer.end(OVER)
    writer.take(Note("began"))
    writer.end(OVER)
    await tap.close()
    [run] = store.list_runs(Filter())
    found = store.find(run["id"])
    assert found is not None
    assert json.loads(found[1])[-1]["type"] == "ExchangeEnded"
    assert live.failed == 0
    store.close()


@in_loop
async def test_events_behind_the_end_change_nothing() -> None:
    store, live = RunStore(), LiveRuns()
    tap = InspectorTap(store, live, paces=QUICK, encoders=TELLING)
    writer = tap.open(describing(), HIDING)
    writer.end(OVER)
    await live.catch_up()
    writer.take(Note("began"))
    await tap.close()
    assert live.failed == 0
    assert len(store.list_runs(Filter())) == 1
    store.close()


@asynccontextmanager
async def stuck() -> AsyncIterator[tuple[InspectorTap, SlowStore]]:
    """A tap whose thread hangs on the disk; this loop goes on."""
    store = SlowStore()
    tap = InspectorTap(store, LiveRuns(), paces=QUICK, encoders=TELLING)
    tap.open(describing(), HIDING).end(OVER)
    await asyncio.to_thread(store.reached.wait, 20)
    yield tap, store
    store.go_on.set()
    await tap.close()
    store.close()


def dropped(store: RunStore) -> list[int]:
    return [run["dropped"] for run in store.list_runs(Filter())]


@in_loop
async def test_while_the_disk_is_slow_chunks_wait_up_to_a_size_and_are_then_dropped() -> None:
    async with stuck() as (tap, store):
        writer = tap.open(describing(), HIDING)
        receive = writer.listen(CHAT)
        for _ in range(20):
            receive(b"x" * (MOST_WAITING // 10))
        assert writer.dropped == 9
        tap._tick()  # it is time to, and nobody takes it
        assert writer.dropped == 20
        writer.end(OVER)
        store.go_on.set()
        await tap.close()
        assert dropped(store) == [20, 0]


@in_loop
async def test_texts_are_dropped_before_verdicts_and_the_end_never_is() -> None:
    async with stuck() as (tap, store):
        writer = tap.open(describing(), HIDING)
        many = MOST_WAITING // 128
        for _ in range(many):
            writer.hear(Text("x"))
        for event in STORY:
            writer.take(event)
        while not writer.dropped:
            await asyncio.sleep(0)
        writer.end(OVER)
        store.go_on.set()
        await tap.close()
        assert dropped(store) == [many + 2, 0]
        [run, _] = store.list_runs(Filter())
        assert run["verdicts"] == {"released": 1}
        assert run["fate"] == "done"


@in_loop
async def test_if_there_are_too_many_verdicts_only_the_end_is_kept() -> None:
    async with stuck() as (tap, store):
        writer = tap.open(describing(), HIDING)
        many = MOST_WAITING // 128 + 1
        for event in [STORY[1]] * many:
            writer.take(event)
        writer.end(OVER)
        while not writer.dropped:
            await asyncio.sleep(0)
        store.go_on.set()
        await tap.close()
        assert dropped(store) == [many, 0]


@in_loop
async def test_a_lot_at_once_is_not_left_until_the_next_time() -> None:
    store = RunStore()
    tap = InspectorTap(store, LiveRuns(), paces=Paces(3600, 3600), encoders=TELLING)
    writer = tap.open(describing(), HIDING)
    writer.listen(CHAT)(b"x" * (MOST_WAITING // 3))
    while writer.items:
        await asyncio.sleep(0)
    await tap.close()
    store.close()


@in_loop
async def test_a_disk_that_is_full_is_counted_and_ends_nothing() -> None:
    store, live = SlowStore(full=True), LiveRuns()
    tap = InspectorTap(store, live, encoders=TELLING)
    tap.open(describing(), HIDING).end(OVER)
    tap.open(describing(), HIDING).end(OVER)
    await tap.close()
    assert live.failed == 2
    assert live.running == {}
    store.close()


@in_loop
async def test_a_file_that_is_full_is_named_once_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "runs.sqlite"
    store, live = RunStore(path), LiveRuns()
    [(pages,)] = store._database.execute("PRAGMA page_count").fetchall()
    store._database.execute(f"PRAGMA max_page_count = {pages}")
    tap = InspectorTap(store, live, encoders=TELLING)
    for _ in range(2):
        writer = tap.open(describing(), HIDING)
        writer.hear(Text("much " * 10_000))
        writer.end(OVER)
        await live.catch_up()
    assert (live.failed, live.running) == (2, {})
    [line] = caplog.messages
    assert str(path) in line
    assert "make room on its disk" in line
    store._database.execute("PRAGMA max_page_count = 100000")
    tap.open(describing(), HIDING).end(OVER)
    await tap.close()
    assert len(store.list_runs(Filter())) == 1
    store.close()


@in_loop
async def test_whoever_looks_later_finds_what_happened_before() -> None:
    store, live = RunStore(), LiveRuns()
    tap = InspectorTap(store, live, paces=QUICK, encoders=TELLING)
    writer = tap.open(describing(), HIDING)
    writer.hear(Text(f"the key is {SECRET}"))
    await live.catch_up()
    [run] = live.show(None)
    assert told(run)[1]["text"] == "the key is ***"
    await tap.close()
    store.close()


@in_loop
async def test_a_run_that_begins_when_the_server_has_ended_breaks_nothing() -> None:
    store, ticked, broken = RunStore(), asyncio.Event(), list[object]()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: broken.append(context))
    tap = InspectorTap(store, LiveRuns(), paces=Paces(0.0, 0.0), encoders=TELLING)
    await tap.close()
    writer = tap.open(describing(), HIDING)
    for event in STORY:
        writer.take(event)
    writer.end(OVER)
    loop.call_later(0.01, ticked.set)  # the tap's own timer is up before
    await ticked.wait()
    assert not broken
    assert not store.list_runs(Filter())
    store.close()


@in_loop
async def test_a_tap_that_saw_nothing_ends_at_once() -> None:
    store = RunStore()
    tap = InspectorTap(store, LiveRuns(), encoders=TELLING)
    await tap.close()
    store.put(kept(began=9e9))
    store.close()


@in_loop
async def test_chunks_are_kept_as_they_came_whatever_their_form() -> None:
    store = RunStore()
    tap = InspectorTap(store, LiveRuns(), paces=QUICK, encoders=TELLING)
    writer = tap.open(describing(), HIDING)
    chunks: list[Chunk] = [b"data: 1\n\n", b"data: 2\n\n", {"n": 3}, "data: [DONE]\n\n"]
    receive = writer.listen(CHAT)
    for chunk in chunks:
        receive(chunk)  # of no answer, so that nobody keeps them
    for _ in range(2):
        writer.ask(None)
        receive = writer.listen(CHAT)
        for chunk in chunks:
            receive(chunk)
    writer.end(OVER)
    await tap.close()
    [run] = store.list_runs(Filter())
    cases = [json.loads(read(case))["events"] for case in store.find_answers(run["id"])]
    assert cases == [["data: 1\n\n", "data: 2\n\n", {"n": 3}, "data: [DONE]\n\n"]] * 2
    store.close()


def test_with_many_runs_pages_are_told_less_often() -> None:
    paces = Paces()
    assert paces.choose(1, is_watched=True) == PACE
    assert paces.choose(5, is_watched=True) == PACE
    assert paces.choose(10, is_watched=True) == 2 * PACE
    assert paces.choose(1000, is_watched=True) == 10 * PACE
    assert paces.choose(1000, is_watched=False) == UNSEEN_PACE


@in_loop
async def test_who_begins_to_look_does_not_wait_for_the_next_time() -> None:
    store, live = RunStore(), LiveRuns()
    tap = InspectorTap(store, live, paces=Paces(0.001, 3600), encoders=TELLING)
    with live.listen(None):
        """Nothing happens yet."""
    writer = tap.open(describing(), HIDING)
    writer.hear(Text("words"))
    with live.listen(None) as listener:
        [shown] = json.loads(await listener.next())
    assert [event["type"] for event in shown["events"]] == ["Exchange", "Text"]
    await tap.close()
    store.close()


@in_loop
async def test_while_nobody_looks_a_run_is_left_alone_until_it_is_over() -> None:
    store, live = RunStore(), LiveRuns()
    tap = InspectorTap(store, live, paces=QUICK, encoders=TELLING)
    short, ended = tap.open(describing(), HIDING), tap.open(describing(), HIDING)
    short.hear(Text("words"))
    ended.end(OVER)
    while ended.items:
        await asyncio.sleep(0)
    assert short.items
    for _ in range(5000):
        short.hear(Text("x"))
    while not live.running:
        await asyncio.sleep(0)
    [record] = live.show(None)
    assert len(record.events) == 2
    await tap.close()
    store.close()


@in_loop
async def test_chunks_weigh_nothing_any_more_when_they_were_taken() -> None:
    async with stuck() as (tap, store):
        one, other = tap.open(describing(), HIDING), tap.open(describing(), HIDING)
        for writer in (one, other):
            writer.listen(CHAT)(b"x" * 1000)
        one.drop()
        assert tap.waiting.bytes == 1000
        store.go_on.set()
        await tap.close()
        assert tap.waiting.bytes == 0
