"""Calls in answers that no format asks for."""

# ruff: noqa: E501 - a row is one line, and its text stands there as a model writes it

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from wholecall import events_sync
from wholecall.events import Text
from wholecall.messages import ToolSpec

FIND = '{"name": "find", "arguments": {"query": "x"}}'
ARGUMENTS = '{"query": "x"}'
CALL = f"find {ARGUMENTS}"
BAR = "\uff5c"
HEADER = "<|start_header_id|>assistant<|end_header_id|>"

ROWS = [
    ("an action as a Python call", 'Thought: so\nAction: find(query="x")', f"{CALL} | 'Thought: so'"),
    ("an action and its input", f"Action: find\nAction Input: {ARGUMENTS}", CALL),
    ("an action that is prose", "Action: find it", "'Action: find it'"),
    ("a shown call in brackets", f"[Calling tool: find({ARGUMENTS})]", CALL),
    ("a shown call in a line", f"So.\nCalling tool: find({ARGUMENTS})\nso", f"{CALL} | 'So.\nso'"),
    ("a shown call with attributes", '[Calling tool="find" query="x ] y" limit="3"]\nso', "find {\"query\": \"x ] y\", \"limit\": 3} | '\nso'"),
    ("shown calls with attributes", '[Calling tool="find" query="x"]\n[Calling tool="now"]', f"{CALL} | now {{}}"),
    ("shown calls with attributes in a line", '[Calling tool="find" query="x"] [Calling tool="now"] [Calling tool="me"]', f"{CALL} | now {{}} | ' [Calling tool=\"me\"]'"),
    ("lists of calls with words between them", 'Two:\n[find(query="x")]', "'Two:\n[find(query=\"x\")]'"),
    ("lists of calls after a list", '[find(query="x")] and then [now()] or [me()]', f"{CALL} | now {{}} | 'and then or [me()]'"),
    *((f"an object in the format of {opener!r}", f"{opener}{FIND}{close}so", f"{CALL} | 'so'") for opener, close in (("<iquestcoder_tool_call>", "</iquestcoder_tool_call>"), ("<ifm|tool_calls>", "</ifm|tool_calls>"), ("<|tool_call:start|>", "<|tool_call:end|>"), ("<|tool_call:begin|>", "<|tool_call:end|>"), ("<atem:function_calls>", "</atem:function_calls>"), ("]<]minimax[>[<tool_call>", "]<]minimax[>[</tool_call>"), ("<|tool_call>", "<tool_call|>"), ("<start_function_call>", "<end_function_call>"))),
    ("Claude 2's tags", "<invoke>\n<tool_name>find</tool_name>\n<parameters>\n<query>x</query>\n</parameters>\n</invoke>so", f"{CALL} | 'so'"),
    ("Kimi K3's call without its section", '<|open|>call tool="find" index="1"<|sep|><|open|>argument key="query" type="string"<|sep|>x<|close|>argument<|sep|><|close|>call<|sep|>so', f"{CALL} | 'so'"),
    ("Step-3's call without its tokens", '<steptml:invoke name="find"><steptml:parameter name="query">x</steptml:parameter></steptml:invoke>so', f"{CALL} | 'so'"),
    ("GigaChat's header without its first token", f"Ok.function call<|role_sep|>\n{FIND}", f"{CALL} | 'Ok.'"),
    ("GigaChat's header without its tokens", f"Ok.\nfunction call\n{FIND}", f"{CALL} | 'Ok.'"),
    ("a function call in prose", "A\nfunction call\nis made", "'A\nfunction call\nis made'"),
    ("Gemma's call without its word", '<|tool_call>find{query:<|"|>x<|"|>}<tool_call|>so', f"{CALL} | 'so'"),
    ("a shown call with a bare attribute", '[Calling tool="find" query=x]\nso', "!bad_markup find | 'so'"),
    ("a shown call without a key", '[Calling tool="find" "x"]\nso', "!bad_markup find | 'so'"),
    ("a shown call with attributes, cut", '[Calling tool="find" query="x', "!truncated find"),
    ("a shown call of no tool", '[Calling tool="me" query="x"]', "'[Calling tool=\"me\" query=\"x\"]'"),
    ("K2 Horizon's tags", "<ifm|tool_calls>\n<ifm|tool_call>find\n<ifm|arg_key>query</ifm|arg_key>\n<ifm|arg_value>x</ifm|arg_value>\n</ifm|tool_call>\n</ifm|tool_calls>", CALL),
    ("a shown object", f"Tool call: {FIND}", CALL),
    ("an action with an expression", "Action: find(the query) in it]\nso", "'Action: find(the query) in it]\nso'"),
    ("an action that is cut", 'So.\nAction: find(query="x', "!truncated find | 'So.'"),
    ("a call and a broken one", 'Action: find(query="x"); find(x) so', f"{CALL} | '; find(x) so'"),
    ("a shown call of nobody", "[Calling tool: me({})]", "'[Calling tool: me({})]'"),
    ("a shown call in the midst of a line", f"I was [Calling tool: find({ARGUMENTS})]", f"'I was [Calling tool: find({ARGUMENTS})]'"),
    *((f"a tag spelled {tag!r}", f"<{tag}>{FIND}</{tag}>so", f"{CALL} | 'so'") for tag in ("toolcall", "tool-call", "TOOL_CALL", "functioncall")),
    ("arguments in single quotes", f"<functioncall> {{\"name\": \"find\", \"arguments\": '{ARGUMENTS}'}}", CALL),
    ("small letters in brackets", f"[tool_call]{FIND}[/tool_call]", CALL),
    ("a tag with an id", f'<tool_call id="1">{FIND}</tool_call>', CALL),
    ("a tag with an id and prose", '<tool_call id="1">so</tool_call>', "'<tool_call id=\"1\">so</tool_call>'"),
    ("Python in a tag", '<tool_code>\nprint(find(query="x"))\n</tool_code>so', f"{CALL} | 'so'"),
    ("Python in another tag", '<execute_tool>find(query="x")</execute_tool>', CALL),
    ("Python behind a word", 'So:\ntool_code\nprint(find(query="x"))', f"{CALL} | 'So:'"),
    ("an underscore for an equals sign", "<function_find>\n<parameter=query>\nx\n</parameter>\n</function>", CALL),
    ("an underscore and no tool", "<function_me>so</function_me>", "'<function_me>so</function_me>'"),
    ("Grok's tags", '<xai:function_call name="find"><parameter name="query">x</parameter></xai:function_call>', CALL),
    ("Qwen's function with attributes", '<tool_call>\n<function=find>\n<parameter name="query">\nx\n</parameter>\n</function>\n</tool_call>so', f"{CALL} | 'so'"),
    ("Qwen's function with MiniCPM's parameters", '<tool_call><function=find><param name="query">x</param></function></tool_call>', CALL),
    ("Qwen's function with shorter parameters", "<function=find><param=query>x</param></function>", CALL),
    ("Qwen's function with keys in tags", "<tool_call>\n<function=find>\n<parameter>query</parameter>\nx\n</parameter>\n</function>\n</tool_call>", CALL),
    ("Qwen's function without its bracket", "<tool_call>function=find>\n<parameter=query>\nx\n</parameter>\n</function>\n</tool_call>", CALL),
    ("Llama's function with parentheses", f"<function=find({ARGUMENTS})</function>so", f"{CALL} | 'so'"),
    ("Llama's function with parentheses, several", f"<function=find({ARGUMENTS})></function><function=find({ARGUMENTS})</function>", f"{CALL} | {CALL}"),
    ("Llama's function with parentheses, cut", '<function=find({"query": "x', "!truncated find"),
    ("Llama's function with its end in a value", '<function=find({"query": ")</function>"})</function>', 'find {"query": ")</function>"}'),
    ("Llama's function with two objects", f"<function=find({ARGUMENTS}, {ARGUMENTS})</function>", "!bad_markup find"),
    ("a function with two objects", f"<function=find>{ARGUMENTS}, {ARGUMENTS}</function>", "!bad_markup find"),
    ("MiniCPM's function in Qwen's tags", '<tool_call>\n<function name="find">\n<parameter name="query">x</parameter>\n</function>\n</tool_call>so', f"{CALL} | 'so'"),
    ("parameters as tags in a function", "<tool_call>\n<function=find>\n<query>\nx\n</query>\n<limit>3</limit>\n</function>\n</tool_call>so", "find {\"query\": \"x\", \"limit\": 3} | 'so'"),
    ("parameters as tags in a function alone", "<function=find><query>x</query></function>so", f"{CALL} | 'so'"),
    ("parameters as tags behind a name", "<tool_call>find\n<query>x</query>\n</find>\n</tool_call>so", f"{CALL} | 'so'"),
    ("parameters as tags behind an attribute", '<tool_call name="find"><query>x</query></tool_call>so', f"{CALL} | 'so'"),
    ("parameters as tags, cut", "<function=find><query>x</query>", "!truncated find"),
    ("parameters as tags, cut in a value", "<function=find><query>x</function>", "!truncated find"),
    ("parameters as tags, and prose between them", "<function=find><query>x</query><limit>3</limit>so</function>", "!truncated find"),
    ("parameters as tags of nobody", "<tool_call name=\"me\"><query>x</query></tool_call>", "'<tool_call name=\"me\"><query>x</query></tool_call>'"),
    ("a name and parameters as tags", "<tool_use>\n<name>find</name>\n<input>\n<query>x</query>\n</input>\n</tool_use>so", f"{CALL} | 'so'"),
    ("a name and its input", f"<function_call><tool_name>find</tool_name><input>{ARGUMENTS}</input></function_call>", CALL),
    ("a name and prose", "<tool_use><name>find</name>so</tool_use>", "'<tool_use><name>find</name>so</tool_use>'"),
    ("a name without its end", "<tool_use><name>find", "'<tool_use><name>find'"),
    ("a function and its arguments", f"<tool_call>\n<function>find</function>\n<arguments>{ARGUMENTS}</arguments>\n</tool_call>", CALL),
    ("DeepSeek's tags without its token", '<tool_calls>\n<invoke name="find">\n<parameter name="query" string="true">x</parameter>\n</invoke>\n</tool_calls>', CALL),
    *((f"an object in {wrapper!r}", f'{{"{wrapper}": {{"name": "find", "args": {ARGUMENTS}}}}}', CALL) for wrapper in ("functionCall", "toolCall")),
    ("a tag that is closed at once", '<tool_use name="now"/>so', "'<tool_use name=\"now\"/>so'"),
    ("Llama's header", f"{HEADER}\n\n{FIND}", CALL),
    ("Llama's header before prose", f"{HEADER}so", f"'{HEADER}so'"),
    ("Python behind Llama's tag", '<|python_tag|>find(query="x")<|eom_id|>', CALL),
    ("code behind Llama's tag", '<|python_tag|>print("x")', "'<|python_tag|>print(\"x\")'"),
    ("DeepSeek's header alone", f"function<{BAR}tool▁sep{BAR}>find\n```json\n{ARGUMENTS}\n```<{BAR}tool▁call▁end{BAR}>", CALL),
    ("DeepSeek's header behind the section", f"<{BAR}tool▁calls▁begin{BAR}>function<{BAR}tool▁sep{BAR}>find\n```json\n{ARGUMENTS}\n```<{BAR}tool▁call▁end{BAR}><{BAR}tool▁calls▁end{BAR}>", CALL),
    ("DeepSeek's section spelled otherwise", f"<{BAR}tool▁calls{BAR}>find<{BAR}tool▁sep{BAR}>{ARGUMENTS}<{BAR}tool▁call▁end{BAR}>", CALL),
    ("DeepSeek's section and prose", f"<{BAR}tool▁calls▁begin{BAR}>so", f"'<{BAR}tool▁calls▁begin{BAR}>so'"),
    ("DeepSeek's tokens with underscores", f"<{BAR}tool_calls_begin{BAR}><{BAR}tool_call_begin{BAR}>function<{BAR}tool_sep{BAR}>find\n```json\n{ARGUMENTS}\n```<{BAR}tool_call_end{BAR}><{BAR}tool_calls_end{BAR}>", CALL),
    ("DeepSeek's tokens with underscores and no word", f"<{BAR}tool_calls_begin{BAR}><{BAR}tool_call_begin{BAR}>find<{BAR}tool_sep{BAR}>{ARGUMENTS}<{BAR}tool_call_end{BAR}><{BAR}tool_calls_end{BAR}>", CALL),
    ("a bar of DSML lost", f'<DSML{BAR}invoke name="find">\n<DSML{BAR}parameter name="query" string="true">x</DSML{BAR}parameter>\n</DSML{BAR}invoke>', CALL),
    ("a recipient", f'{{"recipient_name": "functions.find", "parameters": {ARGUMENTS}}}', CALL),
    ("several recipients", f'{{"tool_uses": [{{"recipient_name": "functions.find", "parameters": {ARGUMENTS}}}, {FIND}]}}', f"{CALL} | {CALL}"),
    ("calls in camel case", f'{{"toolCalls": [{FIND}]}}', CALL),
    ("a call and nothing else", 'find(query="x")\n', CALL),
    ("a printed call and nothing else", "print(default_api.find(query='x'))", CALL),
    ("a call with a dict", f"functions.find({ARGUMENTS})", CALL),
    ("two calls and nothing else", 'find(query="x"); now()', f"{CALL} | now {{}}"),
    ("a call and an end token", 'find(query="x")<|im_end|>', "'find(query=\"x\")<|im_end|>'"),
    ("a call and prose", 'find(query="x") does it', "'find(query=\"x\") does it'"),
    ("a call and another answer", f'find(query="x") so\n<tool_call>{FIND}</tool_call>', f"{CALL} | 'find(query=\"x\") so\n'"),
    ("a call that is cut", 'find(query="x', "!truncated find"),
    ("a call that is broken", "find(x)", "'find(x)'"),
    ("a function that is told of", "find(query) finds it (x)", "'find(query) finds it (x)'"),
    ("a call that is broken, and prose", "find(x)\nso", "'find(x)\nso'"),
    ("a call of nobody", 'me(query="x")', "'me(query=\"x\")'"),
    ("a word", "find", "'find'"),
    ("a function, its name and parameters as tags", "<function>\n<name>find</name>\n<parameters>\n<query>x</query>\n</parameters>\n</function>so", f"{CALL} | 'so'"),
    ("a function, its name and arguments", f"<function><name>find</name><args>{ARGUMENTS}</args></function>", CALL),
    ("the definition of a function", "<function><name>find</name><description>Finds</description></function>", "'<function><name>find</name><description>Finds</description></function>'"),
    ("Llama's function with square brackets", f"<function=find[{ARGUMENTS}]</function>so", f"{CALL} | 'so'"),
    ("Llama's function with two objects in square brackets", f"<function=find[{ARGUMENTS}, {ARGUMENTS}]</function>", "!bad_markup find"),
    ("Llama's function with its name in parentheses", f"<function(find)>{ARGUMENTS}</function><function(find){ARGUMENTS}</function>so", f"{CALL} | {CALL} | 'so'"),
    ("Llama's function with its name behind the tag", f"<function>find{ARGUMENTS}</function>so", f"{CALL} | 'so'"),
    ("a function that is told of", "<function>find</function>", "'<function>find</function>'"),
    ("HyperCLOVA's message to tools", f"So.<|im_end|>\n<|im_start|>assistant -> tool/function_call\n[{FIND}, {FIND}]<|im_end|>", f"{CALL} | {CALL} | 'So.<|im_end|>\n'"),
    ("HyperCLOVA's message behind its prompt", f"-> tool/function_call\n[{FIND}]", CALL),
    ("an arrow in prose", "a -> tool/function_call\nso", "'a -> tool/function_call\nso'"),
    *(
        (f"a call behind {turn!r}", f"{turn}{FIND}<|im_end|>", CALL)
        for turn in ("<|im_start|>assistant\n", "<|assistant|>\n", "<start_of_turn>model\n", "\ufeff")
    ),
    ("a Python call behind the beginning of a turn", '<|im_start|>assistant\n[find(query="x")]', CALL),
    ("the beginning of a turn, and prose", "<|im_start|>assistant\nso", "'<|im_start|>assistant\nso'"),
    ("Command R's action in its own line", f'So.\nAction:\n```json\n[{{"tool_name": "find", "parameters": {ARGUMENTS}}}]\n```', f"{CALL} | 'So.'"),
    ("the name as a key", f'<tool_call>{{"find": {ARGUMENTS}}}</tool_call>so', f"{CALL} | 'so'"),
    ("the name of nobody as a key", f'<tool_call>{{"me": {ARGUMENTS}}}</tool_call>', f"'<tool_call>{{\"me\": {ARGUMENTS}}}</tool_call>'"),
    ("Python between tags of a function", '<function_call>find(query="x")</function_call>so', f"{CALL} | 'so'"),
    ("a tag of a tool that is closed at once", "the <now/> tag", "'the <now/> tag'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_calls_that_nobody_announced(say: Callable[..., str], text: str, *, said: str) -> None:
    assert say("auto", text) == said


@pytest.mark.parametrize(
    ("text", "held"),
    [("Hello", ""), ("now", "now"), ("fine", "fin"), ("print it", "print"), ("x", "")],
)
def test_only_what_may_be_a_call_is_held(text: str, held: str) -> None:
    tools = [ToolSpec("find", {"type": "object"}), ToolSpec("now", {"type": "object"})]
    came, first = "", None

    def chunks() -> Iterator[dict[str, Any]]:
        nonlocal came
        for letter in text:
            came += letter
            yield {"choices": [{"index": 0, "delta": {"content": letter}}]}

    for event in events_sync(chunks(), protocol="openai-chat", tools=tools):
        if isinstance(event, Text) and first is None:
            first = came
    expected = text[: len(held) + 1]
    assert first == expected
