"""The limits: the figures that the documentation names, and no limit without one."""

import dataclasses
import importlib
import re
from pathlib import Path

import pytest

from wholecall.arguments.limits import DEFAULT, Limits
from wholecall.arguments.parse import JsonExtent, find_too_many, measure_text


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


# ── How deep and how large a text is, told before it is parsed ──────────────────────────

# what holds, text, where the bracket ends that is too deep at depth 2
DEEP = [
    ("few brackets", "[[1]]", None),
    ("many brackets side by side", "[[], [], []]", None),
    ("brackets in strings are text", '["[[[", [1], "[\\"[["]', None),
    ("one too many", "[[[1]]]", 3),
    ("after strings and others", '[{"[": "]"}, {"a": [', 20),
    ("braces count, too", '{"a": {"b": {}}}', 13),
    ("behind the root nothing is deep", "[[]] [[[", None),
    ("closers alone are not deep", "]]] [[[", None),
    ("what is left open", "[[1], [", None),
]


@pytest.mark.parametrize(("text", "end"), [r[1:] for r in DEEP], ids=[r[0] for r in DEEP])
def test_the_first_bracket_that_is_too_deep(text: str, end: int | None) -> None:
    assert measure_text(text, Limits(depth=2)) == JsonExtent(too_deep=end)


VALUES, CONTAINERS = "too many: more than 3 values", "too many: more than 2 objects and arrays"

# what holds, text, what is too much
LARGE = [
    ("few of all", "[1, 2, 3]", ""),
    ("one value too many", "[1, 2, 3, 4]", VALUES),
    ("commas and brackets in strings are text", '["[,{,[,{", "\\",,,"]', ""),
    ("one array too many", "[[[", CONTAINERS),
    ("one object too many", '{"a": {"b": {', CONTAINERS),
    ("more strings than values could have", '"",' * 7, VALUES),
    ("so also without commas", '"' * 20, VALUES),
    ("as many strings as values may have", '{"": "", "": "", "": ""}', ""),
    ("quotes in a string", '{"": "' + '\\"' * 20 + ",,," + '"}', ""),
    ("strings that end in a backslash", '"\\\\",' * 13, VALUES),
]


@pytest.mark.parametrize(("text", "excess"), [r[1:] for r in LARGE], ids=[r[0] for r in LARGE])
def test_what_is_too_large(text: str, excess: str) -> None:
    assert measure_text(text, Limits(values=3, containers=2, depth=1)).excess == excess


# what holds, text, where the mark ends that begins the fourth value
MANY = [
    ("few values", "[1, 2]", None),
    ("as many as the limit", "[1, 2, 3]", None),
    ("one item too many", "[1, 2, 3, 4]", 9),
    ("one member too many", '{"a": 1, "b": 2, "c": 3, "d": 4}', 24),
    ("a bracket begins a value", "[[[[", 4),
    ("an array counts before what is in it", "[[[1]], 2]", 7),
    ("commas and brackets in strings are text", '["[,{,[,{", "\\",,,"]', None),
    ("so they are in a string without an end", '["', None),
    ("so they are behind half an escape", '[",,,,\\', None),
    ("the count begins again behind a string", '["[,{,[,{", 2, 3, 4]', 17),
]


@pytest.mark.parametrize(("text", "end"), [r[1:] for r in MANY], ids=[r[0] for r in MANY])
def test_the_mark_that_begins_one_value_too_many(text: str, end: int | None) -> None:
    assert find_too_many(text, 3) == end
