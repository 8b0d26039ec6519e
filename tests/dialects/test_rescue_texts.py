"""The shells around the engine."""

from __future__ import annotations

import pytest

from wholecall.dialects.dialect_registry import AUTO, DIALECTS, dialect_named
from wholecall.dialects.rescue import TextReader, parse_text
from wholecall.events import Start
from wholecall.messages import ToolSpec

CALL = '<tool_call>{"name": "find", "arguments": {"query": "x"}}</tool_call>'


def test_without_tools_any_name_is_taken() -> None:
    outcome = parse_text("hermes", CALL)
    assert [(call.name, call.arguments) for call in outcome.calls] == [("find", {"query": "x"})]
    assert outcome.finish_reason == "tool_calls"


def test_the_provider_s_id_is_kept() -> None:
    text = "<|tool_call_begin|>functions.find:7<|tool_call_argument_begin|>{}<|tool_call_end|>"
    [call] = parse_text("kimi_k2", text).calls
    assert call.id == "functions.find:7"


def test_a_tool_may_start_before_the_answer_ends() -> None:
    reader = TextReader("hermes", [ToolSpec("find", start=Start.CLOSED)])
    assert any(type(event).__name__ == "Released" for event in reader.feed(CALL))


def test_what_was_started_before_the_reasoning_ended_is_not_taken_back() -> None:
    reader = TextReader("hermes", [ToolSpec("find", start=Start.CLOSED)])
    events = [*reader.feed(CALL), *reader.feed("</think>"), *reader.end()]
    assert not any(type(event).__name__ == "Rejected" for event in events)


def test_markup_that_is_not_read_is_named() -> None:
    text = "<tool_call>find<tool_call>query</arg_key><arg_value>x</arg_value></tool_call>"
    tools = [{"name": "find"}]
    announced = parse_text("glm47", text, tools=tools).inconsistencies[0]
    assert announced.oddity.value == "markup_unread"
    assert announced.detail.endswith("glm47 or hunyuan_v4")
    whole = text.replace("find", "nobody", 1).replace("<tool_call>query", "<arg_key>query")
    found = parse_text("auto", whole, tools=tools).inconsistencies[0]
    assert found.detail.endswith("set `emulate: glm47`")


def test_an_unknown_dialect_is_named() -> None:
    with pytest.raises(ValueError, match="there is no dialect 'klingon'; did you mean 'inkling'"):
        parse_text("klingon", "")


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("qwen3_coder", "qwen3_xml"),
        ("granite-20b-fc", "granite20b_fc"),
        ("GPT-OSS", "harmony"),
        ("Solar-Open", "solar_open"),
    ],
)
def test_a_dialect_is_found_under_the_name_that_servers_give_it(name: str, own: str) -> None:
    assert dialect_named(name) is DIALECTS[own]


@pytest.mark.parametrize(
    "text",
    [
        CALL,
        '[TOOL_CALLS] [{"name": "find", "arguments": {"query": "x"}}][/TOOL_CALLS]',
        '<|tool▁call▁begin|>function<|tool▁sep|>find\n{"query": "x"}<|tool▁call▁end|>',
        '{"name": "find", "arguments": {"query": "x"}}',
    ],
    ids=["a tag", "another marker", "a header", "no marker"],
)
def test_behind_a_template_stands_any_marker_of_json(text: str) -> None:
    [call] = parse_text("template_tag_json", text, tools=[ToolSpec("find")]).calls
    assert call.arguments == {"query": "x"}


def test_every_dialect_says_who_writes_it() -> None:
    assert all(dialect.models for dialect in DIALECTS.values())
    assert AUTO is DIALECTS["auto"]
