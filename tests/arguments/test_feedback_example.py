"""An example of arguments is small, and it fits."""

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import NAMES, tool_schemas
from wholecall.arguments.feedback import build_example


def of(schema: Any, **more: Any) -> dict[str, Any]:
    """The schema of one required parameter called `a`."""
    return {"type": "object", "properties": {"a": schema}, "required": ["a"], **more}


# what holds, schema of the parameter, the value that is made up
VALUES: list[tuple[str, Any, Any]] = [
    ("a string", {"type": "string"}, "text"),
    ("an integer", {"type": "integer"}, 1),
    ("a number", {"type": "number"}, 1),
    ("a boolean", {"type": "boolean"}, True),
    ("null", {"type": "null"}, None),
    ("anything", {}, "text"),
    ("what holds nothing first", {"type": ["object", "array", "null", "integer"]}, 1),
    ("an example of its own", {"type": "string", "examples": [5, "Paris"]}, "Paris"),
    ("OpenAPI's example", {"type": "string", "example": "Paris"}, "Paris"),
    ("examples that are none", {"type": "string", "examples": "Paris"}, "text"),
    ("a default", {"type": "integer", "default": 7}, 7),
    ("a default that does not fit is passed over", {"type": "integer", "default": None}, 1),
    ("an option", {"enum": ["x", "y"]}, "x"),
    ("an option that fits", {"enum": ["x", 3], "type": "integer"}, 3),
    ("a constant", {"const": {"k": [1]}}, {"k": [1]}),
    ("a date", {"type": "string", "format": "date"}, "2026-01-31"),
    ("a format that nobody knows", {"type": "string", "format": "color"}, "text"),
    ("a pattern that is easy", {"type": "string", "pattern": "^[0-9]{2}$"}, "12"),
    ("a long string", {"type": "string", "minLength": 7}, "textttt"),
    ("a short string", {"type": "string", "maxLength": 2}, "te"),
    ("a length as a float", {"type": "string", "minLength": 7.0, "maxLength": 9.0}, "textttt"),
    (
        "a count of items as a float",
        {"items": {"const": 2}, "minItems": 2.0, "type": "array"},
        [2, 2],
    ),
    ("at least", {"type": "integer", "minimum": 10}, 10),
    ("more than", {"type": "integer", "exclusiveMinimum": 10}, 11),
    ("at most", {"type": "integer", "maximum": -10}, -10),
    ("less than", {"type": "integer", "exclusiveMaximum": -10}, -11),
    ("a multiple", {"type": "integer", "minimum": 10, "multipleOf": 4}, 12),
    ("between", {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, 0.5),
    ("an array has an item, to show it", {"type": "array", "items": {"type": "null"}}, [None]),
    ("an array of anything", {"type": "array"}, ["text"]),
    ("an array that is empty", {"type": "array", "maxItems": 0}, []),
    ("items enough", {"type": "array", "items": {"const": 2}, "minItems": 3}, [2, 2, 2]),
    (
        "items that differ",
        {"items": {"type": "integer"}, "minItems": 3, "uniqueItems": True, "type": "array"},
        [1, 0, 2],
    ),
    (
        "strings that differ",
        {"minItems": 3, "uniqueItems": True, "type": "array"},
        ["text", "a", "A"],
    ),
    (
        "an array place by place",
        {"prefixItems": [{"type": "null"}, {"const": 1}], "items": False, "type": "array"},
        [None, 1],
    ),
    ("what it must contain", {"type": "array", "contains": {"const": 9}}, [9]),
    ("an object", {"type": "object"}, {}),
    ("required members only", of({"const": 1}, properties={"a": {"const": 1}, "b": {}}), {"a": 1}),
    ("a member that nobody describes", {"type": "object", "required": ["x"]}, {"x": "text"}),
    (
        "members enough",
        {
            "type": "object",
            "properties": {"b": {"const": 1}, "c": {}, "d": {}},
            "minProperties": 2,
            "required": ["c"],
        },
        {"c": "text", "b": 1},
    ),
    ("the first alternative", {"anyOf": [{"const": 4}, {"const": 5}]}, 4),
    (
        "an alternative that can be made up",
        {"oneOf": [{"pattern": "^qqq$", "type": "string"}, {"type": "boolean"}]},
        True,
    ),
    ("all of several", {"allOf": [{"minimum": 3}, {"type": "integer", "maximum": 4}]}, 3),
    (
        "members of all of several",
        {
            "allOf": [
                of({"const": 1}),
                {"properties": {"a": {}, "b": {"const": 2}}, "required": ["b"]},
            ]
        },
        {"a": 1, "b": 2},
    ),
    (
        "what an alternative requires",
        {
            "type": "object",
            "properties": {"x": {"const": 1}, "y": {"pattern": "^qqq$"}},
            "anyOf": [{"required": ["y"], "not": {}}, {"required": ["x"]}],
        },
        {"x": 1},
    ),
]


@pytest.mark.parametrize(("schema", "value"), [r[1:] for r in VALUES], ids=[r[0] for r in VALUES])
def test_the_example_of_a_parameter(schema: Any, value: Any) -> None:
    example = build_example(of(schema))

    assert example == {"a": value}
    assert repr(example) == repr({"a": value})


TREE = {"type": "object", "properties": {"v": {"const": 1}, "kids": {}}, "required": ["v", "kids"]}
KIDS = {"type": "array", "items": {"$ref": "#/$defs/tree"}}
NODE = {**TREE, "properties": {"v": {"const": 1}, "kids": KIDS}}
NEXT = {"anyOf": [{"$ref": "#/$defs/list"}, {"type": "null"}]}
LIST = {"type": "object", "properties": {"next": NEXT}, "required": ["next"]}
ENDLESS = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}

# what holds, schema, example
EXAMPLES: list[tuple[str, Any, Any]] = [
    ("no parameters", {"type": "object", "properties": {}}, {}),
    ("nothing said", {}, {}),
    ("nothing required", {"properties": {"a": {"type": "string"}}}, {}),
    ("a definition", of({"$ref": "#/$defs/b"}, **{"$defs": {"b": {"const": 5}}}), {"a": 5}),
    (
        "a list that can end",
        of({"$ref": "#/$defs/list"}, **{"$defs": {"list": LIST}}),
        {"a": {"next": None}},
    ),
    ("a schema that is broken", {"type": "strange"}, None),
    ("arguments that are no object", {"type": "string"}, None),
    ("a pattern that is hard", of({"type": "string", "pattern": "^[0-9]{3}-[a-z]{4}$"}), None),
    ("a string that is too long to be of use", of({"type": "string", "minLength": 10_000}), None),
    ("an object that never ends", ENDLESS, None),
    ("a circle", {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, None),
    ("what nothing fits", of(False), None),
    ("bounds beyond every float", of({"type": "number", "minimum": 10**400, "maximum": 9}), None),
    ("a bound beyond every float", of({"type": "integer", "minimum": 10**400}), {"a": 10**400}),
]


@pytest.mark.parametrize(
    ("schema", "example"), [r[1:] for r in EXAMPLES], ids=[r[0] for r in EXAMPLES]
)
def test_the_example_of_a_tool(schema: Any, example: Any) -> None:
    assert build_example(schema) == example


def test_a_tree_ends() -> None:
    example = build_example(of({"$ref": "#/$defs/tree"}, **{"$defs": {"tree": NODE}}))

    assert example is not None
    assert 0 < str(example).count("kids") < 6


@given(tool_schemas())
def test_an_example_fits_its_schema(schema: dict[str, Any]) -> None:
    example = build_example(schema)

    assert example is None or jsonschema.Draft202012Validator(schema).is_valid(example)


PLAIN = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "enum": ["x", "y"]},
        {"type": "string", "minLength": 2, "maxLength": 9},
        {"type": "integer", "minimum": 3, "maximum": 5},
        {"type": ["number", "null"]},
        {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        {"type": "array", "items": {"type": "string"}, "minItems": 2},
        {"type": "object", "properties": {"n": {"type": "boolean"}}, "required": ["n"]},
    ]
)


@given(st.dictionaries(NAMES, PLAIN, max_size=5), st.data())
def test_a_plain_tool_always_has_an_example_with_what_is_required(
    properties: dict[str, Any], data: st.DataObject
) -> None:
    names = (
        st.lists(st.sampled_from(sorted(properties)), unique=True) if properties else st.just([])
    )
    schema = {"type": "object", "properties": properties, "required": data.draw(names)}

    example = build_example(schema)

    assert example is not None
    assert example.keys() == set(schema["required"])
