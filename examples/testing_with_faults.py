"""Test your agent with an upstream that fails: `pytest examples/testing_with_faults.py`."""

import pytest

import wholecall
from wholecall.faults import SCENARIOS, Scenario, ToolRun, start_in_thread


def run_agent(base_url: str, *, model: str, prompt: str) -> list[ToolRun]:
    """Your agent, with whatever library it is made; it says what it really ran."""
    ran: list[ToolRun] = []

    @wholecall.tool
    def send_email(to: str, body: str) -> str:
        ran.append(ToolRun("send_email", {"to": to, "body": body}))
        return "sent"

    @wholecall.tool
    def write_file(path: str, content: str = "") -> str:
        ran.append(ToolRun("write_file", {"path": path, "content": content}))
        return "written"

    wholecall.ask_sync(
        model, prompt, tools=[send_email, write_file], base_url=base_url, api_key="any"
    )
    return ran


CHOSEN = ["good", "truncated-in-string", "dropped-in-call", "index-all-zero", "text-echo"]


@pytest.mark.parametrize("scenario", [SCENARIOS[name] for name in CHOSEN], ids=CHOSEN)
def test_only_what_is_whole_runs_and_only_once(scenario: Scenario) -> None:
    with start_in_thread() as server:
        ran = run_agent(server.base_url, model=scenario.name, prompt=scenario.prompt)
    assert ran == list(scenario.expected_runs), scenario.sentence
