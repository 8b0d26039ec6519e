"""Run an agent against every scenario and judge what it really ran.


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

import asyncio
import enum
import os
import shlex
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from wholecall.faults.fault_server import FaultServer
from wholecall.faults.scenarios import PREFIX, SCENARIOS
from wholecall.faults.script import READ_ONLY, Expected, Form, Scenario, ToolRun, is_same

_PROBE = "good"
"""The scenario that tells in which form an agent asks: it runs first."""
_COMPLAINT = 200
"""Characters of an agent's complaint that are shown."""
_GRACE = 5.0
"""Seconds by which a hanging upstream outlives the patience with an agent."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The verdict on an agent in one scenario."""

    scenario: Scenario
    expected: tuple[ToolRun, ...]
    ran: tuple[ToolRun, ...]
    judgement: Judgement


async def score(
    command: str, names: Iterable[str] = SCENARIOS, *, seconds: float = 30.0, jobs: int = 1
) -> AsyncIterator[Score]:
    """Run the command once a scenario, `jobs` at a time; yield the scores in order.

    A command that never asks the upstream has crashed, and is not tried any further.
    """
    async with FaultServer(hang_seconds=seconds + _GRACE) as server:
        trial = _Trial(shlex.split(command), server, seconds=seconds)
        form = await trial.probe()
        if isinstance(form, Score):
            yield form
            return
        wanted = [SCENARIOS[name] for name in names]
        for begin in range(0, len(wanted), jobs):
            batch = wanted[begin : begin + jobs]
            for scored in await asyncio.gather(*(trial.score(each, form) for each in batch)):
                yield scored


class _Trial:
    """One agent before one upstream."""

    def __init__(self, command: Sequence[str], server: FaultServer, *, seconds: float) -> None:
        self._command = command
        self._server = server
        self._seconds = seconds

    async def probe(self) -> Form | Score:
        """In which protocol the agent asks, and whether for a stream."""
        scenario = SCENARIOS[_PROBE]
        conduct = await self._run(scenario, label="probe")
        if self._server.received:
            return self._server.received[0].form
        why = f"never asked the upstream: {conduct.complaint}".rstrip(": ")
        return Score(
            scenario=scenario,
            expected=scenario.expected_runs,
            ran=conduct.ran,
            judgement=Judgement(Verdict.CRASH, why),
        )

    async def score(self, scenario: Scenario, form: Form) -> Score:
        """Let the agent face one scenario."""
        expected = scenario.expect(form)
        if form not in scenario.forms:
            conduct, judgement = Conduct(), Judgement(Verdict.SKIPPED, _tell_form(form))
        else:
            conduct = await self._run(scenario, label=scenario.name)
            judgement = judge(expected, conduct)
        return Score(
            scenario=scenario, expected=expected.runs, ran=conduct.ran, judgement=judgement
        )

    async def _run(self, scenario: Scenario, *, label: str) -> Conduct:
        agent = await asyncio.create_subprocess_exec(
            *self._command,
            env={**os.environ, **self._environment(scenario, label)},
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=PIPE,
            start_new_session=True,
        )
        try:
            _, errors = await asyncio.wait_for(agent.communicate(), self._seconds)
            exit_code = agent.returncode
        except TimeoutError:
            errors, exit_code = b"", None
        finally:
            await _end(agent)
        ran = tuple(report.run for report in self._server.reported if report.label == label)
        return Conduct(ran=ran, exit_code=exit_code, complaint=_last_line(errors))

    def _environment(self, scenario: Scenario, label: str) -> dict[str, str]:
        return {
            "OPENAI_BASE_URL": self._server.base_url,
            "ANTHROPIC_BASE_URL": self._server.address,
            "OPENAI_API_KEY": label,
            "ANTHROPIC_API_KEY": label,
            "MODEL": PREFIX + scenario.name,
            "PROMPT": scenario.prompt,
            "SCENARIO": scenario.name,
            "WHOLECALL_FAULTS_REPORT_URL": f"{self._server.address}/faults/ran?run={label}",
            "NO_PROXY": "127.0.0.1",
        }


async def _end(agent: Process) -> None:
    """End the agent with all that it started: it has a session of its own."""
    with suppress(ProcessLookupError):
        os.killpg(agent.pid, signal.SIGKILL)
    await agent.wait()


def _last_line(errors: bytes) -> str:
    lines = errors.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:_COMPLAINT] if lines else ""


def _tell_form(form: Form) -> str:
    return f"not in {'streams' if form.streamed else 'whole answers'} of {form.protocol}"
