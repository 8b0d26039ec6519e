"""Every fault scenario, in every protocol, streamed and not: exactly what is safe is run."""

import asyncio
import json
from collections.abc import Iterator

import pytest

from fault_agent import Agent
from wholecall.agent.run_events import TurnRetried
from wholecall.arguments.feedback import SkipReason, feedback, skipped
from wholecall.events import Reason, Rejected
from wholecall.faults.fault_server import FaultServer
from wholecall.faults.scenarios import SCENARIOS
from wholecall.faults.script import TOOLS, Form, Scenario

OFFER = {spec.name: spec for spec in TOOLS}
ROWS = [
    pytest.param(scenario, form, id=f"{scenario.name}-{form.protocol}-{form.streamed}")
    for scenario in SCENARIOS.values()
    for form in sorted(scenario.forms)
]


def play(scenario: Scenario, form: Form, *, choice: str) -> tuple[Agent, FaultServer]:
    async def go() -> tuple[Agent, FaultServer]:
        agent = Agent()
        async with asyncio.timeout(60), FaultServer(hang_seconds=30) as server:
            await agent.go(server, scenario, form=form, choice=choice)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"tasks are left over: {left}"
        return agent, server

    return asyncio.run(go())


@pytest.mark.parametrize(("scenario", "form"), ROWS)
def test_exactly_what_is_safe_is_run(scenario: Scenario, form: Form) -> None:
    choice = "required" if scenario.refuses_choice else "auto"
    agent, server = play(scenario, form, choice=choice)
    expected = scenario.expect(form)
    assert agent.ran == list(expected.runs)
    if expected.error:
        assert agent.error is not None
    else:
        assert agent.error is None
        assert agent.result is not None
        assert agent.result.text == scenario.text
    check_feedback(agent, server)


def check_feedback(agent: Agent, server: FaultServer) -> None:
    """Every rejected call was answered by words that name it and the cause, unless its answer
    was void."""
    told = [json.dumps(received.body, ensure_ascii=False) for received in server.received[1:]]
    for rejected in find_rejections(agent):
        words = feedback(rejected, OFFER.get(rejected.name or ""), offer=OFFER)
        if rejected.reason is Reason.UNKNOWN_TOOL and rejected.name in OFFER:
            why = f"{rejected.name!r} failed 3 times in a row and is withdrawn"
            words = skipped(rejected.name, why, reason=SkipReason.WITHDRAWN).text
        assert (rejected.name or "") in words
        assert "not run" in words or "nothing was run" in words
        assert any(quote(words) in body for body in told), f"nobody was told: {words}"


def quote(words: str) -> str:
    """As it stands in a JSON text."""
    return json.dumps(words, ensure_ascii=False)[1:-1]


def find_rejections(agent: Agent) -> Iterator[Rejected]:
    if agent.error is not None:
        return
    for at, event in enumerate(agent.events):
        void = any(isinstance(later, TurnRetried) for later in agent.events[at:])
        if isinstance(event, Rejected) and not void:
            yield event
