"""Tools as lines of a prompt."""

from __future__ import annotations

import json
import random
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import tool_schemas
from wholecall.dialects.emulation.prompt import plain_schema, write_definition, write_definitions
from wholecall.messages import ToolSpec

LINES: list[tuple[str, ToolSpec, str]] = [
    (
        "the name comes first, the keys of the schema by the alphabet",
        ToolSpec("f", {"type": "object", "properties": {"b": {}, "a": {}}}, " Does "),
        '{"name":"f","description":"Does","parameters":{"properties":{"a":{},"b":{}},"type":"object"}}',
    ),
    (
        "without a description there is none, and anything fits",
        ToolSpec("f"),
        '{"name":"f","parameters":{"type":"object"}}',
    ),
    (
        "a title is not read, but a parameter of that name is",
        ToolSpec("f", {"title": "F", "properties": {"title": {"title": "T", "type": "string"}}}),
        '{"name":"f","parameters":{"properties":{"title":{"type":"string"}},"type":"object"}}',
    ),
    (
        "what stands in lists and below values is kept",
        ToolSpec("f", {"anyOf": [{"title": "A", "const": {"title": "kept"}}]}),
        '{"name":"f","parameters":{"anyOf":[{"const":{"title":"kept"}}],"type":"object"}}',
    ),
    (
        "another writing of schemas becomes the usual one",
        ToolSpec("f", {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}),
        '{"name":"f","parameters":{"properties":{"a":{"type":"string"}},"type":"object"}}',
    ),
    (
        "a line break stays inside of its line",
        ToolSpec("f", {}, "One.\nTwo: é."),
        '{"name":"f","description":"One.\\nTwo: é.","parameters":{"type":"object"}}',
    ),
]


@pytest.mark.parametrize(
    ("spec", "line"), [row[1:] for row in LINES], ids=[row[0] for row in LINES]
)
def test_a_tool_is_one_line(spec: ToolSpec, line: str) -> None:
    assert write_definition(spec) == line


def test_tools_are_sorted_by_name() -> None:
    lines = write_definitions({"b": ToolSpec("b"), "a": ToolSpec("a")})
    assert [json.loads(line)["name"] for line in lines.splitlines()] == ["a", "b"]


def test_mappings_of_any_make_are_read() -> None:
    schema = MappingProxyType({"properties": MappingProxyType({"a": {"enum": (1, 2)}})})
    assert plain_schema(schema)["properties"] == {"a": {"enum": [1, 2]}}


def shuffled(value: Any, dice: random.Random) -> Any:
    if isinstance(value, dict):
        keys = dice.sample(list(value), len(value))
        return {key: shuffled(value[key], dice) for key in keys}
    return [shuffled(each, dice) for each in value] if isinstance(value, list) else value


@given(schema=tool_schemas(), seed=st.integers(0, 99))
def test_the_order_of_keys_changes_nothing(schema: dict[str, Any], seed: int) -> None:
    before = json.dumps(schema)
    other = shuffled(schema, random.Random(seed))  # noqa: S311 - an order is no secret
    assert write_definition(ToolSpec("f", other)) == write_definition(ToolSpec("f", schema))
    assert json.dumps(schema) == before
    assert "\n" not in write_definition(ToolSpec("f", schema))
