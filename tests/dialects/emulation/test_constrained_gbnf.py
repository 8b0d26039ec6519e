"""JSON Schemas as grammars."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings

from emulated_requests import NOW, WEATHER
from example_counts import examples
from gbnf_matcher import allows
from schemas import ARGUMENTS, tool_schemas
from wholecall.dialects.emulation.constrained import (
    MOST_ITEMS,
    MOST_OPTIONAL,
    MOST_RULES,
    WORDS,
    answer_schema,
    write_grammar,
)
from wholecall.dialects.rescue import encode
from wholecall.messages import Choice, Mode, ToolSpec

INTEGER = {"type": "integer"}
CLOSED: dict[str, Any] = {
    "type": "object",
    "properties": {"a": INTEGER, "b": {"type": "string"}, "c": INTEGER},
}
REQUIRED_B = {**CLOSED, "required": ["b"]}
ITEMS = {"type": "array", "items": INTEGER}
# A schema, the texts that its grammar allows, and some that it does not.
ROWS: list[tuple[str, Any, list[str], list[str]]] = [
    ("a string", {"type": "string"}, ['""', '"a\\n\\u00e9\\"é"'], ["a", '"', '"\n"', '"\\x"']),
    ("an integer", INTEGER, ["0", "-12"], ["01", "1.5", '"1"', ""]),
    ("a number", {"type": "number"}, ["0", "-1.5e+3"], ["1.", ".5", "1e"]),
    ("a boolean", {"type": "boolean"}, ["true", "false"], ["True", "1"]),
    ("null", {"type": "null"}, ["null"], ["None"]),
    ("one of two types", {"type": ["integer", "null"]}, ["1", "null"], ['"1"']),
    ("anything", {}, ['{"a": [1, null, {"b": "c"}]}', "[]", "1"], ["[", "{a: 1}"]),
    ("a type that nobody knows", {"type": "file"}, ["1", "[]"], ["x"]),
    ("true", True, ["1"], ["x"]),
    ("a constant", {"const": 'a"\\\n'}, [json.dumps('a"\\\n')], ['"a"']),
    ("an enumeration", {"enum": ["x", 3, None]}, ['"x"', "3", "null"], ['"y"', "4"]),
    ("an empty enumeration", {"enum": []}, ["1"], ["x"]),
    ("alternatives", {"anyOf": [INTEGER, {"type": "null"}]}, ["1", "null"], ["true"]),
    ("one of several", {"oneOf": [INTEGER, {"const": "x"}]}, ["1", '"x"'], ['"y"']),
    ("no alternatives", {"anyOf": []}, ["1"], ["x"]),
    ("all of one", {"allOf": [INTEGER]}, ["1"], ['"x"']),
    ("all of several", {"allOf": [INTEGER, {}]}, ["1", '"x"'], ["x"]),
    ("all of them and a type", {"allOf": [{}, {}], "type": "integer"}, ["1"], ['"x"']),
    ("members in their order", CLOSED,
     ["{}", '{"a": 1}', '{"a":1,"c":2}', '{"b": "x", "c": 2}', '{"c": 1}'],
     ['{"c": 1, "a": 2}', '{"d": 1}', '{"a": "x"}', '{"a": 1,}', '{"a": 1']),
    ("the required ones first", REQUIRED_B,
     ['{"b": "x"}', '{"b": "x", "a": 1, "c": 2}', '{"b": "x", "c": 2}'],
     ["{}", '{"a": 1}', '{"a": 1, "b": "x"}']),
    ("a type left out", {"properties": {"a": INTEGER}}, ['{"a": 1}', "{}"], ['{"a": "x"}', "1"]),
    ("no parameters", {"type": "object", "properties": {}}, ["{}", "{ }"], ['{"a": 1}']),
    ("no members", {"type": "object", "additionalProperties": False}, ["{}"], ['{"a": 1}']),
    ("any object", {"type": "object"}, ["{}", '{"a": [1]}'], ["[]"]),
    ("a map", {"type": "object", "additionalProperties": INTEGER},
     ["{}", '{"x": 1, "y": 2}'], ['{"x": "y"}']),
    ("members and others", {**CLOSED, "additionalProperties": True}, ['{"z": 1}'], ["[]"]),
    ("a list", ITEMS, ["[]", "[1]", "[1, 2,3]"], ['["x"]', "[1,]", "[1"]),
    ("a list of anything", {"type": "array"}, ["[]", '[1, "x"]'], ["{}"]),
    ("a tuple", {"type": "array", "prefixItems": [INTEGER]}, ['["x"]'], ["{}"]),
    ("at least", {**ITEMS, "minItems": 2}, ["[1, 2]", "[1, 2, 3]"], ["[]", "[1]"]),
    ("at most", {**ITEMS, "maxItems": 2}, ["[]", "[1]", "[1, 2]"], ["[1, 2, 3]"]),
    ("exactly one", {**ITEMS, "minItems": 1, "maxItems": 1}, ["[1]"], ["[]", "[1, 2]"]),
    ("none", {**ITEMS, "maxItems": 0}, ["[]"], ["[1]"]),
    ("more than is counted", {**ITEMS, "minItems": 9**9, "maxItems": 9**10},
     [json.dumps([1] * MOST_ITEMS), json.dumps([1] * (MOST_ITEMS + 5))], ["[1]"]),
    ("a reference", {"$ref": "#/$defs/a~1b", "$defs": {"a/b": INTEGER}}, ["1"], ['"x"']),
    ("a reference to nothing", {"$ref": "#/$defs/a/b", "$defs": {"a": 1}}, ["1"], ["x"]),
    ("a reference back", {"$ref": "#/$defs/n", "$defs": {"n": {
        "type": "object", "properties": {"next": {"$ref": "#/$defs/n"}}}}},
     ['{"next": {"next": {}}}'], ['{"next": 1}']),
]  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "right", "wrong"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_a_grammar_allows_what_fits(*, schema: Any, right: list[str], wrong: list[str]) -> None:
    wrapped = {"type": "object", "properties": {"v": schema}, "required": ["v"]}
    if isinstance(schema, dict) and "$defs" in schema:
        wrapped["$defs"] = schema["$defs"]
    grammar = write_grammar(wrapped)
    assert [text for text in right if not allows(grammar, f'{{"v": {text}}}')] == []
    assert [text for text in wrong if allows(grammar, f'{{"v": {text}}}')] == []


def test_an_answer_is_calls_or_a_reply() -> None:
    offer = {"weather": WEATHER, "now": NOW}
    grammar = write_grammar(answer_schema(offer, Choice(parallel=False)))
    assert allows(grammar, encode("constrained", [("weather", {"city": "Oslo", "days": 2})]))
    assert allows(grammar, '{"reply": "It rains."}')
    assert not allows(grammar, encode("constrained", [("now", {}), ("now", {})]))
    assert not allows(grammar, encode("constrained", [("later", {})]))
    assert not allows(grammar, "It rains.")


def test_an_object_with_too_much_to_leave_out_is_left_open() -> None:
    many = {f"p{number}": INTEGER for number in range(MOST_OPTIONAL + 1)}
    grammar = write_grammar({"type": "object", "properties": many})
    assert allows(grammar, '{"other": "x"}')
    few = {**many, "p0": INTEGER}
    grammar = write_grammar({"type": "object", "properties": few, "required": ["p0"]})
    assert not allows(grammar, '{"p0": 1, "other": "x"}')


def test_a_schema_beyond_the_limit_is_left_open() -> None:
    names = [f"p{number}" for number in range(MOST_RULES)]
    members = {name: {"enum": ["x"]} for name in names}
    grammar = write_grammar({"type": "object", "properties": members, "required": names})
    [last] = [rule for rule in grammar.splitlines() if rule.startswith(f"p{MOST_RULES - 1}-")]
    assert last.endswith('ws ":" ws (value) ws')


@settings(max_examples=examples(60))
@given(schema=tool_schemas(), arguments=ARGUMENTS)
def test_every_grammar_can_be_read_and_forbids_no_short_call(
    schema: dict[str, Any], arguments: dict[str, Any]
) -> None:
    """Members that the schema does not name, and their order, are the grammar's own rules."""
    offer = {"f": ToolSpec("f", schema)}
    answer = answer_schema(offer, Choice(Mode.REQUIRED))
    grammar = write_grammar(answer)
    kept = {name: arguments[name] for name in _in_order(schema) if name in arguments}
    text = encode("constrained", [("f", kept)])
    if not _nests_objects(kept) and jsonschema_rs.is_valid(answer, json.loads(text)):
        assert allows(grammar, text)


def _in_order(schema: dict[str, Any]) -> list[str]:
    required = [name for name in schema["properties"] if name in schema.get("required", ())]
    return [*required, *(name for name in schema["properties"] if name not in required)]


def _nests_objects(value: Any) -> bool:
    return any(isinstance(each, dict | list) for each in value.values())


REPLIES = {
    "It is mild.": True,
    "Très bien": True,
    "3 degrees": True,
    "": False,
    " It": False,
    '{\\"calls\\": []}': False,
    "[1]": False,
    "<tool_call>": False,
    "`look`": False,
}


@pytest.mark.parametrize(("reply", "fits"), REPLIES.items())
def test_a_reply_in_words_does_not_begin_as_markup(reply: str, *, fits: bool) -> None:
    grammar = write_grammar(answer_schema({}, Choice(Mode.NONE), reply=WORDS))
    assert allows(grammar, f'{{"reply": "{reply}"}}') is fits
