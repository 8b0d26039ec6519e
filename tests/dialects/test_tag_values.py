"""Raw values between tags: what ends them, and what shows that they hold tags of their call."""

# ruff: noqa: E501 - a row is one line, and its text stands there as a model writes it

from __future__ import annotations

from collections.abc import Callable

import pytest

QWEN = "<tool_call>\n<function={}>\n{}</function>\n</tool_call>"
VALUE = "<parameter={}>\n{}\n</parameter>\n"
INVOKE = '<function_calls>\n<invoke name="find">\n{}</invoke>\n</function_calls>'
GLM = "<tool_call>find\n{}</tool_call>"
PAIR = "<arg_key>{}</arg_key>\n<arg_value>{}</arg_value>\n"
LIMIT = VALUE.format("limit", 3)
BAR = "\uff5c"
DSML = f"{BAR}DSML{BAR}"


def find(body: str) -> str:
    return QWEN.format("find", body)


def write(text: str) -> str:
    return QWEN.format("write", VALUE.format("path", "a") + text)


def wrote(text: str) -> str:
    return f'write {{"path": "a", "text": "{text}"}}'


BROKEN, BROKEN_WRITE = "!bad_markup find", "!bad_markup write"
FOUND = 'find {"query": "x"}'

# what holds, the dialect, the text, what comes of it
NAMELESS = [
    ("a second parameter without a name", "qwen3_xml", find(VALUE.format("query", "x") + "<parameter>\n3\n</parameter>\n"), BROKEN),
    ("in one line", "qwen3_xml", find("<parameter=query>x</parameter><parameter>3</parameter>"), BROKEN),
    ("where nobody announced the format", "auto", find(VALUE.format("query", "x") + "<parameter>\n3\n</parameter>\n"), BROKEN),
    ("behind a value that has no end", "qwen3_xml", find("<parameter=query>\nx\n<parameter>\n3\n</parameter>\n"), BROKEN),
    ("at the beginning of a value", "qwen3_xml", find("<parameter=query>\n<parameter>\n3\n</parameter>\n"), BROKEN),
    ("with an empty name", "qwen3_xml", find(VALUE.format("query", "x") + VALUE.format("", "3")), BROKEN),
    ("with an empty attribute", "anthropic_xml", INVOKE.format('<parameter name="query">x</parameter>\n<parameter name="">3</parameter>\n'), BROKEN),
    ("with an empty key", "glm45", GLM.format(PAIR.format("query", "x") + PAIR.format("", "3")), BROKEN),
    ("a value without its key", "glm45", GLM.format(PAIR.format("query", "x") + "<arg_value>3</arg_value>\n"), BROKEN),
    ("a tag that the text tells of", "qwen3_xml", write(VALUE.format("text", "a <parameter> b")), wrote("a <parameter> b")),
    ("an element that the text holds", "qwen3_xml", write(VALUE.format("text", "<parameter>\n1\n</parameter>")), wrote("<parameter>\\n1\\n</parameter>")),
    ("several of them", "qwen3_xml", write(VALUE.format("text", "<c>\n<parameter>\n1\n</parameter>\n<parameter>\n2\n</parameter>\n</c>")), wrote("<c>\\n<parameter>\\n1\\n</parameter>\\n<parameter>\\n2\\n</parameter>\\n</c>")),
    ("a closing tag more than there are open ones", "qwen3_xml", write(VALUE.format("text", "a\n</parameter>\nb")), wrote("a\\n</parameter>\\nb")),
    ("a closing tag with another name", "qwen3_xml", write(VALUE.format("text", "a\n</text>\nb")), wrote("a\\n</text>\\nb")),
]  # fmt: skip

CLOSERS = (
    *("</paramter>", "</parameters>", "</param>", "</Parameter>", "</ parameter>", "</parameter >"),
    *("</parameter:>", "</parameter=query>", '</parameter name="query">', "<\\parameter>"),
    *("</parameter", "/parameter>", "parameter>", "</value>", "</arg>", "</argument>"),
)
LEFT_OPEN = [
    *((f"{close} before the next one", "qwen3_xml", find(f"<parameter=query>\nx\n{close}\n{LIMIT}"), BROKEN) for close in CLOSERS),
    *((f"{close} before the end", "anthropic_xml", INVOKE.format(f'<parameter name="query">x{close}\n'), BROKEN) for close in CLOSERS),
    *(
        (f"{close} of GLM's", "glm45", GLM.format(f"<arg_key>query</arg_key>\n<arg_value>x{close}\n" + PAIR.format("limit", 3)), BROKEN)
        for close in ("</arg:_value>", "</arg_valu>", "</arg value>", "</Arg_Value>", "</arg_key>", "</value>")
    ),
    *(
        (f"{close} of DeepSeek's", "deepseek_v32_dsml", INVOKE.replace("</", f"</{DSML}").replace("<f", f"<{DSML}f").replace("<i", f"<{DSML}i").format(f'<{DSML}parameter name="query" string="true">x{close}\n'), BROKEN)
        for close in ("</parameter>", f"</{DSML}paramter>", f"</DSML{BAR}parameter>")
    ),
    ("nothing at all", "qwen3_xml", find(f"<parameter=query>\nx\n{LIMIT}"), 'find {"query": "x", "limit": 3}'),
    ("a tag of the text", "qwen3_xml", find(f"<parameter=query>\n<b>x</b>\n{LIMIT}"), 'find {"query": "<b>x</b>", "limit": 3}'),
    ("a parameter that the tool does not have", "qwen3_xml", write("<parameter=text>\na\n" + VALUE.format("x", 1)), BROKEN_WRITE),
    ("all of the text as one", "qwen3_xml", write(VALUE.format("text", "<parameter=x>\n1\n</parameter>")), BROKEN_WRITE),
    ("of a tool of which nothing is known", "qwen3_xml", QWEN.format("any", f"<parameter=query>\nx\n{LIMIT}"), 'any {"query": "x", "limit": "3"}'),
    ("behind one that was closed", "qwen3_xml", find(VALUE.format("query", "x") + VALUE.format("y", 1)), 'find {"query": "x", "y": "1"}'),
    ("its own name", "qwen3_xml", find(f"<parameter=query>\nx\n</query>\n{LIMIT}"), 'find {"query": "x", "limit": 3}'),
]  # fmt: skip


ENDS = [
    ("the text ends first", "qwen3_xml", find("<parameter=query>\nx").partition("</")[0], "!truncated find"),
    ("the end of the call in it", "qwen3_xml", write(VALUE.format("text", "a\n</function>\nb")), wrote("a\\n</function>\\nb")),
    ("the end of the call in it, as it would end", "qwen3_xml", write(VALUE.format("text", "a\n</function>\n</tool_call>\nb")), f"{BROKEN_WRITE} | '\nb\n\n\n'"),
    ("the end of the call without its own", "qwen3_xml", find("<parameter=query>\nx\n"), FOUND),
    ("a comment behind it", "anthropic_xml", INVOKE.format('<parameter name="query">x</parameter>\n<!-- so -->\n'), FOUND),
    ("a comment that has no end", "anthropic_xml", INVOKE.format('<parameter name="query">x</parameter>\n<!-- so'), "!truncated find"),
    ("a longer tag in it", "minicpm5", '<function name="find"><param name="query">a<params>b</param></function>', 'find {"query": "a<params>b"}'),
]  # fmt: skip
MISSPELT = [
    ("a parameter whose tag is misspelt", "qwen3_xml", find(VALUE.format("query", "x") + "<parmeter=limit>\n3\n</parameter>\n"), BROKEN),
    ("in another format", "anthropic_xml", INVOKE.format('<parameter name="query">x</parameter>\n<paramter name="limit">3</parameter>\n'), BROKEN),
    ("a key", "glm45", GLM.format(PAIR.format("query", "x") + PAIR.format("limit", 3).replace("<arg_key>", "<rg_key>")), BROKEN),
    ("the tag of a value", "glm45", GLM.format(PAIR.format("query", "x").replace("<arg_value>", "<arg_vaue>")), BROKEN),
    ("the tag of a value that is missing", "glm45", GLM.format(PAIR.format("query", "x").replace("<arg_value>", "")), FOUND),
    ("the tag of a value twice", "glm45", GLM.format(PAIR.format("query", "<arg_value>x")), BROKEN),
    ("the tag of another format", "qwen3_xml", find(VALUE.format("query", "x") + '<parameter name="limit">3</parameter>\n'), BROKEN),
    ("elements of the text", "qwen3_xml", write(VALUE.format("text", "<parameter name='a'>1</parameter>\n<parameter name='b'>2</parameter>")), wrote("<parameter name='a'>1</parameter>\\n<parameter name='b'>2</parameter>")),
    ("an object whose parameter has not begun", "qwen3_xml", find('{"query": "x"}</parameter>\n'), BROKEN),
]  # fmt: skip
END = "\n</parameter>\n</function>\n</tool_call>"
HELD = [
    ("a value holds the end of its call", "qwen3_xml", write(VALUE.format("text", f"a{END}\nb")), f"{BROKEN_WRITE} | '\nb\n\n\n'"),
    ("without that of the section", "qwen3_xml", write(VALUE.format("text", "a\n</parameter>\n</function>\nb")), f"{BROKEN_WRITE} | 'b\n\n\n'"),
    ("another parameter behind it", "qwen3_xml", write(VALUE.format("text", "a\n</parameter>\n</function>\nb") + VALUE.format("mode", 1)), f"{BROKEN_WRITE} | 'b\n\n<parameter=mode>\n1\n\n\n'"),
    ("where nobody announced the format", "auto", write(VALUE.format("text", f"a{END}\nb")), f"{BROKEN_WRITE} | '\nb{END}'"),
    ("of GLM's", "glm45", GLM.format(PAIR.format("query", "a</arg_value>\n</tool_call>\nb")), f"{BROKEN} | '\nb\n'"),
    ("of tags with names of tools", "morph_xml", "<find>\n<query>a</query>\n</find>\nb</query>\n</find>", f"{BROKEN} | '\nb</query>\n</find>'"),
    ("the calls before it are whole", "qwen3_xml", find(VALUE.format("query", "x")) + write(VALUE.format("text", f"a{END}\nb")), f"{FOUND} | {BROKEN_WRITE} | '\nb\n\n\n'"),
    ("prose that tells of a tag", "auto", find(VALUE.format("query", "x")) + "\nThe </parameter> tag.", f"{FOUND} | '\nThe </parameter> tag.'"),
    ("the end of a call twice", "qwen3_xml", find(VALUE.format("query", "x")) + END, FOUND),
    ("another call behind it", "qwen3_xml", find(VALUE.format("query", "x")) + " and <function=now>\n</function>\n</parameter> </function>", f"{FOUND} | now {{}} | ' and '"),
    ("a call in another format behind it", "auto", find(VALUE.format("query", "x")) + ' and <tool_call>{"name": "now", "arguments": {}}</tool_call> a</parameter></function>', f"{FOUND} | now {{}} | ' and  a</parameter></function>'"),
]  # fmt: skip
ROWS = [*HELD, *MISSPELT, *NAMELESS, *LEFT_OPEN, *ENDS]


@pytest.mark.parametrize(
    ("dialect", "text", "said"),
    [row[1:] for row in ROWS],
    ids=[row[0] for row in ROWS],
)
def test_no_tag_of_the_call_gets_into_a_value(
    say: Callable[..., str], dialect: str, *, text: str, said: str
) -> None:
    assert say(dialect, text) == said
