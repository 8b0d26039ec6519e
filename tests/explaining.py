"""Problems of values that do not fit, for tests."""

from __future__ import annotations

from typing import Any

from wholecall.core.compiled import Compiled
from wholecall.core.explain import explain
from wholecall.core.prepare import prepare
from wholecall.core.values import Problem
from wholecall.core.work import Allowance


def explain_it(schema: Any, value: Any, *, unknown: tuple[str, ...] = ()) -> tuple[Problem, ...]:
    """What is wrong with a value that does not fit."""
    compiled = prepare(schema)
    assert isinstance(compiled, Compiled), compiled
    assert not compiled.fits(compiled.root, value)
    return explain(compiled, value, allowance=Allowance(compiled.cost), unknown=unknown)


def of(schema: Any) -> dict[str, Any]:
    """The schema of one parameter called `a`."""
    return {"type": "object", "properties": {"a": schema}, "required": ["a"]}
