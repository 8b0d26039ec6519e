"""What it takes to judge values by a schema, and what may be done beyond."""

from typing import Any

import pytest

from wholecall.arguments.compiled_schema import Compiled, prepare
from wholecall.arguments.schema_cost import HUGE, WORK, Allowance, Cost, Load, measure


def cost_of(schema: Any) -> Cost:
    compiled = prepare(schema)
    assert isinstance(compiled, Compiled), compiled
    return compiled.cost


WILD = "a[ab]{100}c"

# what holds, schema, rules, more for other numbers, more for texts
WEIGHTS: list[tuple[str, Any, int, int, int]] = [
    ("a schema is one rule", {"title": "x"}, 1, 0, 0),
    ("listed texts are looked up", {"enum": ["a", "b", None, True]}, 1, 0, 0),
    ("objects and arrays are compared", {"enum": [{}, [1]]}, 25, 0, 0),
    ("integers are, with other numbers", {"enum": [1, 2]}, 1, 32, 0),
    ("floats are, with all", {"enum": [0.5]}, 65, 0, 0),
    ("long integers are slow", {"enum": [2**64]}, 257, 0, 0),
    ("nothing is listed", {"enum": []}, 1, 0, 0),
    ("a text is compared in no time", {"const": "a"}, 1, 0, 0),
    ("an integer is not", {"const": 1}, 9, 8, 0),
    ("nor is a float", {"const": 0.5}, 65, 0, 0),
    ("a bound that is an integer", {"minimum": 1}, 1, 4, 0),
    ("a bound that is none", {"maximum": 0.5}, 65, 4, 0),
    ("a step", {"multipleOf": 0.01}, 1, 64, 0),
    ("a fine step", {"multipleOf": 1e-12}, 1, 64 * HUGE, 0),
    ("names that are asked for", {"required": ["a", "b"]}, 3, 0, 0),
    ("names that ask for others", {"dependentRequired": {"a": ["b"], "b": ["c"]}}, 3, 0, 0),
    ("items that differ", {"uniqueItems": True}, 13, 0, 0),
    ("a plain pattern", {"pattern": "^a"}, 3, 0, 100),
    ("a tame pattern", {"pattern": "abc"}, 3, 0, 1024),
    ("a wild pattern", {"pattern": WILD}, 3, 0, 1024 * (60 + 3 * 102)),
    ("a pattern of names", {"patternProperties": {"^a": {}}}, 3, 0, 100),
]


@pytest.mark.parametrize(
    ("schema", "rules", "numbers", "text"), [r[1:] for r in WEIGHTS], ids=[r[0] for r in WEIGHTS]
)
def test_what_a_rule_weighs(schema: Any, rules: int, *, numbers: int, text: int) -> None:
    cost = cost_of(schema)

    assert (cost.rules, cost.numbers, cost.text) == (rules, numbers, text)


def test_a_rule_that_is_looked_at_often_weighs_more() -> None:
    load = Load(frozenset({"^a"}))
    load.add({"pattern": "^a", "enum": [1]}, 3)

    assert (load.rules, load.numbers, load.text) == (9, 48, 300)


def items(schema: Any) -> dict[str, Any]:
    return {"properties": {"a": {"items": schema}}}


def alternatives(count: int) -> dict[str, Any]:
    return {"anyOf": [{"type": "null"}] * (count - 1)}


MANY = WORK // 100
PATTERN = {"pattern": WILD}

# what holds, schema, arguments, whether that is too much
ARGUMENTS: list[tuple[str, Any, Any, bool]] = [
    ("few values", items(alternatives(100)), {"a": [1] * 100}, False),
    ("as much as allowed", items(alternatives(100)), {"a": [1] * (MANY - 1)}, False),
    ("too many values", items(alternatives(100)), {"a": [1] * MANY}, True),
    (
        "many values elsewhere",
        {"properties": {"a": {"items": {}}, "b": alternatives(100)}},
        {"a": [1] * MANY, "b": 1},
        False,
    ),
    (
        "many values about which nothing is said",
        {"properties": {"a": {}, "b": alternatives(100)}},
        {"a": [[1]] * MANY, "b": 1, "c": {"d": 1}},
        False,
    ),
    (
        "many objects of one kind",
        items({"properties": {"k": alternatives(100)}}),
        {"a": [{"k": 1, "x": 1}] * (MANY // 2)},
        False,
    ),
    (
        "members of another name",
        {"properties": {"a": {}}, "additionalProperties": items(alternatives(100))},
        {"b": {"a": [1] * MANY}},
        True,
    ),
    (
        "a member has the rules of names, too",
        {"properties": {"a": {}}, "propertyNames": PATTERN},
        {"a": 1, "b" * (WORK // 100): 1},
        True,
    ),
    ("a long text", {"properties": {"a": PATTERN}}, {"a": "a" * (WORK // 100)}, True),
    ("a text that is not so long", {"properties": {"a": PATTERN}}, {"a": "a" * 1000}, False),
    (
        "a long text elsewhere",
        {"properties": {"a": PATTERN, "b": {}}},
        {"a": "a", "b": "b" * WORK},
        False,
    ),
    ("many floats", items({"multipleOf": 0.1}), {"a": [0.5] * (WORK // 60)}, True),
    ("integers instead", items({"multipleOf": 0.1}), {"a": [*[1] * (WORK // 60), 0.5]}, False),
    ("some long numbers", items({"multipleOf": 0.1}), {"a": [2**99] * (WORK // 64 // 60)}, True),
    (
        "a few, and many others",
        items({"enum": [1] * 20}),
        {"a": [*[1] * 60_000, *[2**99] * 20]},
        False,
    ),
    (
        "a schema that contains itself is not looked into",
        {"properties": {"a": {"$ref": "#"}, "b": {"items": {}}}},
        {"b": [1] * (WORK // 16 // 4)},
        True,
    ),
]


@pytest.mark.parametrize(
    ("schema", "value", "excess"), [r[1:] for r in ARGUMENTS], ids=[r[0] for r in ARGUMENTS]
)
def test_what_is_too_much_for_one_call(schema: Any, value: Any, *, excess: bool) -> None:
    assert cost_of(schema).exceeds(value, measure(value)) is excess


def spend(schema: Any, value: Any, *, rules: int) -> bool:
    return Allowance(cost_of(schema)).grant(rules, None).take(value)


STEP = 200

# what holds, schema, value, what it costs to judge it
PRICES: list[tuple[str, Any, Any, int]] = [
    ("a small value", {}, 1, STEP + 1),
    ("a text", {}, "x" * 5000, STEP + 1),
    ("a text where there is a pattern", {"pattern": WILD}, "x" * 50, STEP + 3 + 50 * 366),
    ("a number", {"multipleOf": 0.5}, 1.5, STEP + 1 + 64),
    ("all that is inside", {}, {"a": [1, None, "x", [2]]}, STEP + 7),
]


@pytest.mark.parametrize(
    ("schema", "value", "price"), [r[1:] for r in PRICES], ids=[r[0] for r in PRICES]
)
def test_a_value_is_judged_again_at_the_price_of_all_that_is_inside(
    schema: Any, value: Any, *, price: int
) -> None:
    assert spend(schema, value, rules=price - 2 * cost_of(schema).rules)
    assert not spend(schema, value, rules=price - 2 * cost_of(schema).rules - 1)


def test_an_allowance_is_used_up_and_granted_anew() -> None:
    allowance = Allowance(cost_of({}))
    value = [1, 2]

    taken = [allowance.take(value), allowance.grant(2 * STEP, value).take(value)]
    taken += [allowance.take(value), allowance.take_steps(1)]
    assert taken == [False, True, True, False]
    assert allowance.is_exhausted
    assert allowance.grant(STEP * 3 - 2, None).take_steps(3)


def test_so_many_steps_are_begun_only_if_all_of_them_can_be_done() -> None:
    allowance = Allowance(cost_of({})).grant(3 * STEP, None)
    endless = iter(int, 1)

    assert allowance.affords("abc") == ["a", "b", "c"]
    assert allowance.affords(endless) == []
    assert allowance.is_exhausted
    assert allowance.affords("a") == []


def test_what_is_allowed_beside_is_bounded() -> None:
    huge: list[Any] = [None] * WORK
    allowance = Allowance(cost_of({})).grant(0, huge)

    assert allowance.take_steps(2 * WORK // STEP)
    assert not allowance.take_steps(1)


def test_an_allowance_is_exhausted_when_something_was_refused() -> None:
    allowance = Allowance(cost_of({})).grant(STEP, None)

    states = [allowance.is_exhausted]
    for _ in range(2):
        allowance.take_steps(1)
        states.append(allowance.is_exhausted)
    assert states == [False, False, True]
