"""The name of a call in a header."""

# ruff: noqa: E501 - a row is one line, and its text stands there as a model writes it

from __future__ import annotations

from collections.abc import Callable

import pytest

from wholecall.dialects.grammars.headed_calls import HeadedCalls, Header
from wholecall.dialects.rescue import parse_text

CALL = 'find {"query": "x"}'
ARGS = '{"query": "x"}'
BAR = "\uff5c"
KIMI = "<|tool_call_begin|>{}<|tool_call_argument_begin|>{}<|tool_call_end|>"
SECTION = "<|tool_calls_section_begin|>{}<|tool_calls_section_end|>"
V31 = f"<{BAR}tool▁call▁begin{BAR}>find<{BAR}tool▁sep{BAR}>{ARGS}<{BAR}tool▁call▁end{BAR}>"
V3 = f"<{BAR}tool▁call▁begin{BAR}>function<{BAR}tool▁sep{BAR}>find\n```json\n{ARGS}\n```<{BAR}tool▁call▁end{BAR}>"

PLAMO = "<|plamo:begin_tool_requests:plamo|><|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>find<|plamo:end_tool_name:plamo|><|plamo:begin_tool_arguments:plamo|><|plamo:msg|>{}<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|><|plamo:end_tool_requests:plamo|>"
USES = '{"tool_uses": [{"recipient_name": "functions.find", "parameters": {"query": "x"}}, {"recipient_name": "functions.now", "parameters": {}}]}'
TO = "<|channel|>commentary to="

ROWS = [
    ("PLaMo 3", "plamo3", PLAMO.replace("{}", ARGS) + "so", f"{CALL} | 'so'"),
    ("Functionary v2", "functionary_v2", f"<|from|>assistant\n<|recipient|>all\n<|content|>so\n<|from|>assistant\n<|recipient|>find\n<|content|>{ARGS}<|stop|>", f"{CALL} | 'so\n'"),
    ("several calls to OpenAI's wrapper", "harmony", f"{TO}multi_tool_use.parallel <|constrain|>json<|message|>{USES}<|call|>", f"{CALL} | now {{}}"),
    ("a header without its end", "harmony", f"{TO}functions.find{ARGS}<|call|>", CALL),
    ("a message to somebody else", "harmony", f"{TO}user<|message|>{ARGS}<|call|>", "!unknown_tool user"),
    ("the name without its tokens", "kimi_k2", f"functions.find:0<|tool_call_argument_begin|>{ARGS}<|tool_call_end|>so", f"{CALL} | 'so'"),
    ("a section that stays alone", "kimi_k2", "so <|tool_calls_section_begin|>", "'so '"),
    ("a section that stays alone, unannounced", "auto", "so <|tool_calls_section_begin|>", "'so '"),
    ("a broken call among others", "kimi_k2", SECTION.format(KIMI.format("find:0", ARGS) + KIMI.format("", "") + KIMI.format("find:1", ARGS)), f"{CALL} | !bad_markup - | {CALL}"),
    ("the next call without its mark", "mistral", '[TOOL_CALLS]find{"query": "x"}now{} so', f"{CALL} | now {{}} | ' so'"),
    ("a brace after another word", "mistral", '[TOOL_CALLS]find{"query": "x"}me{}', f"{CALL} | 'me{{}}'"),
    ("several calls to OpenAI's wrapper, with its namespace", "kimi_k2", KIMI.format("functions.multi_tool_use.parallel:0", USES), f"{CALL} | now {{}}"),
    ("an object in the place of a header", "kimi_k2", f'<|tool_call_begin|>{{"name": "find", "arguments": {ARGS}}}<|tool_call_end|>so', f"{CALL} | 'so'"),
    ("an object in the place of DeepSeek's header", "deepseek_v31", f'<{BAR}tool▁calls▁begin{BAR}><{BAR}tool▁call▁begin{BAR}>{{"name": "find", "arguments": {ARGS}}}<{BAR}tool▁call▁end{BAR}><{BAR}tool▁calls▁end{BAR}>so', f"{CALL} | 'so'"),
    ("Mistral's closing mark", "mistral", '[TOOL_CALLS]find{"query": "x"}[/TOOL_CALLS]so', f"{CALL} | 'so'"),
    ("a section", "kimi_k2", SECTION.format(KIMI.format("functions.find:0", ARGS)), CALL),
    ("two calls", "kimi_k2", SECTION.format(KIMI.format("functions.find:0", ARGS) + "\n" + KIMI.format("find:1", ARGS)), f"{CALL} | {CALL}"),
    ("without a section", "kimi_k2", KIMI.format("find", ARGS) + " so", f"{CALL} | ' so'"),
    ("an empty section", "kimi_k2", "a" + SECTION.format("") + "b", "'ab'"),
    ("a section of prose", "kimi_k2", "<|tool_calls_section_begin|>so", "'so'"),
    ("a section of prose, unannounced", "auto", "<|tool_calls_section_begin|>so", "'so'"),
    ("the end of a section alone, unannounced", "auto", "so<|tool_calls_section_end|>", "'so'"),
    ("the end of a section in code, unannounced", "auto", "`<|tool_calls_section_end|>`", "'`<|tool_calls_section_end|>`'"),
    ("a call that is none after one", "kimi_k2", KIMI.format("find:0", ARGS) + "<|tool_call_begin|>a b", f"{CALL} | !bad_markup - | 'a b'"),
    ("no arguments", "kimi_k2", KIMI.format("now:0", ""), "now {}"),
    ("prose as arguments", "kimi_k2", KIMI.format("find:0", "so"), "!bad_markup - | '<|tool_call_begin|>find:0so'"),
    *((f"an id that lost its marks: {id}", "auto", KIMI.format(id, ARGS), CALL) for id in ("functions_find_0", "functionsfind12", "functions.find0")),
    ("an id of nobody without marks", "kimi_k2", KIMI.format("functions_fnd_0", ARGS), "!unknown_tool functions_fnd_0"),
    ("an id without a counter", "kimi_k2", KIMI.format("functions_find_x", ARGS), "!unknown_tool functions_find_x"),
    ("no mark before the arguments", "kimi_k2", SECTION.format(KIMI.replace("<|tool_call_argument_begin|>", " ").format("functions.find:0", ARGS)), CALL),
    ("no mark before the arguments, cut", "kimi_k2", '<|tool_call_begin|>find:0 {"query": "x', "!truncated find"),
    ("no header", "kimi_k2", "<|tool_call_begin|>find<|tool_call_end|>", "!bad_markup - | '<|tool_call_begin|>find'"),
    ("no name", "kimi_k2", KIMI.format("", ARGS), f"!bad_markup - | '<|tool_call_begin|>{ARGS}'"),
    ("an unknown name", "kimi_k2", KIMI.format("functions.fnd:0", ARGS), "!unknown_tool functions.fnd"),
    ("cut in the arguments", "kimi_k2", KIMI.format("find:0", ARGS)[:-20], "!truncated find"),
    ("broken arguments", "kimi_k2", KIMI.format("find:0", '{"query": ]}') + "so", "!bad_markup find | 'so'"),
    ("broken arguments without a closer", "mistral", '[TOOL_CALLS]find[ARGS]{"query": ]}', "!bad_markup find | ']}'"),
    ("a brace too early", "kimi_k2", KIMI.format("find:0", f'{ARGS}, "count": 2}}') + "so", "!bad_markup find | 'so'"),
    ("a brace too early, over lines", "kimi_k2", KIMI.format("find:0", f'{ARGS} ,\n  "count": 2\n}}') + "so", "!bad_markup find | 'so'"),
    ("a brace too early without a closer", "mistral", f"[TOOL_CALLS]find[ARGS]{ARGS}, 'count': 2}}", "!bad_markup find | ', 'count': 2}'"),
    ("a comma behind the arguments", "mistral", f"[TOOL_CALLS]find[ARGS]{ARGS}, so", f"{CALL} | ', so'"),
    ("an object without its end takes no call along", "kimi_k2", SECTION.format(KIMI.format("find:0", '{"query": "x"') + KIMI.format("find:1", ARGS)), f"!bad_markup find | {CALL}"),
    ("a word and no end", "kimi_k2", SECTION.format(KIMI.format("find:0", '{"query": fasle')) + SECTION.format(KIMI.format("find:1", ARGS)), f"!bad_markup find | {CALL}"),
    ("lists and no end", "kimi_k2", KIMI.format("find:0", '{"a": [{"b": "<i>"}], \'c\': [1, ') + KIMI.format("find:1", ARGS), f"!bad_markup find | {CALL}"),
    ("a fence and no end", "deepseek_v3", V3.replace("}", "") + V3, f"!bad_markup find | {CALL}"),
    ("no end before the next marker", "mistral", f'[TOOL_CALLS]find[ARGS]{{"query": "x"[TOOL_CALLS]find[ARGS]{ARGS}', f"!bad_markup find | {CALL}"),
    ("an end behind quotes that were not escaped may stand in a string", "kimi_k2", KIMI.format("find:0", '{"query": "a "b" "c') + KIMI.format("find:1", ARGS) + '"}', "!bad_json find"),
    ("no mark stands in the JSON", "kimi_k2", KIMI.format("find:0", '{"query": <b>}'), "!bad_json find"),
    ("a brace too many", "kimi_k2", KIMI.format("find:0", f"{ARGS}}}") + "so", f"{CALL} | 'so'"),
    ("a brace too many in a fence", "deepseek_v3", V3.replace("}", "}}") + V3, f"{CALL} | {CALL}"),
    ("two objects", "kimi_k2", KIMI.format("find:0", ARGS + '{"query": "y"}') + "so", "!bad_markup find | 'so'"),
    ("a second object that is broken", "kimi_k2", KIMI.format("find:0", ARGS + '\n{"query": ]') + "so", "!bad_markup find | 'so'"),
    ("the same object twice", "kimi_k2", KIMI.format("find:0", f"{ARGS}\n{ARGS}") + "so", f"{CALL} | 'so'"),
    ("a comma at the end", "mistral", f"[TOOL_CALLS]find[ARGS]{ARGS},", f"{CALL} | ','"),
    ("cut before the arguments", "kimi_k2", "<|tool_call_begin|>find:0<|tool_call_argument_begin|>", "!truncated find"),
    ("cut in the header", "kimi_k2", "<|tool_call_begin|>fi", "'<|tool_call_begin|>fi'"),
    ("a header whose end begins just in time", "kimi_k2", KIMI.format("x" * 250, ARGS), "!unknown_tool " + "x" * 250),
    ("a header whose end begins too late", "kimi_k2", KIMI.format("x" * 257, ARGS) + "so", f"'<|tool_call_begin|>{'x' * 257}{ARGS}so'"),
    ("a header without an end", "kimi_k2", "<|tool_call_begin|>" + "x" * 300, "'<|tool_call_begin|>" + "x" * 300 + "'"),
    ("name and arguments", "mistral", f"[TOOL_CALLS]find[ARGS]{ARGS}", CALL),
    ("name and brace", "mistral", f"[TOOL_CALLS]find{ARGS}so", f"{CALL} | 'so'"),
    ("an id", "mistral", f"[TOOL_CALLS]find[CALL_ID]123456789[ARGS]{ARGS}", CALL),
    ("a list", "mistral", f'[TOOL_CALLS] [{{"name": "find", "arguments": {ARGS}}}]', CALL),
    ("the marker again", "mistral", f"[TOOL_CALLS]find{ARGS}[TOOL_CALLS]find{ARGS}", f"{CALL} | {CALL}"),
    ("no marker", "mistral", f"find[ARGS]{ARGS}", CALL),
    ("no marker, where nobody announced it", "auto", f"So.\nfind[ARGS]{ARGS}\nso", f"{CALL} | 'So.\nso'"),
    ("no marker, an id", "mistral", f"find[CALL_ID]123456789[ARGS]{ARGS}", CALL),
    ("no marker, an id without an end", "mistral", "find[CALL_ID]123456789", "'find[CALL_ID]123456789'"),
    ("no marker, two calls", "auto", f"find[ARGS]{ARGS}find[ARGS]{ARGS}", f"{CALL} | {CALL}"),
    ("no marker, two lines", "mistral", f"find[ARGS]{ARGS}\nfind[CALL_ID]1[ARGS]{ARGS}", f"{CALL} | {CALL}"),
    ("a marker before the first call only", "mistral", f"[TOOL_CALLS]find[ARGS]{ARGS}find[ARGS]{ARGS}so", f"{CALL} | {CALL} | 'so'"),
    ("no marker, and no call behind one", "mistral", f"find[ARGS]{ARGS} find[ARGS]so", f"{CALL} | ' find[ARGS]so'"),
    ("no marker, cut", "auto", f"find[ARGS]{ARGS[:-1]}", "!truncated find"),
    ("no marker, cut before the arguments", "auto", "find[ARGS]", "!truncated find"),
    ("no marker, prose behind it", "auto", "find[ARGS] is how it begins", "'find[ARGS] is how it begins'"),
    ("no marker, in a line of prose", "auto", f"so find[ARGS]{ARGS}", f"'so find[ARGS]{ARGS}'"),
    ("no marker, a longer name", "auto", f"refind[ARGS]{ARGS}", f"'refind[ARGS]{ARGS}'"),
    ("no marker, a tool that is not on offer", "mistral", f"fnd[ARGS]{ARGS}", f"'fnd[ARGS]{ARGS}'"),
    ("no marker, an example", "auto", f"so\n```\nfind[ARGS]{ARGS}\n```", f"'so\n```\nfind[ARGS]{ARGS}\n```'"),
    ("a name without its own line", "deepseek_v31", V31, CALL),
    ("a fence around the arguments", "deepseek_v3", f"<{BAR}tool▁calls▁begin{BAR}>{V3}\n{V3}<{BAR}tool▁calls▁end{BAR}>", f"{CALL} | {CALL}"),
    ("bars in ASCII", "deepseek_v3", V3.replace(BAR, "|"), CALL),
    ("plain blanks in its tokens", "deepseek_v3", V3.replace("▁", "_"), CALL),
    ("no line end behind the name", "deepseek_v3", V3.replace("\n```json\n", "").replace("\n```", ""), CALL),
    ("a fence at the very end", "deepseek_v3", V3.partition(f"<{BAR}tool▁call▁end")[0], CALL),
    ("a fence that stays open", "deepseek_v3", V3.partition("\n```<")[0], CALL),
    ("a recipient", "harmony", f"<|channel|>commentary to=functions.find <|constrain|>json<|message|>{ARGS}<|call|>", CALL),
    ("a recipient before the channel", "harmony", f"<|start|>assistant to=functions.find<|channel|>commentary json<|message|>{ARGS}<|call|>", CALL),
    ("a plan in the analysis channel", "harmony", f"<|channel|>analysis to=functions.find<|message|>{ARGS}<|end|>so", f"~{ARGS} | 'so'"),
    ("a recipient in the analysis channel", "harmony", f"<|start|>assistant to=functions.find<|channel|>analysis<|message|>{ARGS}<|end|>", f"~{ARGS}"),
    ("a call in the analysis channel", "harmony", f"<|channel|>analysis to=functions.find<|message|>{ARGS}<|call|>", CALL),
    ("a call in the analysis channel at the end", "harmony", f"<|channel|>analysis to=functions.find<|message|>{ARGS}", CALL),
    ("a call in the analysis channel with prose behind it", "harmony", f"<|channel|>analysis to=functions.find<|message|>{ARGS} or so<|call|>", f"~{ARGS} or so"),
    ("a call in the analysis channel that is cut", "harmony", f"<|channel|>analysis to=functions.find<|message|>{ARGS[:-1]}", "!truncated find"),
    ("a call in the analysis channel whose end is cut", "harmony", f"<|channel|>analysis to=functions.find<|message|>{ARGS}<|", f"~{ARGS}<|"),
    ("broken JSON in the analysis channel", "harmony", '<|channel|>analysis to=functions.find<|message|>{"query": ]}<|call|>so', "~{\"query\": ]} | 'so'"),
    ("code in the analysis channel", "harmony", "<|channel|>analysis to=python<|message|>print(1)<|call|>so", "~print(1) | 'so'"),
    ("nobody in the analysis channel", "auto", f"<|channel|>analysis to=functions.fnd<|message|>{ARGS}<|call|>so", f"~{ARGS} | 'so'"),
    ("a recipient at the beginning", "harmony", f" to=functions.find<|channel|>commentary<|message|>{ARGS}", f"{CALL} | ' '"),
    ("a header without its tokens", "auto", f"Hm.assistantcommentary to=functions.find json{ARGS}", f"{CALL} | 'Hm.'"),
    ("headers without their tokens", "harmony", f"commentary to=functions.find code{ARGS}commentary to=functions.find{ARGS}", f"{CALL} | {CALL}"),
    ("a channel behind the recipient", "auto", f"assistant to=functions.find commentary json\n{ARGS}", CALL),
    ("thoughts behind the recipient", "auto", f"assistant to=functions.find analysis json\n{ARGS}", f"'assistant to=functions.find analysis json\n{ARGS}'"),
    ("a header without its tokens, cut", "auto", f"commentary to=functions.find json{ARGS[:-1]}", "!truncated find"),
    ("a recipient in prose", "auto", f"say to=functions.find with {ARGS}", f"'say to=functions.find with {ARGS}'"),
    ("a plan without its tokens", "harmony", f"analysis to=functions.find json{ARGS}", f"'analysis to=functions.find json{ARGS}'"),
    ("an action and its input", "auto", f"Thought: hm\nAction: find\nAction Input: {ARGS}\nObservation: so", f"{CALL} | 'Thought: hm\nObservation: so'"),
    ("an action where the answer begins", "auto", f"Action: find\nAction Input: {ARGS}", CALL),
    ("an action of nobody", "auto", f"Action: fnd\nAction Input: {ARGS}", f"'Action: fnd\nAction Input: {ARGS}'"),
    ("an action whose input is no object", "auto", "Action: find\nAction Input: x", "'Action: find\nAction Input: x'"),
    ("an action in prose", "auto", f"In Action: find\nAction Input: {ARGS}", f"'In Action: find\nAction Input: {ARGS}'"),
    ("an action that is cut", "auto", f"Action: find\nAction Input: {ARGS[:-1]}", "!truncated find"),
    ("a function and its arguments", "auto", f"so\n✿FUNCTION✿: find\n✿ARGS✿: {ARGS}\n✿FUNCTION✿: find\n✿ARGS✿: {ARGS}", f"{CALL} | {CALL} | 'so\n'"),
    ("an equals sign in prose", "harmony", "set it to=5 here", "'set it to=5 here'"),
    ("channels", "harmony", "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>yes<|return|>", "~hm | 'yes'"),
    ("channels that nobody announced", "auto", "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>yes<|return|>", "~hm | 'yes'"),
    ("an answer as JSON", "harmony", '<|channel|>final <|constrain|>json<|message|>{"a": 1}<|return|>', "'{\"a\": 1}'"),
    ("words before a call", "auto", f"<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.find<|message|>{ARGS}<|call|>", f"{CALL} | 'I look.'"),
    ("a channel with a slip in its name", "auto", f"<|channel|>comment to=functions.find <|constrain|>json<|message|>{ARGS}<|call|>", CALL),
    ("thoughts without an end", "harmony", "<|channel|>analysis<|message|>hm<|channel|>final<|message|>yes", "~hm | 'yes'"),
    ("a name in a line", "functionary_v32", f">>>find\n{ARGS}\n>>>find\n{ARGS}", f"{CALL} | {CALL}"),
    ("text in a line", "functionary_v32", "all\nHello", "'Hello'"),
    ("a name at the beginning", "functionary_v32", f"find\n{ARGS}>>>all\nso", f"{CALL} | 'so'"),
    ("a word at the beginning that is no name", "functionary_v32", f"sure\n{ARGS}", f"'sure\n{ARGS}'"),
    ("the end of a sentence", "functionary_v32", "that is all\nfor now", "'that is all\nfor now'"),
    ("an id before the name", "solar_open", f"<|begin|>assistant<|think|>hm<|end|><|begin|>assistant<|tool_calls|><|tool_call:begin|>a1b2<|tool_call:name|>find<|tool_call:args|>{ARGS}<|tool_call:end|><|calls|>", f"{CALL} | ~hm"),
    ("no id before the name", "solar_open", f"<|content|>so<|end|><|tool_call:begin|><|tool_call:name|>find<|tool_call:args|>{ARGS}<|tool_call:end|>", f"{CALL} | 'so'"),
    ("cut before the arguments of a call with an id", "solar_open", "<|tool_call:begin|>a1b2<|tool_call:name|>find<|tool_call:args|>", "!truncated find"),
    ("a counter for a name, of several tools", "kimi_k2", KIMI.format("0", ARGS), "!unknown_tool 0"),
]  # fmt: skip


FIND = {"name": "find", "parameters": {"type": "object", "properties": {"query": {}}}}
NAMELESS = [
    ("a counter", "kimi_k2", KIMI.format("0", ARGS), CALL),
    ("an id of another model", "kimi_k2", KIMI.format("call_0f1e", ARGS), CALL),
    ("an id, where nobody announced the format", "auto", KIMI.format("call_0f1e", ARGS), CALL),
    ("parameters of another tool", "kimi_k2", KIMI.format("0", '{"q": 1}'), "!unknown_tool 0"),
    ("parameters of another tool, not announced", "auto", KIMI.format("0", '{"q": 1}'), "'<|tool_call_begin|>0<|tool_call_argument_begin|>{\"q\": 1}<|tool_call_end|>'"),
    ("no parameters at all", "kimi_k2", KIMI.format("0", "{}"), "!unknown_tool 0"),
    ("no object", "kimi_k2", KIMI.format("0", "[1]"), "!unknown_tool 0"),
    ("cut in the arguments", "kimi_k2", KIMI.format("0", ARGS)[:-20], "!truncated 0"),
    ("cut before the arguments", "kimi_k2", "<|tool_call_begin|>0<|tool_call_argument_begin|>", "!truncated 0"),
    ("a name that is not offered", "kimi_k2", KIMI.format("fnd:0", ARGS), "!unknown_tool fnd"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("dialect", "text", "said"), [row[1:] for row in NAMELESS], ids=[row[0] for row in NAMELESS]
)
def test_a_call_of_nobody_is_of_the_only_tool_if_it_fits(
    say: Callable[..., str], dialect: str, *, text: str, said: str
) -> None:
    assert say(dialect, text, tools=[FIND]) == said


@pytest.mark.parametrize(
    ("dialect", "text", "said"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_rows(say: Callable[..., str], dialect: str, *, text: str, said: str) -> None:
    assert say(dialect, text) == said


def test_an_id_without_marks_that_fits_two_tools_names_none() -> None:
    tools = [{"name": "run"}, {"name": "run1"}]
    outcome = parse_text("kimi_k2", KIMI.format("functionsrun12", ARGS), tools=tools)
    assert [(each.name, each.reason.value) for each in outcome.rejected] == [
        ("functionsrun12", "unknown_tool")
    ]


def test_a_header_that_begins_with_an_id_needs_a_mark_before_the_name() -> None:
    with pytest.raises(ValueError, match="needs a name_mark before the name"):
        HeadedCalls(calls=("<call>",), head_end=("<args>",), head=Header.ID_FIRST)
