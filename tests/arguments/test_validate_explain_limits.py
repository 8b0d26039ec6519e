"""How much is looked into, and how many problems are told."""

from typing import Any

from schema_problems import explain_it, of
from wholecall.arguments.validate import PROBLEMS


def test_after_many_problems_nobody_reads_on() -> None:
    many = explain_it(of({"items": {"type": "null"}}), {"a": [1] * 1000})
    wide = explain_it({"required": [f"p{number}" for number in range(100)]}, {})

    assert len(many) == len(wide) == PROBLEMS
    assert many[-1].path == f"$.a[{PROBLEMS - 1}]"


def test_for_the_first_few_names_the_ones_that_were_meant_are_sought() -> None:
    names = [f"parameter_{letter * 5}" for letter in "abcdefghijkl"]
    problems = explain_it({"required": names}, {f"{name}s": 1 for name in names})

    guessed = ["was received" in problem.message for problem in problems]
    assert guessed == [True] * 8 + [False] * 4


def test_what_takes_too_long_to_explain_is_reported_as_far_as_it_was_looked_into() -> None:
    schema = of({"$ref": "#"})
    value: dict[str, Any] = {}
    for _ in range(60):
        value = {"a": value}
    heavy: dict[str, Any] = {"a": {"a": {"a": {"b": [1] * 2000}}}}
    for _ in range(10):
        heavy = {"a": heavy}

    [near] = explain_it(schema, heavy)
    [exact] = explain_it(schema, value)

    assert near.path == "$" + ".a" * 4
    assert near.kind == "schema"
    assert exact.path == "$" + ".a" * 61
    assert exact.kind == "required"


def test_many_patterns_for_many_names_are_looked_into_as_far_as_time_allows() -> None:
    patterns: dict[str, Any] = {f"^{n}x": {} for n in range(150)}
    schema = of({"patternProperties": {**patterns, "^k": {"type": "null"}}})
    value = {"a": {f"k{n}": 1 for n in range(200)}}

    [problem] = explain_it(schema, value)

    assert (problem.path, problem.kind) == ("$.a", "schema")
