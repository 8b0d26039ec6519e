"""Response templates loaded as dialects: what they describe is read and written."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from wholecall.dialects.learn.response_template import load_response_template
from wholecall.dialects.rescue import encode
from wholecall.errors import UnusableDialect

FUNCTION = {"type": "function", "function": "{content}"}
NAMED = {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}


def template(calls: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A response template with this field for calls, and those fields besides it."""
    return {
        "version": 1,
        "defaults": {"role": "assistant"},
        "start_anchor": "<|im_start|>assistant\n",
        "fields": {"tool_calls": calls, **fields},
    }


THINK = {"open": "<think>", "close_pattern": r"</think>\s*"}
PLAIN = {"close": ["<|im_end|>", "<eos>"]}
TAGS = {
    "open_pattern": r"<tool_call>\s*<function=(?P<name>[^\n>]+)>",
    "close": "</tool_call>",
    "repeats": True,
    "content": "xml-inline",
    "content_args": {
        "tag_pattern": r"<parameter=(?P<key>\w+)>\s*(?P<value>.*?)\s*</parameter>",
        "value_parser": {"name": "json", "args": {"allow_non_json": True}},
    },
    "transform": NAMED,
}


def tagged(opening: str, tag: str, *, close: str = "</c>", **args: Any) -> dict[str, Any]:
    return {
        "open_pattern": opening,
        "close": close,
        "content": "xml-inline",
        "content_args": {"tag_pattern": tag, **args},
        "transform": NAMED,
    }


OBJECTS = {"open": "<tool>", "close": "</tool>", "content": "json"}
LISTED = {
    "open": "<|START_ACTION|>",
    "close": "<|END_ACTION|>",
    "content": "json",
    "transform_each": True,
    "transform": {"function": {"name": "{tool}", "arguments": "{with}"}},
}
RENAMED = {**OBJECTS, "transform": {"name": "{content.what}", "arguments": "{content.how}"}}
HEADED = {
    "open_pattern": r"<\|channel\|>commentary to=functions\.(?P<name>\w+).*?<\|message\|>",
    "close": "<|call|>",
    "content": "json",
    "transform": NAMED,
}
BARE = {
    "open_pattern": r'\{"name":\s*"(?P<name>[^"]+)",\s*"parameters":\s*',
    "close_pattern": r"\}<\|eot_id\|>\s*",
    "content": "json",
    "transform": NAMED,
}
GEMMA = {
    "open_pattern": r"<\|tool_call>call:(?P<name>\w+)",
    "close": "<tool_call|>",
    "content": "json",
    "content_args": {"unquoted_keys": True, "string_delims": [['<|"|>', '<|"|>']]},
    "transform": NAMED,
}
MARKED = {"open_pattern": r"<call>(?P<name>\w+)\n", "content": "json", "transform": NAMED}
BRACED = {"open_pattern": r"<call>(?P<name>\w+)", "content": "json", "transform": NAMED}
LINES = {
    "open_pattern": r"<tool_call>\s*<function=(?P<name>\w+)>\n",
    "close": "</tool_call>",
    "content": "kv-lines",
    "transform": NAMED,
}
PAIRS = tagged(
    r"<tool_call>(?P<name>\S+)\n?",
    r"<arg_key>(?P<key>[^<]+)</arg_key>\s*\n<arg_value>(?P<value>.*?)</arg_value>",
    close="</tool_call>",
)
NEWLINES = tagged(r"<c name=(?P<name>\w+)>", "<p=(?P<key>\\w+)>\n(?P<value>.*?)\n</p>")
ADJACENT = tagged(r"<all><c=(?P<name>\w+)>", r"<p=(?P<key>\w+)>(?P<value>.*?)</p>", close="</all>")
INKLING = {
    "open_pattern": r"(?:<\|message\|>)?[^<]*<\|invoke\|>",
    "close": "<|end|>",
    "content": "json",
    "transform": FUNCTION,
}
CALL = 'find {"query": "x"}'
BOTH = 'find {"query": "x y", "limit": 3} | now {}'
CALLS: list[tuple[str, dict[str, Any]]] = [("find", {"query": "x y", "limit": 3}), ("now", {})]

# what holds, the field, a text, what it delivers
ROWS = [
    ("objects", OBJECTS, '<tool>{"name": "find", "arguments": {"query": "x"}}</tool>', CALL),
    (
        "objects, transformed",
        {**OBJECTS, "transform": FUNCTION},
        '<tool>{"name": "find", "arguments": {"query": "x"}}</tool>',
        CALL,
    ),
    ("renamed keys", RENAMED, '<tool>{"what": "find", "how": {"query": "x"}}</tool>', CALL),
    (
        "a list",
        LISTED,
        '<|START_ACTION|>[{"id": 0, "tool": "find", "with": {"query": "x"}}]<|END_ACTION|>',
        CALL,
    ),
    (
        "a header",
        HEADED,
        '<|channel|>commentary to=functions.find json<|message|>{"query": "x"}<|call|>',
        CALL,
    ),
    ("a name in a line", MARKED, '<call>find\n{"query": "x"}', CALL),
    ("a name before a brace", BRACED, '<call>find{"query": "x"}', CALL),
    ("bare JSON", BARE, '{"name": "find", "parameters": {"query": "x"}}<|eot_id|>', CALL),
    ("literals", GEMMA, '<|tool_call>call:find{query:<|"|>x<|"|>}<tool_call|>', CALL),
    (
        "tags",
        TAGS,
        "<tool_call>\n<function=find>\n<parameter=query>\n x </parameter>\n</function></tool_call>",
        CALL,
    ),
    (
        "tags without the inner closer",
        TAGS,
        "<tool_call><function=find><parameter=query>x</parameter></tool_call>",
        CALL,
    ),
    (
        "a value without a schema, as JSON",
        TAGS,
        "<tool_call><function=any><parameter=a>1</parameter></function></tool_call>",
        'any {"a": 1}',
    ),
    (
        "a value without a schema, as text",
        NEWLINES,
        "<c name=any><p=a>\n1\n</p></c>",
        'any {"a": "1"}',
    ),
    (
        "keys and values",
        PAIRS,
        "<tool_call>find\n<arg_key>query</arg_key>\n<arg_value>x</arg_value>\n</tool_call>",
        CALL,
    ),
    (
        "newlines of the tags",
        NEWLINES,
        "<c name=find><p=query>\n x\n</p></c>",
        'find {"query": " x"}',
    ),
    ("two marks without space", ADJACENT, "<all><c=find><p=query>x</p></c></all>", CALL),
    ("lines", LINES, "<tool_call>\n<function=find>\nquery: x\n</tool_call>", CALL),
    (
        "a mark with another before it",
        INKLING,
        '<|message|><|invoke|>{"name": "find", "arguments": {"query": "x"}}<|end|>',
        CALL,
    ),
]


@pytest.mark.parametrize(
    ("field", "text", "said"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_what_it_describes_is_read(
    say: Callable[..., str], field: dict[str, Any], *, text: str, said: str
) -> None:
    dialect = load_response_template(template(field, thinking=THINK, content=PLAIN))
    assert say(dialect, text) == said
    assert say(dialect, f"<think>hm</think>\n{text}<|im_end|>") == f"{said} | ~hm | '\n'"


@pytest.mark.parametrize("field", [row[1] for row in ROWS], ids=[row[0] for row in ROWS])
def test_what_is_written_is_read_back(say: Callable[..., str], field: dict[str, Any]) -> None:
    dialect = load_response_template(template(field), name="mine")
    assert dialect.name == "mine"
    if field is LINES:
        with pytest.raises(ValueError, match="nothing is written in the dialect 'mine'"):
            encode(dialect, CALLS)
        return
    assert say(dialect, encode(dialect, CALLS)).removesuffix(" | '\n'") == BOTH


def test_surrounding_space_is_refused_where_it_would_be_lost() -> None:
    dialect = load_response_template(template(TAGS))
    with pytest.raises(ValueError, match="white space around it"):
        encode(dialect, [("find", {"query": " x"})])


# ── Text and reasoning ──────────────────────────────────────────────────────────────

CHANNELS = [
    ("implicit text", {"content": PLAIN}, "a<|im_end|>b<eos>", "'ab'"),
    (
        "channels",
        {
            "thinking": {"open": "<|a|>", "close": "<|e|>"},
            "content": {"open": "<|f|>", "close": "<|e|>"},
        },
        "<|a|>hm<|e|><|f|><tool>so<|e|>",
        "~hm | '<tool>so'",
    ),
    ("an end or the end", {"content": {"close_pattern": r"<\|u\|>\s*|$"}}, "so<|u|>", "'so'"),
    ("text up to the end", {"content": {"open": "<|f|>"}}, "<|f|>so", "'so'"),
    (
        "reasoning that the prompt opened",
        {"thinking": {"open_pattern": r"(?:^|<think>\s*)", "close": "</think>"}},
        "<think>hm</think>so",
        "~hm | 'so'",
    ),
    (
        "a mark before the text's",
        {"content": {"open_pattern": r"(?:<\|m\|>)?[^<]*<\|t\|>", "close": "<|e|>"}},
        "<|m|><|t|>so<|e|>",
        "'so'",
    ),
    ("the anchor is no text", {"content": PLAIN}, "<|im_start|>assistant\nso", "'so'"),
]


@pytest.mark.parametrize(
    ("fields", "text", "said"), [row[1:] for row in CHANNELS], ids=[row[0] for row in CHANNELS]
)
def test_channels(say: Callable[..., str], fields: dict[str, Any], *, text: str, said: str) -> None:
    assert say(load_response_template(template(OBJECTS, **fields)), text) == said


def test_a_tokenizer_configuration_holds_one() -> None:
    whole = {"chat_template": "…", "response_schema": {}, "response_template": template(OBJECTS)}
    assert load_response_template(whole) == load_response_template(template(OBJECTS))


# ── What cannot be translated ───────────────────────────────────────────────────────


def without(key: str, described: dict[str, Any]) -> dict[str, Any]:
    described = copy.deepcopy(described)
    del described[key]
    return described


REFUSED: list[tuple[Any, str]] = [
    ([], "is a JSON object"),
    ({}, "no response_template with fields"),
    ({"fields": []}, "no response_template with fields"),
    ({"response_template": 1}, "no response_template with fields"),
    ({"response_schema": {"x-regex": ""}}, "learn the chat template instead"),
    ({"x-regex": ""}, "learn the chat template instead"),
    ({**template(OBJECTS), "colour": 1}, "'colour', which is not known"),
    ({**template(OBJECTS), "version": 2}, "version 2 of response_template"),
    ({"fields": {"content": {}}}, "no field 'tool_calls'"),
    (template(OBJECTS, mood={"open": "<m>"}), "'mood' is neither text nor reasoning nor calls"),
    (template([]), "'tool_calls' is no object"),  # type: ignore[arg-type]  # on purpose
    (template({**OBJECTS, "open": 1}), "open of the field 'tool_calls' is neither a text"),
    (template({**OBJECTS, "open": [""]}), "open of the field 'tool_calls' is neither a text"),
    (template(without("open", OBJECTS)), "open without a mark"),
    (template({**without("open", OBJECTS), "open_pattern": r"\s*"}), "open without a mark"),
    (template({**without("open", OBJECTS), "open_pattern": 1}), "open_pattern is no text"),
    (template({**without("open", OBJECTS), "open_pattern": "a(?=b)"}), r"open_pattern: '\(\?=b"),
    (
        template({**without("close", OBJECTS), "close_pattern": r"a\w+b"}),
        "closes with more than one mark",
    ),
    (template(OBJECTS, thinking={"open_pattern": r"\s*", "close": "x"}), "opens without a mark"),
    (template({**OBJECTS, "content": "text"}), "content 'text' holds no name"),
    (template({**OBJECTS, "transform": "x"}), "gives no name and arguments"),
    (template({**OBJECTS, "transform": {"name": "{content.name}"}}), "gives no name and arguments"),
    (
        template({**OBJECTS, "transform": {"name": "find", "arguments": "{content}"}}),
        "'find' in the transform is no placeholder",
    ),
    (
        template({**OBJECTS, "transform": {"name": "{content.a.b}", "arguments": "{content.c}"}}),
        "objects in each other",
    ),
    (
        template({**HEADED, "transform": {"name": "{name}", "arguments": "{content.a}"}}),
        "and not the content",
    ),
    (template({**HEADED, "content": "text"}), "content 'text' is not known"),
    (template({**HEADED, "open_pattern": r"(?P<name>\w+)<x>"}), "no mark before the name"),
    (template({**HEADED, "open_pattern": "<x>"}), "no mark before the name"),
    (
        template({**GEMMA, "content_args": {"unquoted_keys": True}}),
        "one mark on both sides",
    ),
    (
        template({**GEMMA, "content_args": {"string_delims": [["<", ">"]]}}),
        "one mark on both sides",
    ),
    (template({**TAGS, "content_args": {}}), "None is no tag with a key and a value"),
    (template({**TAGS, "content_args": {"tag_pattern": "<(?P<key>\\w+)>"}}), "no tag with a key"),
    (
        template({**TAGS, "content_args": {"tag_pattern": r"<p>(?P<key>\w+)(?P<value>.*)</p>"}}),
        "too few marks",
    ),
    (
        template({**TAGS, "content_args": {"tag_pattern": r"(?P<key>\w+)=(?P<value>'[^']*')"}}),
        "tag_pattern: .* cannot be translated",
    ),
    (
        template({**TAGS, "content_args": {**TAGS["content_args"], "merge_duplicates": True}}),  # type: ignore[dict-item]  # a dict
        "cannot be merged",
    ),
    (
        template({**LINES, "content_args": {"value_parser": {"name": "yaml"}}}),
        "value_parser 'yaml' is not known",
    ),
    (template({**LINES, "content_args": {"line_sep": ";"}}), "do not stand in lines"),
]


@pytest.mark.parametrize(("described", "why"), REFUSED, ids=[why for _, why in REFUSED])
def test_what_cannot_be_translated_is_refused_by_name(described: Any, why: str) -> None:
    with pytest.raises(UnusableDialect, match=why):
        load_response_template(described)
