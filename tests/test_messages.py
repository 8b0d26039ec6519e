"""Tool definitions, in the form of every provider."""

from typing import Any

import pytest

from wholecall.errors import InadmissibleTools
from wholecall.events import Problem, Start
from wholecall.messages import ToolSpec, read_offer

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
SAYS = {"name": "weather", "description": "Says it."}
WHOLE = ToolSpec("weather", SCHEMA, "Says it.")

# what holds, the definition, the tool
DEFINITIONS = [
    ("OpenAI's", {"type": "function", "function": {**SAYS, "parameters": SCHEMA}}, WHOLE),
    ("Responses'", {"type": "function", **SAYS, "parameters": SCHEMA}, WHOLE),
    ("Anthropic's", {**SAYS, "input_schema": SCHEMA}, WHOLE),
    ("an MCP server's", {**SAYS, "inputSchema": SCHEMA}, WHOLE),
    ("Bedrock's", {"toolSpec": {**SAYS, "inputSchema": {"json": SCHEMA}}}, WHOLE),
    ("Gemini's", {"functionDeclarations": [{**SAYS, "parameters": SCHEMA}]}, WHOLE),
    ("Gemini's with a JSON Schema", {**SAYS, "parametersJsonSchema": SCHEMA}, WHOLE),
    ("a name is enough", {"name": "now"}, ToolSpec("now")),
    ("null is nothing", {"name": "now", "description": None, "parameters": None}, ToolSpec("now")),
    ("PHP writes an empty object as a list", {"name": "now", "parameters": []}, ToolSpec("now")),
    ("a ToolSpec is itself", WHOLE, WHOLE),
]


@pytest.mark.parametrize(
    ("definition", "spec"),
    [row[1:] for row in DEFINITIONS],
    ids=[row[0] for row in DEFINITIONS],
)
def test_every_form_is_read(definition: dict[str, Any] | ToolSpec, spec: ToolSpec) -> None:
    assert read_offer([definition]) == {spec.name: spec}


def test_gemini_declares_many_at_once() -> None:
    declared = {"functionDeclarations": [{"name": "a"}, {"name": "b"}]}
    assert list(read_offer([declared, {"name": "c"}])) == ["a", "b", "c"]


def test_a_provider_s_own_tool_is_not_ours() -> None:
    assert read_offer([{"type": "web_search"}, {"googleSearch": {}}]) == {}


def test_the_last_definition_of_a_name_counts() -> None:
    assert read_offer([{"name": "f"}, {"name": "f", "description": "d"}])["f"].description == "d"


def test_a_tool_waits_for_the_end_of_the_turn_unless_told_otherwise() -> None:
    assert ToolSpec("f").start is Start.CONFIRMED
    assert read_offer([{"name": "f"}])["f"].start is Start.CONFIRMED


def test_a_policy_for_all_definitions_spares_what_has_its_own() -> None:
    offer = read_offer([{"name": "f"}, ToolSpec("g", start=Start.SEALED)], start=Start.CLOSED)
    assert {name: spec.start for name, spec in offer.items()} == {
        "f": Start.CLOSED,
        "g": Start.SEALED,
    }


# what is wrong, the definitions, the place that the error names, what it asks for
MISTAKES: list[tuple[str, Any, str, str]] = [
    ("a name alone", ["x"], r"tools\[0\] is 'x'", "a ToolSpec or a definition"),
    ("a mapping instead of a list", {"name": "f"}, r"tools\[0\] is 'name'", "a definition"),
    ("no name", [{"name": "f"}, {"parameters": {}}], r"tools\[1\]\.name is None", "the name"),
    ("no name in a function", [{"type": "function"}], r"tools\[0\]\.name is None", "the name"),
    ("a name that is no text", [{"name": 5}], r"tools\[0\]\.name is 5", "the name"),
    ("a schema of text", [{"name": "f", "parameters": "abc"}], "parameters is 'abc'", "a JSON Sch"),
    ("a list as description", [{"name": "f", "description": ["a"]}], "description is", "what the"),
    ("a wrapper around text", [{"function": "f"}], "function is 'f'", "a definition"),
    ("a wrapper around no list", [{"functionDeclarations": "f"}], "Declarations is 'f'", "a list"),
    ("a long culprit is cut", ["x" * 999], r"'x{5,20}\.\.\.x{5,20}'", "a definition"),
]


@pytest.mark.parametrize(
    ("tools", "place", "expected"), [row[1:] for row in MISTAKES], ids=[row[0] for row in MISTAKES]
)
def test_a_definition_that_cannot_be_read_is_an_error_that_names_it(
    tools: Any, place: str, *, expected: str
) -> None:
    with pytest.raises(InadmissibleTools, match=f"{place}.*: write .*{expected}") as caught:
        read_offer(tools)
    (problem,) = caught.value.problems
    assert isinstance(problem, Problem)
    assert problem.message == str(caught.value)


def test_a_provider_s_own_tool_may_have_parameters() -> None:
    assert read_offer([{"type": "openrouter:web_search", "parameters": {"max_results": 3}}]) == {}


def test_an_offer_is_read_once() -> None:
    offer = read_offer([{"name": "f"}])
    assert read_offer(offer) is offer
