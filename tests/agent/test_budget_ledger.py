"""What a run spends, and which cap it reaches first."""

import pytest

from wholecall.agent.budget import Budget, RunLimits, Stop, add_usage
from wholecall.events import Usage


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
