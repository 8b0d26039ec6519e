"""Tools on offer, as grammars see them."""

from __future__ import annotations

from typing import Any

import pytest

from wholecall.dialects.parser_context import ParserContext
from wholecall.dialects.rescue import parse_text
from wholecall.events import Reason
from wholecall.messages import ToolSpec

MARK = "]<]minimax[>["
TEXTS = {
    "qwen3_xml": "<tool_call><function=f><parameter=a>1</parameter></function></tool_call>",
    "gemma4": "<|tool_call>call:f{a:{b:[1]}}<tool_call|>",
    "morph_xml": "<f>{}</f>",
    "yaml_xml": "<f>\na:\n  - 1\n</f>",
    "kimi_k2": '<|tool_call_begin|>f:0<|tool_call_argument_begin|>{"a":1}<|tool_call_end|>',
    "minimax_m3": f'{MARK}<tool_call>{MARK}<invoke name="f">{MARK}<a>{MARK}<b>1{MARK}</b>'
    f"{MARK}</a>{MARK}</invoke>{MARK}</tool_call>",
}
BROKEN: list[Any] = [
    {"properties": {"a": {"type": 5}}},
    {"properties": {"a": {"type": [{"x": 1}]}}},
    {"properties": {"a": {"anyOf": 5}}},
    {"properties": {"a": {"enum": 5}}},
    {"properties": {"a": {"type": "object", "properties": 5, "items": 5}}},
    {"properties": ["a"]},
    {"properties": 5},
]


@pytest.mark.parametrize("dialect", TEXTS)
@pytest.mark.parametrize("schema", BROKEN, ids=repr)
def test_a_call_of_a_tool_whose_schema_is_broken_is_rejected(dialect: str, schema: Any) -> None:
    outcome = parse_text(dialect, TEXTS[dialect], tools=[ToolSpec("f", schema)])
    assert [each.reason for each in outcome.rejected] == [Reason.SCHEMA]
    assert "its definition is broken" in outcome.rejected[0].detail
    assert not outcome.calls


# what holds, the schema of a parameter, what it is understood as
UNDERSTOOD: list[tuple[str, Any, dict[str, Any]]] = [
    ("Gemini's capitals", {"type": "STRING"}, {"type": "string"}),
    ("keywords that are left out as null", {"type": "string", "enum": None}, {"type": "string"}),
    ("anything fits", True, {}),
]


@pytest.mark.parametrize(
    ("schema", "understood"), [row[1:] for row in UNDERSTOOD], ids=[row[0] for row in UNDERSTOOD]
)
def test_parameters_are_those_of_the_schema_as_it_is_understood(
    schema: Any, understood: dict[str, Any]
) -> None:
    machine = ParserContext({"f": ToolSpec("f", {"properties": {"a": schema}})})
    assert machine.properties("f") == {"a": understood}
    assert machine.properties("f") is machine.properties("f")


@pytest.mark.parametrize("offer", [None, {}, {"f": ToolSpec("f")}])
def test_there_are_none_where_nothing_is_said(offer: dict[str, ToolSpec] | None) -> None:
    assert ParserContext(offer).properties("f") == {}
