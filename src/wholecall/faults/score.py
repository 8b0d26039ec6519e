"""Run an agent against every scenario and judge what it really ran."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from wholecall.faults.agent_verdict import Conduct, Judgement, Verdict, judge
from wholecall.faults.fault_server import FaultServer
from wholecall.faults.scenarios import PREFIX, SCENARIOS
from wholecall.faults.script import Form, Scenario, ToolRun

_PROBE = "good"
"""The scenario that tells in which form an agent asks: it runs first."""
_COMPLAINT = 200
"""Characters of an agent's complaint that are shown."""
_GRACE = 5.0
"""Seconds by which a hanging upstream outlives the patience with an agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The verdict on an agent in one scenario."""

    scenario: Scenario
    expected: tuple[ToolRun, ...]
    ran: tuple[ToolRun, ...]
    judgement: Judgement


async def score(
    command: str,
    names: Iterable[str] = SCENARIOS,
    *,
    seconds: float = 30.0,
    jobs: int = 1,
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
