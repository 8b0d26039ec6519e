"""Literals of Python, of Gemma, of Ruby."""

# ruff: noqa: E501 - a row is one line, and its text stands there as a model writes it

from __future__ import annotations

from collections.abc import Callable

import pytest

CALL = 'find {"query": "x"}'
LONE = "<|tool_call_start|>{}<|tool_call_end|>"
LFM = LONE.format("[{}]")
GEMMA = "<|tool_call>call:{}<tool_call|>"
S = '<|"|>{}<|"|>'
HASH = "[TOOL_CALL]\n{}\n[/TOOL_CALL]"

ROWS = [
    ("a list of calls", "pythonic", '[find(query="x"), now()]', f"{CALL} | now {{}}"),
    ("a list inside of prose", "pythonic", "So: [find(query='x')].", f"{CALL} | 'So: .'"),
    ("a list of other things", "pythonic", "[1] and [a(b)]", "'[1] and [a(b)]'"),
    ("markers", "pythonic", "<|python_start|>[now()]<|python_end|>", "now {}"),
    ("markers without a list", "pythonic", "<|python_start|>now()", "'<|python_start|>now()'"),
    ("one to a line", "olmo3", "<function_calls>\nfind(query='x')\nnow()\n</function_calls>", f"{CALL} | now {{}}"),
    ("call objects", "lfm2", LFM.format('{"name": "find", "arguments": {"query": "x"}}'), CALL),
    ("no marker", "lfm2", "[now()]", "now {}"),
    ("no list", "lfm2", LONE.format("find(query='x')"), CALL),
    ("no list, two calls", "lfm2", LONE.format("now()\nnow()"), "now {} | now {}"),
    ("no list, cut", "lfm2", "<|tool_call_start|>find(query='x'", "!truncated find"),
    ("no list and no call", "lfm2", "<|tool_call_start|>so", "'<|tool_call_start|>so'"),
    ("words and numbers", "lfm2", LFM.format("any(a=True, b=None, c=-1.5e3, d=+07, e=.5, f=-0, g=false)"),
     'any {"a": true, "b": null, "c": -1500.0, "d": 7, "e": 0.5, "f": 0, "g": false}'),
    ("containers", "lfm2", LFM.format("any(a=[1, 'x', ], b=(1,), c={'k': {'l': []}, \"m\": 2,}, d={}, e={'s', 't'})"),
     'any {"a": [1, "x"], "b": [1], "c": {"k": {"l": []}, "m": 2}, "d": {}, "e": ["s", "t"]}'),
    ("strings", "lfm2", LFM.format(r"""any(a='it\'s', b="\"", c='\n\x41\u00e9\U0001F600\q\0', d='''x'y''', e='', f='a\
b')"""), 'any {"a": "it\'s", "b": "\\"", "c": "\\nAé😀\\\\q\\u0000", "d": "x\'y", "e": "", "f": "ab"}'),
    ("raw strings", "lfm2", LFM.format(r"""any(a=r'\d\x41\n', b=R"a\"b", c=r'', d='\n')"""), 'any {"a": "\\\\d\\\\x41\\\\n", "b": "a\\\\\\"b", "c": "", "d": "\\n"}'),
    ("a word that begins as a raw string", "lfm2", LFM.format("any(a=rest)"), "!bad_markup any"),
    ("digits in groups, and in other bases", "lfm2", LFM.format("any(a=1_000, b=0x1F, c=-0b101, d=0o17, e=1_0.5)"), 'any {"a": 1000, "b": 31, "c": -5, "d": 15, "e": 10.5}'),
    ("a base without digits", "lfm2", LFM.format("any(a=0x)"), "!bad_markup any"),
    ("a built-in tool of Llama", "llama3_json", '<|python_tag|>find.call(query="x")<|eom_id|>', CALL),
    ("a built-in tool, cut", "llama3_json", '<|python_tag|>find.call(query="x"', "!truncated find"),
    ("a tool that is not built in", "llama3_json", '<|python_tag|>find(query="x")', CALL),
    ("code that is no tool", "llama3_json", '<|python_tag|>sum(a=1)', "'<|python_tag|>sum(a=1)'"),
    ("a list where lines are usual", "olmo3", '<function_calls>[find(query="x"), now()]</function_calls>', f"{CALL} | now {{}}"),
    ("a list where lines are usual, and text in it", "olmo3", '<function_calls>[find(query="x") so]</function_calls>', f"{CALL} | !bad_markup - | ' so]'"),
    ("text in a list", "pythonic", '[find(query="x"), now() and so]', f"{CALL} | !bad_markup - | now {{}} | ' and so]'"),
    ("text in a list that is not closed", "auto", '[find(query="x")\nSo.', f"{CALL} | !bad_markup - | '\nSo.'"),
    ("a list under the name of a JSON format", "llama3_json", '[find(query="x"), now()]', f"{CALL} | now {{}}"),
    ("an object under the name of a Python format", "pythonic", '{"name": "find", "parameters": {"query": "x"}}', CALL),
    ("an unknown call in a list", "auto", '[find(query="x"), other(a=1)]', f"{CALL} | !unknown_tool other"),
    ("a literal in a list of calls", "pythonic", '[find(query="x"), [3], now()]', f"{CALL} | !bad_markup - | now {{}}"),
    ("prose in a list of calls", "pythonic", '[find(query="x"), and so on]', f"{CALL} | !bad_markup - | ', and so on]'"),
    ("actions", "ui_tars", "Thought: so\nAction: find(query='x')\n\nnow()", f"{CALL} | now {{}} | 'Thought: so'"),
    ("an action that is prose", "ui_tars", "Action: find it", "'Action: find it'"),
    ("two lists", "pythonic", '[find(query="x")] and then [now()]', f"{CALL} | now {{}} | 'and then '"),
    ("text between marked calls", "olmo3", "<function_calls>\nfind(query='x')\nso\nnow()\n</function_calls>", f"{CALL} | !bad_markup - | '\nso\nnow()\n'"),
    ("marked calls without their end", "olmo3", "<function_calls>\nfind(query='x')\nso", f"{CALL} | '\nso'"),
    ("transcripts in a row", "auto", "[Calling tool: find({'query': 'x'})] [Calling tool: now()][Calling tool: me()]", f"{CALL} | now {{}} | '[Calling tool: me()]'"),
    ("several calls in a section of Gemma's", "gemma4", GEMMA.format("find{query:" + S.format("x") + "}call:now{}, call:now{}") + "so", f"{CALL} | now {{}} | now {{}} | 'so'"),
    ("a second call that is none", "gemma4", GEMMA.format("now{}call:a b") + "so", "now {} | 'call:a bso'"),
    ("a second call that is broken", "gemma4", GEMMA.format("now{}call:any{a:{{b}}") + "so", "now {} | !bad_markup any | 'so'"),
    ("equals signs in parentheses", "gemma4", GEMMA.format("find(query=" + S.format("x") + ", limit=3)"), 'find {"query": "x", "limit": 3}'),
    ("equals signs in braces", "gemma4", GEMMA.format("any{a=1}") + "so", "!bad_markup any | 'so'"),
    ("a Python call in tags, where nobody announced it", "auto", '<tool_call>find(query="x")</tool_call>so', f"{CALL} | 'so'"),
    ("a list of Python calls in tags", "auto", '<tool_call>[find(query="x"), now()]</tool_call>', f"{CALL} | now {{}}"),
    ("escapes that are none", "lfm2", LFM.format(r"any(a='\xzz\Uffffffff')"), 'any {"a": "\\\\xzz\\\\Uffffffff"}'),
    ("raw control characters", "lfm2", LFM.format("any(a='\n\x00')"), 'any {"a": "\\n\\u0000"}'),
    ("a name that is longer", "lfm2", LFM.format("functions.find(query='x')"), CALL),
    ("an expression", "lfm2", LFM.format("any(a=60*60)") + "so", "!bad_markup any | 'so'"),
    ("a call as a value", "lfm2", LFM.format("any(a=now())"), "!bad_markup any"),
    ("a name as a value", "lfm2", LFM.format("any(a=b)"), "!bad_markup any"),
    ("a number without measure", "lfm2", LFM.format("any(a=1e999)"), "!bad_markup any"),
    ("no comma between keywords", "lfm2", LFM.format("any(a='x,' b=1)"), "!bad_markup any"),
    ("a comma behind the last keyword", "lfm2", LFM.format("any(a=1, )"), 'any {"a": 1}'),
    ("a positional argument", "lfm2", LFM.format("any(1)"), "!bad_markup any"),
    ("a key that is none", "lfm2", LFM.format("any(a b=1)"), "!bad_markup any"),
    ("no comma in a list", "lfm2", LFM.format("any(a=[1 2])"), "!bad_markup any"),
    ("no comma in a dict", "lfm2", LFM.format("any(a={'b': 1 'c': 2})"), "!bad_markup any"),
    ("no colon in a dict", "lfm2", LFM.format("any(a={'b': 1, 'c'})"), "!bad_markup any"),
    ("a number as a key", "lfm2", LFM.format("any(a={1: 2})"), "!bad_markup any"),
    ("too deep", "lfm2", LFM.format("any(a=" + "[" * 200), "!limit any"),
    ("a word that is too long", "lfm2", LFM.format("any(a=" + "x" * 300), "!bad_markup any"),
    ("cut in a string", "lfm2", "<|tool_call_start|>[any(a='x", "!truncated any"),
    ("cut in an escape", "lfm2", "<|tool_call_start|>[any(a='\\", "!truncated any"),
    ("cut in a number", "lfm2", "<|tool_call_start|>[any(a=1", "!truncated any"),
    ("cut before a value", "lfm2", "<|tool_call_start|>[any(a=", "!truncated any"),
    ("cut in a name", "lfm2", "<|tool_call_start|>[an", "'<|tool_call_start|>[an'"),
    ("a whole call before one that is cut", "lfm2", "<|tool_call_start|>[now(), any(a='x", "now {} | !truncated any"),
    ("a list that is not closed", "lfm2", "<|tool_call_start|>[now()<|tool_call_end|>", "now {}"),
    ("a variable", "auto", "tool_code = find(query='x')\nprint(tool_code)", CALL),
    # Gemma
    ("a dict for all keywords", "pythonic", '[find({"query": "x", "limit": 3,}, )]', 'find {"query": "x", "limit": 3}'),
    ("a dict that is unpacked", "pythonic", "[find(**{'query': 'x'})]", CALL),
    ("an empty dict", "pythonic", "[now({})]", "now {}"),
    ("a dict and more", "pythonic", '[find({"query": "x"}, 3)]', "!bad_markup find"),
    ("a set for all keywords", "pythonic", '[find({"query"})]', "!bad_markup find"),
    ("a dict that is cut behind its brace", "pythonic", '[find({"query": "x"}', "!truncated find"),
    ("strings and numbers", "gemma4", GEMMA.format("find{query:" + S.format('a "b"') + ",limit:3}"), 'find {"query": "a \\"b\\"", "limit": 3}'),
    ("a brace too early", "gemma4", GEMMA.format("find{query:" + S.format("x") + "}, limit:3}") + "so", "!bad_markup find | 'so'"),
    ("a comma behind the call", "gemma4", GEMMA.format("now{}") + ", so", "now {} | ', so'"),
    ("a comma before the closer", "gemma4", GEMMA.format("now{},") + "so", "now {} | ',so'"),
    ("no parameters", "gemma4", GEMMA.format("now{}") + "so", "now {} | 'so'"),
    ("nested", "gemma4", GEMMA.format("any{a:[1, {b:" + S.format("x") + "}],c:{d:null,e:[]}}"), 'any {"a": [1, {"b": "x"}], "c": {"d": null, "e": []}}'),
    ("a word where a string is asked for", "gemma4", GEMMA.format("find{query: 007}"), 'find {"query": "007"}'),
    ("a word", "gemma4", GEMMA.format("any{a:hello}"), 'any {"a": "hello"}'),
    ("a fence for calls", "tool_code", "So:\n```tool_code\nfind(query='x')\n```", f"{CALL} | 'So:\n'"),
    ("a fence for calls that prints", "tool_code", "So:\n```tool_code\nprint(find(query='x'))\n```", f"{CALL} | 'So:\n'"),
    ("a fence for calls that is the answer", "auto", "```tool_code\nfind(query='x')\n```", CALL),
    ("a fence for calls that is the answer and prints", "auto", "```tool_code\nprint(find(query='x'))\n```\n", CALL),
    ("a fence for calls after prose", "auto", "So:\n```tool_code\nfind(query='x')\n```", "'So:\n```tool_code\nfind(query='x')\n```'"),
    ("a fence for calls with prose", "auto", "```tool_code\nfind(query='x')\n```\nso", "'```tool_code\nfind(query='x')\n```\nso'"),
    ("a fence for calls without one", "auto", "```tool_code\nso\n```", "'```tool_code\nso\n```'"),
    ("a fence for code", "auto", "```python\nfind(query='x')\n```", "'```python\nfind(query='x')\n```'"),
    ("apostrophes", "gemma4", GEMMA.format("any{a:'x, y',b:['it's']}"), 'any {"a": "x, y", "b": ["it\'s"]}'),
    ("an apostrophe that nothing ends", "gemma4", GEMMA.format("any{a:'x}"), "!truncated any"),
    ("a quote in a word", "gemma4", GEMMA.format("any{a:x" + S[:5] + ",b:1}") + "so", "!bad_markup any | 'so'"),
    ("tokens of the model before a call", "gemma4", "<|tool_call><eos>\n<bos>call:now{}<tool_call|>", "now {}"),
    ("quotes of JSON", "gemma4", GEMMA.format('any{a:"x\\"y","b":1}'), 'any {"a": "x\\"y", "b": 1}'),
    *(
        (f"a key with a mark: {members}", "gemma4", GEMMA.format(f"any{{{members}}}") + "so", "!bad_markup any | 'so'")
        for members in ("{a:1", "{a:1}", ",a:1", "a:1,,b:2", "a<b:1", "a[0]:1", '"a:1', ":1", "a" + S.format("x") + ",b:1", S.format("a") + "b:1", S.format("a"))
    ),
    ("a brace twice in a value", "gemma4", GEMMA.format("plan{goal:{{a:1}}") + "so", "!bad_markup plan | 'so'"),
    ("a comma twice in a list", "gemma4", GEMMA.format("any{a:[1,,2]}") + "so", "!bad_markup any | 'so'"),
    ("a colon twice", "gemma4", GEMMA.format("any{a::1}") + "so", "!bad_markup any | 'so'"),
    ("a comma that is lost", "gemma4", GEMMA.format("any{a:1b:2}") + "so", "!bad_markup any | 'so'"),
    ("a comma that is lost behind words", "gemma4", GEMMA.format("find{query:x limit:3}") + "so", "!bad_markup find | 'so'"),
    ("words with colons, where a string is asked for", "gemma4", GEMMA.format("find{query:see https://a.b at 12:30}"), 'find {"query": "see https://a.b at 12:30"}'),
    ("the first mark of a string lost", "gemma4", GEMMA.format('find{query:x, y<|"|>,limit:3}') + "so", "!bad_markup find | 'so'"),
    *((f"{part} of a mark", "gemma4", GEMMA.format(f"any{{a:[{part},1]}}") + "so", "!bad_markup any | 'so'") for part in ("<", "<|", "<esc")),
    ("a tag without quotes", "gemma4", GEMMA.format("find{query:<b>x</b>}"), 'find {"query": "<b>x</b>"}'),
    ("the marks of another format", "auto", "call:any{a:[<escape>x<escape>]}\nso", "!bad_markup any | 'so'"),
    ("a key that the tool has, whatever it looks like", "gemma4", GEMMA.format("tags{tag[]:1}"), 'tags {"tag[]": 1}'),
    ("any key in quotes", "gemma4", GEMMA.format('any{"a,{b}":1}'), 'any {"a,{b}": 1}'),
    ("a quoted key", "gemma4", GEMMA.format("any{" + S.format("a") + ":1}"), 'any {"a": 1}'),
    ("another mark", "functiongemma", "<start_function_call>call:find{query:<escape>x<escape>}<end_function_call>", CALL),
    ("a closer left out", "gemma4", "<|tool_call>call:find{query:" + S.format("x") + "}", CALL),
    ("a key in apostrophes", "gemma4", GEMMA.format("any{'a':1}"), 'any {"a": 1}'),
    ("no comma", "gemma4", GEMMA.format("any{a:[1]b:2}") + "so", "!bad_markup any | 'so'"),
    ("no colon", "gemma4", "<|tool_call>call:any{a", "!truncated any"),
    ("a value that is cut", "gemma4", "<|tool_call>call:any{a:1", "!truncated any"),
    ("a string that is cut", "gemma4", "<|tool_call>call:any{a:<|\"|>x", "!truncated any"),
    ("quotes of JSON that are cut", "gemma4", '<|tool_call>call:any{a:"x', "!truncated any"),
    ("too deep in Gemma", "gemma4", GEMMA.format("any{a:" + "[" * 200), "!limit any"),
    ("no call", "gemma4", "<|tool_call>so", "'<|tool_call>so'"),
    ("no brace", "gemma4", "<|tool_call>call:find\n", "'<|tool_call>call:find\n'"),
    ("parentheses for braces", "gemma4", GEMMA.format("find(query: \"x, y\", limit: 3)"), 'find {"query": "x, y", "limit": 3}'),
    ("parentheses around a word", "gemma4", GEMMA.format("find(query: x)") + "so", f"{CALL} | 'so'"),
    ("words up to the next parameter", "gemma4", GEMMA.format("find{query:it's so, limit:3}"), 'find {"query": "it\'s so", "limit": 3}'),
    ("words with closed brackets", "gemma4", GEMMA.format("find{query:sin(x)}"), 'find {"query": "sin(x)"}'),
    ("words that hold a comma", "gemma4", GEMMA.format("find{query:at 10, 11:30}") + "so", "!bad_markup find | 'so'"),
    ("words that hold a brace in quotes", "gemma4", GEMMA.format("find{query:print('}')}") + "so", "!bad_markup find | 'so'"),
    ("words that hold a brace", "gemma4", GEMMA.format("find{query:a }b}") + "so", "!bad_markup find | 'so'"),
    ("words that hold a pair of braces", "gemma4", GEMMA.format("find{query:a = {}\nb}") + "so", "!bad_markup find | 'so'"),
    ("words with an open quote", "gemma4", GEMMA.format('find{query:say "a}') + "so", "!bad_markup find | 'so'"),
    ("words, and prose in the same line", "gemma4", "<|tool_call>call:find{query:x} is it", "!bad_markup find"),
    ("words, and the end of the line", "gemma4", "<|tool_call>call:find{query:x} \nso", "!bad_markup find"),
    ("words, and the end of the text", "gemma4", "<|tool_call>call:find{query:x}", "!truncated find"),
    ("words, and the closing mark in another line", "gemma4", "<|tool_call>call:find{query:x}\n<tool_call|>so", f"{CALL} | 'so'"),
    ("the marker lost", "gemma4", "call:find{query:x}", CALL),
    ("the marker lost in another line", "auto", "So:\ncall:find{query:" + S.format("x") + "}\nso", f"{CALL} | 'So:\nso'"),
    ("the marker lost behind reasoning", "auto", "<think>hm</think>call:find{query:x}", f"{CALL} | ~hm"),
    ("the marker lost, twice in a line", "auto", "call:find{query:x} call:now{}", f"{CALL} | now {{}}"),
    ("the marker lost, and then prose", "auto", "call:find{query:x} call:me{} so", f"{CALL} | 'call:me{{}} so'"),
    ("the marker lost and the call cut", "auto", "call:find{query:x", "!truncated find"),
    ("the marker lost and the call broken", "auto", "call:find{query:f(}\nso", "!bad_markup find | 'so'"),
    ("no marker in the midst of a line", "auto", "Use call:find{query:x} so.", "'Use call:find{query:x} so.'"),
    ("no marker and no tool", "gemma4", "call:me{a:1}", "'call:me{a:1}'"),
    ("no marker in a fence", "auto", "So:\n```\ncall:find{query:x}\n```", "'So:\n```\ncall:find{query:x}\n```'"),
    ("a tag with Gemini's namespace", "auto", "<call:default_api:find{query:x,limit:3}/>", 'find {"query": "x", "limit": 3}'),
    ("a declaration with Gemini's namespace", "auto", "declaration:default_api:find{query:x}", CALL),
    # hashes with arrows
    ("an object for a hash", "arrow_hash", HASH.format('{"name": "find", "arguments": {"query": "x"}}'), CALL),
    ("a hash", "arrow_hash", HASH.format('{tool => "find", args => {\n --query "x"\n --limit 3\n}}'), 'find {"query": "x", "limit": 3}'),
    ("a hash without arguments", "arrow_hash", HASH.format('{tool => "now", args => {}}'), "now {}"),
    ("a hash that is cut", "arrow_hash", '[TOOL_CALL]{tool => "find", args => {--query "x"', "!truncated find"),
    ("a hash cut in a value", "arrow_hash", '[TOOL_CALL]{tool => "find", args => {--query "x', "!truncated find"),
    ("a hash cut in a key", "arrow_hash", '[TOOL_CALL]{tool => "find", args => {--que', "!truncated find"),
    ("a hash with prose", "arrow_hash", '[TOOL_CALL]{tool => "now", args => {so', "!bad_markup now"),
    ("no hash", "arrow_hash", "[TOOL_CALL]so", "'[TOOL_CALL]so'"),
    ("another hash", "arrow_hash", "[TOOL_CALL]{a => 1}", "'[TOOL_CALL]{a => 1}'"),
    ("no arrow", "arrow_hash", '[TOOL_CALL]{tool = "now"}', "'[TOOL_CALL]{tool = \"now\"}'"),
    ("no name in a hash", "arrow_hash", "[TOOL_CALL]{tool => 1}", "'[TOOL_CALL]{tool => 1}'"),
    ("no arguments in a hash", "arrow_hash", '[TOOL_CALL]{tool => "now"}', "'[TOOL_CALL]{tool => \"now\"}'"),
    ("no hash as arguments", "arrow_hash", '[TOOL_CALL]{tool => "now", args => 1}', "'[TOOL_CALL]{tool => \"now\", args => 1}'"),
    ("a hash without its closer", "arrow_hash", '[TOOL_CALL]{tool => "now", args => {}} so', "!bad_markup now | 'so'"),
    *(
        (f"another call in one that is broken: {broken}", "gemma4", f"<|tool_call>call:{broken}" + GEMMA.format("now{}") + "so", f"!bad_markup {broken[:4]} | now {{}} | 'so'")
        for broken in ("find{query:" + S.format("x"), "find{query:", "find{query", "find{limit:3", "find{query" + S.format("x") + "}<tool_call|>")
    ),
    ("another call in a string without an end", "gemma4", '<|tool_call>call:find{query:<|"|>x' + GEMMA.format("now{}"), "!truncated find"),
    ("calls that a string tells of", "gemma4", GEMMA.format("find{query:" + S.format(GEMMA.format("find{query:" + S.format("x") + "}") + GEMMA.format("now{}")) + "}") + "so", '!bad_markup find | \'x<|"|>}<tool_call|><|tool_call>call:now{}<tool_call|><|"|>}<tool_call|>so\''),
    ("tokens that a string tells of", "gemma4", GEMMA.format("find{query:" + S.format("a <|tool_call> b<tool_call|>") + "}"), 'find {"query": "a <|tool_call> b<tool_call|>"}'),
]  # fmt: skip


@pytest.mark.parametrize(
    ("dialect", "text", "said"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_rows(say: Callable[..., str], dialect: str, *, text: str, said: str) -> None:
    assert say(dialect, text) == said


# ── Code for an interpreter ─────────────────────────────────────────────────────────

CODE = {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]}
PYTHON = [{"name": name, "parameters": CODE} for name in ("now", "python")]
TWO = {"type": "object", "properties": {"code": {"type": "string"}, "file": {"type": "string"}}}
PRINT = 'python {"code": "print(\'a\')"}'
CODES = [
    ("up to a closer", "<|python_tag|>print('a')<|eom_id|>", PRINT),
    ("up to the end of the answer", "<|python_tag|>print('a')", PRINT),
    ("after words", "So:\n<|python_tag|>print('a')<|eot_id|>", f"{PRINT} | 'So:\n'"),
    ("lines, quotes and braces", '<|python_tag|>x = {"a": "\\n"}\nprint(x)<|eom_id|>', 'python {"code": "x = {\\"a\\": \\"\\\\n\\"}\\nprint(x)"}'),
    ("before the turn of another role", "<|python_tag|>print('a')<|start_header_id|>ipython<|end_header_id|>1", f"{PRINT} | '<|start_header_id|>ipython<|end_header_id|>1'"),
    ("the call of a tool", "<|python_tag|>now(code='a')<|eom_id|>", 'now {"code": "a"}'),
    ("the call of a tool, cut", "<|python_tag|>now(code='a", "!truncated now"),
    ("a call in JSON, cut", '<|python_tag|>{"name": "now", "parameters": {"code": "a"', "!truncated now"),
    ("a call in JSON of nobody", '<|python_tag|>{"name": "me"}', "'<|python_tag|>{\"name\": \"me\"}'"),
    ("nothing", "<|python_tag|>", "'<|python_tag|>'"),
]  # fmt: skip


@pytest.mark.parametrize("dialect", ["auto", "functionary_v31", "pythonic"])
@pytest.mark.parametrize(
    ("text", "said"), [row[1:] for row in CODES], ids=[row[0] for row in CODES]
)
def test_code_after_the_tag_of_llama(
    dialect: str, text: str, *, said: str, say: Callable[..., str]
) -> None:
    assert say(dialect, text, tools=PYTHON) == said


@pytest.mark.parametrize("schema", [TWO, {}, {"properties": {"code": {"type": "array"}}}])
def test_code_is_text_where_no_tool_takes_one_text(schema: object, say: Callable[..., str]) -> None:
    tools = [{"name": "python", "parameters": schema}]
    assert say("auto", "<|python_tag|>print('a')", tools=tools) == "'<|python_tag|>print('a')'"
