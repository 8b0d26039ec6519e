"""The name of a call in a header."""

# ruff: noqa: E501 - a row is one line, and its text stands there as a model writes it

from __future__ import annotations

from collections.abc import Callable

import pytest

CALL = 'find {"query": "x"}'
ARGS = '{"query": "x"}'
BAR = "\uff5c"
KIMI = "<|tool_call_begin|>{}<|tool_call_argument_begin|>{}<|tool_call_end|>"
SECTION = "<|tool_calls_section_begin|>{}<|tool_calls_section_end|>"
V31 = f"<{BAR}tool▁call▁begin{BAR}>find<{BAR}tool▁sep{BAR}>{ARGS}<{BAR}tool▁call▁end{BAR}>"
V3 = f"<{BAR}tool▁call▁begin{BAR}>function<{BAR}tool▁sep{BAR}>find\n```json\n{ARGS}\n```<{BAR}tool▁call▁end{BAR}>"

ROWS = [
    ("a section", "kimi_k2", SECTION.format(KIMI.format("functions.find:0", ARGS)), CALL),
    ("two calls", "kimi_k2", SECTION.format(KIMI.format("functions.find:0", ARGS) + "\n" + KIMI.format("find:1", ARGS)), f"{CALL} | {CALL}"),
    ("without a section", "kimi_k2", KIMI.format("find", ARGS) + " so", f"{CALL} | ' so'"),
    ("an empty section", "kimi_k2", "a" + SECTION.format("") + "b", "'ab'"),
    ("a section of prose", "kimi_k2", "<|tool_calls_section_begin|>so", "'<|tool_calls_section_begin|>so'"),
    ("a call that is none after one", "kimi_k2", KIMI.format("find:0", ARGS) + "<|tool_call_begin|>a b", f"{CALL} | 'a b'"),
    ("no arguments", "kimi_k2", KIMI.format("now:0", ""), "now {}"),
    ("prose as arguments", "kimi_k2", KIMI.format("find:0", "so"), "'<|tool_call_begin|>find:0so'"),
    ("no header", "kimi_k2", "<|tool_call_begin|>find<|tool_call_end|>", "'<|tool_call_begin|>find'"),
    ("no name", "kimi_k2", KIMI.format("", ARGS), f"'<|tool_call_begin|>{ARGS}'"),
    ("an unknown name", "kimi_k2", KIMI.format("functions.fnd:0", ARGS), "!unknown_tool functions.fnd"),
    ("cut in the arguments", "kimi_k2", KIMI.format("find:0", ARGS)[:-20], "!truncated find"),
    ("broken arguments", "kimi_k2", KIMI.format("find:0", '{"query": ]}') + "so", "!bad_markup find | 'so'"),
    ("broken arguments without a closer", "mistral", '[TOOL_CALLS]find[ARGS]{"query": ]}', "!bad_markup find | ']}'"),
    ("cut before the arguments", "kimi_k2", "<|tool_call_begin|>find:0<|tool_call_argument_begin|>", "!truncated find"),
    ("cut in the header", "kimi_k2", "<|tool_call_begin|>fi", "'<|tool_call_begin|>fi'"),
    ("a header without an end", "kimi_k2", "<|tool_call_begin|>" + "x" * 300, "'<|tool_call_begin|>" + "x" * 300 + "'"),
    ("name and arguments", "mistral", f"[TOOL_CALLS]find[ARGS]{ARGS}", CALL),
    ("name and brace", "mistral", f"[TOOL_CALLS]find{ARGS}so", f"{CALL} | 'so'"),
    ("an id", "mistral", f"[TOOL_CALLS]find[CALL_ID]123456789[ARGS]{ARGS}", CALL),
    ("a list", "mistral", f'[TOOL_CALLS] [{{"name": "find", "arguments": {ARGS}}}]', CALL),
    ("the marker again", "mistral", f"[TOOL_CALLS]find{ARGS}[TOOL_CALLS]find{ARGS}", f"{CALL} | {CALL}"),
    ("a name without its own line", "deepseek_v31", V31, CALL),
    ("a fence around the arguments", "deepseek_v3", f"<{BAR}tool▁calls▁begin{BAR}>{V3}\n{V3}<{BAR}tool▁calls▁end{BAR}>", f"{CALL} | {CALL}"),
    ("bars in ASCII", "deepseek_v3", V3.replace(BAR, "|"), CALL),
    ("a fence that stays open", "deepseek_v3", V3.partition("\n```<")[0], CALL),
    ("a recipient", "harmony", f"<|channel|>commentary to=functions.find <|constrain|>json<|message|>{ARGS}<|call|>", CALL),
    ("a recipient before the channel", "harmony", f"<|start|>assistant to=functions.find<|channel|>commentary json<|message|>{ARGS}<|call|>", CALL),
    ("a plan in the analysis channel", "harmony", f"<|channel|>analysis to=functions.find<|message|>{ARGS}<|end|>so", f"~functions.find<|message|>{ARGS} | 'so'"),
    ("a recipient in the analysis channel", "harmony", f"<|start|>assistant to=functions.find<|channel|>analysis<|message|>{ARGS}<|end|>", f"~{ARGS} | '<|start|>assistant to=functions.find'"),
    ("channels", "harmony", "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>yes<|return|>", "~hm | 'yes'"),
    ("a name in a line", "functionary_v32", f">>>find\n{ARGS}\n>>>find\n{ARGS}", f"{CALL} | {CALL}"),
    ("text in a line", "functionary_v32", "all\nHello", "'Hello'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("dialect", "text", "said"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_rows(say: Callable[..., str], dialect: str, *, text: str, said: str) -> None:
    assert say(dialect, text) == said
