"""The schema of an answer that is constrained."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given

from emulated_requests import NOW, WEATHER
from schemas import tool_schemas
from wholecall.dialects.emulation.constrained import answer_schema
from wholecall.dialects.rescue import encode
from wholecall.messages import Choice, Mode, ToolSpec

BOTH = {"weather": WEATHER, "now": NOW}
ONE = {"calls": [{"name": "now", "arguments": {}}]}
OTHER = {"calls": [{"name": "weather", "arguments": {"city": "Oslo"}}]}
TWO = {"calls": [*ONE["calls"], *OTHER["calls"]]}
REPLY = {"reply": "It rains."}
NAMED = {"now": NOW}

ALLOWED: list[tuple[str, dict[str, ToolSpec], Choice, list[Any]]] = [
    ("auto", BOTH, Choice(), [ONE, OTHER, TWO, REPLY]),
    ("required", BOTH, Choice(Mode.REQUIRED), [ONE, OTHER, TWO]),
    ("one named tool", NAMED, Choice(Mode.REQUIRED, ("now",)), [ONE]),
    ("one at a time", BOTH, Choice(parallel=False), [ONE, OTHER, REPLY]),
    ("none", BOTH, Choice(Mode.NONE), [REPLY]),
    ("no tools", {}, Choice(), [REPLY]),
]
ANSWERS = [
    ONE,
    OTHER,
    TWO,
    REPLY,
    {},
    {"calls": []},
    {"calls": [{"name": "weather", "arguments": {}}]},
    {"calls": [{"name": "later", "arguments": {}}]},
    {"calls": [{"name": "now"}]},
    {"reply": 1},
    {**ONE, **REPLY},
    "It rains.",
]


@pytest.mark.parametrize(
    ("offer", "choice", "allowed"), [row[1:] for row in ALLOWED], ids=[row[0] for row in ALLOWED]
)
def test_what_an_answer_may_be(
    *, offer: dict[str, ToolSpec], choice: Choice, allowed: list[Any]
) -> None:
    schema = answer_schema(offer, choice)
    assert [each for each in ANSWERS if jsonschema_rs.is_valid(schema, each)] == allowed


def test_the_root_is_an_object_where_only_calls_may_come() -> None:
    assert answer_schema(BOTH, Choice(Mode.REQUIRED))["type"] == "object"


def test_the_members_come_in_the_order_of_writing() -> None:
    schema = answer_schema(NAMED, Choice(Mode.REQUIRED, ("now",)))
    assert list(schema["properties"]["calls"]["items"]["properties"]) == ["name", "arguments"]


def test_the_form_of_the_final_answer_is_the_form_of_the_reply() -> None:
    reply = {"type": "object", "properties": {"ok": {"$ref": "#/$defs/flag"}},
             "required": ["ok"], "$defs": {"flag": {"type": "boolean"}}}  # fmt: skip
    schema = answer_schema(BOTH, Choice(), reply=reply)
    assert jsonschema_rs.is_valid(schema, {"reply": {"ok": True}})
    assert not jsonschema_rs.is_valid(schema, {"reply": {"ok": 1}})
    assert not jsonschema_rs.is_valid(schema, REPLY)


TREE = {
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/Node"}, "whole": {"$ref": "#"}},
    "$defs": {"Node": {"properties": {"next": {"$ref": "#/$defs/Node"}}, "required": ["id"]}},
}


def test_references_lead_where_they_led() -> None:
    offer = {"tree": ToolSpec("tree", TREE), **NAMED}
    before = json.dumps(TREE)
    schema = answer_schema(offer, Choice())

    def fits(arguments: Any) -> bool:
        return jsonschema_rs.is_valid(schema, {"calls": [{"name": "tree", "arguments": arguments}]})

    assert fits({"root": {"id": 1, "next": {"id": 2}}, "whole": {"root": {"id": 3}}})
    assert not fits({"root": {"id": 1, "next": {}}})
    assert not fits({"whole": {"root": {}}})
    assert json.dumps(TREE) == before


@pytest.mark.parametrize(
    "node",
    [
        {"$ref": "https://example.com/schema"},
        {"$ref": "#Node"},
        {"$anchor": "Node"},
        {"$dynamicRef": "#Node"},
    ],
)
def test_what_would_lead_nowhere_is_left_open(node: dict[str, str]) -> None:
    offer = {"f": ToolSpec("f", {"type": "object", "properties": {"a": node}})}
    schema = answer_schema(offer, Choice(Mode.REQUIRED))
    assert jsonschema_rs.is_valid(schema, {"calls": [{"name": "f", "arguments": {"a": 1}}]})


@given(schema=tool_schemas())
def test_an_answer_fits_if_its_arguments_do(schema: dict[str, Any]) -> None:
    offer = {"f": ToolSpec("f", schema)}
    tried: list[dict[str, Any]] = [
        {},
        {"a": 1, "city": "x"},
        {"odd key": [None], "b": {"a": "5"}},
    ]
    for arguments in tried:
        fits = jsonschema_rs.is_valid({"type": "object", **schema}, arguments)
        answer = json.loads(encode("constrained", [("f", arguments)]))
        assert jsonschema_rs.is_valid(answer_schema(offer, Choice()), answer) is fits
