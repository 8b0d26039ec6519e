"""Pages that look at runs under way."""

from __future__ import annotations

import json
from typing import Any

from inspector.recorded import record, told
from upstreams.fake_endpoint import in_loop
from wholecall.inspector.tap import PAGE_LAG, Listener, LiveMessage, LiveRuns


def message(number: int, key: str = "") -> LiveMessage:
    return LiveMessage(key, json.dumps(number).encode())


async def take(listener: Listener) -> Any:
    """What a page is told at once."""
    return json.loads(await listener.next())


@in_loop
async def test_whoever_looks_is_told() -> None:
    live = LiveRuns()
    live.publish([message(0)])
    with live.listen(None) as one, live.listen(None) as other:
        assert live.is_watched
        live.publish([message(1), message(2)])
        assert await take(one) == [1, 2]
        assert await take(other) == [1, 2]
    assert not live.is_watched


@in_loop
async def test_the_owner_of_a_key_is_told_of_its_runs_only() -> None:
    live = LiveRuns()
    with live.listen("k1") as owner, live.listen(None) as operator:
        live.publish([message(1, "k2"), message(2, "k1"), message(3, "")])
        assert await take(owner) == [2]
        assert await take(operator) == [1, 2, 3]


@in_loop
async def test_a_page_that_does_not_keep_up_is_told_what_it_missed() -> None:
    live = LiveRuns()
    with live.listen(None) as listener:
        large = LiveMessage("", b"1".ljust(PAGE_LAG // 3))
        live.publish([large] * 8)
        assert await take(listener) == [1, 1, 1, {"missed": 5}]
        live.publish([message(7)])
        assert await take(listener) == [7]


def test_a_message_holds_the_events_of_a_run() -> None:
    run = record(key="k1")
    made = LiveMessage.of(run, run.events)
    assert made.key == "k1"
    assert json.loads(made.content) == {"run": run.id, "events": told(run)}


def test_runs_under_way_are_found_by_those_who_may_see_them() -> None:
    live, run = LiveRuns(), record(key="k1")
    live.running[run.id] = run
    assert live.show(None) == live.show("k1") == [run]
    assert live.show("k2") == []
    assert live.find(run.id, owner="k1") is run
    assert live.find(run.id, owner="k2") is None
    assert live.find("run_of_nobody", owner=None) is None
