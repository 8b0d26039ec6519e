"""Parameters that stand as markup in the text of another one."""

from __future__ import annotations

from typing import Any

import pytest

from wholecall.arguments.argument_reader import (
    Arguments,
    RefusedArguments,
    find_swallowed,
    read_arguments,
)
from wholecall.events import Reason
from wholecall.messages import ToolSpec

NAMES = ("content", "tags", "n")
OPEN = '<parameter name="{}">'

# what holds, the arguments, the parameter that holds markup
ROWS = [
    ("nothing", {"content": "x"}, ""),
    ("no text", {"n": 1, "content": None}, ""),
    ("tags of a text", {"content": "<a>b</a>"}, ""),
    ("the wrong closing tag", {"content": f"x</content>\n{OPEN.format('tags')}y"}, "content"),
    ("the right closing tag", {"content": f"x</parameter>{OPEN.format('tags')}y"}, "content"),
    ("a namespace", {"content": 'x</a:parameter><a:parameter name="tags">y'}, "content"),
    ("no quotes", {"content": "x</parameter>\n<parameter=tags>\ny"}, "content"),
    ("keys and values", {"content": "x</arg_value><arg_key>tags</arg_key>"}, "content"),
    ("a parameter that was given", {"content": f"x</b>{OPEN.format('tags')}", "tags": "y"}, ""),
    (
        "one that was given empty",
        {"content": f"x</b>{OPEN.format('tags')}y", "tags": []},
        "content",
    ),
    ("one that is not empty", {"content": f"x</b>{OPEN.format('n')}y", "n": 0}, ""),
    ("a parameter of another tool", {"content": f"x</b>{OPEN.format('path')}y"}, ""),
    ("a tag that is not behind another", {"content": f"use {OPEN.format('tags')}"}, ""),
    ("a namespace that leaked", {"n": 1, "content": "</antml parameter>\nx"}, "content"),
    ("GLM's tags in a name", {"content": "x", "n<arg_key": "1"}, "n<arg_key"),
    ("GLM's tags in a value", {"content": "x</arg_key><arg_value>5"}, "content"),
    ("the end of GLM's value", {"content": "x</arg_value>\n"}, "content"),
    ("whole pairs of them", {"content": "<arg_key>n</arg_key><arg_value>1</arg_value>"}, ""),
    ("words about them", {"content": "use </arg_value> here"}, ""),
    ("other signs in a name", {"content": "x", "<b>": "1"}, ""),
    ("a text of brackets", {"content": "</" * 5000}, ""),
]


@pytest.mark.parametrize(
    ("arguments", "key"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_markup_of_the_call_is_found(arguments: dict[str, Any], key: str) -> None:
    assert find_swallowed(arguments, NAMES) == key


def test_such_arguments_are_refused() -> None:
    properties: dict[str, Any] = {name: {} for name in NAMES}
    spec = ToolSpec("note", {"type": "object", "properties": properties})
    refused = read_arguments({"content": f"x</content>{OPEN.format('tags')}y"}, spec, whole=True)
    assert isinstance(refused, RefusedArguments)
    assert refused.reason is Reason.BAD_MARKUP
    assert "'content'" in refused.detail


def test_where_nothing_is_described_nothing_is_missing() -> None:
    text = f"x</content>{OPEN.format('tags')}y"
    read = read_arguments({"content": text}, ToolSpec("note", {}), whole=True)
    assert isinstance(read, Arguments)


def test_where_anything_is_taken_any_name_may_be_missing() -> None:
    text = f"x</content>{OPEN.format('tags')}y"
    spec = ToolSpec("note", {"type": "object", "additionalProperties": True})
    refused = read_arguments({"content": text}, spec, whole=True)
    assert isinstance(refused, RefusedArguments)
    assert refused.reason is Reason.BAD_MARKUP
    assert isinstance(read_arguments({"content": text, "tags": "a"}, spec, whole=True), Arguments)


def test_a_name_with_tags_is_not_dropped() -> None:
    spec = ToolSpec("note", {"type": "object", "properties": {"content": {}, "n": {}}})
    refused = read_arguments({"content": "x", "n<arg_key": "1"}, spec, whole=True)
    assert isinstance(refused, RefusedArguments)
    assert refused.reason is Reason.BAD_MARKUP
