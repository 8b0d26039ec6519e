"""What a schema will cost when its references are written out, and what is too much."""

from typing import Any

import pytest

from wholecall.arguments.compiled_schema import (
    CHAIN,
    EXPANSION,
    PATTERNS,
    POSITIONS,
    RULES,
    UNEVALUATED,
    Compiled,
    prepare,
)
from wholecall.events import Problem

# what holds, schema, the most rules about one value
RULE_COUNTS: list[tuple[str, Any, int]] = [
    ("one schema", {}, 1),
    ("members are other values", {"properties": {"a": {}, "b": {}}}, 1),
    ("alternatives speak about the same", {"anyOf": [{}, {}, {}]}, 4),
    ("so do references", {"$ref": "#/$defs/a", "$defs": {"a": {}}}, 2),
    ("definitions that nobody uses say nothing", {"$defs": {"a": {"anyOf": [{}] * 9}}}, 1),
    ("objects are compared one by one", {"enum": [{"a": 1}, [2], 3, "x"]}, 25),
    ("names are, too", {"patternProperties": {"^a": {}, "^b": {}}}, 6),
    ("the widest place counts", {"items": {"items": {"allOf": [{}, {}]}}}, 3),
    (
        "two speak about the same member",
        {
            "anyOf": [
                {"properties": {"a": {"allOf": [{}, {}]}}},
                {"properties": {"a": {}, "b": {}}},
                {"properties": {"a": {}}},
            ]
        },
        5,
    ),
    (
        "for what was not evaluated, alternatives are gone through again",
        {"anyOf": [{}, {"properties": {"a": {"anyOf": [{}] * 4}}}], "unevaluatedProperties": {}},
        4 * 5,
    ),
    (
        "but no members",
        {"properties": {"a": {"anyOf": [{}] * 4}}, "unevaluatedProperties": False},
        5,
    ),
    (
        "so it is behind a reference",
        {"unevaluatedItems": {}, "$ref": "#/$defs/a", "$defs": {"a": {}}},
        5,
    ),
    (
        "a schema that contains itself speaks again",
        {"properties": {"a": {"$ref": "#"}, "b": {}}},
        3 * 16,
    ),
]


@pytest.mark.parametrize(
    ("schema", "rules"), [r[1:] for r in RULE_COUNTS], ids=[r[0] for r in RULE_COUNTS]
)
def test_how_many_rules_speak_about_one_value(schema: Any, rules: int) -> None:
    compiled = prepare(schema)

    assert isinstance(compiled, Compiled), compiled
    assert compiled.cost.rules == rules


def unevaluated(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for level in range(levels):
        other = {"required": [f"k{level}"]}
        schema = {"anyOf": [schema, other], "unevaluatedProperties": False}
    return schema


def chained(links: int) -> dict[str, Any]:
    """Each definition refers to the next."""
    definitions = {f"a{link}": {"$ref": f"#/$defs/a{link + 1}"} for link in range(links)}
    return {"$ref": "#/$defs/a0", "$defs": {**definitions, f"a{links}": {}}}


# what is too much of, schema, what the message says
REFUSED: list[tuple[str, Any, str]] = [
    (
        "schemas",
        {"anyOf": [{"$ref": "#/$defs/a"}] * 100, "$defs": {"a": {"anyOf": [{}] * 100}}},
        f"more than {EXPANSION} schemas",
    ),
    ("schemas inside one another", chained(CHAIN + 1), f"more than {CHAIN} schemas"),
    ("rules", {"enum": [n + 0.5 for n in range(RULES // 64 + 1)]}, f"more than {RULES} rules"),
    ("unevaluated", unevaluated(UNEVALUATED + 1), f"more than {UNEVALUATED} unevaluated"),
    (
        "patterns",
        {"patternProperties": {f"^{n}": {} for n in range(PATTERNS + 1)}},
        f"more than {PATTERNS} different patterns",
    ),
    (
        "repetitions",
        {"anyOf": [{"pattern": f"^{n}[a-z]{{100}}"} for n in range(POSITIONS // 100)]},
        f"more than {POSITIONS} characters",
    ),
]


@pytest.mark.parametrize(("schema", "words"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_what_would_cost_too_much_is_refused(schema: Any, words: str) -> None:
    refused = prepare(schema)

    assert isinstance(refused, Problem), refused
    assert refused.kind == "limit"
    assert words in refused.message


def test_a_little_less_is_not() -> None:
    used = [
        {"enum": [n + 0.5 for n in range(RULES // 64 - 1)]},
        unevaluated(UNEVALUATED),
        {"patternProperties": {f"^{n}": {} for n in range(PATTERNS)}},
        {"anyOf": [{"pattern": "^[a-z]{100}"}] * 1000},
    ]

    assert all(isinstance(prepare(schema), Compiled) for schema in used)
