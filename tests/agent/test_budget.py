"""The guard: which calls may run, and what the others are told."""

import math
from typing import Any

import pytest

from wholecall.agent.budget import Budget, Guard, NotRun, RunLimits, Stop, add_usage, default_limits
from wholecall.arguments.feedback import SkipReason
from wholecall.events import Call, Evidence, Usage


def call(name: str = "look", **arguments: object) -> Call:
    return Call(
        id="call_1",
        name=name,
        arguments=arguments,
        raw="",
        evidence=Evidence.CLOSED,
    )


def test_the_number_of_calls_of_a_run_is_limited() -> None:
    guard = Guard(RunLimits(calls=2))
    assert [guard.refuse(call(at=at)) for at in range(3)] == [
        None,
        None,
        NotRun(SkipReason.CAPPED, "the limit of 2 calls is reached"),
    ]
    assert guard.calls == 2


def test_the_same_call_is_warned_of_and_then_refused_whatever_the_order_of_its_keys() -> None:
    guard = Guard(RunLimits(warn_identical=2, stop_identical=3))
    first, second = call(city="Oslo", unit="C"), call(unit="C", city="Oslo")
    assert guard.refuse(first) is None
    assert guard.warning(first) == ""
    assert guard.refuse(call(city="Rome")) is None
    assert guard.refuse(second) is None
    assert "call number 2 of 'look'" in guard.warning(second)
    assert not guard.stuck
    why = "it was made 3 times with the same arguments"
    assert guard.refuse(first) == NotRun(SkipReason.IDENTICAL, why)
    assert guard.stuck


def test_a_tool_that_fails_in_a_row_is_withdrawn_and_success_forgives() -> None:
    guard = Guard(RunLimits(attempts=2))
    guard.failed("look")
    guard.succeeded("look")
    guard.failed("look")
    assert guard.withdrawn == frozenset()
    guard.failed("look")
    guard.failed("send")
    assert guard.withdrawn == {"look"}
    why = "'look' failed 2 times in a row and is withdrawn"
    assert guard.refuse(call("look")) == NotRun(SkipReason.WITHDRAWN, why)
    assert guard.refuse(call("send")) is None


# ── What a run spends, and which cap it reaches first ───────────────────────────────────


@pytest.mark.parametrize(
    ("limits", "turns", "tokens", "now", "stop"),
    [
        (RunLimits(), 9, 10**9, 10.0**9, None),
        (RunLimits(), 10, 0, 0.0, Stop.TURNS),
        (RunLimits(tokens=30), 1, 29, 0.0, None),
        (RunLimits(tokens=30), 1, 30, 0.0, Stop.TOKENS),
        (RunLimits(seconds=5), 1, 0, 104.9, None),
        (RunLimits(seconds=5), 1, 0, 105.0, Stop.SECONDS),
    ],
)
def test_a_cap_is_reached_exactly(
    limits: RunLimits, stop: Stop | None, *, turns: int, tokens: int, now: float
) -> None:
    ledger = Budget(limits, started=100.0)
    ledger.turns = turns
    ledger.spend(Usage(tokens - tokens // 3, tokens // 3))
    ledger.spend(None)
    assert ledger.reached(now) is stop


def test_the_deadline_counts_from_the_start() -> None:
    assert Budget(RunLimits(), started=100.0).deadline is None
    assert Budget(RunLimits(seconds=5), started=100.0).deadline == 105.0


def test_figures_are_summed_and_missing_ones_left_out() -> None:
    one = Usage(3, None, {"cached": 1, "details": {"audio": 2}, "tier": "default", "flag": True})
    two = Usage(4, 5, {"cached": 2, "details": {"audio": 3, "text": 1}, "tier": "x", "flag": True})
    total = add_usage(add_usage(Usage(), one), two)
    assert (total.input_tokens, total.output_tokens) == (7, 5)
    assert total.native == {
        "cached": 3,
        "details": {"audio": 5, "text": 1},
        "tier": "x",
        "flag": True,
    }
    assert add_usage(Usage(1, 2), Usage()) == Usage(1, 2)


def test_a_figure_that_changes_its_shape_is_replaced() -> None:
    total = add_usage(Usage(native={"details": 3}), Usage(native={"details": {"audio": 2}}))
    assert total.native == {"details": {"audio": 2}}


# ── Limits under which no run could go on are refused ───────────────────────────────────


def test_a_run_in_which_no_call_could_begin_is_refused() -> None:
    assert RunLimits(concurrency=1).concurrency == 1
    with pytest.raises(ValueError, match="concurrency=0"):
        RunLimits(concurrency=0)


@pytest.mark.parametrize(
    "limits",
    [
        {"turns": 0},
        {"attempts": 0},
        {"stop_identical": 0},
        {"tool_timeout": 0.0},
        {"tool_timeout": math.nan},
        {"calls": -1},
        {"seconds": math.nan},
        {"tokens": -1},
        {"result_limit": -1},
        {"turn_retries": -1},
    ],
    ids=str,
)
def test_a_limit_that_lets_nothing_happen_is_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(limits))):
        RunLimits(**limits)


def test_a_small_model_gets_no_tools_after_a_call_that_it_repeats() -> None:
    assert default_limits("gpt-x") == RunLimits()
    assert default_limits("local/mine.gguf") == RunLimits(warn_identical=2, stop_identical=2)
