"""The time that is left when the server ends."""

from __future__ import annotations

from wholecall.proxy.http.shutdown import ShutdownDeadline


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
