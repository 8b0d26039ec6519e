"""`make mutants` can take each guard out: the source still says it, and its tests are there."""

from __future__ import annotations

import pytest

from mutants import MUTANTS, ROOT, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_guard_stands_once_and_has_tests(mutant: Mutant) -> None:
    source = (ROOT / "src" / "wholecall" / mutant.file).read_text(encoding="utf-8")
    assert source.count(mutant.guard) == 1
    assert all((ROOT / path).exists() for path in mutant.tests.split())
