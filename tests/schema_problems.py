"""Problems of values that do not fit, for tests."""

from __future__ import annotations

from typing import Any

from wholecall.arguments.compiled_schema import Compiled, prepare
from wholecall.arguments.schema_cost import Allowance
from wholecall.arguments.validate import explain
from wholecall.events import Problem


def explain_it(schema: Any, value: Any, *, unknown: tuple[str, ...] = ()) -> tuple[Problem, ...]:
    """What is wrong with a value that does not fit."""
    compiled = prepare(schema)
    assert isinstance(compiled, Compiled), compiled
    assert not compiled.fits(compiled.root, value)
    return explain(compiled, value, allowance=Allowance(compiled.cost), unknown=unknown)


def of(schema: Any) -> dict[str, Any]:
    """The schema of one parameter called `a`."""
    return {"type": "object", "properties": {"a": schema}, "required": ["a"]}
