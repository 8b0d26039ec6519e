"""Hostile schemas and arguments: how a row of the tables is written, and how it is judged.

As a program it judges every row and writes a line for each, as soon as it is judged. It
does so under a limit of CPU time and memory: what hangs or swells ends it.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from wholecall.arguments.feedback import feedback
from wholecall.arguments.validate import check
from wholecall.assembly.assembler import Assembler
from wholecall.events import (
    CallDelta,
    Delta,
    Hint,
    HintGiven,
    Problem,
    Reason,
    Rejected,
    Terminated,
)
from wholecall.messages import ToolSpec

CPU_SECONDS = 60
"""For all rows together, of which each takes milliseconds."""
MEMORY = 3 * 1024**3
TABLES = ("hostile_patterns", "hostile_schemas", "hostile_values", "hostile_texts")

REFUSED, LIMIT, FITS, UNFIT, BROKEN = "refused", "limit", "fits", "unfit", "broken"
"""The definition is refused; a limit is passed; it fits; it does not; it is not JSON."""

Schema = dict[str, Any]


class Text(str):
    """Arguments as they come: the text of the whole object."""

    __slots__ = ()


class Row(NamedTuple):
    name: str
    schema: Schema
    make: Callable[[], Any]
    """Makes the value of parameter `a`, or the `Text` of all arguments."""
    verdict: str


def of(schema: Schema, **more: Any) -> Schema:
    return {"type": "object", "properties": {"a": schema}, "required": ["a"], **more}


def items(schema: Schema) -> Schema:
    return of({"type": "array", "items": schema})


def ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def defs(name: str, definitions: Schema) -> Schema:
    return of(ref(name), **{"$defs": definitions})


def nested(levels: int, leaf: Any = 1) -> Any:
    """Objects in one another."""
    value = leaf
    for _ in range(levels):
        value = {"a": value}
    return value


INTEGER, STRING = {"type": "integer"}, {"type": "string"}


# ── Judging ─────────────────────────────────────────────────────────────────────────


def prepared(row: Row) -> Callable[[], str]:
    """All that is timed; what is hostile is made before."""
    spec, made = ToolSpec("tool", row.schema), row.make()
    return lambda: _assemble(made, spec) if isinstance(made, Text) else _check(made, spec)


def _check(value: Any, spec: ToolSpec) -> str:
    """Check, and say the feedback, too: an example is built for it."""
    problems = check({"a": value}, spec).problems
    if not problems:
        return FITS
    assert len(feedback(problems, spec)) < 20_000
    return _name(problems)


def _assemble(text: Text, spec: ToolSpec) -> str:
    """Send the whole way from the first delta to the feedback."""
    assembler = Assembler([spec])
    deltas: list[Delta] = [
        CallDelta(slot=0, id="1", name="tool", opens=True, arguments=text),
        HintGiven(Hint.TOOL_CALLS, "tool_calls"),
        Terminated(),
    ]
    events = [event for delta in deltas for event in assembler.feed(delta)] + assembler.end()
    rejected = next((event for event in events if isinstance(event, Rejected)), None)
    if rejected is None:
        return FITS
    assert len(feedback(rejected, spec)) < 20_000
    if rejected.reason is Reason.SCHEMA:
        return _name(rejected.problems)
    return LIMIT if rejected.reason is Reason.LIMIT else BROKEN


def _name(problems: tuple[Problem, ...]) -> str:
    kinds = {problem.kind for problem in problems}
    if "definition" in kinds:
        return REFUSED
    return LIMIT if "limit" in kinds else UNFIT


def rows() -> list[Row]:
    """All tables."""
    return [row for table in TABLES for row in importlib.import_module(table).ROWS]


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for row in rows():
        sys.stdout.write(json.dumps([row.name, prepared(row)()]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    # The tables import this file by its name, and must find the same classes.
    importlib.import_module("hostile").main()
