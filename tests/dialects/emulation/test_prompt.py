"""The instructions of a dialect."""

from __future__ import annotations

import json
import random
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulated_requests import NOW, PROMPTED, WEATHER
from schemas import tool_schemas
from wholecall.dialects.dialect import Template, template_of
from wholecall.dialects.dialect_registry import DIALECTS
from wholecall.dialects.emulation.prompt import (
    Prompt,
    default_prompt,
    estimate_tokens,
    plain_schema,
    without_prompt,
    write_definition,
    write_definitions,
    write_example,
    write_prompt,
)
from wholecall.dialects.rescue import parse_text
from wholecall.errors import UnusableDialect
from wholecall.messages import Choice, Mode, ToolSpec

OFFER = {"weather": WEATHER, "now": NOW}
HERMES = DIALECTS["hermes"]


def test_the_whole_prompt_of_a_dialect() -> None:
    assert write_prompt(HERMES, OFFER) == (
        "<tool_instructions>\n"
        "# Tools\n"
        "You can call tools. Each line is one tool, with the JSON Schema of its parameters:\n"
        '{"name":"now","description":"The time.","parameters":{"properties":{},"type":"object"}}\n'
        '{"name":"weather","description":"The forecast for a city.","parameters":{"properties":'
        '{"city":{"type":"string"},"days":{"type":"integer"}},"required":["city"],"type":"object"}}'
        "\n\n"
        "To talk, to translate, to write, or to tell what you know, answer in plain words.\n"
        "To find out what only a tool can tell, or to do what only a tool can do, your whole "
        "answer is a call, in exactly this form, with no other words:\n"
        "<tool_call>\n"
        '{"name": "weather", "arguments": {"city": "text"}}\n'
        "</tool_call>\n"
        "Do not describe the call, and never say that you cannot know: write the call.\n"
        "Then stop. The next message has the results in <tool_response>.\n"
        "Call no tool that does not fit the question. You may write several calls.\n"
        "</tool_instructions>"
    )


@pytest.mark.parametrize("name", PROMPTED)
def test_every_dialect_shows_a_call_that_it_reads(name: str) -> None:
    dialect = DIALECTS[name]
    example = write_example(template_of(dialect), OFFER)
    assert f"\n{example}\n" in write_prompt(dialect, OFFER)
    [call] = parse_text(name, example, tools=OFFER.values()).calls
    assert (call.name, call.arguments) == ("weather", {"city": "text"})


RULES: list[tuple[Choice, str]] = [
    (Choice(), "Call no tool that does not fit the question. You may write several calls."),
    (Choice(parallel=False), "does not fit the question. Write no more than one call."),
    (Choice(Mode.REQUIRED), "Your next answer must call a tool. You may write several calls."),
    (Choice(Mode.REQUIRED, ("now",)), "must call one of these tools: now, weather. You may"),
    (Choice(Mode.AUTO, ("now",)), "Call no tool that does not fit the question."),
]


@pytest.mark.parametrize(("choice", "words"), RULES)
def test_what_this_answer_may_do_comes_last(choice: Choice, words: str) -> None:
    last = write_prompt(HERMES, OFFER, choice=choice).splitlines()[-2]
    assert words in last


SAID: list[tuple[str, str]] = [
    ("qwen3_xml", "Write strings as they are, without quotes"),
    ("pythonic", "Values are Python literals."),
    ("gemma4", "Strings stand between two of the marks"),
    ("constrained", '{"reply": "…"}'),
    ("anthropic_xml", "\nWho discovered penicillin?\nAlexander Fleming.\n"),
    ("pythonic", "does not fit the question: answer in plain words then. You may"),
]


@pytest.mark.parametrize(("name", "words"), SAID)
def test_each_family_has_its_own_words(name: str, words: str) -> None:
    assert words in write_prompt(DIALECTS[name], OFFER)
    assert words not in write_prompt(HERMES, OFFER)


def test_results_that_have_no_mark_are_announced_without() -> None:
    dialect = HERMES.__class__(name="x", template=Template("{name} {arguments}", result="{output}"))
    assert "The next message has the results.\n" in default_prompt(dialect).text


EXAMPLES: list[tuple[str, list[ToolSpec], str]] = [
    ("the first by name that has arguments", [NOW, WEATHER], "weather"),
    ("without any arguments, the first", [NOW, ToolSpec("later")], "later"),
    ("a name that cannot be written is passed over", [ToolSpec("a b"), NOW], "now"),
    ("where nothing can be made up, a made-up tool", [ToolSpec("f", {"not": {}})], "tool_name"),
]


@pytest.mark.parametrize(
    ("tools", "name"), [row[1:] for row in EXAMPLES], ids=[row[0] for row in EXAMPLES]
)
def test_the_example_is_of_a_real_tool(tools: list[ToolSpec], name: str) -> None:
    template = template_of(DIALECTS["qwen3_xml"])
    assert f"<function={name}>" in write_example(template, {tool.name: tool for tool in tools})


NEWS = ToolSpec("news", {"properties": {"topic": {"type": "string"}}, "required": ["topic"]})
TIDES = ToolSpec("tides", {"properties": {"city": {"type": "string"}}, "required": ["city"]})
ANY = ToolSpec("any", {"required": ["what"]})
SHOWN: list[tuple[str, str, tuple[ToolSpec, ...], list[str]]] = [
    ("two, where names stand in tags", "qwen3_xml", (NOW, NEWS, WEATHER), ["news", "weather"]),
    ("with other parameters", "qwen3_xml", (NEWS, TIDES, WEATHER), ["news", "tides"]),
    ("one, where all have the same", "qwen3_xml", (TIDES, WEATHER, NOW), ["tides"]),
    ("not more than two", "qwen3_xml", (NEWS, TIDES, ANY), ["any", "news"]),
    ("one, where an attribute has the name", "anthropic_xml", (NOW, NEWS, WEATHER), ["news"]),
    ("one in JSON", "hermes", (NOW, NEWS, WEATHER), ["news"]),
]


@pytest.mark.parametrize(
    ("dialect", "tools", "names"), [row[1:] for row in SHOWN], ids=[row[0] for row in SHOWN]
)
def test_how_many_calls_are_shown(
    *, dialect: str, tools: tuple[ToolSpec, ...], names: list[str]
) -> None:
    example = write_example(template_of(DIALECTS[dialect]), {tool.name: tool for tool in tools})
    assert [call.name for call in parse_text(dialect, example, tools=tools).calls] == names


BROKEN: list[tuple[str, str]] = [
    ("{tools} {example}", "{rules} stands 0 times in the prompt, and must once"),
    ("{tools} {tools} {example} {rules}", "{tools} stands 2 times"),
    ("{tools} {exmaple} {rules}", "a place {exmaple}; the places are {tools}, {example}, {rules}"),
    ("{tools} {example} {rules} <tool_instructions>", "which are put around it anyway"),
]


@pytest.mark.parametrize(("text", "why"), BROKEN)
def test_a_broken_prompt_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match="prompt") as refused:
        Prompt(text)
    assert why in str(refused.value)


def test_a_prompt_of_the_user_replaces_the_words() -> None:
    prompt = Prompt("{rules}|{example}|{tools}|{}{'a'}", otherwise="Or talk.", one_at_a_time="One.")
    section = write_prompt(HERMES, {"now": NOW}, prompt=prompt, choice=Choice(parallel=False))
    assert section == (
        "<tool_instructions>\n"
        'Or talk. One.|<tool_call>\n{"name": "now", "arguments": {}}\n'
        '</tool_call>|{"name":"now","description":"The time.","parameters":{"properties":{},'
        '"type":"object"}}|{}{\'a\'}\n'
        "</tool_instructions>"
    )


def test_a_tool_cannot_bring_places_into_the_prompt() -> None:
    tool = ToolSpec("f", {}, "Use {rules} and {example}.")
    assert "Use {rules} and {example}." in write_prompt(HERMES, {"f": tool})


def test_a_section_is_found_and_taken_out_again() -> None:
    section = write_prompt(HERMES, OFFER)
    assert without_prompt(f"{section}\n\nBe brief.\n\nOr not.") == "Be brief.\n\nOr not."
    assert without_prompt(section) == ""
    for text in ("Be brief.", "<tool_instructions> are mine", "<tool_instructions>\nno end"):
        assert without_prompt(text) == text


def test_what_can_only_be_read_cannot_be_prompted() -> None:
    with pytest.raises(UnusableDialect, match="nothing is written in the dialect 'auto'"):
        write_prompt(DIALECTS["auto"], OFFER)


# ── About how many tokens a text is ─────────────────────────────────────────────────────

# Counted with cl100k_base. An estimate may be off, but not by much.
COUNTED: list[tuple[str, int]] = [
    ("", 0),
    ("weather", 1),
    ("The weather in Oslo is fine today.", 8),
    ('{"name": "weather", "arguments": {"city": "Oslo", "days": 3}}', 22),
    ('{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}', 18),
    ("1234567890", 4),
    ("東京の天気", 6),
    ("line one\nline two\n\nline three", 8),
    ("        indented", 3),
]


@pytest.mark.parametrize(("text", "tokens"), COUNTED)
def test_the_estimate_is_near_a_count(text: str, tokens: int) -> None:
    assert abs(estimate_tokens(text) - tokens) <= max(2, tokens / 5)


def test_more_text_is_never_fewer_tokens() -> None:
    text = "# Tools\n\n{'a': [1, 22, 333, 4444]} naïve 東京 </tool_call>"
    estimates = [estimate_tokens(text[:end]) for end in range(len(text) + 1)]
    assert estimates == sorted(estimates)


# ── Tools as lines of a prompt ──────────────────────────────────────────────────────────

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
