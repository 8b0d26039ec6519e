"""All scenarios, by name."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from wholecall.arguments.describe import suggest
from wholecall.errors import UnknownModel
from wholecall.faults.scenarios import calls, failures, sound
from wholecall.faults.script import Scenario

PREFIX = "faults/"
"""Allowed before the name of a scenario in place of a model's name."""

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in chain(
        sound.SCENARIOS,
        failures.CUT_SCENARIOS,
        failures.FINISH_SCENARIOS,
        calls.ADDRESS_SCENARIOS,
        calls.ARGUMENT_SCENARIOS,
        calls.TEXT_SCENARIOS,
        failures.REFUSAL_SCENARIOS,
    )
}


def find_scenario(model: str, scenarios: Mapping[str, Scenario] = SCENARIOS) -> Scenario:
    """The scenario that the name of a model asks for."""
    try:
        return scenarios[model.removeprefix(PREFIX)]
    except KeyError:
        near = suggest(model.removeprefix(PREFIX), scenarios)
        hint = (
            f"did you mean {PREFIX + near!r}?" if near else "`wholecall faults list` shows them all"
        )
        raise UnknownModel(f"{model!r} is not a scenario; {hint}") from None
