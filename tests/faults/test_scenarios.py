"""The scenarios as a table: complete, without doubles, and true to their own tools."""

from __future__ import annotations

import pytest

from wholecall.arguments.argument_reader import Arguments, read_arguments
from wholecall.errors import UnknownModel
from wholecall.faults.scenarios import (
    SCENARIOS,
    calls,
    failures,
    find_scenario,
    sound,
)
from wholecall.faults.script import (
    EVERYWHERE,
    TOOLS,
    Act,
    Drop,
    Hang,
    Reset,
    Scenario,
    ScriptAnswer,
)

GROUPS = (
    sound.SCENARIOS,
    failures.CUT_SCENARIOS,
    failures.FINISH_SCENARIOS,
    calls.ADDRESS_SCENARIOS,
    calls.ARGUMENT_SCENARIOS,
    calls.TEXT_SCENARIOS,
    failures.REFUSAL_SCENARIOS,
)
OFFER = {tool.name: tool for tool in TOOLS}
ALL = pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=list(SCENARIOS))


def test_no_two_scenarios_have_one_name() -> None:
    assert sum(len(group) for group in GROUPS) == len(SCENARIOS)


def test_there_are_many() -> None:
    assert len(SCENARIOS) >= 45


@ALL
def test_a_scenario_says_in_a_sentence_what_happens(scenario: Scenario) -> None:
    assert scenario.sentence.endswith((".", "`."))
    assert scenario.name == scenario.name.lower().replace(" ", "-")
    assert scenario.forms <= EVERYWHERE
    assert scenario.forms
    assert set(scenario.differs) <= scenario.forms


@ALL
def test_what_may_run_fits_the_tools(scenario: Scenario) -> None:
    for form in scenario.forms:
        expected = scenario.expect(form)
        for run in (*expected.runs, *scenario.first_runs(form)):
            read = read_arguments(run.arguments, OFFER[run.tool], whole=True)
            assert isinstance(read, Arguments)
            assert read.value == run.arguments
            assert not (read.repairs)
            assert not (read.coercions)
            assert not (read.dropped)


@ALL
def test_a_run_comes_to_its_end(scenario: Scenario) -> None:
    """The last answer is text, or there is an answer for a request without tools."""
    last = scenario.turns[-1][-1]
    assert scenario.ends_in_error or scenario.closing is not None or _is_final(last)
    if scenario.ends_in_error and not scenario.expected_runs:
        assert not any(_is_final(answer) for turn in scenario.turns for answer in turn)


def _is_final(answer: ScriptAnswer) -> bool:
    acts = any(isinstance(step, Act) for step in answer.steps)
    return answer.status == 200 and bool(answer.steps) and not acts


@ALL
def test_every_answer_says_something(scenario: Scenario) -> None:
    for answer in (answer for turn in scenario.turns for answer in turn):
        assert bool(answer.steps) == (answer.status == 200 and answer.body is None)
        behind = [step for step in answer.steps[:-1] if isinstance(step, Drop | Hang | Reset)]
        assert not behind, "nothing can follow where the connection ends"


@pytest.mark.parametrize("model", ["good", "faults/good"])
def test_a_scenario_is_found_by_the_name_of_the_model(model: str) -> None:
    assert find_scenario(model) is SCENARIOS["good"]


def test_an_unknown_model_is_an_error_that_says_where_to_look() -> None:
    with pytest.raises(UnknownModel, match=r"'gpt-5' is not a scenario.*faults list"):
        find_scenario("gpt-5")
    with pytest.raises(UnknownModel, match="did you mean 'faults/good'"):
        find_scenario("faults/goood")
