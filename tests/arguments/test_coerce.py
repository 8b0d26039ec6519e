"""A value is changed only if it does not fit and can mean only one value that does."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import ARGUMENTS, SCHEMAS, TEXTS, tool_schemas
from wholecall.arguments.coerce import CoercionOptions, Reading, coerce, read_text
from wholecall.arguments.compiled_schema import ANY_TYPE, Compiled, prepare
from wholecall.arguments.schema_cost import Allowance
from wholecall.events import Coercion

OFF = CoercionOptions()
WRAP = CoercionOptions(wrap_single=True)
CASE = CoercionOptions(enum_case=True)


def compile_it(schema: dict[str, Any]) -> Compiled:
    compiled = prepare(schema)
    assert isinstance(compiled, Compiled), compiled
    return compiled


def coerce_it(schema: Any, value: Any, *, options: CoercionOptions = OFF) -> Reading:
    return read_all(compile_it(schema), value, options=options)


def read_all(
    compiled: Compiled, value: Any, *, whole_floats: bool = True, options: CoercionOptions = OFF
) -> Reading:
    allowance = Allowance(compiled.cost)
    return coerce(compiled, value, allowance=allowance, whole_floats=whole_floats, options=options)


QUOTED = [
    ("a listed one", {"enum": ["x", "y"]}, '"x"', "x"),
    ("a listed one of a type", {"type": "string", "enum": ["x"]}, '"x"', "x"),
    ("one of a pattern", {"type": "string", "pattern": "^[a-z]+$"}, '"x"', "x"),
    ("an escape in it", {"type": "string", "pattern": "^[a-z]+$"}, '"\\u0078"', "x"),
    ("one that fits with its quotes", {"type": "string"}, '"x"', '"x"'),
    ("one that does not fit without them", {"enum": ["y"]}, '"x"', '"x"'),
    ("two strings", {"type": "string", "pattern": "^[a-z]+$"}, '"x" "y"', '"x" "y"'),
    ("an escape that is none", {"type": "string", "pattern": "^[a-z]+$"}, '"\\x"', '"\\x"'),
    ("no string at all", {"type": "integer"}, '"5"', 5),
    ("no string at all, and no number", {"type": "integer"}, '"x"', '"x"'),
    ("no string at all, and an escape that is none", {"type": "integer"}, '"\\x"', '"\\x"'),
]


@pytest.mark.parametrize(
    ("schema", "value", "read"), [row[1:] for row in QUOTED], ids=[row[0] for row in QUOTED]
)
def test_quotes_are_taken_away_only_where_the_schema_refuses_them(
    schema: Any, value: str, *, read: Any
) -> None:
    reading = coerce_it(of(schema), {"a": value})
    assert reading.value == {"a": read}
    assert bool(reading.coercions) == (read != value)


def of(schema: Any, **more: Any) -> dict[str, Any]:
    """The schema of one parameter called `a`."""
    return {"type": "object", "properties": {"a": schema}, **more}


def json_of(text: Any) -> Any:
    """What a text is without any guess."""
    return ["x"] if text == '["x"]' else text


INTEGER, NUMBER, BOOLEAN = {"type": "integer"}, {"type": "number"}, {"type": "boolean"}
STRING, NULL, ARRAY, OBJECT = (
    {"type": "string"},
    {"type": "null"},
    {"type": "array"},
    {"type": "object"},
)
TAGGED = {
    "oneOf": [
        {**of(INTEGER), "properties": {"kind": {"const": "x"}, "a": INTEGER}, "required": ["kind"]},
        {**of(STRING), "properties": {"kind": {"const": "y"}, "a": STRING}, "required": ["kind"]},
    ]
}

# what holds, schema of the parameter, before, after
CHANGED: list[tuple[str, Any, Any, Any]] = [
    ("an integer in a string", INTEGER, "5", 5),
    ("a negative one", INTEGER, "-5", -5),
    ("with blanks around it", INTEGER, " 5\n", 5),
    ("a big one keeps its digits", INTEGER, "12345678901234567890123", 12345678901234567890123),
    ("a whole number in a string", INTEGER, "5.0", 5),
    ("a whole number", INTEGER, 5.0, 5),
    ("a number in a string", NUMBER, "1.5", 1.5),
    ("an integer is a number", NUMBER, "5", 5),
    ("a number with an exponent", NUMBER, "1e3", 1000.0),
    ("true", BOOLEAN, "true", True),
    ("false in Python's letters", BOOLEAN, "False", False),
    ("true in capitals", BOOLEAN, " TRUE ", True),
    ("null where it is allowed", {"type": ["integer", "null"]}, "null", None),
    ("an array", {"type": "array", "items": STRING}, '["5"]', ["5"]),
    ("an object", OBJECT, '{"b": "5"}', {"b": "5"}),
    ("a listed number", {"enum": [1, 2, "auto"]}, "1", 1),
    ("one of several types", {"anyOf": [INTEGER, NULL]}, "5", 5),
    ("none of them a string", {"oneOf": [BOOLEAN, INTEGER, ARRAY]}, "[]", []),
    ("a listed string is no other string", {"anyOf": [INTEGER, {"enum": ["auto"]}]}, "5", 5),
    ("all of several", {"allOf": [{"type": ["integer", "string"]}, {"type": "integer"}]}, "5", 5),
    ("a whole number in an alternative", {"anyOf": [INTEGER, NULL]}, 5.0, 5),
    ("a whole number deep inside", of(of(INTEGER)), {"a": {"a": 5.0}}, {"a": {"a": 5}}),
    (
        "a condition that holds",
        {"if": {"required": ["a"]}, "then": of(INTEGER)},
        {"a": "5"},
        {"a": 5},
    ),
    ("a condition that does not", {"if": NULL, "else": of(INTEGER)}, {"a": "5"}, {"a": 5}),
    ("inside an array", {"type": "array", "items": INTEGER}, [1, "2", 3.0], [1, 2, 3]),
    (
        "place by place",
        {"prefixItems": [INTEGER, STRING], "items": BOOLEAN},
        ["1", "2", "true"],
        [1, "2", True],
    ),
    ("inside an object", of(INTEGER), {"a": "5", "b": "5"}, {"a": 5, "b": "5"}),
    (
        "inside what was a text",
        {"type": "array", "items": of(INTEGER)},
        '[{"a": "5"}, "{}"]',
        [{"a": 5}, {}],
    ),
    ("a whole number inside what was a text", of(INTEGER), '{"a": 5.0}', {"a": 5}),
    (
        "members without a name of their own",
        {"type": "object", "additionalProperties": INTEGER},
        {"x": "5"},
        {"x": 5},
    ),
    (
        "members by a pattern",
        {"type": "object", "patternProperties": {"^n": INTEGER}},
        {"n1": "5", "x": "5"},
        {"n1": 5, "x": "5"},
    ),
    (
        "the alternative that can be made fit",
        TAGGED,
        {"kind": "x", "a": "5"},
        {"kind": "x", "a": 5},
    ),
    (
        "as every alternative says",
        {"anyOf": [of(INTEGER), of({"type": "integer", "minimum": 1})]},
        {"a": "5"},
        {"a": 5},
    ),
]


@pytest.mark.parametrize(
    ("schema", "before", "after"), [r[1:] for r in CHANGED], ids=[r[0] for r in CHANGED]
)
def test_what_can_only_mean_one_thing_is_read_so(schema: Any, before: Any, *, after: Any) -> None:
    for wrapped in (of(schema), of({"$ref": "#/$defs/b"}, **{"$defs": {"b": schema}})):
        reading = coerce_it(wrapped, {"a": before})

        assert repr(reading.value) == repr({"a": after})
        assert reading.coercions


# what holds, schema of the parameter, value
KEPT: list[tuple[str, Any, Any]] = [
    ("a string where strings are allowed", {"type": ["integer", "string"]}, "5"),
    (
        "a string that is too long",
        {"anyOf": [INTEGER, {"type": "string", "maxLength": 2}]},
        "12345",
    ),
    ("a code", STRING, "00501"),
    ("a code where an integer is expected", INTEGER, "00501"),
    ("a word", INTEGER, "five"),
    ("nothing", INTEGER, ""),
    ("a number with a unit", INTEGER, "5 km"),
    ("a number that is not whole", INTEGER, "1.5"),
    ("an absurd number", INTEGER, "9" * 5000),
    ("a number beyond measure", NUMBER, "1e999"),
    ("not a number", NUMBER, "NaN"),
    ("a float that stands for many integers", INTEGER, 1e300),
    ("a float that fits", NUMBER, 5.0),
    ("a float where both are allowed", {"anyOf": [INTEGER, NUMBER]}, 5.0),
    ("a float that does not fit", STRING, 5.0),
    ("a word for true", BOOLEAN, "yes"),
    ("a number for true", BOOLEAN, "1"),
    ("an integer for true", BOOLEAN, 1),
    ("null where it is not allowed", INTEGER, "null"),
    ("null where a string is allowed", {"type": ["string", "null"]}, "null"),
    ("None", {"type": ["integer", "null"]}, "None"),
    ("text that only begins like an array", {"type": "array", "items": STRING}, "[Name.esp"),
    ("an array for an object", OBJECT, "[1]"),
    ("keys given twice", OBJECT, '{"a": 1, "a": 2}'),
    ("half a surrogate pair", ARRAY, '["\\ud800"]'),
    ("a text in a text", OBJECT, '"{}"'),
    ("a number for a string", STRING, 5),
    ("where nothing is said", {}, "5"),
    ("a listed string", {"type": ["integer", "string"], "enum": [5, "5"]}, "5"),
    ("no listed string", {"enum": ["a", "b"]}, "A"),
    ("a single value", {"type": "array", "items": INTEGER}, 5),
    ("what fits an alternative", TAGGED, {"kind": "y", "a": "5"}),
    ("what fits two alternatives", {"anyOf": [of(INTEGER), of(NUMBER)]}, {"a": 5.0}),
    (
        "what alternatives read differently",
        {"anyOf": [of(INTEGER), of({"type": "array"})]},
        {"a": "x"},
    ),
    (
        "what can be made fit in two ways",
        {
            "anyOf": [
                {**of(INTEGER), "required": ["a"]},
                {**of({}), "properties": {"b": INTEGER}, "required": ["b"]},
            ]
        },
        {"a": "5", "b": "6"},
    ),
    ("a condition without consequence", {"if": OBJECT, "else": of(INTEGER)}, {"a": "5"}),
    ("a string where only a condition speaks against it", {"if": STRING, "then": INTEGER}, "5"),
    ("members that nobody describes", of(INTEGER), {"b": "5"}),
    ("items that nobody describes", {"prefixItems": [INTEGER]}, [1, "2"]),
]


@pytest.mark.parametrize(("schema", "value"), [r[1:] for r in KEPT], ids=[r[0] for r in KEPT])
def test_everything_else_is_left_as_it_is(schema: Any, value: Any) -> None:
    assert repr(coerce_it(of(schema), {"a": value})) == repr(Reading({"a": value}))


# what holds, options, schema of the parameter, before, after
OPTIONAL: list[tuple[str, CoercionOptions, Any, Any, Any]] = [
    ("one item", WRAP, {"type": "array", "items": INTEGER}, 5, [5]),
    ("one item that is read", WRAP, {"type": "array", "items": INTEGER}, "5", [5]),
    ("one item like an array", WRAP, {"type": "array", "items": STRING}, "[Name", ["[Name"]),
    ("an array as text is no item", WRAP, {"type": "array", "items": STRING}, '["x"]', ["x"]),
    ("one item that does not fit", WRAP, {"type": "array", "items": INTEGER}, "x", "x"),
    ("one value where both are allowed", WRAP, {"type": ["array", "integer"], "minimum": 9}, 5, 5),
    ("one value where no array is", WRAP, {"type": "integer"}, None, None),
    ("other letters", CASE, {"enum": ["celsius", 1]}, "Celsius", "celsius"),
    ("other letters of a constant", CASE, {"const": "ON"}, "on", "ON"),
    ("other letters behind a reference", CASE, {"$ref": "#/$defs/b"}, "X", "x"),
    ("the same letters of two", CASE, {"enum": ["a", "A"]}, "ä", "ä"),
    ("other letters of two", CASE, {"enum": ["ab", "AB"]}, "Ab", "Ab"),
    ("other letters of any string", CASE, {"anyOf": [STRING, {"enum": ["a"]}]}, "A", "A"),
]


@pytest.mark.parametrize(
    ("options", "schema", "before", "after"),
    [r[1:] for r in OPTIONAL],
    ids=[r[0] for r in OPTIONAL],
)
def test_what_comes_near_to_guessing_is_done_when_asked_for(
    options: CoercionOptions, schema: Any, *, before: Any, after: Any
) -> None:
    wrapped = of(schema, **{"$defs": {"b": {"enum": ["x"]}}})

    assert coerce_it(wrapped, {"a": before}, options=options).value == {"a": after}
    assert coerce_it(wrapped, {"a": before}).value in ({"a": before}, {"a": json_of(before)})


def test_every_change_is_recorded_with_its_path() -> None:
    schema = of({"type": "array", "items": of(INTEGER)})

    reading = coerce_it(schema, {"a": '[{"a": "5"}]'})

    assert reading.coercions == (
        Coercion("$.a", '[{"a": "5"}]', [{"a": "5"}]),
        Coercion("$.a[0].a", "5", 5),
    )


@pytest.mark.parametrize("whole_floats", [False, True])
def test_what_takes_too_long_is_left_as_it_is_all_of_it(*, whole_floats: bool) -> None:
    compiled = compile_it(of({"type": "array", "items": INTEGER}))
    some, many = {"a": ["1"] * 2000}, {"a": ["1"] * 20_000}

    assert read_all(compiled, some, whole_floats=whole_floats).value == {"a": [1] * 2000}
    assert read_all(compiled, many, whole_floats=whole_floats) == Reading(many)


def test_of_many_items_those_are_read_which_do_not_fit() -> None:
    schema = of({"type": "array", "prefixItems": [BOOLEAN], "items": INTEGER})
    items = ["true", *[1] * 30_000, "2", *[3] * 30_000, "4"]
    reading = read_all(compile_it(schema), {"a": items}, whole_floats=False)

    assert [change.path for change in reading.coercions] == ["$.a[0]", "$.a[30001]", "$.a[60002]"]
    assert reading.value == {"a": [True, *[1] * 30_000, 2, *[3] * 30_000, 4]}


def test_items_that_nothing_describes_are_left() -> None:
    assert coerce_it(of({"type": "array", "prefixItems": [INTEGER]}), {"a": ["1", "2"]}).value == {
        "a": [1, "2"]
    }


def test_many_patterns_for_many_names_end() -> None:
    schema = of({"patternProperties": {f"^{n}": INTEGER for n in range(100)}, "maxProperties": 1})
    value = {"a": {f"{n}": "1" for n in range(1000)}}

    assert coerce_it(schema, value) == Reading(value)


def test_only_so_much_text_is_read_as_values() -> None:
    schema = of({"type": "array", "items": {"type": "array"}})
    text = json.dumps(["x" * 100] * 2000)
    few, many = {"a": [text]}, {"a": [text, text]}

    assert len(coerce_it(schema, few).coercions) == 1
    assert len(coerce_it(schema, many).coercions) == 1


def test_alternatives_inside_alternatives_end() -> None:
    branch = {"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["a"]}
    choices = [{**branch, "required": ["a", name]} for name in "bcd"]
    schema = of({"$ref": "#/$defs/n"}, **{"$defs": {"n": {"anyOf": [*choices, INTEGER]}}})
    value: Any = "5"
    for _ in range(100):
        value = {"a": value}

    assert repr(coerce_it(schema, {"a": value}).value) == repr({"a": value})


def test_a_circle_of_references_ends() -> None:
    circle = {
        "a": {"$ref": "#/$defs/b"},
        "b": {"allOf": [{"$ref": "#/$defs/a"}], "type": "integer"},
    }
    schema = of({"$ref": "#/$defs/a"}, **{"$defs": circle})

    assert coerce_it(schema, {"a": "5"}).value == {"a": 5}


@given(schema=tool_schemas(), value=ARGUMENTS, guess=st.booleans())
def test_a_value_that_fits_is_never_changed(
    schema: dict[str, Any], value: dict[str, Any], *, guess: bool
) -> None:
    compiled = compile_it(schema)
    options = CoercionOptions(wrap_single=guess, enum_case=guess)
    reading = read_all(compiled, value, options=options)

    if compiled.fits(compiled.root, value):
        assert reading.value == value
        assert all(isinstance(change.before, float) for change in reading.coercions)
        assert all(change.before == change.after for change in reading.coercions)


@given(tool_schemas(), ARGUMENTS)
def test_what_was_read_is_read_the_same_again(
    schema: dict[str, Any], value: dict[str, Any]
) -> None:
    once = coerce_it(schema, value)

    assert repr(coerce_it(schema, once.value)) == repr(Reading(once.value))


@given(tool_schemas(), ARGUMENTS)
def test_the_input_is_never_changed(schema: dict[str, Any], value: dict[str, Any]) -> None:
    before = copy.deepcopy(value)

    coerce_it(schema, value, options=CoercionOptions(wrap_single=True, enum_case=True))

    assert repr(value) == repr(before)


@given(SCHEMAS.filter(lambda schema: "$ref" not in str(schema)), TEXTS)
def test_a_string_stays_where_any_string_may_stand(schema: dict[str, Any], text: str) -> None:
    allowing = of({"anyOf": [schema, {"type": "string", "maxLength": 2}]})

    assert coerce_it(allowing, {"a": text}).value == {"a": text}


@given(tool_schemas(), ARGUMENTS)
def test_nothing_is_lost_by_not_looking_for_floats(
    schema: dict[str, Any], value: dict[str, Any]
) -> None:
    compiled = compile_it(schema)
    plain = {name: member for name, member in value.items() if not isinstance(member, float)}
    fast = read_all(compiled, plain, whole_floats=False)

    assert fast.value == read_all(compiled, plain).value


def test_a_text_is_read_by_the_types_that_are_allowed() -> None:
    assert read_text("5", frozenset({"integer"})) == 5
    assert read_text("5", frozenset({"boolean"})) == "5"
    assert read_text('"5"', ANY_TYPE) == '"5"'
    assert read_text("truest", frozenset({"boolean"})) == "truest"
    assert read_text("true" + " " * 20, frozenset({"boolean"})) is True
    assert read_text("{}", frozenset({"array"})) == "{}"
    assert read_text("5.5", frozenset({"integer"})) == "5.5"
