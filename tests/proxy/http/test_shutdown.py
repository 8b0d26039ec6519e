"""What is served no more is closed behind the last who may use it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from proxy_server import in_loop
from wholecall.proxy.http.shutdown import ReloadCleanup


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
    retirement, closed = ReloadCleanup(), Closed()
    retirement.retire(closed.closer("a"))
    await step()
    assert closed.names == ["a"]


@in_loop
async def test_whoever_was_under_way_is_waited_for_and_who_comes_later_is_not() -> None:
    retirement, closed = ReloadCleanup(), Closed()
    retirement.begin("one")
    retirement.retire(closed.closer("a"))
    retirement.begin("two")
    retirement.retire(closed.closer("b"))
    retirement.begin("three")
    await step()
    assert closed.names == []
    retirement.end("one")
    await step()
    assert closed.names == ["a"]
    retirement.end("two")
    await step()
    assert closed.names == ["a", "b"]
    retirement.end("three")
    retirement.end("three")
    await step()
    assert closed.names == ["a", "b"]


@in_loop
async def test_at_the_end_everything_is_closed_once_and_waited_for() -> None:
    retirement, closed = ReloadCleanup(), Closed()
    retirement.begin("one")
    retirement.retire(closed.closer("a"))
    retirement.retire(closed.closer("b"))
    await retirement.close()
    assert closed.names == ["a", "b"]
    retirement.end("one")
    await retirement.close()
    assert closed.names == ["a", "b"]


@in_loop
async def test_what_cannot_be_closed_is_told_at_the_end_and_keeps_nothing_else_open() -> None:
    retirement, closed = ReloadCleanup(), Closed()

    async def fail() -> None:
        raise OSError("it is stuck")

    retirement.begin("one")
    retirement.retire(fail)
    retirement.retire(closed.closer("b"))
    with pytest.raises(OSError, match="it is stuck"):
        await retirement.close()
    assert closed.names == ["b"]


@in_loop
async def test_what_cannot_be_closed_while_the_proxy_goes_on_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail() -> None:
        raise OSError("it is stuck")

    retirement = ReloadCleanup()
    retirement.retire(fail)
    await step()
    assert "could not be closed" in caplog.text
    assert "it is stuck" in caplog.text
    await retirement.close()
