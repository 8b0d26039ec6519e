"""Calls as tags, where parameters are tags of their own."""

# ruff: noqa: E501 - a row is one line, and its text stands there as a model writes it

from __future__ import annotations

from collections.abc import Callable

import pytest

M = "]<]minimax[>["
CALL = 'find {"query": "x"}'


def m3(*tags: str) -> str:
    return "".join(f"{M}{tag}" for tag in ("<tool_call>", *tags))


ROWS = [
    ("a call", "minimax_m3", m3('<invoke name="find">', "<query>x", "</query>", "</invoke>\n", "</tool_call>"), CALL),
    ("two calls", "minimax_m3", m3('<invoke name="now">', "</invoke>", '<invoke name="now">', "</invoke>", "</tool_call>"), "now {} | now {}"),
    ("types", "minimax_m3", m3('<invoke name="find">', "<query>x", "</query>", "<limit>3", "</limit>", "</invoke>", "</tool_call>"), 'find {"query": "x", "limit": 3}'),
    ("a list", "minimax_m3", m3('<invoke name="plan">', "<steps>", "<item>a", "</item>", "<item>2", "</item>", "</steps>", "</invoke>"), 'plan {"steps": ["a", 2]}'),
    ("an object", "minimax_m3", m3('<invoke name="plan">', "<goal>", "<a>1", "</a>", "<b>", "<c>x", "</c>", "</b>", "</goal>", "</invoke>"), 'plan {"goal": {"a": 1, "b": {"c": "x"}}}'),
    ("a list in a tag for each element, of M3", "minimax_m3", m3('<invoke name="plan">', "<steps>a", "</steps>\n", "<steps>b", "</steps>", "<goal>", "<a>x", "</a>", "<a>", "<b>1", "</b>", "</a>", "</goal>", "</invoke>"), 'plan {"steps": ["a", "b"], "goal": {"a": ["x", {"b": 1}]}}'),
    ("a parameter without a type twice", "minimax_m3", m3('<invoke name="plan">', "<note>1", "</note>", "<note>b", "</note>", "</invoke>"), "!schema plan"),
    ("JSON as a value", "minimax_m3", m3('<invoke name="plan">', '<goal>{"a": 1}', "</goal>", "</invoke>"), 'plan {"goal": {"a": 1}}'),
    ("a mark twice", "minimax_m3", m3('<invoke name="plan">', "<note>x", "", "</note>", "</invoke>", "</tool_call>") + "so", "!bad_markup plan | 'so'"),
    *(
        (f"the tag of {key} twice", "minimax_m3", m3(f'<invoke name="{name}">', f"<{key}><{key}>x", f"</{key}>", "</invoke>", "</tool_call>") + "so", f"!bad_markup {name} | 'so'")
        for name, key in (("find", "query"), ("plan", "note"))
    ),
    ("the closing tag twice", "minimax_m3", m3('<invoke name="find">', "<query>x</query>", "</query>", "</invoke>", "</tool_call>") + "so", "!bad_markup find | 'so'"),
    ("an element of the text with the same tag", "minimax_m3", m3('<invoke name="find">', "<query><query>x</query>", "</query>", "</invoke>"), 'find {"query": "<query>x</query>"}'),
    ("an empty value", "minimax_m3", m3('<invoke name="plan">', "<note>", "</note>", "</invoke>"), 'plan {"note": ""}'),
    ("a tag that does not fit", "minimax_m3", m3('<invoke name="plan">', "<note>x", "</nota>", "</invoke>", "</tool_call>") + "so", "!bad_markup plan | 'so'"),
    ("a string's tag that does not fit", "minimax_m3", m3('<invoke name="find">', "<query>x", "</qury>", "</invoke>", "</tool_call>") + "so", "!bad_markup find | 'so'"),
    ("no tag", "minimax_m3", m3('<invoke name="find">') + "so</tool_call>", "!bad_markup find"),
    ("an item that is none", "minimax_m3", m3('<invoke name="plan">', "<steps>", "<item>a", "</item>", "<b>", "</tool_call>"), "!bad_markup plan"),
    ("cut in a value", "minimax_m3", m3('<invoke name="plan">', "<note>x"), "!truncated plan"),
    ("cut in a string", "minimax_m3", m3('<invoke name="find">', "<query>x"), "!truncated find"),
    ("cut in a tag", "minimax_m3", m3('<invoke name="find">', "<que"), "!truncated find"),
    ("no call", "minimax_m3", m3("<invoke>"), f"'{m3('<invoke>')}'"),
    ("prose", "minimax_m3", m3() + "so", f"'{m3()}so'"),
    ("prose after a call", "minimax_m3", m3('<invoke name="now">', "</invoke>") + "so", "now {} | 'so'"),
    ("too deep", "minimax_m3", m3('<invoke name="any">', *("<a>",) * 200), "!limit any"),
    ("lists too deep", "minimax_m3", m3('<invoke name="any">', "<a>", *("<item>",) * 200), "!limit any"),
    ("names as tags", "auto", "<write><path>a</path>\n<text> b </text></write>so", 'write {"path": "a", "text": "b"} | \'so\''),
    ("a value that is blank", "auto", "<find><query>  </query></find>", 'find {"query": ""}'),
    *(
        (f"a tag twice: {value}", "auto", f"<find><query>{value}</query>\n<limit>3</limit></find>", "!bad_markup find | '\n<limit>3</limit></find>'")
        for value in ("<query>x", "x</query>", "\n<query>x\n", "x</query>x")
    ),
    ("equal elements with the same tag", "auto", "<find><query><query>x</query>, <query>x</query></query></find>", 'find {"query": "<query>x</query>, <query>x</query>"}'),
    ("an element with the same tag", "auto", "<find><query><query>x</query></query></find>", 'find {"query": "<query>x</query>"}'),
    ("a closing tag in a value", "auto", "<find><query>a</query>b</query></find>", 'find {"query": "a</query>b"}'),
    ("no parameters", "auto", "<now></now>", "now {}"),
    ("a tag in prose", "auto", "the <find> tag", "'the <find> tag'"),
    ("a parameter that is none", "auto", "<find><query>x</query><b>1</b></find>", "!truncated find"),
    ("a value that is cut", "auto", "<find><query>x", "!truncated find"),
    ("a call that is cut", "auto", "<find><query>x</query>", "!truncated find"),
    ("JSON in the tag of a tool", "morph_xml", 'so <find>{"query": "x"}</find>', f"{CALL} | 'so '"),
    ("JSON in the tag of a tool, with prose behind it", "morph_xml", '<find>{"query": "x"} so</find>', "'<find>{\"query\": \"x\"} so</find>'"),
    ("JSON in the tag of a tool that is cut", "morph_xml", '<find>{"query": "x', "'<find>{\"query\": \"x'"),
    ("a tag around all parameters", "auto", "<find>\n<args>\n<query>x</query>\n</args>\n</find>so", f"{CALL} | 'so'"),
    ("a tag around all of them as JSON", "auto", '<find><parameters>{"query": "x"}</parameters></find>so', f"{CALL} | 'so'"),
    ("a tag around prose", "auto", "<find><args>so</args></find>", "'<find><args>so</args></find>'"),
    ("a tag around parameters that are cut", "auto", "<find><args><query>x</query>", "!truncated find"),
    ("a list in tags", "auto", "<plan><steps>\n<step>a</step>\n<step>b</step>\n</steps></plan>", 'plan {"steps": ["a", "b"]}'),
    ("an object in tags", "auto", "<plan><goal><a>1</a><b>x</b></goal><done>true</done></plan>", 'plan {"goal": {"a": 1, "b": "x"}, "done": true}'),
    ("a list in a tag for each element", "auto", "<plan><steps>1</steps>\n<steps>b</steps></plan>", 'plan {"steps": [1, "b"]}'),
    ("a list in a tag for each element, one without an end", "auto", "<plan><steps>1</steps><steps>b</plan>", "!truncated plan"),
    ("the tag of an object twice", "auto", "<plan><goal>{}</goal><goal>{}</goal></plan>", "!schema plan"),
    ("a tag that is closed at once", "morph_xml", "so <now/><now />then", "now {} | now {} | 'so then'"),
    ("a tag that is closed at once, beside YAML", "yaml_xml", "<now/><find>\nquery: x\n</find>", f"now {{}} | {CALL}"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("dialect", "text", "said"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_rows(say: Callable[..., str], dialect: str, *, text: str, said: str) -> None:
    assert say(dialect, text) == said


UNION = {
    "name": "pick",
    "parameters": {
        "properties": {
            "filter": {
                "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "object"}]
            }
        }
    },
}


LABEL = {
    "name": "pick",
    "parameters": {"properties": {"label": {"oneOf": [{"type": "string"}, {"type": "object"}]}}},
}


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        (("<label>x", "</label>"), 'pick {"label": "x"}'),
        (("<label>", "<a>1", "</a>", "</label>"), "!bad_markup pick"),
    ],
    ids=["a text", "tags"],
)
def test_tags_where_a_text_may_stand_are_no_guess(
    say: Callable[..., str], inside: tuple[str, ...], *, said: str
) -> None:
    text = m3('<invoke name="pick">', *inside, "</invoke>", "</tool_call>")
    assert say("minimax_m3", text, tools=[LABEL]) == said


def test_a_list_finds_its_schema_among_alternatives(say: Callable[..., str]) -> None:
    text = m3('<invoke name="pick">', "<filter>", "<item>1", "</item>", "</filter>", "</invoke>")
    assert say("minimax_m3", text, tools=[UNION]) == 'pick {"filter": ["1"]}'
