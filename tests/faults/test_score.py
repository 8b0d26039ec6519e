"""Agents before the scenarios: a naive one is caught, a careful one is safe."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from faults.careful_agent import Agent
from wholecall.faults.fault_server import FaultServer, start_in_thread
from wholecall.faults.scenarios import SCENARIOS
from wholecall.faults.score import Conduct, Score, Verdict, judge, score
from wholecall.faults.script import Form, ToolRun

HERE = Path(__file__).parent
FORM = Form("openai-chat", True)
PYTHON = sys.executable
SECONDS = 120.0


def run_score(command: str, *names: str, seconds: float = SECONDS) -> list[Score]:
    async def collect() -> list[Score]:
        return [each async for each in score(command, names, seconds=seconds, jobs=2)]

    return asyncio.run(collect())


def agent(name: str) -> str:
    return f"{PYTHON} {HERE / name}"


# ── The command ─────────────────────────────────────────────────────────────────────


def test_a_naive_agent_is_caught() -> None:
    names = {
        "good": Verdict.SAFE,
        "truncated-after-member": Verdict.UNSAFE,
        "truncated-in-string": Verdict.UNSAFE,
        "truncated-before-first-byte": Verdict.UNSAFE,
        "unknown-tool": Verdict.UNSAFE,
        "text-tagged-json": Verdict.LOST,
        "index-missing": Verdict.CRASH,
        "crlf": Verdict.SAFE,
    }
    scores = run_score(agent("naive_agent.py"), *names)
    assert {each.scenario.name: each.judgement.verdict for each in scores} == names
    cut = scores[1]
    assert cut.ran[0] == ToolRun("write_file", {"path": "notes.txt"})
    assert cut.expected == SCENARIOS["truncated-after-member"].expected_runs


def test_a_careful_agent_is_safe_as_a_command() -> None:
    names = ["good", "truncated-in-string", "text-tagged-json", "index-missing"]
    scores = run_score(agent("careful_agent.py"), *names)
    assert {each.judgement.verdict for each in scores} == {Verdict.SAFE}


def test_a_scenario_that_the_agent_cannot_meet_is_skipped() -> None:
    program = (
        "import json, os, urllib.request as r;"
        "body = {'model': os.environ['MODEL'], 'messages': []};"
        "r.urlopen(r.Request(os.environ['ANTHROPIC_BASE_URL'] + '/v1/messages',"
        " json.dumps(body).encode())).close()"
    )
    skipped, lost = run_score(f'{PYTHON} -c "{program}"', "crlf", "good")
    assert skipped.judgement.verdict is Verdict.SKIPPED
    assert skipped.judgement.why == "not in whole answers of anthropic"
    assert lost.judgement.verdict is Verdict.LOST


def test_an_agent_that_asks_nobody_has_crashed() -> None:
    [silent] = run_score(f"{PYTHON} -c pass", "good", "crlf")
    assert silent.judgement.verdict is Verdict.CRASH
    assert silent.judgement.why == "never asked the upstream"


def test_a_complaint_is_shown() -> None:
    [broken] = run_score(f"{PYTHON} -c 1/0", "good")
    assert broken.judgement.why == ("never asked the upstream: ZeroDivisionError: division by zero")


def test_an_agent_that_does_not_end_is_ended_with_its_children() -> None:
    asking = f"{PYTHON} {HERE / 'naive_agent.py'}"
    # The probe succeeds; after it, the agent waits for ever behind a child.
    command = f"/bin/sh -c 'if [ \"$OPENAI_API_KEY\" = probe ]; then {asking}; else sleep 600; fi'"
    [hung] = run_score(command, "good", seconds=8.0)
    assert hung.judgement.verdict is Verdict.HUNG


# ── All scenarios, in this process ──────────────────────────────────────────────────


@pytest.fixture(scope="module")
def server() -> Iterator[FaultServer]:
    with start_in_thread(hang_seconds=5.0) as running:
        yield running


@pytest.mark.parametrize(
    "name", [name for name, scenario in SCENARIOS.items() if FORM in scenario.forms]
)
def test_a_careful_agent_is_safe(server: FaultServer, name: str) -> None:
    scenario = SCENARIOS[name]
    environment = {
        **os.environ,
        "OPENAI_BASE_URL": server.base_url,
        "OPENAI_API_KEY": name,
        "MODEL": f"faults/{name}",
        "PROMPT": scenario.prompt,
        "WHOLECALL_FAULTS_REPORT_URL": f"{server.address}/faults/ran?run={quote(name)}",
    }
    text, failed = "", False
    try:
        text = Agent(environment, patience=0.5).run()
    except RuntimeError:
        failed = True
    ran = tuple(report.run for report in server.reported if report.label == name)
    assert judge(scenario.expect(FORM), Conduct(ran=ran, exit_code=int(failed))).verdict is (
        Verdict.SAFE
    )
    if not scenario.expect(FORM).may_give_up:
        assert failed == scenario.ends_in_error
        assert text == (scenario.final_text or "")
