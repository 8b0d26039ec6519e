"""Call objects as JSON."""

# ruff: noqa: E501 - a row is one line, and its text stands there as a model writes it

from __future__ import annotations

from collections.abc import Callable

import pytest

FIND = '{"name": "find", "arguments": {"query": "x"}}'
CALL = 'find {"query": "x"}'
H = "<tool_call>{}</tool_call>"

ROWS = [
    ("arguments before the name", "hermes", H.format('{"arguments": {"query": "x"}, "name": "find"}'), CALL),
    ("an id", "mistral", '[TOOL_CALLS][{"name": "find", "arguments": {"query": "x"}, "id": "abc"}]', CALL),
    ("an id first", "hermes", H.format('{"id": 7, "name": "find", "arguments": {"query": "x"}}'), CALL),
    ("an id twice", "hermes", H.format('{"id": "a", "id": "b", "name": "find", "arguments": {"query": "x"}}'), CALL),
    ("other keys", "hermes", H.format('{"name": "find", "why": [1, {"a": "}"}], "arguments": {"query": "x"}}'), CALL),
    ("other keys before the name are no call", "hermes", '<tool_call>{"why": 1, "name": "find"}',
     '\'<tool_call>{"why": 1, "name": "find"}\''),
    ("arguments as a string", "hermes", H.format('{"name": "find", "arguments": "{\\"query\\": \\"x\\"}"}'), CALL),
    ("arguments as an empty text", "hermes", H.format('{"name": "now", "arguments": ""}'), "now {}"),
    ("a brace left out before the closer", "hermes", H.format('{"name": "find", "arguments": {"query": "x"}') + "so", f"{CALL} | 'so'"),
    ("a brace left out before the closer, in a wrapper", "hermes", H.format('{"function": {"name": "find", "arguments": {"query": "x"}}') + "so", f"{CALL} | 'so'"),
    ("braces too many before the closer", "hermes", H.format(FIND + "}]\n") + "so", f"{CALL} | 'so'"),
    ("braces too many, and no closer", "hermes", "<tool_call>" + FIND + "} so", f"{CALL} | '}} so'"),
    ("closed too early", "hermes", H.format(FIND + ', "limit": 3}}') + "so", "!bad_markup find | 'so'"),
    ("closed too early, the name behind", "hermes", H.format('{"arguments": {"query": "x"}, "name": "find"}, "limit": 3}'), "!bad_markup find"),
    ("another member behind the wrapped call", "hermes", H.format('{"function": ' + FIND + ', "id": "a"}'), CALL),
    ("a list in an object", "hermes", H.format('{"tool_calls": [' + FIND + "]}") + "so", f"{CALL} | 'so'"),
    ("a fence between the markers", "hermes", H.format(f"\n```json\n{FIND}\n```\n") + "so", f"{CALL} | 'so'"),
    ("a fence that is not closed", "hermes", H.format(f"```{FIND}"), CALL),
    ("the words of LangChain", "auto", '{"action": "find", "action_input": {"query": "x"}}', CALL),
    ("the markers of LM Studio", "lmstudio", f"[TOOL_REQUEST]\n{FIND}\n[END_TOOL_REQUEST]", CALL),
    ("arguments as null", "hermes", H.format('{"name": "now", "arguments": null}'), "now {}"),
    ("arguments twice", "hermes", H.format('{"name": "find", "arguments": {"query": "x"}, "parameters": {"query": "y"}}'), "!bad_markup find"),
    ("arguments twice, before the name", "hermes", H.format('{"arguments": {"query": "x"}, "parameters": {"query": "y"}, "name": "find"}'), "!bad_markup find"),
    *(
        (f"arguments, and {again} as others", "hermes", H.format(f'{{"name": "find", "arguments": {{"query": "x"}}, "parameters": {again}}}'), CALL)
        for again in ("{}", "null", '""')
    ),
    ("a brace left out in the arguments", "hermes", H.format('{"name": "any", "arguments": {"a": {"b": 1, "c": 2}}') + "so", "!bad_markup any | 'so'"),
    ("the same with blanks", "jamba", '<tool_calls>[{"name": "any", "arguments": {"a": {"b": 1}\n }]</tool_calls>', "!bad_markup any"),
    ("a brace that got into a string", "hermes", H.format('{"name": "find", "arguments": {"query": "x}"}') + "so", "!bad_markup find | 'so'"),
    ("a brace in a string", "hermes", H.format('{"name": "find", "arguments": {"query": "x}"}}'), 'find {"query": "x}"}'),
    ("a brace too many in the arguments", "hermes", H.format('{"name": "any", "arguments": {"a": {"b": 1}}, "c": 2}}') + "so", "!bad_markup any | 'so'"),
    ("a key behind the arguments", "hermes", H.format('{"name": "any", "arguments": {"a": 1}, "why": "b"}'), 'any {"a": 1}'),
    ("no comma between members", "hermes", H.format('{"name": "now"",arguments": {"a": 1}}'), '!bad_markup - | \'<tool_call>{"name": "now"",arguments": {"a": 1}}\''),
    ("no arguments where there are no parameters", "hermes", H.format('{"name": "now"}'), "now {}"),
    ("no arguments where there may be parameters", "hermes", H.format('{"name": "any"}'),
     '!bad_markup - | \'<tool_call>{"name": "any"}\''),
    ("arguments beside the name", "hermes", H.format('{"name": "find", "query": "x"}'), CALL),
    ("arguments beside the name, where nobody announced it", "auto", '{"name": "find", "query": "x", "limit": 3}', 'find {"query": "x", "limit": 3}'),
    ("arguments beside the name, in lists", "json_array", '[{"name": "find", "query": "x"}, {"tool": "find", "query": "x"}]', f"{CALL} | {CALL}"),
    ("arguments beside the name, in a wrapper", "hermes", H.format('{"type": "function", "function": {"name": "find", "query": "x"}}'), CALL),
    ("arguments beside the name, in another notation", "hermes", H.format("{'name': 'find', 'query': 'x'}"), CALL),
    ("arguments beside the name, cut", "hermes", '<tool_call>{"name": "find", "query": "x"', "!truncated find"),
    ("arguments beside the name, cut where it may be prose", "auto", '{"name": "find", "query": "x"', '\'{"name": "find", "query": "x"\''),
    ("arguments beside the name, and another key", "auto", '{"name": "find", "query": "x", "age": 3}', '\'{"name": "find", "query": "x", "age": 3}\''),
    ("arguments beside the name of nobody", "auto", '{"name": "me", "query": "x"}', '\'{"name": "me", "query": "x"}\''),
    ("arguments before the name, beside it", "hermes", '<tool_call>{"query": "x", "name": "find"}', '\'<tool_call>{"query": "x", "name": "find"}\''),
    ("arguments beside others", "hermes", H.format('{"name": "find", "arguments": {"query": "x"}, "limit": 3}') + "so", "!bad_markup find | 'so'"),
    ("arguments before others", "hermes", H.format('{"name": "find", "limit": 3, "arguments": {"query": "x"}}') + "so", "!bad_markup find | 'so'"),
    ("arguments beside others that came first", "hermes", H.format('{"arguments": {"query": "x"}, "name": "find", "limit": 3}'), "!bad_markup find"),
    ("a list", "hermes", f"<tool_call>[{FIND}, {FIND}]</tool_call>", f"{CALL} | {CALL}"),
    ("lines", "hermes", f"<tool_call>\n{FIND}\n{FIND}\n</tool_call>", f"{CALL} | {CALL}"),
    ("a number between calls", "hermes", f"<tool_call>[{FIND}, 3, {FIND}]</tool_call>", f"{CALL} | !bad_markup - | {CALL}"),
    ("another object between calls", "mistral", f"[TOOL_CALLS][{FIND}, {{\"a\": {{\"b\": 1}}}}, {FIND}]", f"{CALL} | !bad_markup - | {CALL}"),
    ("a broken element between calls", "hermes", f"<tool_call>[{FIND}, {{]}}, {FIND}]</tool_call>so", f"{CALL} | !bad_markup - | 'so'"),
    ("a list that is cut in a foreign element", "xlam_json", f"[{FIND}, [1", f"{CALL} | !truncated -"),
    ("a list that is cut in another object", "xlam_json", f'[{FIND}, {{"na', f"{CALL} | !truncated -"),
    ("a list that is cut after a comma", "xlam_json", f"[{FIND}, ", f"{CALL} | !truncated -"),
    ("an unknown tool in a list", "auto", f'[{FIND}, {{"name": "me", "arguments": {{}}}}]', f"{CALL} | !unknown_tool me"),
    ("words between calls", "hermes", f"<tool_call>{FIND} and {FIND}</tool_call>so", f"{CALL} | !bad_markup - | 'and {FIND}so'"),
    ("words after a call", "hermes", f"<tool_call>{FIND} and so on</tool_call>so", f"{CALL} | 'and so onso'"),
    ("several calls in OpenAI's wrapper", "hermes", H.format('{"name": "multi_tool_use.parallel", "arguments": {"tool_uses": [{"recipient_name": "functions.find", "parameters": {"query": "x"}}, {"recipient_name": "now", "parameters": {}}]}}'), f"{CALL} | now {{}}"),
    ("an unknown call in OpenAI's wrapper", "auto", '{"name": "parallel", "parameters": {"tool_uses": [{"recipient_name": "functions.find", "parameters": {"query": "x"}}, {"recipient_name": "me", "parameters": {}}]}}', f"{CALL} | !unknown_tool me"),
    ("Groq's envelope", "auto", '<tool-use>{"tool_calls": [{"id": "a", "type": "function", "function": {"name": "find"}, "parameters": {"query": "x"}}]}</tool-use>', CALL),
    ("a wrapper of something else", "auto", f'{{"result": {FIND}}}', f"'{{\"result\": {FIND}}}'"),
    ("a broken message between good ones", "inkling", 2 * '<|content_invoke_tool_json|>{"name": "now", "args": {}}<|end_message|><|content_invoke_tool_json|>not<|end_message|>', "now {} | !bad_markup - | !bad_markup - | now {} | '<|content_invoke_tool_json|>not<|content_invoke_tool_json|>not'"),
    ("a broken call between good ones", "hermes", f"<tool_call>{FIND}</tool_call>\n<tool_call>so</tool_call>\n<tool_call>{FIND}</tool_call>", f"{CALL} | !bad_markup - | {CALL} | '\n<tool_call>so\n'"),
    ("a tag in prose after a call", "hermes", f"<tool_call>{FIND}</tool_call>\nThe <tool_call>so</tool_call> tag", f"{CALL} | '\nThe <tool_call>so tag'"),
    ("an unknown call after a semicolon", "llama3_json", f'{FIND}; {{"name": "me", "parameters": {{}}}}', f"{CALL} | !unknown_tool me"),
    ("an unknown call on the next line", "auto", f'{FIND}\n{{"name": "me", "parameters": {{}}}}', f"{CALL} | !unknown_tool me"),
    ("another object after a semicolon", "llama3_json", f'{FIND}; {{"a": 1}} so', f"{CALL} | !bad_markup - | 'so'"),
    ("an object after a semicolon, cut", "llama3_json", f'{FIND}; {{"na', f"{CALL} | !truncated -"),
    ("the name as a tag, where another format was announced", "hermes", "<find>\n<query>x</query>\n</find>", CALL),
    ("a message of text to a tool", "inkling", "<|content_invoke_tool_text|>so<|end_message|>", "!bad_markup - | '<|content_invoke_tool_text|>so'"),
    ("arguments without a name", "mistral", '[TOOL_CALLS]{"query": "x"}', "!bad_markup - | '[TOOL_CALLS]{\"query\": \"x\"}'"),
    ("arguments without a name before a call", "mistral", '[TOOL_CALLS]{"query": "x"}[TOOL_CALLS]now[ARGS]{}', "now {} | !bad_markup - | '[TOOL_CALLS]{\"query\": \"x\"}'"),
    ("Mistral's token in prose", "mistral", "so [TOOL_CALLS] so", "'so [TOOL_CALLS] so'"),
    ("Python's literals after a token", "sarashina", "<|tool_calls|>[{'name': 'find', 'arguments': {'query': 'x'}}]", CALL),
    ("Python's literals without it", "sarashina", "[{'name': 'find', 'arguments': {'query': 'x'}}]", CALL),
    ("an object between calls that is none", "hermes", f"<tool_call>[{FIND}, {{}}, {FIND}]</tool_call>", f"{CALL} | !bad_markup - | {CALL}"),
    ("prose after a comma", "llama3_json", f"{FIND}, and so on", f"{CALL} | ', and so on'"),
    ("semicolons", "llama3_json", f"{FIND}; {FIND};{FIND}", " | ".join([CALL] * 3)),
    ("a comma that nothing follows", "llama3_json", f"{FIND}; so", f"{CALL} | '; so'"),
    ("objects in prose", "llama3_json", f"So: {FIND}; {FIND} and {FIND}", f"{CALL} | {CALL} | {CALL} | 'So: and '"),
    ("an object in its own line", "llama3_json", f"So.\n\n{FIND}\n", f"{CALL} | 'So.\n\n'"),
    ("an object in prose, as its first key is no name", "llama3_json", f'So {{"type": "function", "function": {FIND}}}', f"{CALL} | 'So '"),
    ("an object in prose that names nobody", "llama3_json", 'So {"name": "me", "parameters": {}}', '\'So {"name": "me", "parameters": {}}\''),
    ("an object in prose that is cut", "llama3_json", 'So {"name": "find", "parameters": {"que', "!truncated find | 'So '"),
    ("an object in prose that is cut before its arguments", "llama3_json", 'So {"name": "find", "par', '\'So {"name": "find", "par\''),
    ("an object that is a member", "llama3_json", f'{{"so": {FIND}}}', f'\'{{"so": {FIND}}}\''),
    ("an object that is an element", "llama3_json", f"so [1, {FIND}]", f"'so [1, {FIND}]'"),
    ("an object in backticks", "llama3_json", f"so `{FIND}`", f"'so `{FIND}`'"),
    ("an object in prose where nobody announced one", "auto", f"So: {FIND}", f"'So: {FIND}'"),
    ("braces on and on", "llama3_json", "so " + "{" * 20, f"'so {'{' * 20}'"),
    ("one bracket too many", "json_array", f"[{FIND}]]", f"{CALL} | ']'"),
    ("a list that is not closed", "json_array", f"[{FIND}", CALL),
    ("a wrapper", "litellm_json", f'{{"type": "function", "function": {FIND}}}', CALL),
    ("a wrapper that is not closed", "litellm_json", f'{{"type": "function", "function": {FIND}', CALL),
    ("a list in a wrapper", "json_generic", f'{{"tool_calls": [{FIND}, {FIND}]}}', f"{CALL} | {CALL}"),
    ("a brace left out before a bracket", "json_generic", f'{{"tool_calls": [{FIND[:-1]}]}}', CALL),
    ("a name as a word for the function", "litellm_json", '{"function": "find", "arguments": {"query": "x"}}', CALL),
    ("the key is the name", "apertus", '<|tools_prefix|>[{"find": {"query": "x"}}]<|tools_suffix|>', CALL),
    ("the name as a value where keys are names", "apertus", '<|tools_prefix|>[{"name": "find", "arguments": {"query": "x"}}, {"now": {}}]<|tools_suffix|>', f"{CALL} | now {{}}"),
    ("an id beside a name as a key", "apertus", '<|tools_prefix|>[{"find": {"query": "x"}, "id": "a"}]<|tools_suffix|>', CALL),
    ("two keys, two names", "apertus", '<|tools_prefix|>[{"find": {"query": "x"}, "now": null, "any": {}}]<|tools_suffix|>', f"{CALL} | now {{}} | any {{}}"),
    ("two keys, the second cut", "apertus", '<|tools_prefix|>[{"find": {"query": "x"}, "now": {', f"{CALL} | !truncated now"),
    ("two keys, cut between them", "apertus", '<|tools_prefix|>[{"find": {"query": "x"}, "no', "!truncated find"),
    ("a message that names the tool", "inkling", '<|message_model|>find<|content_invoke_tool_json|>{"name": "find", "args": {"query": "x"}}<|end_message|>', CALL),
    ("a message of text", "inkling", "<|message_model|><|content_text|>so<|end_message|>", "'so'"),
    ("a message of another kind", "inkling", "<|message_model|>so", "'<|message_model|>so'"),
    ("a word of Python before a list", "auto", 'functools[{"name": "find", "arguments": {"query": "x"}}]', CALL),
    ("a word of Python in prose", "auto", "import functools\n[1]", "'import functools\n[1]'"),
    ("a closer with bars", "granite3", '<|tool_call|>{"name": "find", "arguments": {"query": "x"}}<|/tool_call|>', CALL),
    ("an action in a plain fence", "command_r_plus", 'Action:\n```\n{"action": "find", "action_input": {"query": "x"}}\n```', CALL),
    ("the key is an empty name", "apertus", '<|tools_prefix|>[{"": {}}]', '\'<|tools_prefix|>[{"": {}}]\''),
    ("single quotes", "hermes", H.format("{'name': 'find', 'arguments': {'query': 'x'}}"), CALL),
    ("a closer inside of a string", "hermes", H.format('{"name": "find", "arguments": {"query": "</tool_call>"}}'),
     'find {"query": "</tool_call>"}'),
    ("an escape at the end of a piece", "hermes", H.format('{"name": "find", "arguments": {"query": "\\\\\\""}}'),
     'find {"query": "\\\\\\""}'),
    ("cut inside of the arguments", "hermes", "<tool_call>" + FIND[:-6], "!truncated find"),
    ("cut between the braces", "hermes", "<tool_call>" + FIND[:-1], "!truncated find"),
    ("cut before the arguments", "hermes", '<tool_call>{"name": "find", "argum', "!truncated find"),
    ("cut where the arguments begin", "hermes", '<tool_call>{"name": "find", "arguments":', "!truncated find"),
    ("cut after the first brace", "hermes", '<tool_call>{"name": "find", "arguments": {', "!truncated find"),
    ("cut where nobody announced a call", "auto", '{"name": "find", "argum', "'{\"name\": \"find\", \"argum'"),
    ("cut inside of the name", "hermes", '<tool_call>{"name": "fi', "'<tool_call>{\"name\": \"fi'"),
    ("cut inside of an escape", "hermes", '<tool_call>{"name": "find", "arguments": {"query": "\\', "!truncated find"),
    ("the closer left out", "hermes", f"<tool_call>{FIND}", CALL),
    ("a number as arguments", "hermes", H.format('{"name": "any", "arguments": 5}'), "!not_object any"),
    ("no value", "hermes", H.format('{"name": "find", "arguments": }'), '!bad_markup - | \'<tool_call>{"name": "find", "arguments": }\''),
    ("brackets that do not fit, without a closer", "llama3_json", '{"name": "find", "parameters": {"query": [}}', "!bad_markup find | '}}'"),
    ("brackets that do not fit", "hermes", '<tool_call>{"name": "find", "arguments": {"query": [}}</tool_call>',
     "!bad_markup find"),
    ("no colon", "hermes", '<tool_call>{"name" "find"}', "'<tool_call>{\"name\" \"find\"}'"),
    ("a name that is no string", "hermes", '<tool_call>{"name": 5}', "'<tool_call>{\"name\": 5}'"),
    ("a name that is too long", "hermes", f'<tool_call>{{"name": "{"x" * 2000}"}}', f'\'<tool_call>{{"name": "{"x" * 2000}"}}\''),
    ("a name with blanks", "hermes", '<tool_call>{"name": "a b", "arguments": {}}', '\'<tool_call>{"name": "a b", "arguments": {}}\''),
    ("a broken string as name", "hermes", '<tool_call>{"name": "\\x"}', "'<tool_call>{\"name\": \"\\x\"}'"),
    ("arguments without their end take no call along", "hermes", '<tool_call>{"name": "find", "arguments": {"query": "y"</tool_call><tool_call>{"name": "find", "arguments": {"query": "x"}}</tool_call>', f"!bad_markup find | {CALL}"),
    ("nested too deep", "hermes", '<tool_call>{"name": "any", "arguments": ' + '{"a":' * 200, "!limit any"),
    ("a wrapper that is cut inside", "litellm_json", '{"function": {"name": "find", "arguments": {"query": "x"}', "!truncated find"),
    *(
        (f"another call in one that is broken: {begin}{broken}{dialect}", dialect, f"{begin}{broken}{begin}{FIND}{end}so", f"!bad_markup find | {CALL} | 'so'")
        for dialect, begin, end in (("hermes", "<tool_call>", "</tool_call>"), ("auto", "<tool_call>", "</tool_call>"), ("gigachat31", "<|function_call|>", "</s>"), ("granite20b_fc", "<function_call>", ""), ("mistral", "[TOOL_CALLS]", ""))
        for broken in ('{"name": "find", "arguments": {"query": ', '{"name": "find", "arguments": {"query": "y"}', '{"name": "find", "arguments": ')
    ),
    ("another call in a string without an end", "hermes", '<tool_call>{"name": "find", "arguments": {"query": "y' + H.format(FIND), "!bad_json find"),
    ("another call behind a quote that was not escaped", "hermes", H.format('{"name": "write", "arguments": {"text": "a "b" ' + H.format('{"name": "now", "arguments": {}}')) + "so", "!bad_json write"),
    ("a brace too many, where names are keys", "apertus", '<|tools_prefix|>[{"find": {"query": "x"}, "limit": 3}}]<|tools_suffix|>so', "!bad_markup find | 'so'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("dialect", "text", "said"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_call_objects(say: Callable[..., str], dialect: str, *, text: str, said: str) -> None:
    assert say(dialect, text) == said


SAVE = {"type": "object", "properties": {"id": {}, "text": {}, "note": {}}, "required": ["text"]}
# what holds, the object alone, the same between markers
AMBIGUOUS = [
    ("all that must be said is", '{"name": "save", "text": "x"}', 'save {"text": "x"}', ""),
    ("something is missing", '{"name": "save", "note": "x"}', "", "!schema save"),
    ("a word with two meanings", '{"name": "save", "id": "a", "text": "x"}', "", ""),
]


@pytest.mark.parametrize(("says", "text", "bare", "marked"), AMBIGUOUS)
def test_parameters_beside_a_name_have_one_meaning(
    say: Callable[..., str], says: str, *, text: str, bare: str, marked: str
) -> None:
    tools = [{"name": "save", "parameters": SAVE}]
    assert say("auto", text, tools=tools) == (bare or f"'{text}'"), says
    between = marked or bare or f"!bad_markup - | '<tool_call>{text}'"
    assert say("hermes", H.format(text), tools=tools) == between, says
