"""Raw values between tags: what ends them, and what shows that they hold tags of their call."""

# ruff: noqa: E501 - a row is one line, and its text stands there as a model writes it

from __future__ import annotations

from collections.abc import Callable

import pytest

from example_counts import ends
from wholecall.dialects.dialect import Notation, Template, encode_calls
from wholecall.dialects.dialect_registry import DIALECTS
from wholecall.dialects.rescue import parse_text

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
    ("a closing tag more than there are open ones", "qwen3_xml", write(VALUE.format("text", "a\n</parameter>\nb")), BROKEN_WRITE),
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
    ("the end of a line before the next one", "qwen3_xml", find(f"<parameter=query>x\n{LIMIT}"), 'find {"query": "x", "limit": 3}'),
    ("several ends of lines, and blanks", "qwen3_xml", find(f"<parameter=query>x \r\n\n  {LIMIT}"), 'find {"query": "x ", "limit": 3}'),
    ("the end of a line before the end", "qwen3_xml", find("<parameter=query>x\n"), FOUND),
    ("the end of a line behind a value of any type", "glm45", "<tool_call>any\n<arg_key>a</arg_key>\n<arg_value>x\n" + PAIR.format("b", 3) + "</tool_call>", 'any {"a": "x", "b": 3}'),
    ("an end of a line in a value that has its own", "qwen3_xml", find(f"<parameter=query>x\n</parameter>\n{LIMIT}"), 'find {"query": "x\\n", "limit": 3}'),
    ("two of them", "qwen3_xml", find(f"<parameter=query>\nx\r\n\r\n</parameter>\n{LIMIT}"), 'find {"query": "x\\r\\n", "limit": 3}'),
    ("very many of them", "qwen3_xml", find("<parameter=query>x" + "\n" * 100 + f"</parameter>\n{LIMIT}"), 'find {"query": "x' + "\\n" * 100 + '", "limit": 3}'),
    ("a value without its opening tag behind it", "glm45", GLM.format("<arg_key>limit</arg_key>\n<arg_value>3\n<arg_key>query</arg_key>\nx\n</arg_value>\n"), 'find {"limit": 3, "query": "x\\n"}'),
    ("nothing at all", "qwen3_xml", find(f"<parameter=query>\nx\n{LIMIT}"), 'find {"query": "x", "limit": 3}'),
    ("a tag of the text", "qwen3_xml", find(f"<parameter=query>\n<b>x</b>\n{LIMIT}"), 'find {"query": "<b>x</b>", "limit": 3}'),
    ("a parameter that the tool does not have", "qwen3_xml", write("<parameter=text>\na\n" + VALUE.format("x", 1)), BROKEN_WRITE),
    ("all of the text as one", "qwen3_xml", write(VALUE.format("text", "<parameter=x>\n1\n</parameter>")), wrote("<parameter=x>\\n1\\n</parameter>")),
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
X = VALUE.format("query", "x")
MODE = VALUE.format("mode", 1)
TOKENS = '<|open|>tools<|sep|><|open|>call tool="find" index="1"<|sep|><|open|>argument key="query" type="string"<|sep|>{}<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>'
MINICPM = '<function name="find">{}</function>'
DEEPSEEK = (
    f'<{DSML}function_calls><{DSML}invoke name="find">{{}}</{DSML}invoke></{DSML}function_calls>'
)
DEEP_VALUE = f'<{DSML}parameter name="{{}}" string="true">{{}}</{DSML}parameter>'
M3_MARK = "]<]minimax[>["
M3 = f'{M3_MARK}<tool_call>{M3_MARK}<invoke name="write">{M3_MARK}<text>{{}}{M3_MARK}</text>{M3_MARK}</invoke>{M3_MARK}</tool_call>'
UNTYPED = f'<{DSML}function_calls><{DSML}invoke name="any"><{DSML}parameter name="a" string="false">{{}}</{DSML}parameter></{DSML}invoke></{DSML}function_calls>'


def wrote_all(text: str) -> str:
    return wrote(text).replace("}", ', "mode": 1}')


UNOPENED = [
    ("a parameter without its opening tag", "qwen3_xml", find(X + "3\n</parameter>\n"), BROKEN),
    ("one that is torn", "qwen3_xml", find(X + "parameter=limit>\n3\n</parameter>\n"), BROKEN),
    ("one that became a closing tag", "qwen3_xml", find(X + "</parameter=limit>\n3\n</parameter>\n"), BROKEN),
    ("before another parameter", "qwen3_xml", QWEN.format("write", VALUE.format("path", "a") + "b\n</parameter>\n" + MODE), BROKEN_WRITE),
    ("in one line", "minimax_m2", '<minimax:tool_call><invoke name="find"><parameter name="query">x</parameter>3</parameter></invoke></minimax:tool_call>', BROKEN),
    ("where nobody announced the format", "auto", find(X + "3\n</parameter>\n"), BROKEN),
    ("of DeepSeek's", "deepseek_v32_dsml", DEEPSEEK.format(DEEP_VALUE.format("query", "x") + f"3</{DSML}parameter>"), BROKEN),
    ("of MiniCPM's", "minicpm5", MINICPM.format('<param name="query">x</param>3</param>'), BROKEN),
    ("of GLM's, without its bracket", "glm45", GLM.format(PAIR.format("query", "x") + PAIR.format("limit", 3)[1:]), BROKEN),
    ("of a tool of which nothing is known", "qwen3_xml", QWEN.format("any", VALUE.format("a", "x") + "3\n</parameter>\n"), "!bad_markup any"),
    ("a tool that has no other parameter", "qwen3_xml", write(VALUE.format("text", "a\n</parameter>\nb") + MODE), wrote_all("a\\n</parameter>\\nb")),
    ("a piece that came twice", "qwen3_xml", find("<parameter=query>\nx\n</parameter>\nx\n</parameter>\n" + LIMIT), BROKEN),
    ("a piece that came twice, of GLM's", "glm47", "<tool_call>find<arg_key>limit</arg_key><arg_value>3</arg_value><arg_key>query</arg_key><arg_value>x</arg_value>x</arg_value></tool_call>", BROKEN),
    ("one that stands before the value it closes", "minicpm5", MINICPM.format('<param name="query">x<param name="limit"></param>3</param>'), "!bad_markup find"),
    ("the same behind CDATA", "minicpm5", MINICPM.format('<param name="limit"><![CDATA[3]]><param name="query"></param>x</param>'), "!bad_markup find"),
    ("a closing tag in quotes", "qwen3_xml", write(VALUE.format("text", "a('</parameter>') or `</parameter>`")), wrote("a('</parameter>') or `</parameter>`")),
    ("a closing tag between words", "qwen3_xml", write(VALUE.format("text", "the </parameter> tag")), wrote("the </parameter> tag")),
    ("the text ends behind it", "qwen3_xml", find(X + "3\n</parameter>\n").partition("</f")[0], "!truncated find"),
]  # fmt: skip
REMAINS = [
    *(
        (f"{close} before the right one", "qwen3_xml", find(f"<parameter=query>\nx{close}\n</parameter>\n"), BROKEN)
        for close in ("</paramter>", "</paarameter>", "</ parameter>", "</para:meter>", "</parameter", "/parameter>")
    ),
    ("a damaged one of GLM's", "glm45", GLM.format(PAIR.format("query", "Rome</arg:_value>")), BROKEN),
    *(
        (f"{text} as a text", "qwen3_xml", write(VALUE.format("text", text)), wrote(text))
        for text in ("<b>a</b>", "<paramter>a</paramter>", "</parameters>", "</param>", "</value>")
    ),
    ("<value> as a text of GLM's", "glm45", GLM.format(PAIR.format("query", "<value>1</value>")), 'find {"query": "<value>1</value>"}'),
    ("the end of the call in a value, and nowhere else", "glm47", "<tool_call>find<arg_key>query</arg_key><arg_value>x</tool_call></arg_value><tool_call>now</tool_call>", f"{BROKEN} | now {{}}"),
    ("before the end of the section", "qwen3_xml", "<tool_call><function=find><parameter=query>x</function></parameter></tool_call>", BROKEN),
    ("before the end of the text", "glm47", "<tool_call>find<arg_key>limit</arg_key><arg_value>3</arg_value><arg_key>query</arg_key><arg_value>x</tool_call></arg_value>", "!truncated find"),
    ("a key that holds the tag of its value", "glm47", "<tool_call>find<arg_key>query<arg_value></arg_key>x</arg_value></tool_call>", BROKEN),
    ("a key that holds the separator", "hunyuan_v3", "<tool_calls><tool_call>find<arg_key><tool_sep>query</arg_key><arg_value>x</arg_value></tool_call></tool_calls>", BROKEN),
    ("a name that is misspelt", "deepseek_v32_dsml", DEEPSEEK.format(DEEP_VALUE.format("query", "x") + DEEP_VALUE.format("limt", "3")), "!schema find"),
    ("a key with brackets", "glm47", "<tool_call>any<arg_key>a<b></arg_key><arg_value>x</arg_value></tool_call>", 'any {"a<b>": "x"}'),
    ("the tag of a value without its bracket", "glm45", GLM.format(PAIR.format("query", "x").replace("<arg_value>", "arg_value>")), BROKEN),
    ("a token twice behind the tag", "kimi_k3", TOKENS.format("<|sep|>x"), BROKEN),
    ("a token twice before the end", "kimi_k3", TOKENS.format("x<|close|>"), BROKEN),
    *(
        (f"{part!r} of an opening tag", dialect, text, BROKEN)
        for part, dialect, text in (
            ("er=query>", "qwen3_xml", find("<parameter=query>er=query>\nx\n</parameter>\n")),
            ('me="query">', "anthropic_xml", INVOKE.format('<parameter name="query">me="query">x</parameter>')),
            ("value>", "glm45", GLM.format(PAIR.format("query", "value>x"))),
            ('"<|sep|>', "kimi_k3", TOKENS.format('"<|sep|>x')),
        )
    ),
    ("a part of a closing tag", "qwen3_xml", find("<parameter=query>\nx\n</para\n</parameter>\n"), BROKEN),
    ("a part of it, and no other", "qwen3_xml", find(f"<parameter=query>\nx\n</para\n{LIMIT}"), BROKEN),
    ("its last part", "qwen3_xml", find(f"<parameter=query>\nxmeter>\n{LIMIT}"), BROKEN),
    ("a strange parameter without an end", "deepseek_v32_dsml", DEEPSEEK.format(f"<{DSML}parameter name=arameter>" + DEEP_VALUE.format("query", "x")), BROKEN),
    ("a token that got lost", "kimi_k3", TOKENS.format('x<|close|>argument<|open|><|sep|>argument key="limit" type="number"<|sep|>3'), BROKEN),
    ("a token that a text tells of", "kimi_k3", TOKENS.format("a<|sep|>b"), 'find {"query": "a<|sep|>b"}'),
    ("CDATA that is damaged", "minicpm5", MINICPM.format('<param name="query"><!CDATA[x]]></param>'), BROKEN),
    ("CDATA in its own line", "minicpm5", MINICPM.format('<param name="query">\n<![CDATA[x]]>\n</param>'), FOUND),
    ("JSON that is none, where the tag says so", "deepseek_v32_dsml", UNTYPED.format('"b": 1}'), "!bad_markup any"),
    ("JSON where the tag says so", "deepseek_v32_dsml", UNTYPED.format('"b"'), 'any {"a": "b"}'),
    ("a text where the tag says otherwise, and the schema that it may be one", "deepseek_v32_dsml", DEEPSEEK.format(DEEP_VALUE.format("query", "x").replace("true", "false")), FOUND),
    ("a tag around the arguments that closes nothing", "tool_use_xml", '<tool_use>\n<name>find</name>\n</arguments>{"query": "x"}</arguments>\n</tool_use>', '\'<tool_use>\n<name>find</name>\n{"query": "x"}\n\''),
    ("a quote that is lost in a tag", "kimi_k3", TOKENS.format("x").replace('"query"', '"query'), BROKEN),
]  # fmt: skip
TEXT = 'write {"text": "%s"}'
INVOKED = INVOKE.replace("find", "write").format('<parameter name="text">{}</parameter>\n')
MENTIONED = [
    ("a parameter that the tool does not have, between words", "qwen3_xml", write(VALUE.format("text", "a <parameter=x> b")), wrote("a <parameter=x> b")),
    ("in quotes", "anthropic_xml", INVOKED.format('a `<parameter name="x">` b'), TEXT % 'a `<parameter name=\\"x\\">` b'),
    ("of GLM's", "glm47", "<tool_call>write<arg_key>text</arg_key><arg_value>a <arg_key>x</arg_key><arg_value> b</arg_value></tool_call>", TEXT % "a <arg_key>x</arg_key><arg_value> b"),
    ("with its closing tag", "qwen3_xml", write(VALUE.format("text", "a <parameter=x>1</parameter> b") + MODE), wrote_all("a <parameter=x>1</parameter> b")),
    ("its closing tag between words, too", "qwen3_xml", write(VALUE.format("text", "a <parameter=x> 1</parameter>, b")), wrote("a <parameter=x> 1</parameter>, b")),
    ("one that the call gave before", "qwen3_xml", write(VALUE.format("text", "a <parameter=path>1</parameter> b")), wrote("a <parameter=path>1</parameter> b")),
    ("one in the other", "qwen3_xml", write(VALUE.format("text", "<parameter=x><parameter=y>1</parameter></parameter>")), wrote("<parameter=x><parameter=y>1</parameter></parameter>")),
    ("one that the call may still give", "qwen3_xml", write(VALUE.format("text", "a <parameter=mode>1</parameter> b")), BROKEN_WRITE),
    ("one without a name", "anthropic_xml", INVOKED.format('a <parameter name="">1</parameter> b'), BROKEN_WRITE),
    ("one without an end", "anthropic_xml", INVOKED.format("a <parameter x"), BROKEN_WRITE),
    ("one of two that has no closing tag", "qwen3_xml", write("<parameter=text>\na<parameter=x>1<parameter=y>2</parameter></parameter>\n"), BROKEN_WRITE),
    ("one that is left open before a parameter", "qwen3_xml", write("<parameter=text>\na\n<parameter=x>\n1\n</parameter>\n" + MODE), BROKEN_WRITE),
    ("the beginning of a call", "qwen3_xml", write(VALUE.format("text", "a <function=find> b")), wrote("a <function=find> b")),
    ("the beginning of a call without an end", "qwen3_xml", write(VALUE.format("text", "a <function= b")), wrote("a <function= b")),
    ("a call that mentions its end", "qwen3_xml", write(VALUE.format("text", find(VALUE.format("query", "a </function> b")))), wrote(find(VALUE.format("query", "a </function> b")).replace("\n", "\\n"))),
    ("a call that mentions how one ends", "qwen3_xml", write(VALUE.format("text", find(VALUE.format("query", "a </parameter> </function> b")))), BROKEN_WRITE),
    ("a call of another tool before the end of the text", "qwen3_xml", write("<parameter=text>\na\n" + find(VALUE.format("query", "x"))), BROKEN_WRITE),
    ("tags of MiniMax's that fit", "minimax_m3", M3.format(f"a {M3_MARK}<x>1{M3_MARK}</x>"), TEXT % f"a {M3_MARK}<x>1{M3_MARK}</x>"),
    ("one that is not closed", "minimax_m3", M3.format(f"a {M3_MARK}<x>1"), BROKEN_WRITE),
    ("a mark without a tag", "minimax_m3", M3.format(f"a {M3_MARK} b"), BROKEN_WRITE),
    ("a call by its tool's name that is not closed", "morph_xml", "<write><text>a <write><path>b</text></write>", "!truncated write"),
]  # fmt: skip
ROWS = [*MENTIONED, *UNOPENED, *REMAINS, *HELD, *MISSPELT, *NAMELESS, *LEFT_OPEN, *ENDS]


@pytest.mark.parametrize(
    ("dialect", "text", "said"),
    [row[1:] for row in ROWS],
    ids=[row[0] for row in ROWS],
)
def test_no_tag_of_the_call_gets_into_a_value(
    say: Callable[..., str], dialect: str, *, text: str, said: str
) -> None:
    assert say(dialect, text) == said


TAGGED = [
    (name, dialect.template)
    for name, dialect in DIALECTS.items()
    if dialect.template and dialect.template.notation is Notation.TAGS
]
STRINGS = [
    {
        "name": "write",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "text": {"type": "string"}},
        },
    }
]


def written(template: Template, text: str) -> str:
    """A call, its text put in afterwards: a template does not write tags into a value."""
    return encode_calls(template, [("write", {"path": "a", "text": "@"})]).replace("@", text)


@pytest.mark.parametrize("framing", ["{}", "See\n{}\nso.", "{}{}"])
@pytest.mark.parametrize(("name", "template"), TAGGED, ids=[name for name, _ in TAGGED])
def test_a_text_may_hold_a_call_of_its_own_format(
    name: str, template: Template, *, framing: str
) -> None:
    text = framing.replace("{}", written(template, "b")).strip()
    for dialect in (name, "auto"):
        outcome = parse_text(dialect, written(template, text), tools=STRINGS)
        # A special token in a value came there by mistake: such a call is refused.
        expected = [] if name == "kimi_k3" else [{"path": "a", "text": text}]
        assert [call.arguments for call in outcome.calls] == expected


@pytest.mark.parametrize(("name", "template"), TAGGED, ids=[name for name, _ in TAGGED])
def test_a_cut_text_runs_no_call_that_it_holds(name: str, template: Template) -> None:
    whole = written(template, f"See {written(template, 'b')} and {written(template, 'c')}.")
    for end in ends(len(whole)):
        outcome = parse_text(name, whole[:end], tools=STRINGS)
        assert all(call.arguments["text"].startswith("See") for call in outcome.calls)
