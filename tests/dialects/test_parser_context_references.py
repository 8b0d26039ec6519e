"""Schemas of parameters that stand elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from wholecall.arguments.compiled_schema import Compiled, prepare
from wholecall.dialects.parser_context import follow
from wholecall.dialects.rescue import parse_text
from wholecall.messages import ToolSpec

ZIP = {"type": "string", "description": "five digits"}
DEFINED: dict[str, Any] = {
    "Zip": ZIP,
    "Alias": {"$ref": "#/$defs/Zip"},
    "a/b c": {"type": "integer"},
    "Loop": {"$ref": "#/$defs/Pool"},
    "Pool": {"$ref": "#/$defs/Loop"},
}

# what holds, what is said of the parameter, what is said of it with its references
ROWS: list[tuple[str, Any, Any]] = [
    ("no reference", {"type": "integer"}, {"type": "integer"}),
    ("a reference", {"$ref": "#/$defs/Zip"}, ZIP),
    ("a reference to a reference", {"$ref": "#/$defs/Alias"}, ZIP),
    (
        "what stands beside it counts more",
        {"$ref": "#/$defs/Zip", "description": "of Paris"},
        {"type": "string", "description": "of Paris"},
    ),
    ("an escaped name", {"$ref": "#/$defs/a~1b%20c"}, {"type": "integer"}),
    ("all of several", {"allOf": [{"$ref": "#/$defs/Zip"}, True, {}]}, ZIP),
    ("references to each other", {"$ref": "#/$defs/Loop"}, {"$ref": "#/$defs/Loop"}),
    ("nothing is said", True, {}),
]


@pytest.mark.parametrize(
    ("schema", "said"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_what_references_say(schema: Any, said: Any) -> None:
    compiled = prepare({"type": "object", "properties": {"p": schema}, "$defs": DEFINED})
    assert isinstance(compiled, Compiled)
    assert follow(compiled.root.node["properties"]["p"], compiled) == said


def test_a_raw_value_is_read_as_its_reference_says() -> None:
    zips = {"$defs": {"Zip": {"type": "string"}}, "properties": {"zip": {"$ref": "#/$defs/Zip"}}}
    text = "<function=post><parameter=zip>00501</parameter></function>"
    outcome = parse_text("qwen3_xml", text, tools=[ToolSpec("post", zips)])
    assert [dict(call.arguments) for call in outcome.calls] == [{"zip": "00501"}]
