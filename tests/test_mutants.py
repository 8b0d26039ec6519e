"""`make mutants` can take each guard out: the source still says it, and its tests are there."""

from __future__ import annotations

import pytest

from mutants import MUTANTS, ROOT, Mutant, holding


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_guard_stands_once_and_has_tests(mutant: Mutant) -> None:
    source = (ROOT / "src" / "wholecall" / mutant.file).read_text(encoding="utf-8")
    assert source.count(mutant.guard) == 1
    assert all((ROOT / path).exists() for path in mutant.tests.split())


def test_words_choose_mutants() -> None:
    assert holding([]) == MUTANTS
    chosen = holding(["codes: base64", "gate_mode.py"])
    assert 1 < len(chosen) < len(MUTANTS)
    assert {mutant.name.startswith("codes: base64") for mutant in chosen} == {True, False}
