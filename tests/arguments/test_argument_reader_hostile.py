"""Hostile schemas and arguments end in a refusal, or in a verdict after bounded work.

All tables run in one other process, under a limit of CPU time and memory: what hangs or
swells fails, and nothing here looks at a clock.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import hostile
from hostile import Row
from hostile_patterns import PATTERNS

ROWS = hostile.rows()


@pytest.fixture(scope="module")
def verdicts() -> dict[str, str]:
    program = Path(hostile.__file__)
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    lines = dict(json.loads(line) for line in done.stdout.splitlines())
    assert done.returncode == 0, f"after {list(lines)[-1:]}: {done.stderr[-2000:]}"
    return lines


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_a_hostile_input_ends(row: Row, verdicts: dict[str, str]) -> None:
    assert verdicts[row.name] == row.verdict


def test_every_row_has_a_name_of_its_own() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)


def test_there_are_thirty_patterns() -> None:
    assert len(PATTERNS) >= 30
