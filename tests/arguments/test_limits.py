"""The limits: the figures that the documentation names, and no limit without one."""

import dataclasses
import importlib
import re
from pathlib import Path

import pytest

from wholecall.arguments.limits import DEFAULT, Limits


def test_the_defaults_are_those_of_the_design() -> None:
    of_answer = {"calls": 64, "choices": 128, "blocks": 1024}
    of_call = {
        "name": 256,
        "characters": 4 * 1024 * 1024,
        "values": 65_000,
        "containers": 25_000,
        "depth": 128,
        "blank_run": 1024,
    }
    assert Limits(**of_answer, **of_call) == DEFAULT


@pytest.mark.parametrize("field", dataclasses.fields(Limits), ids=lambda field: field.name)
def test_every_limit_has_a_bound(field: "dataclasses.Field[int]") -> None:
    assert getattr(DEFAULT, field.name) > 0


def test_one_limit_can_be_set_alone() -> None:
    assert dataclasses.replace(DEFAULT, calls=1) == Limits(calls=1)


def test_limits_do_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        DEFAULT.calls = 1_000_000  # type: ignore[misc]  # this is what must fail


DOCUMENT = Path(__file__).parents[2] / "docs" / "what-happens-to-a-call.md"
ROWS = re.findall(r"^\|[^|]*\| ([0-9,]+) \| `(\w+)\.(\w+)` \|$", DOCUMENT.read_text(), re.M)


@pytest.mark.parametrize(("figure", "owner", "name"), ROWS)
def test_the_document_names_the_figures_that_hold(figure: str, owner: str, *, name: str) -> None:
    module = "wholecall.arguments." + ("limits" if owner == "Limits" else owner)
    holder: object = DEFAULT if owner == "Limits" else importlib.import_module(module)
    assert int(figure.replace(",", "")) == getattr(holder, name)


def test_the_document_has_a_table_of_limits() -> None:
    assert len(ROWS) > 15
