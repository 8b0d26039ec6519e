"""How much a key may ask for."""

import pytest

from wholecall.proxy.http.api_keys import Key
from wholecall.proxy.http.rate_limits import RateLimits


class Clock:
    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def quotas(clock: Clock) -> RateLimits:
    return RateLimits(clock)


def key(name: str = "a", *, rpm: int | None = None, concurrent: int | None = None) -> Key:
    return Key(id=name, name=name, rpm=rpm, concurrent=concurrent)


def test_a_minutes_requests_may_come_at_once_and_then_one_by_one(
    quotas: RateLimits, clock: Clock
) -> None:
    limited = key(rpm=6)
    assert [quotas.take(limited) for _ in range(6)] == [0.0] * 6
    assert quotas.take(limited) == pytest.approx(10.0)
    clock.now += 4
    assert quotas.take(limited) == pytest.approx(6.0)
    clock.now += 6.001
    assert quotas.take(limited) == 0.0
    assert quotas.take(limited) > 9.9


def test_who_was_refused_has_lost_nothing(quotas: RateLimits, clock: Clock) -> None:
    limited = key(rpm=1)
    quotas.take(limited)
    for _ in range(59):
        clock.now += 1
        assert quotas.take(limited) > 0.0
    clock.now += 1.001
    assert quotas.take(limited) == 0.0


def test_a_pause_saves_up_one_minute_and_no_more(quotas: RateLimits, clock: Clock) -> None:
    limited = key(rpm=3)
    quotas.take(limited)
    clock.now += 86_400
    assert [bool(quotas.take(limited)) for _ in range(4)] == [False, False, False, True]


def test_keys_do_not_share(quotas: RateLimits) -> None:
    assert quotas.take(key("a", rpm=1)) == 0.0
    assert quotas.take(key("a", rpm=1)) > 0.0
    assert quotas.take(key("b", rpm=1)) == 0.0
    assert [quotas.take(key("c")) for _ in range(100)] == [0.0] * 100


def test_a_smaller_limit_holds_at_once(quotas: RateLimits) -> None:
    quotas.take(key(rpm=100))
    assert quotas.take(key(rpm=1)) == 0.0
    assert quotas.take(key(rpm=1)) > 0.0


def test_requests_at_a_time(quotas: RateLimits) -> None:
    limited, other = key("a", concurrent=2), key("b")
    assert (quotas.begin(limited), quotas.begin(limited), quotas.begin(limited)) == (
        True,
        True,
        False,
    )
    assert quotas.begin(other)
    assert quotas.running == 3
    quotas.end(limited)
    assert quotas.begin(limited)
    for each in (limited, limited, other):
        quotas.end(each)
    assert quotas.running == 0
