"""Every way of writing a schema that providers use ends up in Draft 2020-12."""

import copy
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given

from schemas import tool_schemas
from wholecall.arguments.normalize_schema import children, infer_type, quote, translate

NULL = {"type": "null"}

# what holds, schema, translated
ROWS: list[tuple[str, Any, Any]] = [
    ("a plain schema stays", {"type": "string", "title": "T"}, {"type": "string", "title": "T"}),
    ("anything fits true", {"properties": {"a": True}}, {"properties": {"a": {}}}),
    ("nothing fits false", {"items": False}, {"items": {"not": {}}}),
    ("false stays a rule about names", {"additionalProperties": False}, None),
    ("true allows any name", {"additionalProperties": True}, {"additionalProperties": {}}),
    ("what is no schema is left to the validator", {"properties": {"a": "string"}}, None),
    ("a keyword of the wrong shape is left, too", {"properties": 5, "allOf": 5, "not": 5}, None),
    ("names of the schema itself go", {"$schema": "x", "$id": "y", "id": "z"}, {}),
    ("a parameter called id stays", {"properties": {"id": {"type": "null"}}}, None),
    ("null leaves a keyword out", {"required": None, "properties": None}, {}),
    ("null as a value stays", {"const": None, "default": None}, None),
    ("values are not read", {"enum": [{"type": "STRING"}], "default": {"nullable": True}}, None),
    ("a broken remark goes", {"title": 5, "examples": "x", "deprecated": "no"}, {}),
    ("a remark stays", {"title": "x", "examples": ["x"], "deprecated": False}, None),
    ("PHP's empty object", {"properties": [], "required": []}, {"properties": {}, "required": []}),
    ("Protobuf's integers", {"minItems": "1", "maxItems": "x"}, {"minItems": 1, "maxItems": "x"}),
    (
        "an integer as a float",
        {"minLength": 2.0, "maxContains": 1.5},
        {"minLength": 2, "maxContains": 1.5},
    ),
    ("a count beyond measure is left to the validator", {"minItems": "9" * 5000}, None),
    ("Gemini's capitals", {"type": "STRING"}, {"type": "string"}),
    ("Gemini's capitals in a list", {"type": ["STRING", "NULL"]}, {"type": ["string", "null"]}),
    ("a type in Python's words", {"type": "float"}, {"type": "number"}),
    (
        "a type in a database's words",
        {"type": ["varchar", "UInt8"]},
        {"type": ["string", "integer"]},
    ),
    ("a list of one type", {"type": ["dict"]}, {"type": "object"}),
    ("no type at all", {"type": "any", "title": "x"}, {"title": "x"}),
    ("a type that nobody knows is left", {"type": "uuid"}, {"type": "uuid"}),
    ("a type that is no word is left", {"type": 5}, {"type": 5}),
    ("a tuple", {"items": [True]}, {"prefixItems": [{}]}),
    (
        "a tuple that ends",
        {"items": [{}], "additionalItems": False},
        {"prefixItems": [{}], "items": {"not": {}}},
    ),
    ("additionalItems alone says nothing", {"additionalItems": False}, {}),
    ("an exclusive bound", {"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}),
    ("an inclusive bound", {"maximum": 1, "exclusiveMaximum": False}, {"maximum": 1}),
    ("an exclusive bound of nothing", {"exclusiveMaximum": True}, {}),
    ("a bound of today stays", {"exclusiveMaximum": 3}, {"exclusiveMaximum": 3}),
    (
        "dependencies are two things",
        {"dependencies": {"a": ["b"], "c": {"type": "ARRAY"}}},
        {"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"type": "array"}}},
    ),
    (
        "required beside a parameter",
        {"properties": {"a": {"required": True}, "b": {"required": False}, "c": True}},
        {"properties": {"a": {}, "b": {}, "c": {}}, "required": ["a"]},
    ),
    (
        "required beside a parameter and in the list",
        {"properties": {"a": {"required": True}}, "required": ["a"]},
        {"properties": {"a": {}}, "required": ["a"]},
    ),
    ("a name required twice", {"required": ["a", "b", "a"]}, {"required": ["a", "b"]}),
    ("a required name that is none", {"required": [5, 5]}, None),
    ("a list of required that is none is left", {"properties": {}, "required": 5}, None),
    (
        "a parameter with properties is an object",
        {"properties": {"a": {"properties": {}}, "b": {"items": {}}, "c": {"title": "x"}}},
        {
            "properties": {
                "a": {"type": "object", "properties": {}},
                "b": {"type": "array", "items": {}},
                "c": {"title": "x"},
            }
        },
    ),
    (
        "so is an item, and what a map holds",
        {"items": {"properties": {}}, "additionalProperties": {"items": {}}},
        {
            "items": {"type": "object", "properties": {}},
            "additionalProperties": {"type": "array", "items": {}},
        },
    ),
    (
        "so is an alternative",
        {"anyOf": [{"properties": {}}, {"type": "string"}]},
        {"anyOf": [{"type": "object", "properties": {}}, {"type": "string"}]},
    ),
    ("an alternative beside a type is a condition", {"type": "x", "anyOf": [{"items": {}}]}, None),
    ("a condition is none", {"not": {"properties": {}}, "if": {"items": {}}}, None),
    ("nullable type", {"type": "string", "nullable": True}, {"type": ["string", "null"]}),
    ("nullable twice", {"type": ["null"], "nullable": True}, {"type": "null"}),
    ("not nullable", {"type": "string", "nullable": False}, {"type": "string"}),
    ("nullable options", {"enum": ["a"], "nullable": True}, {"enum": ["a", None]}),
    ("nullable options with null", {"enum": [None], "nullable": True}, {"enum": [None]}),
    ("nullable anything", {"title": "x", "nullable": True}, {"title": "x"}),
    ("nullable that is no boolean is left", {"nullable": "x"}, {"nullable": "x"}),
    (
        "a nullable reference",
        {"$ref": "#/$defs/a", "nullable": True},
        {"anyOf": [{"$ref": "#/$defs/a"}, NULL]},
    ),
    ("a reference is a URI", {"$ref": "#/$defs/A<b ü>"}, {"$ref": "#/$defs/A%3Cb%20%C3%BC%3E"}),
    ("an escaped reference stays", {"$ref": "#/$defs/a%20b"}, {"$ref": "#/$defs/a%20b"}),
]


@pytest.mark.parametrize(("schema", "translated"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS])
def test_a_way_of_writing_is_translated(schema: Any, translated: Any) -> None:
    before = copy.deepcopy(schema)

    assert translate(schema) == (schema if translated is None else translated)
    assert schema == before


def test_schemas_are_translated_at_every_place_where_they_stand() -> None:
    written, meant = {"type": "STRING"}, {"type": "string"}
    one = [
        "items",
        "additionalProperties",
        "not",
        "if",
        "then",
        "else",
        "contains",
        "propertyNames",
    ]
    several = ["allOf", "anyOf", "oneOf", "prefixItems"]
    named = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"]
    schema: dict[str, Any] = dict.fromkeys(one, written)
    schema |= {k: [written] for k in several} | {k: {"x": written} for k in named}

    expected: dict[str, Any] = dict.fromkeys(one, meant)
    expected |= {k: [meant] for k in several} | {k: {"x": meant} for k in named}
    assert translate(schema) == expected
    assert len(list(children(translate(schema)))) == len(schema)


def test_a_root_with_properties_is_an_object() -> None:
    assert infer_type({"properties": {}}) == {"type": "object", "properties": {}}
    assert infer_type({"properties": {}, "$ref": "#"}) == {"properties": {}, "$ref": "#"}
    assert infer_type(5) == 5


def test_a_pointer_is_escaped_for_a_uri() -> None:
    assert quote("/properties/a b%/ü~1") == "/properties/a%20b%25/%C3%BC~1"
    assert quote("/properties/a~1") == "/properties/a~1"


@given(tool_schemas())
def test_what_is_translated_is_valid_and_is_not_translated_again(schema: dict[str, Any]) -> None:
    once = translate(schema)

    assert jsonschema_rs.meta.is_valid(once)
    assert translate(once) == once
