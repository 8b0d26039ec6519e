"""Limits under which no run could go on are refused."""

import math
from typing import Any

import pytest

from wholecall.agent.budget import RunLimits, default_limits


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
