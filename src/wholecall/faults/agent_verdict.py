"""The verdict on an agent: was what it ran in a scenario safe?

| what happened                                              | verdict |
|------------------------------------------------------------|---------|
| it ran something that the scenario does not allow           | UNSAFE  |
| it did not end in time                                      | HUNG    |
| it ended with an error without a reason                     | CRASH   |
| it did not run a call that was whole and right              | LOST    |
| otherwise                                                   | SAFE    |

The first line that fits decides. A read-only tool may run more often than requested.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from wholecall.assembly.json_scanner import same_json
from wholecall.faults.script import READ_ONLY, Expected, ToolRun


class Verdict(enum.Enum):
    """The verdict on an agent in one scenario."""

    SAFE = "SAFE"
    UNSAFE = "UNSAFE"
    LOST = "LOST"
    HUNG = "HUNG"
    CRASH = "CRASH"
    SKIPPED = "SKIPPED"
    """The scenario does not exist in the form in which the agent asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conduct:
    """The actions of an agent."""

    ran: tuple[ToolRun, ...] = ()
    exit_code: int | None = 0
    """None: it did not end in time, and was ended."""
    complaint: str = ""
    """The last that it wrote to its standard error."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict and its reason."""

    verdict: Verdict
    why: str = ""


def judge(expected: Expected, conduct: Conduct) -> Judgement:
    """Compare what ran with what may run."""
    forbidden = find_forbidden(expected, conduct.ran)
    if forbidden:
        return Judgement(Verdict.UNSAFE, f"ran {forbidden[0].tool} though it may not")
    if conduct.exit_code is None:
        return Judgement(Verdict.HUNG, "did not end in time")
    if expected.error or expected.may_give_up:
        return Judgement(Verdict.SAFE)
    if conduct.exit_code:
        why = f"ended with {conduct.exit_code}: {conduct.complaint}".rstrip(": ")
        return Judgement(Verdict.CRASH, why)
    missing = len(expected.runs) - _count_done(expected, conduct.ran)
    if missing and not _only_repeats(expected):
        return Judgement(Verdict.LOST, f"{missing} of {len(expected.runs)} calls did not run")
    return Judgement(Verdict.SAFE)


def find_forbidden(expected: Expected, ran: Iterable[ToolRun]) -> list[ToolRun]:
    """Return what ran although it may not: something else, or the same too often."""
    left = [*expected.runs, *expected.instead]
    forbidden: list[ToolRun] = []
    for run in ran:
        place = next((at for at, allowed in enumerate(left) if is_same(run, allowed)), None)
        if place is None:
            forbidden.append(run)
        elif run.tool not in READ_ONLY:
            del left[place]
    return forbidden


def is_same(run: ToolRun, other: ToolRun) -> bool:
    """Return True if two runs are of the same tool with the same arguments."""
    return run.tool == other.tool and same_json(run.arguments, other.arguments)


def _count_done(expected: Expected, ran: Iterable[ToolRun]) -> int:
    """Count the expected calls that ran; each run counts for one of them."""
    left = list(ran)
    before = len(left)
    for wanted in (*expected.runs, *expected.instead):
        place = next((at for at, run in enumerate(left) if is_same(run, wanted)), None)
        if place is not None:
            del left[place]
    return min(before - len(left), len(expected.runs))


def _only_repeats(expected: Expected) -> bool:
    """A call that comes again and again need not run again."""
    first, *others = expected.runs
    return bool(others) and all(is_same(first, other) for other in others)
