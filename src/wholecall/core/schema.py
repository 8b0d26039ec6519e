"""Check arguments against a tool's schema, and tool definitions before they are offered.

`check` is the last step before a call may run:

    value ──size──▶ unknown names dropped ──fits?──▶ coerced ──fits?──▶ problems

Parameters that a schema does not know are problems if it forbids them, are kept if it allows them,
and are dropped if it says nothing; the result tells the model so. There is one exception: a name
that can only be a misspelling of a parameter that is not given. Dropping `dryRun` for a tool that
has `dry_run` would run something else than was requested.

`admit` checks tool definitions before they are offered.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, cast

from wholecall.core.coerce import STRICT, CoercionOptions, coerce
from wholecall.core.compiled import Compiled
from wholecall.core.explain import PROBLEMS, explain
from wholecall.core.near import find_misspelt
from wholecall.core.parse import join_path
from wholecall.core.prepare import prepare
from wholecall.core.size import Size, measure
from wholecall.core.spec import ToolSpec, read_tool
from wholecall.core.values import JSON, Coercion, Problem
from wholecall.core.words import show, show_names
from wholecall.core.work import Allowance
from wholecall.errors import InadmissibleTools

UNKNOWN = 1000
"""Parameters that a tool does not have, of one call. Each is compared with those that it has."""
_REFUSE_UNKNOWN = Problem(
    "$",
    "limit",
    f"more than {UNKNOWN} parameters were received that this tool does not have",
    "more",
    "only parameters of this tool",
)
TOOLS = 128
"""Tools that one request may offer. Providers refuse more."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Arguments after the check. Without problems they fit."""

    value: dict[str, JSON]
    """Coerced, and without what was dropped. What was given to `check` is not changed."""
    coercions: tuple[Coercion, ...] = ()
    dropped: tuple[str, ...] = ()
    """The names of parameters that the tool does not have."""
    problems: tuple[Problem, ...] = ()


def check(value: dict[str, JSON], spec: ToolSpec, *, options: CoercionOptions = STRICT) -> Checked:
    """Check arguments against the schema of their tool."""
    compiled = prepare(spec.parameters)
    if isinstance(compiled, Problem):
        # Unchecked arguments never run. The model cannot correct it, so the message says so.
        return Checked(value, problems=(_blame_schema(spec, compiled),))
    size = measure(value)
    if oversize := _refuse_size(compiled, value, size=size):
        return Checked(value, problems=(oversize,))
    known, unknown = _drop_unknown(compiled, value)
    kept, dropped = (value, ()) if options.keep_unknown else (known, unknown)
    if len(dropped) > UNKNOWN:
        return Checked(value, problems=(_REFUSE_UNKNOWN,))
    fits = compiled.fits(compiled.root, kept)
    coercions: tuple[Coercion, ...] = ()
    allowance = Allowance(compiled.cost)
    if not fits or (size.whole_floats and compiled.integers):
        kept, coercions = _coerce(compiled, kept, allowance=allowance, size=size, options=options)
        fits = compiled.fits(compiled.root, kept)
    problems = () if fits else explain(compiled, kept, allowance=allowance, unknown=dropped)
    if unknown:
        missing = {problem.path for problem in problems}
        misspelt = _report_misspelt(compiled, value, unknown=unknown, missing=missing)
        problems += tuple(islice(misspelt, PROBLEMS - len(problems)))
        if not kept and not problems:
            # Of arguments of which nothing is left, none was meant for this tool.
            strangers = _report_strangers(compiled, value, dropped=dropped)
            problems = tuple(islice(strangers, PROBLEMS))
    return Checked(kept, coercions, dropped, problems)


def _blame_schema(spec: ToolSpec, problem: Problem) -> Problem:
    message = (
        f"tool {spec.name!r} cannot be called, because its definition is broken "
        f"({problem.path}: {problem.message})"
    )
    return Problem("$", "definition", message, "", "another tool")


def _coerce(
    compiled: Compiled,
    value: dict[str, JSON],
    *,
    allowance: Allowance,
    size: Size,
    options: CoercionOptions,
) -> tuple[dict[str, JSON], tuple[Coercion, ...]]:
    read = coerce(
        compiled, value, allowance=allowance, whole_floats=size.whole_floats, options=options
    )
    if not read.coercions:
        return value, ()
    # What a text holds may be deep, inside an object that is deep; and so may it be large.
    if not isinstance(read.value, dict) or _refuse_size(compiled, read.value):
        return value, ()
    return read.value, read.coercions


# ── Size ────────────────────────────────────────────────────────────────────────────


def _refuse_size(
    compiled: Compiled, value: dict[str, JSON], *, size: Size | None = None
) -> Problem | None:
    """Refuse arguments that would take too long to check."""
    size = size or measure(value)
    if size.limit:
        expected = f"at most {size.limit}"
        message = f"the arguments must have {expected}: send them in parts, or flatter"
        return Problem("$", "limit", message, "more", expected)
    if compiled.cost.exceeds(value, size):
        expected = "fewer or smaller values"
        message = (
            "the arguments are too large to be checked against the schema of this tool: "
            f"send {expected}, in parts if need be"
        )
        return Problem("$", "limit", message, f"{size.values} values", expected)
    return None


# ── Unknown parameters ──────────────────────────────────────────────────────────────


def _drop_unknown(
    compiled: Compiled, value: dict[str, JSON]
) -> tuple[dict[str, JSON], tuple[str, ...]]:
    if not compiled.drops or value.keys() <= compiled.names:
        return value, ()
    kept = {name: member for name, member in value.items() if name in compiled.names}
    return kept, tuple(name for name in value if name not in kept)


def _report_misspelt(
    compiled: Compiled, value: dict[str, JSON], *, unknown: Iterable[str], missing: Collection[str]
) -> Iterator[Problem]:
    """Unknown names that are near to a parameter which is neither given nor reported missing."""
    absent = {name for name in compiled.names - value.keys() if join_path("$", name) not in missing}
    expected = f"only {show_names(sorted(compiled.names))}"
    for name, meant in find_misspelt(unknown, absent).items():
        path = join_path("$", name)
        message = f"{path} is no parameter of this tool; did you mean {show(meant)}?"
        yield Problem(path, "unknown_parameter", message, show(value[name]), expected)


def _report_strangers(
    compiled: Compiled, value: dict[str, JSON], *, dropped: Iterable[str]
) -> Iterator[Problem]:
    expected = f"only {show_names(sorted(compiled.names))}"
    for name in dropped:
        path = join_path("$", name)
        message = f"{path} is no parameter of this tool"
        yield Problem(path, "unknown_parameter", message, show(value[name]), expected)


# ── Admission ───────────────────────────────────────────────────────────────────────

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_NAME_IN_WORDS = "1 to 128 letters, digits, underscores, dots and hyphens"


def admit(tools: Iterable[ToolSpec | Mapping[str, Any]]) -> tuple[Problem, ...]:
    """Say what keeps tools from being offered; nothing if they may be.

    Each problem's path leads into the list of tools, and its message names the tool.
    """
    problems: list[Problem] = []
    names: set[str] = set()
    for index, tool in enumerate(tools):
        if index == TOOLS:
            expected = f"at most {TOOLS} tools"
            return (*problems, Problem("$", "limit", f"offer {expected}", "more", expected))
        path = f"$[{index}]"
        try:
            specs = read_tool(tool, path)
        except InadmissibleTools as refused:
            # `errors.py` imports nothing from this package and cannot do it itself.
            problems += cast("tuple[Problem, ...]", refused.problems)
            continue
        for spec in specs:
            problems += _judge_tool(spec, path, names=names)
            names.add(spec.name)
    return tuple(problems)


def require_admissible(tools: Iterable[ToolSpec | Mapping[str, Any]]) -> None:
    """Raise `InadmissibleTools`, with all problems, if these tools may not be offered."""
    problems = admit(tools)
    if problems:
        raise InadmissibleTools("; ".join(problem.message for problem in problems), problems)


def _judge_tool(spec: ToolSpec, path: str, *, names: Collection[str]) -> Iterator[Problem]:
    name = show(spec.name)
    if not _NAME.fullmatch(spec.name):
        message = f"tool {name} must have another name: {_NAME_IN_WORDS}"
        yield Problem(f"{path}.name", "name", message, name, _NAME_IN_WORDS)
    if spec.name in names:
        message = f"tool {name} is offered twice: give each tool a name of its own"
        yield Problem(f"{path}.name", "duplicate_name", message, name, "names that differ")
    compiled = prepare(spec.parameters)
    where = f"{path}.parameters"
    if isinstance(compiled, Problem):
        message = f"tool {name}: {compiled.message} (at {compiled.path} of its schema)"
        yield replace(compiled, path=where + compiled.path.removeprefix("$"), message=message)
    elif "object" not in compiled.types(compiled.root):
        message = f"tool {name}: the schema must describe an object with the parameters in it"
        yield Problem(f"{where}.type", "type", message, "", "an object")
