"""Calls as tags."""

# ruff: noqa: E501 - a row is one line, and its text stands there as a model writes it

from __future__ import annotations

from collections.abc import Callable

import pytest

CALL = 'find {"query": "x"}'
Q = "<tool_call>\n<function=find>\n{}</function>\n</tool_call>"
QB, QE = Q.split("{}")
P = "<parameter={}>\n{}\n</parameter>\n"
INVOKE = '<function_calls>\n<invoke name="find">\n{}</invoke>\n</function_calls>'
GLM = "<tool_call>find\n{}</tool_call>"
PAIR = "<arg_key>{}</arg_key>\n<arg_value>{}</arg_value>\n"
BAR = "\uff5c"
DSML = f"{BAR}DSML{BAR}"

NAMESPACED = (
    INVOKE.format('<parameter name="query">x</parameter>\n')
    .replace("</", "</antml:")
    .replace("<f", "<antml:f")
    .replace("<i", "<antml:i")
    .replace("<p", "<antml:p")
)
SUFFIXED = (
    "<think>hm</think>\n<tool_calls>\n<tool_call>find<tool_sep>\n{}</tool_call>\n</tool_calls>"
)
SUFFIXED = SUFFIXED.format(PAIR.format("query", "x")).replace(">", ":opensource>")

HASHED = SUFFIXED.replace(":opensource", ":6124c78e").split("\n", 1)[1]
XTML = '<|open|>tools<|sep|><|open|>call tool="find" index="1"<|sep|>{}<|close|>call<|sep|><|close|>tools<|sep|>'

DSML = "\uff5cDSML\uff5c"

IFM = "<ifm|tool_calls>\n<ifm|tool_call>find\n{}</ifm|tool_call>\n</ifm|tool_calls>"
IFM_KEY, IFM_VALUE = "<ifm|arg_key>query</ifm|arg_key>\n", "<ifm|arg_value>x</ifm|arg_value>\n"
ATEM = '<atem:function_calls>\n<atem:invoke name="find">\n<atem:parameter name="query">x</atem:parameter>\n</atem:invoke>\n</atem:function_calls>'
OBJECT = '{"name": "find", "arguments": {"query": "x"}}'

ROWS = [
    ("a call without a name between others", "minimax_m2", '<minimax:tool_call><invoke name="now"></invoke><invoke name=""></invoke><invoke name="now"></invoke></minimax:tool_call>', "now {} | !bad_markup - | now {}"),
    ("a call without a name and nothing else", "minimax_m2", '<minimax:tool_call><invoke name=""></invoke></minimax:tool_call>', "'<minimax:tool_call><invoke name=\"\">'"),
    ("JSON where tags are announced", "glm45", f"<tool_call>{OBJECT}</tool_call>", CALL),
    ("tags where JSON is announced", "hermes", Q.format(P.format("query", "x")), CALL),
    ("pairs where JSON is announced", "hermes", GLM.format(PAIR.format("query", "x")), CALL),
    ("an unknown tool in the tags of another format", "hermes", "<tool_call>me\n<arg_key>a</arg_key>\n</tool_call>", "'<tool_call>me\n<arg_key>a</arg_key>\n'"),
    ("closing tags as in a JSON string", "qwen3_xml", Q.format(P.format("query", "x")).replace("</", "<\\/"), CALL),
    ("attributes and such closing tags", "anthropic_xml", INVOKE.format('<parameter name="query">x</parameter>\n').replace("</", "<\\/"), CALL),
    ("Hunyuan's other end of a call", "hunyuan_v3", "<tool_calls>\n<tool_call>find<tool_sep>\n" + PAIR.format("query", "x") + "<end_of_tool_call>\n</tool_calls>so", f"{CALL} | 'so'"),
    ("a suffix of another checkpoint", "hunyuan_v3", HASHED, CALL),
    ("the same without a section", "hunyuan_v3", HASHED.split("\n", 1)[1].rsplit("\n", 1)[0], CALL),
    ("the same, cut", "hunyuan_v3", HASHED[:130], "!truncated find"),
    ("a suffix that changes", "hunyuan_v3", HASHED.replace("</arg_value:6124c78e>", "</arg_value:other>"), "!bad_markup find"),
    ("a suffix where another format is announced", "glm47", HASHED, CALL),
    ("a suffix before JSON", "hunyuan_v3", f"<tool_call:x9>{OBJECT}</tool_call:x9>so", f"{CALL} | 'so'"),
    ("a suffix before a list, where JSON is announced", "hermes", f"<tool_calls:x9>[{OBJECT}]</tool_calls:x9>", CALL),
    ("a suffix before JSON, cut", "hunyuan_v3", f"<tool_call:x9>{OBJECT[:-1]}", "!truncated find"),
    ("a suffix before words, where JSON is announced", "hermes", "<tool_call:x9>what is that?", "'<tool_call:x9>what is that?'"),
    ("Hunyuan 4 has no separator", "hy_v4", "So: <tool_calls:x><tool_call:x>find<arg_key:x>query</arg_key:x><arg_value:x>x</arg_value:x></tool_call:x></tool_calls:x>", f"{CALL} | 'So: '"),
    ("iQuest Coder V2", "iquest_coder_v2", "<iquestcoder_tool_call>find<arg_key>query</arg_key><arg_value>x</arg_value></iquestcoder_tool_call>", CALL),
    ("the same, found", "auto", "<iquestcoder_tool_call>find\n<arg_key>query</arg_key>\n<arg_value>x</arg_value>\n</iquestcoder_tool_call>", CALL),
    ("the same with an open value", "iquest_coder_v2", "<iquestcoder_tool_call>find<arg_key>query</arg_key><arg_value>x</iquestcoder_tool_call>", "!truncated find"),
    *((f"the suffix {suffix!r}", "hunyuan_v3", HASHED.replace(":6124c78e>", f"{suffix}>"), CALL) for suffix in (":v1.2", ":\u65e5\u672c", ":a/b+c@d")),
    ("a suffix that is not one", "hunyuan_v3", "<tool_calls: see>", "'<tool_calls: see>'"),
    ("pairs with closing tags as in a JSON string", "glm45", GLM.format(PAIR.format("query", "x")).replace("</", "<\\/"), CALL),
    ("names in attributes with such tags", "minicpm5", '<function name="find"><param name="query">x<\\/param><\\/function>', CALL),
    ("JSON with such a closing tag", "hermes", f"<tool_call>{OBJECT}<\\/tool_call>", CALL),
    ("the tag of another format", "hermes", "<function=find><parameter=query>x</parameter></function>", CALL),
    ("the same after words", "hermes", "So:\n<function=find><parameter=query>x</parameter></function>", f"{CALL} | 'So:\n'"),
    ("the same inside a line", "hermes", "So <function=find><parameter=query>x</parameter></function>", f"{CALL} | 'So '"),
    ("attributes in the tag of another format", "hermes", '<invoke name="find"><parameter name="query">x</parameter></invoke>', CALL),
    ("a word after the tag of another format", "hermes", "\n<longcat_tool_call>me</longcat_tool_call>", "'\n<longcat_tool_call>me</longcat_tool_call>'"),
    ("Muse without its header", "muse_atem", ATEM, CALL),
    ("Muse without its header, as an example", "muse_atem", f"Like:\n{ATEM}", f"'Like:\n{ATEM}'"),
    ("Muse without its section", "muse_atem", ATEM.removeprefix("<atem:function_calls>").removesuffix("</atem:function_calls>"), f"{CALL} | '\n\n'"),
    ("Muse to a tool, unannounced", "auto", f" to=find<|message|>{ATEM}", f"{CALL} | ' '"),
    ("Muse to the user, unannounced", "auto", f"to=user<|message|>{ATEM}", f"'{ATEM}'"),
    ("Muse to itself without an end", "muse_atem", f"to=self<|message|>{ATEM}", f"~{ATEM}"),
    ("Muse to itself without an end, unannounced", "auto", f"to=self<|message|>{ATEM}", f"~{ATEM}"),
    ("Muse to itself, with a blank", "muse_atem", f"to= self<|message|>{ATEM}", f"'to= self<|message|>{ATEM}'"),
    ("Muse to itself and then to a tool", "muse_atem", f"to=self<|message|>{ATEM}<|start|>assistant to=find<|message|>{ATEM}", f"{CALL} | ~{ATEM}"),
    ("Muse to itself and then to the user", "muse_atem", "to=self<|message|>so<|start|>assistant to=user<|message|>so<|eot|>", "~so | 'so'"),
    ("Muse to itself", "muse_atem", f"<|start|>assistant to=self<|message|>{ATEM}<|eom|>so", f"~{ATEM} | 'so'"),
    ("MiniMax-M3 without its mark", "minimax_m3", '<tool_call>\n<invoke name="find"><query>x</query></invoke>\n</tool_call>so', f"{CALL} | 'so'"),
    ("a name with the end of its tag", "glm47", '<tool_call>find>{"query": "x"}</tool_call>', CALL),
    ("K2 Horizon's tags", "k2_horizon", "hm</ifm|think>" + IFM.format(IFM_KEY + IFM_VALUE), f"{CALL} | ~hm"),
    ("K2 Horizon's tags with types", "k2_horizon", IFM.format(IFM_KEY + "<ifm|arg_type>string</ifm|arg_type>\n" + IFM_VALUE), CALL),
    ("K2 Horizon's JSON", "k2_horizon", f"<ifm|tool_calls>\n<ifm|tool_call>{OBJECT}</ifm|tool_call><ifm|tool_call>{OBJECT}</ifm|tool_call></ifm|tool_calls>so", f"{CALL} | {CALL} | 'so'"),
    ("K2 Horizon's tags, cut", "k2_horizon", IFM.format(IFM_KEY + IFM_VALUE)[:80], "!truncated find"),
    ("GigaChat 3.5", "gigachat35", f'<{BAR}GCML{BAR}tool_calls>\n<{BAR}GCML{BAR}invoke name="find">\n<{BAR}GCML{BAR}parameter name="limit" string="false">3</{BAR}GCML{BAR}parameter>\n</{BAR}GCML{BAR}invoke>\n</{BAR}GCML{BAR}tool_calls>', 'find {"limit": 3}'),
    ("Solar Open 2", "solar_open2", "<|tool_call:start|>find\n<|tool_arg:start|>query<|tool_arg:value|>x<|tool_arg:end|>\n<|tool_call:end|><|tool_call:start|>now\n<|tool_call:end|>so", f"{CALL} | now {{}} | 'so'"),
    ("one parameter", "qwen3_xml", Q.format(P.format("query", "x")), CALL),
    ("two parameters", "qwen3_xml", Q.format(P.format("query", "x") + P.format("limit", "3")), 'find {"query": "x", "limit": 3}'),
    ("a number as people write it", "qwen3_xml", "<function=find><parameter=limit>+5</parameter></function>", 'find {"limit": 5}'),
    ("a number that ends with a point", "qwen3_xml", "<function=find><parameter=limit>5.</parameter></function>", 'find {"limit": 5}'),
    ("a number that begins with a point", "qwen3_xml", "<function=find><parameter=limit>-.5</parameter></function>", "!schema find"),
    ("no newlines", "qwen3_xml", "<function=find><parameter=query>x</parameter></function>", CALL),
    ("no parameters", "qwen3_xml", "<function=now></function>", "now {}"),
    ("newlines of the value", "qwen3_xml", Q.format(P.format("query", "\nx\n")), 'find {"query": "\\nx\\n"}'),
    ("one newline alone is of the value", "qwen3_xml", "<function=find><parameter=query>x\n</parameter></function>", 'find {"query": "x\\n"}'),
    ("carriage returns", "qwen3_xml", "<function=find><parameter=query>\r\nx\r\r\n</parameter></function>", 'find {"query": "x\\r"}'),
    ("a carriage return alone", "qwen3_xml", "<function=find><parameter=query>\r</parameter></function>", 'find {"query": "\\r"}'),
    ("a newline and a carriage return", "qwen3_xml", "<function=find><parameter=query>\n\r</parameter></function>", 'find {"query": "\\r"}'),
    ("an empty value", "qwen3_xml", "<function=find><parameter=query></parameter></function>", 'find {"query": ""}'),
    ("digits stay text", "qwen3_xml", Q.format(P.format("query", "007")), 'find {"query": "007"}'),
    ("entities stay text", "qwen3_xml", Q.format(P.format("query", "a && b &amp; <c>")), 'find {"query": "a && b &amp; <c>"}'),
    ("JSON for a list", "qwen3_xml", "<function=plan><parameter=steps>\n[1, {\"a\": null}]\n</parameter></function>", 'plan {"steps": [1, {"a": null}]}'),
    ("Python for an object", "qwen3_xml", "<function=plan><parameter=goal>{'a': True}</parameter></function>", 'plan {"goal": {"a": true}}'),
    ("escaped JSON for a list", "qwen3_xml", '<function=plan><parameter=steps>[{\\"a\\": 1}]</parameter></function>', 'plan {"steps": [{"a": 1}]}'),
    ("broken JSON for a list", "qwen3_xml", '<function=plan><parameter=steps>[{\\"a\\": 1]</parameter></function>', "!schema plan"),
    ("a value without a type", "qwen3_xml", "<function=plan><parameter=note>[1]</parameter></function>", 'plan {"note": [1]}'),
    ("a value without a type that is text", "qwen3_xml", "<function=plan><parameter=note>\nhm\n</parameter></function>", 'plan {"note": "hm"}'),
    ("a value without a schema", "qwen3_xml", "<function=any><parameter=a>1</parameter></function>", 'any {"a": "1"}'),
    ("a value without a schema as JSON", "glm45", "<tool_call>any\n<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>", 'any {"a": 1}'),
    ("null where it may stand", "qwen3_xml", "<function=write><parameter=mode>null</parameter></function>", 'write {"mode": null}'),
    ("a whole number with a point", "qwen3_xml", "<function=find><parameter=limit>3.0</parameter></function>", 'find {"limit": 3}'),
    ("the same parameter twice", "qwen3_xml", Q.format(P.format("query", "x") * 2), "!schema find"),
    ("a closing tag in the value", "qwen3_xml", Q.format(P.format("query", "a </parameter> b </function> c")), 'find {"query": "a </parameter> b </function> c"}'),
    ("a value's closing tag left out", "qwen3_xml", Q.format("<parameter=query>\nx\n<parameter=limit>3</parameter>"), 'find {"query": "x", "limit": 3}'),
    ("a closing tag that lacks its last mark", "qwen3_xml", Q.format("<parameter=query>\nx\n</parameter\n") + Q.format(P.format("query", "x")), f"!bad_markup find | {CALL}"),
    ("a closing tag that lacks its first marks", "glm45", GLM.format("<arg_key>query</arg_key>\n<arg_value>xarg_value>\n<arg_key>limit</arg_key><arg_value>3</arg_value>") + "so", "!bad_markup find | 'so'"),
    # https://github.com/sgl-project/sglang/issues/40236
    ("a tag without its end, and a call behind it", "anthropic_xml", '<function_calls><invoke name="find"><parameter name="query\n</invoke>\n<invoke name="now"></invoke></function_calls>', "!bad_markup find | now {}"),
    ("a call without the end of its tag", "anthropic_xml", '<invoke name="find\n<invoke name="now"></invoke>', "now {} | '<invoke name=\"find\n'"),
    # https://github.com/lsdefine/GenericAgent/issues/804
    ("another bar", "deepseek_v4_dsml", "<\u2016DSML\u2016tool_calls><\u2016DSML\u2016invoke name=\"now\"></\u2016DSML\u2016invoke></\u2016DSML\u2016tool_calls>", "now {}"),
    ("MiniMax's token for the end", "minimax_m2", '<minimax:tool_call>\n<invoke name="find">\n<parameter name="query">x</parameter>\n</invoke>\n</minimax:tool_call>[e~[', CALL),
    ("blanks behind the bars", "auto", f'<{DSML} calls>\n<{DSML} invoke name="find">\n<{DSML} parameter name="query">x</{DSML} parameter>\n</{DSML} invoke>\n</{DSML} calls>', CALL),
    *(
        (f"blanks around the bars in {mark!r}", "auto", f'<{mark}tool_use>\n<{mark}invoke name="find">\n<{mark}parameter name="query">x</{mark}parameter>\n</{mark}invoke>\n</{mark}tool_use>', CALL)
        for mark in (" | DSML | ", "| DSML | ", f" {BAR} DSML {BAR} ", f"{BAR} DSML {BAR} ")
    ),
    ("the section of the version behind it", "deepseek_v32_dsml", f'<{DSML}tool_calls><{DSML}invoke name="find"><{DSML}parameter name="query" string="true">x</{DSML}parameter></{DSML}invoke></{DSML}tool_calls>', CALL),
    # https://github.com/can1357/oh-my-pi/issues/8495
    ("a token that a server dropped", "kimi_k3", XTML.format('<|open|>argument key="query" type="string"<|sep|>xargument<|sep|>') + "so", "!bad_markup find | 'so'"),
    ("cut behind a mark in a value", "minimax_m2", '<minimax:tool_call><invoke name="find"><parameter name="query">x </minimax:tool_call>', "!truncated find"),
    ("cut behind the end of a call in a value", "qwen3_xml", "<function=find><parameter=query>x </function>", "!truncated find"),
    ("a closing tag in a value whose own was left out", "qwen3_xml", "<tool_call><function=find><parameter=query>x</parameter></funct</tool_call><tool_call><function=now></function></tool_call>", "!bad_markup find | now {}"),
    ("a value's closing tag left out at the end", "qwen3_xml", Q.format("<parameter=query>\nx\n"), CALL),
    ("a stray closing tag", "qwen3_xml", Q.format(P.format("query", "x") + "</parameter>"), CALL),
    ("a value that holds the end of its call", "qwen3_xml", Q.format(P.format("query", f"a{QE}b")), "!bad_markup find | 'b\n\n\n'"),
    ("a value that holds the end of its call and another", "qwen3_xml", Q.format(P.format("query", f"a{QE}{QB}b")), f"!bad_markup find | '{QB}b\n\n\n'"),
    ("a value's closing tag left out, and another call", "qwen3_xml", Q.format("<parameter=query>\nx\n") + Q.format(P.format("query", "x")), f"{CALL} | {CALL}"),
    ("a value's closing tag left out, and prose", "qwen3_xml", Q.format("<parameter=query>\nx\n") + "so", f"{CALL} | 'so'"),
    ("the call's closing tag left out", "qwen3_xml", "<tool_call><function=find><parameter=query>x</parameter></tool_call>", CALL),
    ("another call begins before the first parameter", "qwen3_xml", "<function=find><function=find><parameter=query>x</parameter></function>", f"!bad_markup find | {CALL}"),
    ("a section begins before the first parameter", "step3", f'<{BAR}tool_call_begin{BAR}><steptml:invoke name="now"><{BAR}tool_call_begin{BAR}><steptml:invoke name="now"></steptml:invoke>', "!bad_markup now | now {}"),
    ("a section without the kind of call", "step3", f'<{BAR}tool_calls_begin{BAR}><{BAR}tool_call_begin{BAR}><steptml:invoke name="find"><steptml:parameter name="query">x</steptml:parameter></steptml:invoke><{BAR}tool_call_end{BAR}><{BAR}tool_calls_end{BAR}>so', f"{CALL} | 'so'"),
    ("a key with brackets", "glm45", "<tool_call>any\n" + PAIR.format("a<1>", "v") + "</tool_call>", 'any {"a<1>": "v"}'),
    ("a key with the tag of a key", "glm45", "<tool_call>any\n" + PAIR.format("a<arg_key>b", "v") + "</tool_call>so", "!bad_markup any | 'so'"),
    ("a value's opening tag left out", "glm45", GLM.format("<arg_key>query</arg_key>\nx y</arg_value>\n" + PAIR.format("limit", "3")), 'find {"query": "x y", "limit": 3}'),
    ("a value's opening tag left out at the end", "glm45", "<tool_call>any\n<arg_key>a</arg_key>v</arg_value>", "!truncated any"),
    ("a value's opening tag left out, and prose behind it", "glm45", GLM.format("<arg_key>query</arg_key>\nx</arg_value> y") + "so", "!bad_markup find | 'so'"),
    ("a key without a value", "glm45", GLM.format("<arg_key>query</arg_key>") + GLM.format(PAIR.format("query", "x")), f"!bad_markup find | {CALL}"),
    ("a key without a value, cut", "glm45", "<tool_call>find\n<arg_key>query</arg_key>x", "!truncated find"),
    ("a model that stops behind its last parameter", "glm47", "<tool_call>find" + PAIR.format("query", "x") + PAIR.format("limit", "3"), 'find {"query": "x", "limit": 3}'),
    ("a model that stops before its last parameter", "glm47", "<tool_call>find" + PAIR.format("query", "x"), "!truncated find"),
    ("a parameter that the schema does not name", "minicpm5", '<function name="find"><param name="query">x</param><param name="so">y</param></function>', CALL),
    ("a parameter that the schema does not name, kept", "minimax_m2", '<invoke name="find"><parameter name="query">x</parameter><parameter name="so">y</parameter></invoke>', 'find {"query": "x", "so": "y"}'),
    ("a parameter closed by its own name", "anthropic_xml", INVOKE.format('<parameter name="query">x</query>\n<parameter name="limit">3</parameter>\n'), 'find {"query": "x", "limit": 3}'),
    ("a parameter closed by its own name at the end", "anthropic_xml", INVOKE.format('<parameter name="query">x</query>\n'), CALL),
    ("a parameter that holds a tag of its own name", "anthropic_xml", INVOKE.format('<parameter name="query"><query>x</query></parameter>\n'), 'find {"query": "<query>x</query>"}'),
    ("a parameter that holds such a tag inside", "anthropic_xml", INVOKE.format('<parameter name="query">a</query>b</parameter>\n'), 'find {"query": "a</query>b"}'),
    ("a parameter closed by its own name, and cut", "anthropic_xml", '<invoke name="find"><parameter name="query">x</query>', "!truncated find"),
    ("a stray word before a call", "anthropic_xml", 'so.\ncourt\n<invoke name="now"></invoke>', "now {} | 'so.'"),
    ("a stray word where the answer begins", "anthropic_xml", 'call\n<invoke name="now"></invoke>so', "now {} | 'so'"),
    ("a stray word and prose where the answer begins", "anthropic_xml", "call\n<invoke is a tag", "'call\n<invoke is a tag'"),
    ("a stray word and much prose where the answer begins", "anthropic_xml", "call\n<invoke" + " is" * 100, "'call\n<invoke" + " is" * 100 + "'"),
    ("a stray word before prose", "anthropic_xml", "so.\ncourt\n<invoke is a tag", "'so.\ncourt\n<invoke is a tag'"),
    ("a word that is not alone in its line", "anthropic_xml", 'the court\n<invoke name="now"></invoke>', "now {} | 'the court\n'"),
    ("a JSON body right behind the name", "functionary_v31", '<function=find{"query": "x"}</function>so', f"{CALL} | 'so'"),
    ("a comma behind the name", "functionary_v31", '<function=find, {"query": "x"}</function>', CALL),
    ("a name in its own line, then JSON", "glm45", '<tool_call>\nfind\n{"query": "x"}\n</tool_call>so', f"{CALL} | 'so'"),
    ("a name and JSON", "glm47", '<tool_call>find{"query": "x"}</tool_call>', CALL),
    ("bars in ASCII", "deepseek_v4_dsml", '<|DSML|tool_calls><|DSML|invoke name="find"><|DSML|parameter name="query" string="true">x</|DSML|parameter></|DSML|invoke></|DSML|tool_calls>so', f"{CALL} | 'so'"),
    ("bars that are doubled, and typographic quotes", "deepseek_v4_dsml", f'<{BAR}{BAR}DSML{BAR}{BAR}tool_calls>\n<{BAR}{BAR}DSML{BAR}{BAR}invoke name=\u201cfind\u201d><{BAR}{BAR}DSML{BAR}{BAR}parameter name=\u201cquery\u201d string=\u201ctrue\u201d>x</{BAR}{BAR}DSML{BAR}{BAR}parameter></{BAR}{BAR}DSML{BAR}{BAR}invoke></{BAR}{BAR}DSML{BAR}{BAR}tool_calls>so', f"{CALL} | 'so'"),
    ("a namespace before the tags", "anthropic_xml", NAMESPACED, CALL),
    ("a namespace before the tags of a call alone", "auto", NAMESPACED.partition("\n")[2].rpartition("\n")[0] + "so", f"{CALL} | 'so'"),
    ("a namespace in a section without one", "auto", f"<function_calls>{NAMESPACED.partition(chr(10))[2].rpartition(chr(10))[0]}</function_calls>", CALL),
    ("another word for a parameter", "minicpm5", '<function name="find"><parameter name="query">x</parameter></function>', CALL),
    ("another word for a parameter, in prose", "minicpm5", '<function name="find"><paragraph>x</paragraph></function>', "'<function name=\"find\"><paragraph>x</paragraph>'"),
    ("another word for a parameter, in a value", "minicpm5", '<function name="find"><param name="query"><parameter x></param></function>', 'find {"query": "<parameter x>"}'),
    ("another word for a parameter, behind one", "minicpm5", '<function name="find"><param name="query">x</param><parameter name="limit">3</parameter></function>', "!bad_markup find"),
    ("no blank before an attribute", "minicpm5", '<functionname="find"><paramname="query">x</param></function>', CALL),
    ("suffixes", "hunyuan_v3", SUFFIXED, f"{CALL} | ~hm | '\n'"),
    ("suffixes, cut", "hunyuan_v3", SUFFIXED.partition("</arg_value")[0], "!truncated find | ~hm | '\n'"),
    ("line ends written as in JSON", "glm45", "<tool_call>find\\n<arg_key>query</arg_key>\\n<arg_value>x</arg_value>\\n \\n</tool_call>", CALL),
    ("tags for LongCat", "longcat", "<longcat_tool_call>find\n<longcat_arg_key>query</longcat_arg_key>\n<longcat_arg_value>x</longcat_arg_value>\n</longcat_tool_call>", CALL),
    ("another word for a name", "auto", '<tool_call>\n<tool>find</tool>\n<arguments>{"query": "x"}</arguments>\n</tool_call>', CALL),
    ("a name and arguments as tags", "tool_use_xml", '<tool_use>\n<name>find</name>\n<arguments>{"query": "x"}</arguments>\n</tool_use>so', f"{CALL} | 'so'"),
    ("other words for them", "auto", '<tool_call><tool_name>find</tool_name><parameters>{"query": "x"}</parameters></tool_call>', CALL),
    ("a name as a tag, and no arguments", "tool_use_xml", "<tool_use><name>find</name>so</tool_use>", "'<tool_use><name>find</name>so'"),
    ("a name as an attribute", "auto", '<tool_call name="find">{"query": "x"}</tool_call>', CALL),
    ("another call begins", "qwen3_xml", "<function=find><parameter=query>x</parameter><function=find><parameter=query>x</parameter></function>", f"{CALL} | {CALL}"),
    ("stopped before the closing tag, with a parameter missing", "qwen3_xml", "<function=find><parameter=query>x</parameter>", "!truncated find"),
    ("stopped before the closing tag, with all parameters", "qwen3_xml", "<function=find>" + P.format("query", "x") + P.format("limit", "3") + "</func", 'find {"query": "x", "limit": 3}'),
    ("stopped in the middle of a tag", "qwen3_xml", "<function=find>" + P.format("query", "x") + P.format("limit", "3") + "<param", "!truncated find"),
    ("cut in a value", "qwen3_xml", "<function=find><parameter=query>x", "!truncated find"),
    ("cut in a parameter's tag", "qwen3_xml", "<function=find><parameter=que", "!truncated find"),
    ("cut behind the name", "qwen3_xml", "<function=find>", "!truncated find"),
    ("a broken parameter", "qwen3_xml", "<tool_call><function=find><parameter=query\n</parameter></function></tool_call>so", "!bad_markup find | 'so'"),
    ("a parameter that has no name", "qwen3_xml", "<tool_call>\n<function=find>\n<parameter>x</parameter>\n</function>\n</tool_call>so", "!bad_markup find | 'so'"),
    ("a parameter that has no name, and a call behind it", "qwen3_xml", "<function=find><parameter>x</parameter></function><function=find>" + P.format("query", "x") + "</function>", f"!bad_markup find | {CALL}"),
    ("a parameter that has no name, rescued", "auto", "<function=find>\n<parameter>query</parameter>\n<value>x</value>\n</function>", "!truncated find"),
    ("a parameter that has no name, of a tool that nobody offers", "auto", "<function=f><parameter>x</parameter>", "'<function=f><parameter>x</parameter>'"),
    ("a parameter that has no name, cut", "qwen3_xml", "<function=find><parameter>x", "!bad_markup find"),
    ("prose in a call", "qwen3_xml", "<function=find>" + P.format("query", "x") + "so</function>then", "!truncated find"),
    ("prose behind a name", "qwen3_xml", "<function=find> is a tag", "'<function=find> is a tag'"),
    ("a name that is none", "qwen3_xml", "<function=a\nb></function>", "'<function=a\nb>'"),
    ("a section without a call", "qwen3_xml", "<tool_call>so", "'<tool_call>so'"),
    ("an empty section", "qwen3_xml", "a<tool_call>\n</tool_call>b", "'ab'"),
    ("a section with a call and prose", "qwen3_xml", "<tool_call><function=now></function><function=a b></tool_call>", "now {} | !bad_markup -"),
    ("a section with prose behind a call", "qwen3_xml", "<tool_call><function=now></function>so", "now {} | 'so'"),
    ("a JSON body", "functionary_v31", '<function=find>{"query": "x"}</function>', CALL),
    ("a JSON body that is broken", "functionary_v31", '<function=find>{"query": ]}</function>so', "!bad_markup find | 'so'"),
    ("a JSON body without its end takes no call along", "functionary_v31", '<function=find>{"query": "y"</function><function=find>{"query": "x"}</function>', f"!bad_markup find | {CALL}"),
    ("a JSON body that was closed early", "functionary_v31", '<function=find>{"query": "x"}, "count": 2}</function>so', "!bad_markup find | 'so'"),
    ("two JSON bodies", "functionary_v31", '<function=find>{"query": "x"}{"query": "y"}</function>so', "!bad_markup find | 'so'"),
    ("a JSON body and a brace too many", "functionary_v31", '<function=find>{"query": "x"}}</function>so', f"{CALL} | 'so'"),
    ("a JSON body and a parameter", "qwen3_xml", Q.format('{"query": "x"}\n' + P.format("count", "2")) + "so", "!bad_markup find | 'so'"),
    ("a JSON body that is cut", "functionary_v31", '<function=find>{"query": "x', "!truncated find"),
    ("call objects in a section", "dots", '<dots_function_call>{"name": "find", "arguments": {"query": "x"}}</dots_function_call>', CALL),
    ("attributes", "anthropic_xml", INVOKE.format('<parameter name="query">x</parameter>\n'), CALL),
    ("single quotes", "anthropic_xml", INVOKE.format("<parameter name='query'>x</parameter>\n"), CALL),
    ("no quotes", "minimax_m2", "<minimax:tool_call><invoke name=find><parameter name=query>x</parameter></invoke></minimax:tool_call>", CALL),
    ("no section", "anthropic_xml", 'so <invoke name="find"><parameter name="query">x</parameter></invoke>', f"{CALL} | 'so '"),
    ("a call that closes itself", "anthropic_xml", '<invoke name="now"/>', "now {}"),
    ("a value that closes itself", "anthropic_xml", INVOKE.format('<parameter name="query"/>'), 'find {"query": ""}'),
    ("no name", "anthropic_xml", '<invoke nome="find">', "'<invoke nome=\"find\">'"),
    ("a parameter without a name", "anthropic_xml", INVOKE.format("<parameter>x</parameter>"), "!bad_markup find"),
    ("a type in an attribute", "deepseek_v32_dsml", f'<{DSML}invoke name="any"><{DSML}parameter name="a" string="true">1</{DSML}parameter><{DSML}parameter name="b" string="false">1</{DSML}parameter></{DSML}invoke>', 'any {"a": "1", "b": 1}'),
    ("a type in an attribute against the schema", "deepseek_v32_dsml", f'<{DSML}invoke name="plan"><{DSML}parameter name="goal" string="true">{{"a": 1}}</{DSML}parameter></{DSML}invoke>', 'plan {"goal": {"a": 1}}'),
    ("a text that is declared as JSON", "deepseek_v32_dsml", f'<{DSML}invoke name="find"><{DSML}parameter name="query" string="false">"x"</{DSML}parameter></{DSML}invoke>', CALL),
    ("what is no text, where one is asked for", "deepseek_v32_dsml", f'<{DSML}invoke name="find"><{DSML}parameter name="query" string="false">007</{DSML}parameter></{DSML}invoke>', 'find {"query": "007"}'),
    ("null, where a text is asked for", "deepseek_v32_dsml", f'<{DSML}invoke name="find"><{DSML}parameter name="query" string="false">null</{DSML}parameter></{DSML}invoke>', 'find {"query": "null"}'),
    ("entities in attributes", "kimi_k3", '<|open|>tools<|sep|><|open|>call tool="any" index="1"<|sep|><|open|>argument key="a&amp;&quot;b" type="string"<|sep|>v<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>', 'any {"a&\\"b": "v"}'),
    ("CDATA", "minicpm5", '<function name="find"><param name="query"><![CDATA[</param> <x>]]></param></function>', 'find {"query": "</param> <x>"}'),
    ("CDATA that is cut", "minicpm5", '<function name="find"><param name="query"><![CDATA[x', "!truncated find"),
    ("no CDATA", "minicpm5", '<function name="find"><param name="query">x</param></function>', CALL),
    ("a mark of the tokenizer", "minicpm5", '<functionĠname="find"><paramĠname="query">x</param></function>', CALL),
    ("keys and values", "glm45", GLM.format(PAIR.format("query", "x")), CALL),
    ("white space of a value", "glm45", GLM.format(PAIR.format("query", " x\n")), 'find {"query": " x\\n"}'),
    ("a name alone", "glm47", "<tool_call>now</tool_call>", "now {}"),
    ("a key's opening tag left out", "glm47", "<tool_call>findquery</arg_key><arg_value>x</arg_value></tool_call>", CALL),
    ("a key's opening tag left out, no such key", "glm47", "<tool_call>findqry</arg_key><arg_value>x</arg_value>", "'<tool_call>findqry</arg_key><arg_value>x'"),
    ("a key's opening tag left out, no value", "glm47", "<tool_call>findquery</arg_key>x", "'<tool_call>findquery</arg_key>x'"),
    ("a key's opening tag left out, cut", "glm47", "<tool_call>findquery</arg_key><arg_value>x", "!truncated find"),
    ("a key without a value", "glm47", "<tool_call>find<arg_key>query</arg_key></tool_call>", "!bad_markup find"),
    ("a section of calls", "hunyuan_v3", "<tool_calls>\n<tool_call>find<tool_sep>\n" + PAIR.format("query", "x") + "</tool_call>\n</tool_calls>", CALL),
    ("a message to a tool", "muse_atem", '<|start|>assistant to=find<|message|><atem:function_calls>\n<atem:invoke name="find">\n<atem:parameter name="query">x</atem:parameter>\n</atem:invoke>\n</atem:function_calls><|eom|>', CALL),
    ("a message to the user", "muse_atem", 'to=user<|message|><atem:function_calls><atem:invoke name="now"></atem:invoke></atem:function_calls><|eot|>', "'<atem:function_calls><atem:invoke name=\"now\"></atem:invoke></atem:function_calls>'"),
    ("a message to itself", "muse_atem", "to=self<|message|>hm<|eom|>", "~hm"),
    ("a message to a tool without a call", "muse_atem", "to=find<|message|>hm<|eom|>", "'to=find<|message|>hm'"),
    ("no message", "muse_atem", "up to=you", "'up to=you'"),
    ("a comment behind a parameter", "anthropic_xml", INVOKE.format('<parameter name="query">x</parameter>\n<!-- more as needed -->\n'), CALL),
    ("a comment before a parameter", "anthropic_xml", INVOKE.format('<!-- first --><parameter name="query">x</parameter>'), CALL),
    ("two comments, one with a tag", "anthropic_xml", INVOKE.format('<parameter name="query">x</parameter> <!-- </parameter> --> <!----> '), CALL),
    ("a comment inside of a value", "anthropic_xml", INVOKE.format('<parameter name="query"><!-- x --></parameter>'), 'find {"query": "<!-- x -->"}'),
    ("a closing tag and a comment inside of a value", "anthropic_xml", INVOKE.format('<parameter name="limit">3</parameter><parameter name="query">a</parameter><!-- b -->c</parameter>'), 'find {"limit": 3, "query": "a</parameter><!-- b -->c"}'),
    ("a comment without end", "anthropic_xml", '<invoke name="find"><!-- x', "!truncated find"),
    ("a comment without end behind a parameter", "anthropic_xml", '<invoke name="find"><parameter name="query">x</parameter><!-- y', "!truncated find"),
    ("a comment that is too long to be one", "anthropic_xml", INVOKE.format('<parameter name="query">x</parameter><!--' + "y" * 1024 + "-->"), "!bad_markup find"),
    ("no comments in a format that has none", "minimax_m2", '<minimax:tool_call><invoke name="find"><parameter name="limit">3</parameter><parameter name="query">x</parameter><!-- y --></parameter></invoke></minimax:tool_call>', 'find {"limit": 3, "query": "x</parameter><!-- y -->"}'),
    ("prose behind CDATA", "minicpm5", '<function name="find"><param name="query"><![CDATA[x]]></param>so</function>then', "!bad_markup find | 'then'"),
    *(
        (f"the bracket of a tag too late: {text}", "qwen3_xml", text + "so", f"{CALL} | 'so'")
        for text in ('<function=find{"query": "x"}></function>', '<function=find>{"query": "x"}></function>')
    ),
    ("a bracket that ends nothing", "qwen3_xml", '<function=find>{"query": "x"}>so', f"{CALL} | '>so'"),
    ("another call in a tag without an end", "glm45", "<tool_call>find\n<arg_key>query" + GLM.format(PAIR.format("query", "x")), f"!bad_markup find | {CALL}"),
    ("another call in the place of a value", "glm45", "<tool_call>find\n<arg_key>query</arg_key>\n" + GLM.format(PAIR.format("query", "x")), f"!bad_markup find | {CALL}"),
    ("another call in a value without an end", "glm45", "<tool_call>write\n<arg_key>text</arg_key><arg_value>a" + GLM.format(PAIR.format("query", "x")) + "b", "!truncated write"),
    ("another call in JSON", "qwen3_xml", '<function=find>{"query": <function=find>{"query": "x"}</function>so', f"!bad_markup find | {CALL} | 'so'"),
    ("another section in JSON", "qwen3_xml", '<tool_call><function=find>{"query": <tool_call><function=find>{"query": "x"}</function></tool_call>so', f"!bad_markup find | {CALL} | 'so'"),
    ("another call in a string of JSON", "qwen3_xml", '<function=write>{"text": "a "b" <function=now></function>"}</function>so', "!bad_json write | 'so'"),
    *(
        (f"DeepSeek's token missing: {outer}{call}{value}", "deepseek_v32_dsml", f'<{outer}function_calls><{call}invoke name="find"><{value}parameter name="query" string="true">x</{value}parameter></{call}invoke></{outer}function_calls>so', f"{CALL} | 'so'")
        for outer, call, value in ((DSML, "", ""), (DSML, DSML, ""), ("", DSML, DSML), ("", DSML, ""))
    ),
    ("DeepSeek's token missing in an outer closing tag", "deepseek_v32_dsml", f'<{DSML}function_calls><invoke name="find"><parameter name="query">x</parameter></invoke></function_calls>so', f"{CALL} | 'so'"),
    ("a value of DeepSeek's that tells of tags", "deepseek_v32_dsml", f'<{DSML}invoke name="find"><{DSML}parameter name="query" string="true">a</parameter></invoke>b</{DSML}parameter></{DSML}invoke>', 'find {"query": "a</parameter></invoke>b"}'),
    ("another call in a value without its tag", "glm45", "<tool_call>write\n<arg_key>text</arg_key> a <tool_call>now</tool_call> </arg_value></tool_call>so", "!bad_markup write | 'so'"),
    ("another call behind JSON with more members", "qwen3_xml", '<function=write>{"text": "a"}, "b <function=now></function>so', "!bad_markup write | 'so'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("dialect", "text", "said"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_rows(say: Callable[..., str], dialect: str, *, text: str, said: str) -> None:
    assert say(dialect, text) == said


LEVEL = {"name": "set", "parameters": {"properties": {"level": {"enum": ["1", "2"]}}}}


def test_choices_tell_the_type(say: Callable[..., str]) -> None:
    text = "<function=set><parameter=level>1</parameter></function>"
    assert say("qwen3_xml", text, tools=[LEVEL]) == 'set {"level": "1"}'
