"""When an upstream is asked again, and after how long."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from upstreams.fake_endpoint import Pauses, in_loop
from wholecall.errors import UpstreamError
from wholecall.upstreams.retry import (
    FailedAttempt,
    RetryPolicy,
    ask,
    is_repeatable,
    read_retry_after,
)

NOON = datetime(2026, 11, 16, 12, 0, 0, tzinfo=UTC)


def fail(retry_after: float | None = None, *, repeatable: bool = True) -> FailedAttempt:
    return FailedAttempt(UpstreamError("no", retry_after=retry_after), repeatable)


@pytest.mark.parametrize(
    ("jitter", "delays"),
    [
        (0.0, [0.25, 0.5, 1.0, 2.0, 4.0, 4.0]),
        (1.0, [0.5, 1.0, 2.0, 4.0, 8.0, 8.0]),
    ],
)
def test_delays_double_up_to_the_longest_and_half_of_each_is_random(
    jitter: float, delays: list[float]
) -> None:
    retry = RetryPolicy(retries=6, jitter=lambda: jitter)
    assert [retry.delay(attempt, fail()) for attempt in range(6)] == delays


@pytest.mark.parametrize(
    ("attempt", "failure", "delay"),
    [
        (0, fail(7.0), 7.0),
        (1, fail(0.0), 0.0),
        (0, fail(3600.0), 60.0),
        (0, fail(7.0, repeatable=False), None),
        (0, fail(repeatable=False), None),
        (2, fail(), None),
        (2, fail(7.0), None),
        (0, replace(fail(), at_once=True), 0.0),
        (2, replace(fail(), at_once=True), None),
    ],
)
def test_the_upstream_is_obeyed_within_limits(
    *, attempt: int, failure: FailedAttempt, delay: float | None
) -> None:
    assert RetryPolicy().delay(attempt, failure) == delay


@pytest.mark.parametrize(
    ("status", "headers", "repeatable"),
    [
        *((status, {}, True) for status in (408, 409, 429, 500, 501, 502, 503, 504, 529)),
        *((status, {}, False) for status in (301, 400, 401, 402, 403, 404, 405, 413, 422)),
        (400, {"x-should-retry": "true"}, True),
        (500, {"x-should-retry": "false"}, False),
        (500, {"x-should-retry": "perhaps"}, True),
    ],
)
def test_some_refusals_pass(*, status: int, headers: dict[str, str], repeatable: bool) -> None:
    assert is_repeatable(status, headers) == repeatable


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "5"}, 5.0),
        ({"retry-after": " 0.5 "}, 0.5),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": f"Mon, 16 Nov {'9' * 30} 12:00:30 GMT"}, None),
        ({"retry-after": f"Mon, 16 Nov 2026 12:00:30 +{'9' * 30}"}, None),
        ({"retry-after": "Mon, 16 Nov 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Mon, 16 Nov 2026 12:00:30 -0000"}, 30.0),
        ({"retry-after": "Mon, 16 Nov 2026 13:00:30 +0100"}, 30.0),
        ({"retry-after": "Mon, 16 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "Mon, 99 Nov 2026 11:00:00 GMT"}, None),
        ({"retry-after-ms": "250", "retry-after": "5"}, 0.25),
        ({"retry-after-ms": "much", "retry-after": "5"}, 5.0),
    ],
)
def test_retry_after_is_read_in_all_its_forms(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert read_retry_after(headers, NOON) == seconds


def test_a_date_is_compared_with_the_clock() -> None:
    assert read_retry_after({"retry-after": "Mon, 16 Nov 1998 12:00:30 GMT"}) == 0.0


@in_loop
async def test_it_is_asked_until_an_answer_begins() -> None:
    attempts: Iterator[str | FailedAttempt] = iter([fail(), fail(3.0), "answer"])

    async def attempt() -> str | FailedAttempt:
        return next(attempts)

    pauses = Pauses()
    assert await ask(attempt, pauses.retry()) == "answer"
    assert pauses.seconds == [0.5, 3.0]


@in_loop
async def test_the_last_failure_is_raised_with_its_cause() -> None:
    cause = ZeroDivisionError()
    failures = [fail(), fail(), FailedAttempt(UpstreamError("last"), True, cause)]

    async def attempt() -> str | FailedAttempt:
        return failures.pop(0)

    with pytest.raises(UpstreamError, match="last") as caught:
        await ask(attempt, Pauses().retry())
    assert caught.value.__cause__ is cause
    assert caught.value.attempts == 3
    assert failures == []
