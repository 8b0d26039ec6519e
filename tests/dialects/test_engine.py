"""The policy, which is the same for every format: what is a call, and what stays text."""

# ruff: noqa: E501 - a row is one line, and its text stands there as a model writes it

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from wholecall.dialects.dialect_registry import dialect_named
from wholecall.dialects.engine import REPEATS, Engine
from wholecall.events import CallDelta, Text
from wholecall.messages import read_offer

FIND = '<tool_call>{"name": "find", "arguments": {"query": "x"}}</tool_call>'
BARE = FIND.removeprefix("<tool_call>").removesuffix("</tool_call>")
CALL = 'find {"query": "x"}'

# what holds, the dialect, the text, what is said of it
TO_FIND = (
    '<|start|>assistant to=find<|message|><atem:function_calls><atem:invoke name="find">'
    '<atem:parameter name="query">x</atem:parameter></atem:invoke></atem:function_calls>'
)
NAMELESS = f'{{"arguments": {{"a": "{"x" * 300}"}}}}'

ROWS = [
    ("nothing", "hermes", "", ""),
    ("prose is text", "hermes", "Hello <b> & </b>", "'Hello <b> & </b>'"),
    ("a call alone", "hermes", FIND, CALL),
    ("text around a call is kept", "hermes", f"a {FIND} b", f"{CALL} | 'a  b'"),
    ("several calls", "hermes", f"{FIND}\n{FIND}", f"{CALL} | {CALL} | '\n'"),
    ("a lone beginning of a marker is text", "hermes", "1 < 2 <tool", "'1 < 2 <tool'"),
    ("prose that names the marker is text", "hermes", "Use <tool_call> now", "'Use <tool_call> now'"),
    ("a marker twice", "hermes", f"<tool_call>{FIND}", f"{CALL} | '<tool_call>'"),
    ("a stray closer is no text", "hermes", "a</tool_call>b", "'ab'"),
    ("an unknown name is told", "hermes", FIND.replace("find", "fnd"), "!unknown_tool fnd"),
    ("an unknown name is prose where nobody announced calls", "auto",
     FIND.replace("find", "fnd"), f"'{FIND.replace('find', 'fnd')}'"),
    ("a namespace before the name", "hermes", FIND.replace("find", "functions.find"), CALL),
    ("two namespaces before the name", "hermes", FIND.replace("find", "tools/functions.find"), CALL),
    # reasoning
    ("reasoning", "hermes", "<think>hm</think>yes", "~hm | 'yes'"),
    ("reasoning without an end", "hermes", "<think>hm", "~hm"),
    ("a plan in reasoning that ends is no call", "hermes", f"<think>a {FIND} b</think>c",
     f"~a {FIND} b | 'c'"),
    ("a call in reasoning that never ends is one", "hermes", f"<think>a {FIND} b", f"{CALL} | ~a  b"),
    ("a marker in reasoning that opens nothing", "hermes", "<think>a <tool_call> b", "~a <tool_call> b"),
    ("two plans", "hermes", f"<think>{FIND}{FIND}</think>", f"~{FIND}{FIND}"),
    ("a plan in reasoning that the prompt opened", "hermes", f"a {FIND} b</think>{FIND}",
     f"!bad_markup find | {CALL} | ~a  b"),
    ("an end of reasoning alone", "hermes", f"a</think>{FIND}b", f"{CALL} | ~a | 'b'"),
    ("an end of reasoning alone, twice", "hermes", "a</think>b</think>c", "~a | 'bc'"),
    ("an end of reasoning alone, behind reasoning", "hermes", "<think>a</think>b</think>c", "~a | 'bc'"),
    ("a call without a marker behind an end of reasoning alone", "auto", f"a</think>\n{BARE}\n</tool_call>", f"{CALL} | ~a | '\n'"),
    ("a fence behind an end of reasoning alone", "auto", f"a</think>\n```json\n{BARE}\n```", f"{CALL} | ~a | '\n'"),
    ("one behind a plan, too", "auto", f"a {FIND}</think>{BARE}", f"!bad_markup find | {CALL} | ~a "),
    ("but not behind text", "auto", f"<think>a</think>b</think>{BARE}", f"~a | 'b{BARE}'"),
    ("an end of reasoning at the beginning", "hermes", f"\n</think>{FIND}", f"{CALL} | '\n'"),
    ("a reasoning tag in a code span is text", "hermes", "the `<think>` tag", "'the `<think>` tag'"),
    ("so is its closing tag", "hermes", "the `</think>` tag", "'the `</think>` tag'"),
    ("and the end of a call", "hermes", "the `</tool_call>` tag", "'the `</tool_call>` tag'"),
    ("a code span at the end of reasoning", "hermes", "use `x`</think>so", "~use `x` | 'so'"),
    ("a long object in reasoning that is no call", "hermes", f"<think>a <tool_call>{NAMELESS}</tool_call> b</think>c", f"~a <tool_call>{NAMELESS}</tool_call> b | 'c'"),
    # fences
    ("an object in a fence, announced", "hermes", '```json\n{"name": "find", "arguments": {"query": "x"}}\n```', CALL),
    ("an object in a fence, announced, then prose", "hermes", '```json\n{"name": "find", "arguments": {"query": "x"}}\n```\nso', '\'```json\n{"name": "find", "arguments": {"query": "x"}}\n```\nso\''),
    ("a call that is the whole answer, announced", "hermes", 'find(query="x")', CALL),
    ("an example in a fence", "hermes", f"So:\n```\n{FIND}\n```\nok", f"'So:\n```\n{FIND}\n```\nok'"),
    ("a fence without an end", "hermes", f"So:\n```\n{FIND}", f"'So:\n```\n{FIND}'"),
    ("a fence that is the whole answer", "hermes", f"```\n{FIND}\n```\n", CALL),
    ("a fence with its language", "auto", '```json\n{"name": "find", "arguments": {"query": "x"}}\n```', CALL),
    ("a whole answer whose fence was left open", "hermes", f"```\n{FIND}", CALL),
    ("a fence at the beginning, then prose", "hermes", f"```\n{FIND}\n```\nlike so",
     f"'```\n{FIND}\n```\nlike so'"),
    ("fences that are the whole answer", "hermes", f"```\n{FIND}\n```\n```xml\n{FIND}\n```", f"{CALL} | {CALL}"),
    ("fences at the beginning, one with code", "hermes", f"```\n{FIND}\n```\n```py\nprint()\n```",
     f"'```\n{FIND}\n```\n```py\nprint()\n```'"),
    ("fences, the last left open", "hermes", f"```\n{FIND}\n```\n```\n{FIND}", f"{CALL} | {CALL}"),
    ("fences, the last cut", "hermes", f"```\n{FIND}\n```\n```\n{FIND[:40]}", f"{CALL} | !truncated find"),
    ("fences, then prose", "hermes", f"```\n{FIND}\n```\n```\n{FIND}\n```\nso",
     f"'```\n{FIND}\n```\n```\n{FIND}\n```\nso'"),
    ("calls in one fence that is the whole answer", "hermes", f"```xml\n{FIND}\n{FIND}\n```\n", f"{CALL} | {CALL}"),
    ("calls in one fence that was left open", "auto", f"```\n{FIND}{FIND}", f"{CALL} | {CALL}"),
    ("calls in one fence, then prose", "hermes", f"```\n{FIND}\n{FIND}\n```\nso", f"'```\n{FIND}\n{FIND}\n```\nso'"),
    ("a call in a fence and a marker that opens nothing", "hermes", f"```\n{FIND}\n<tool_call>so\n```", f"'```\n{FIND}\n<tool_call>so\n```'"),
    ("a fence with code", "hermes", "```py\nprint()\n```", "'```py\nprint()\n```'"),
    ("a fence with code, then a call", "hermes", f"```py\nprint()\n```\n{FIND}",
     f"{CALL} | '```py\nprint()\n```\n'"),
    ("a fence whose language is too long", "hermes", f"```{'x' * 40}\n{FIND}\n```",
     f"'```{'x' * 40}\n{FIND}\n```'"),
    ("three backticks in a line", "hermes", "a ``` b", "'a ``` b'"),
    ("an indented fence", "hermes", f"a\n  ```\n{FIND}\n```", f"'a\n  ```\n{FIND}\n```'"),
    ("lines that are set off", "auto", f"So:\n\n    {FIND}\n\nok", f"'So:\n\n    {FIND}\n\nok'"),
    ("more of them", "auto", f"So:\n \n\t<tool_call>\n\t{BARE}\n\n\t</tool_call>\n{FIND}", f"{CALL} | 'So:\n \n\t<tool_call>\n\t{BARE}\n\n\t</tool_call>\n'"),
    ("deeper ones, to the end", "auto", "So:\r\n\r\n          <function=now>\r\n          </function>", "'So:\r\n\r\n          <function=now>\r\n          </function>'"),
    ("lines that are set off in a format that was announced", "hermes", f"So:\n\n    {FIND}", f"{CALL} | 'So:\n\n    '"),
    ("lines that are set off by three blanks", "auto", f"So:\n\n   {FIND}", f"{CALL} | 'So:\n\n   '"),
    ("a line that goes on with blanks", "auto", f"So:\n    {FIND}", f"{CALL} | 'So:\n    '"),
    ("nothing but blanks before a call", "auto", f"\n\n    {FIND}", f"{CALL} | '\n\n    '"),
    ("a call in a code span is text", "hermes", f"`{FIND}`", f"'`{FIND}`'"),
    ("a call in quotation marks is text", "hermes", f'it says "{FIND}"', f"'it says \"{FIND}\"'"),
    ("a call behind quotation marks", "hermes", f'look for "cats"{FIND}', f"{CALL} | 'look for \"cats\"'"),
    ("a call behind a code span", "hermes", f"run `ls`{FIND}", f"{CALL} | 'run `ls`'"),
    ("a call in a result is text", "hermes", f"<tool_response>{FIND}</tool_response>so {FIND}", f"{CALL} | '<tool_response>{FIND}</tool_response>so '"),
    ("so is one that goes by a result which was made up", "hermes", f"{FIND}<tool_result>1</tool_result>{FIND}", f"{CALL} | '<tool_result>1</tool_result>{FIND}'"),
    ("and one behind an observation", "auto", f"Action: find\nAction Input: {{}}\nObservation: 1\n{FIND}", f"find {{}} | '\nObservation: 1\n{FIND}'"),
    ("an observation of one's own", "hermes", f"So.\nObservation: 1\n{FIND}", f"{CALL} | 'So.\nObservation: 1\n'"),
    ("a call in the turn of somebody else is text", "hermes", f"So.<|im_start|>user\n{FIND}", f"'So.<|im_start|>user\n{FIND}'"),
    ("a result in a code span", "hermes", f"`<tool_response>` {FIND}", f"{CALL} | '`<tool_response>` '"),
    ("the token that ends an answer", "hermes", f"{FIND}\n<|observation|>", f"{CALL} | '\n'"),
    ("a call in a quotation is text", "hermes", f"He wrote:\n> {FIND}", f"'He wrote:\n> {FIND}'"),
    ("a call in a comment is text", "auto", f"<!-- {FIND} -->", f"'<!-- {FIND} -->'"),
    ("a call behind a bracket", "auto", f"a          > {FIND}", f"{CALL} | 'a          > '"),
    # degenerate
    ("a marker on and on", "hermes", "<tool_call>" * REPEATS + "MMM", "!degenerate -"),
    ("a marker a few times", "hermes", "<tool_call>" * 3, f"'{'<tool_call>' * 3}'"),
    # remains
    ("tokens behind a call", "hermes", f"{FIND}\n<|im_end|></s>", CALL),
    ("tokens in the text", "hermes", "so</s>", "'so</s>'"),
    ("another format's closer behind a call", "auto", f"{FIND}</function>\n</tool_call> so", f"{CALL} | ' so'"),
    ("a closer in the text", "auto", "so</tool_call>", "'so</tool_call>'"),
    ("a closer that is cut off", "hermes", FIND[:-2], CALL),
    ("a bracket behind a call", "hermes", f"{FIND} <", f"{CALL} | ' <'"),
    ("the end of reasoning is no remain", "hermes", f"{FIND}</think>so", "!bad_markup find | 'so'"),
    ("an opener where a closer belongs", "hermes", f"{FIND[:-12]}<tool_call>", CALL),
    ("an opener behind a call, and text", "hermes", f"{FIND}<tool_call>so", f"{CALL} | '<tool_call>so'"),
    ("a call behind a call begins with a remain", "auto", f"{TO_FIND}<|eom|>{TO_FIND}", f"{CALL} | {CALL}"),
    ("what is told to the user calls nothing", "auto", f"<|start|>assistant to=user<|message|>so {TO_FIND}", f"'so {TO_FIND}'"),
    ("remains of a bare call", "auto", '{"name": "find", "arguments": {"query": "x"}}<|eot_id|>', CALL),
    # bare calls
    ("an object that begins the answer", "auto", ' {"name": "find", "arguments": {"query": "x"}}',
     f"{CALL} | ' '"),
    ("an object inside of prose is text", "auto", 'So {"name": "find", "arguments": {}}',
     "'So {\"name\": \"find\", \"arguments\": {}}'"),
    ("another object is text", "auto", '{"a": 1}', "'{\"a\": 1}'"),
    ("a tool's name as a tag", "auto", "<find>\n<query> x </query>\n</find>", CALL),
    ("much that is no call is not read twice", "hermes",
     '<tool_call>{"arguments": {"query": "' + "<tool_call>" * 30 + '"}, "nome": 1}',
     "'<tool_call>{\"arguments\": {\"query\": \"" + "<tool_call>" * 30 + "\"}, \"nome\": 1}'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("dialect", "text", "said"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_the_policy(say: Callable[..., str], dialect: str, *, text: str, said: str) -> None:
    assert say(dialect, text) == said


DOTTED: list[dict[str, Any]] = [{"name": name, "parameters": {}} for name in ("v2.find", "find")]


@pytest.mark.parametrize(
    ("written", "meant"),
    [("functions.v2.find", "v2.find"), ("v2.find", "v2.find"), ("v3.find", "find")],
)
def test_as_little_as_possible_is_a_namespace(
    say: Callable[..., str], written: str, *, meant: str
) -> None:
    assert say("hermes", FIND.replace("find", written), tools=DOTTED) == f'{meant} {{"query": "x"}}'


OFFER = read_offer([{"name": "find", "parameters": {}}])


def engine(dialect: str) -> Engine:
    return Engine(dialect_named(dialect), OFFER)


def test_text_is_given_at_once_unless_it_may_become_a_marker() -> None:
    reading = engine("hermes")
    assert reading.feed("Hello <") == [Text("Hello ")]
    assert reading.feed("b> <tool_") == [Text("<b> ")]
    assert reading.feed("call> is a tag") == [Text("<tool_call>"), Text(" is a tag")]
    assert reading.end() == []


def test_arguments_are_given_while_they_arrive() -> None:
    reading = engine("hermes")
    reading.feed('<tool_call>{"name": "find", "arguments": {"query": "a')
    assert reading.feed("bcd") == [CallDelta(1, "abc")]


def test_values_of_tags_are_given_while_they_arrive() -> None:
    reading = engine("qwen3_xml")
    reading.feed("<function=find><parameter=query>a")
    assert reading.feed('b"c') == [CallDelta(1, 'b\\"c')]
