"""What is served no more is closed behind the last who may use it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from proxy_server import in_loop
from wholecall.proxy.http.shutdown import ShutdownDeadline, WorkInProgress


class Closed:
    """What was closed, in this order."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def closer(self, name: str) -> Callable[[], Coroutine[Any, Any, None]]:
        async def close() -> None:
            self.names.append(name)

        return close


async def step() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


@in_loop
async def test_where_nobody_is_under_way_it_is_closed_at_once() -> None:
    work, closed = WorkInProgress(), Closed()
    work.retire(closed.closer("a"))
    await step()
    assert closed.names == ["a"]


@in_loop
async def test_whoever_was_under_way_is_waited_for_and_who_comes_later_is_not() -> None:
    work, closed = WorkInProgress(), Closed()
    work.begin("one")
    work.retire(closed.closer("a"))
    work.begin("two")
    work.retire(closed.closer("b"))
    work.begin("three")
    await step()
    assert closed.names == []
    work.end("one")
    await step()
    assert closed.names == ["a"]
    work.end("two")
    await step()
    assert closed.names == ["a", "b"]
    work.end("three")
    work.end("three")
    await step()
    assert closed.names == ["a", "b"]


@in_loop
async def test_at_the_end_everything_is_closed_once_and_waited_for() -> None:
    work, closed = WorkInProgress(), Closed()
    work.begin("one")
    work.retire(closed.closer("a"))
    work.retire(closed.closer("b"))
    await work.close()
    assert closed.names == ["a", "b"]
    work.end("one")
    await work.close()
    assert closed.names == ["a", "b"]


@in_loop
async def test_what_cannot_be_closed_is_told_at_the_end_and_keeps_nothing_else_open() -> None:
    work, closed = WorkInProgress(), Closed()

    async def fail() -> None:
        raise OSError("it is stuck")

    work.begin("one")
    work.retire(fail)
    work.retire(closed.closer("b"))
    with pytest.raises(OSError, match="it is stuck"):
        await work.close()
    assert closed.names == ["b"]


@in_loop
async def test_what_cannot_be_closed_while_the_proxy_goes_on_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail() -> None:
        raise OSError("it is stuck")

    work = WorkInProgress()
    work.retire(fail)
    await step()
    assert "closing a resource that is no longer served failed" in caplog.text
    assert "it is stuck" in caplog.text
    await work.close()


@in_loop
async def test_what_is_broken_off_has_ended_before_anything_is_closed() -> None:
    running, began, ended = WorkInProgress(), asyncio.Event(), list[str]()

    async def work() -> None:
        try:
            began.set()
            await asyncio.Event().wait()
        finally:
            for _ in range(3):  # it says good-bye
                await asyncio.sleep(0)
            ended.append("over")

    running.hold(asyncio.create_task(work()))
    await began.wait()
    await running.settle(0.0)
    assert ended == ["over"]


@in_loop
async def test_what_goes_on_is_waited_for_and_then_broken_off() -> None:
    work = WorkInProgress()
    await work.settle(0.0)

    async def fail() -> None:
        raise ValueError("nobody asks")

    short, long = asyncio.create_task(fail()), asyncio.create_task(asyncio.Event().wait())
    work.hold(short)
    work.hold(long)
    await work.settle(0.01)
    await asyncio.wait([long])
    assert long.cancelled()
    await work.settle(0.0)
    await work.close()


# ── The time that is left when the server ends ──────────────────────────────────────────


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_all_that_waits_shares_one_time() -> None:
    clock = Clock()
    draining = ShutdownDeadline(clock)
    draining.begin()
    clock.now += 10
    draining.begin()  # another connection hears of it
    assert draining.left_of(30) == 20
    clock.now += 50
    assert draining.left_of(30) == 0


def test_without_connections_it_begins_when_it_is_asked_for() -> None:
    clock = Clock()
    clock.now = 100.0
    draining = ShutdownDeadline(clock)
    assert draining.left_of(30) == 30
    clock.now += 10
    assert draining.left_of(30) == 20
