"""Limits under which no run could go on are refused."""

import pytest

from wholecall.runs.limits import RunLimits


def test_a_run_in_which_no_call_could_begin_is_refused() -> None:
    assert RunLimits(parallel=1).parallel == 1
    with pytest.raises(ValueError, match="parallel=0"):
        RunLimits(parallel=0)
