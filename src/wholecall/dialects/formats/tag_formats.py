"""Formats that write calls as tags: named by the tool, in the tag, or in an attribute."""

from __future__ import annotations

from dataclasses import replace

from wholecall.dialects.dialect import (
    THINK,
    Channel,
    Dialect,
    GrammarWithOpeners,
    Named,
    Notation,
    Template,
)
from wholecall.dialects.formats.headed_formats import BAR
from wholecall.dialects.grammars.json_calls import JsonCalls
from wholecall.dialects.grammars.json_values import Shape, Trim
from wholecall.dialects.grammars.nested_tag_calls import ChildTagCalls, MarkedTagCalls
from wholecall.dialects.grammars.tag_calls import RoutedCalls, SuffixedCalls, TagCalls
from wholecall.dialects.grammars.tag_values import Tag

_CALL = "<{name}>\n{arguments}</{name}>"

MORPH_XML = Dialect(
    name="morph_xml",
    named=(Named.TAGS, Named.EMPTY),
    template=Template(
        _CALL,
        between="\n",
        notation=Notation.TAGS,
        value="<{key}>{value}</{key}>\n",
        marks=("</{key}>",),
        trims=True,
    ),
    models="any prompted model, Cline and its relatives",
)
YAML_XML = Dialect(
    name="yaml_xml",
    named=(Named.YAML, Named.EMPTY),
    template=Template(_CALL, between="\n", notation=Notation.YAML),
    models="any prompted model",
)

NAMED_DIALECTS = (MORPH_XML, YAML_XML)


# Calls as tags with their names in the tags: Qwen's, GLM's and their relatives.


def _closing(tag: str) -> tuple[str, str]:
    """A closing tag, also as it is written inside of a JSON string."""
    return f"</{tag}>", f"<\\/{tag}>"


def _function_equals(section: str) -> TagCalls:
    return TagCalls(
        sections=(f"<{section}>",),
        section_close=_closing(section),
        call=Tag("<function=", keeps=("{",)),
        call_close=_closing("function"),
        value=Tag("<parameter="),
        value_close=_closing("parameter"),
        stops=True,
    )


def _openers(grammar: TagCalls) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*grammar.sections, grammar.call.begin)))


def _closers(grammar: TagCalls) -> tuple[str, ...]:
    return (*grammar.call_close, *grammar.section_close, *grammar.value_close)


def _dialect(name: str, grammar: TagCalls, *, models: str, call: str, value: str) -> Dialect:
    return Dialect(
        name=name,
        written=(
            GrammarWithOpeners(_openers(grammar), grammar),
            GrammarWithOpeners(grammar.sections, JsonCalls(grammar.section_close)),
        ),
        dropped=_closers(grammar),
        template=Template(
            call, notation=Notation.TAGS, value=value, marks=grammar.value_ends, between="\n"
        ),
        models=models,
    )


_FUNCTION = "<function={name}>\n{arguments}</function>"
_PARAMETER = "<parameter={key}>\n{value}\n</parameter>\n"
QWEN3_XML = _dialect(
    "qwen3_xml",
    _function_equals("tool_call"),
    models="Qwen3-Coder, Qwen3.5 and later, Nemotron 3, Step-3.5-Flash, MiMo, UI-TARS, Ornith",
    call=f"<tool_call>\n{_FUNCTION}\n</tool_call>",
    value=_PARAMETER,
)
FUNCTIONARY_V31 = _dialect(
    "functionary_v31",
    _function_equals("tool_call"),
    models="Functionary v3.1, Llama 3.1 (custom tools)",
    call=_FUNCTION,
    value=_PARAMETER,
)
SEED_OSS = _dialect(
    "seed_oss",
    _function_equals("seed:tool_call"),
    models="Seed-OSS",
    call=f"<seed:tool_call>\n{_FUNCTION}\n</seed:tool_call>",
    value=_PARAMETER,
).amid(reasoning=(Channel("<seed:think>", ("</seed:think>",), prompted=True), THINK))


def _arg_key(prefix: str = "", *, section: str = "", call: str = "") -> TagCalls:
    call = call or f"{prefix}tool_call"
    closers = _closing(call)
    separator = "<tool_sep>"
    value = Tag(f"<{prefix}arg_key>", end=_closing(f"{prefix}arg_key"), then=f"<{prefix}arg_value>")
    return TagCalls(
        sections=(f"<{section}>",) if section else (),
        section_close=_closing(f"{section}") if section else (),
        call=Tag(
            f"<{call}>",
            end=("\n", "\\n", separator),
            keeps=(value.begin, *closers, "{"),
            glued=value.end[0],
        ),
        call_close=(*closers, *(("<end_of_tool_call>",) if section else ())),
        value=value,
        value_close=_closing(f"{prefix}arg_value"),
        trim=Trim.NOTHING,
        untyped=Shape.JSON,
        stops=True,
        escaped_blanks=True,
    )


def _arg_key_dialect(
    name: str, models: str, *, prefix: str = "", newline: str = "", section: str = ""
) -> Dialect:
    separator = "<tool_sep>" if section else ""
    begin, end = (f"<{section}>", f"</{section}>") if section else ("", "")
    head = f"<{prefix}tool_call>{{name}}{separator}{newline}"
    return _dialect(
        name,
        _arg_key(prefix, section=section),
        models=models,
        call=f"{begin}{head}{{arguments}}</{prefix}tool_call>{end}",
        value=(
            f"<{prefix}arg_key>{{key}}</{prefix}arg_key>{newline}"
            f"<{prefix}arg_value>{{value}}</{prefix}arg_value>{newline}"
        ),
    )


def _iquest_coder() -> Dialect:
    call = "iquestcoder_tool_call"
    return _dialect(
        "iquest_coder_v2",
        _arg_key(call=call),
        models="iQuest Coder V2",
        call=f"<{call}>{{name}}{{arguments}}</{call}>",
        value="<arg_key>{key}</arg_key><arg_value>{value}</arg_value>",
    )


IQUEST_CODER_V2 = _iquest_coder()
GLM45 = _arg_key_dialect("glm45", "GLM-4.5, GLM-4.6", newline="\n")
GLM47 = _arg_key_dialect("glm47", "GLM-4.7, GLM-5, Ling-3")
POOLSIDE = _arg_key_dialect("poolside_v1", "Laguna", newline="\n")
LONGCAT_XML = _arg_key_dialect("longcat_xml", "LongCat", prefix="longcat_", newline="\n")


def _hunyuan(own: Dialect) -> Dialect:
    """Its tags may carry a suffix, all of them the same: `<tool_sep:opensource>`."""
    suffixed = SuffixedCalls(_arg_key(section="tool_calls"))
    thoughts = Channel("<think:opensource>", ("</think:opensource>",), prompted=True)
    return replace(
        own,
        written=(*own.written, GrammarWithOpeners(suffixed.openers, suffixed)),
        reasoning=(*own.reasoning, thoughts),
    )


HUNYUAN_V3 = _hunyuan(
    _arg_key_dialect("hunyuan_v3", "Hunyuan 3", newline="\n", section="tool_calls")
)


def _hunyuan_v4() -> Dialect:
    """The same without a mark between the name and the arguments."""
    own = replace(HUNYUAN_V3, name="hunyuan_v4", models="Hunyuan 4")
    plain = _arg_key_dialect("hunyuan_v4", "Hunyuan 4").template
    return replace(
        own,
        template=plain and replace(plain, before="<tool_calls>", between="", after="</tool_calls>"),
    )


HUNYUAN_V4 = _hunyuan_v4()


def _k2_horizon() -> Dialect:
    """One of three forms, an option of the template: tags, tags with types, JSON."""
    plain = _arg_key("ifm|", section="ifm|tool_calls")
    value = replace(plain.value, between=("<ifm|arg_type>", "</ifm|arg_type>"))
    grammar = replace(plain, value=value)
    own = _arg_key_dialect(
        "k2_horizon", "K2 Horizon", prefix="ifm|", newline="\n", section="ifm|tool_calls"
    )
    call = "<ifm|tool_call>"
    thoughts = ("ifm|think", "ifm|think_fast", "ifm|think_faster")
    return replace(
        own,
        written=(
            GrammarWithOpeners((*grammar.sections, call), grammar),
            GrammarWithOpeners((call,), JsonCalls(grammar.call_close)),
            GrammarWithOpeners(
                grammar.sections,
                JsonCalls((*grammar.call_close, *grammar.section_close), head_end=call),
            ),
        ),
        reasoning=(
            *(Channel(f"<{each}>", (f"</{each}>",), prompted=True) for each in thoughts),
            THINK,
        ),
        template=None
        if own.template is None
        else replace(
            own.template,
            call=(
                f"<ifm|tool_calls>\n{call}{{name}}\n{{arguments}}</ifm|tool_call>\n</ifm|tool_calls>"
            ),
        ),
    )


K2_HORIZON = _k2_horizon()
_SOLAR2 = TagCalls(
    call=Tag("<|tool_call:start|>", end=("\n",), keeps=("<|tool_arg:start|>", "<|tool_call:end|>")),
    call_close=("<|tool_call:end|>",),
    value=Tag("<|tool_arg:start|>", end=("<|tool_arg:value|>",)),
    value_close=("<|tool_arg:end|>",),
    trim=Trim.NOTHING,
    untyped=Shape.JSON,
)
SOLAR_OPEN2 = replace(
    _dialect(
        "solar_open2",
        _SOLAR2,
        models="Solar Open 2",
        call="<|tool_call:start|>{name}\n{arguments}<|tool_call:end|>",
        value="<|tool_arg:start|>{key}<|tool_arg:value|>{value}<|tool_arg:end|>\n",
    ),
    written=(GrammarWithOpeners(("<|tool_call:start|>",), _SOLAR2),),
)

TAGGED_DIALECTS = (
    QWEN3_XML,
    FUNCTIONARY_V31,
    SEED_OSS,
    GLM45,
    GLM47,
    POOLSIDE,
    LONGCAT_XML,
    HUNYUAN_V3,
    HUNYUAN_V4,
    IQUEST_CODER_V2,
    K2_HORIZON,
    SOLAR_OPEN2,
)


# Calls as tags with their names in attributes: `<invoke name="search">` and its relatives.


def _invoke(
    prefix: str,
    *sections: str,
    untyped: Shape = Shape.TEXT,
    type_attribute: str = "",
    trim: Trim = Trim.NEWLINE,
) -> TagCalls:
    return TagCalls(
        sections=tuple(f"<{section}>" for section in sections),
        section_close=tuple(close for section in sections for close in _closing(section)),
        call=Tag(f"<{prefix}invoke", attribute="name"),
        call_close=_closing(f"{prefix}invoke"),
        value=Tag(f"<{prefix}parameter", attribute="name"),
        value_close=_closing(f"{prefix}parameter"),
        untyped=untyped,
        type_attribute=type_attribute,
        trim=trim,
    )


def _template(grammar: TagCalls) -> Template:
    """The tags of a grammar, written out."""
    newline = "\n" if grammar.trim is Trim.NEWLINE else ""
    typed = f' {grammar.type_attribute}="{{{grammar.type_attribute}}}"'
    call = f'{grammar.call.begin.rstrip()} {grammar.call.attribute}="{{name}}"{grammar.call.end[0]}'
    value = f'{grammar.value.begin.rstrip()} {grammar.value.attribute}="{{key}}"'
    value += (typed if grammar.type_attribute else "") + grammar.value.end[0]
    return Template(
        f"{call}{newline}{{arguments}}{grammar.call_close[0]}{newline}",
        before=(grammar.sections[0] + newline) if grammar.sections else "",
        after=grammar.section_close[0] if grammar.sections else "",
        notation=Notation.TAGS,
        value=f"{value}{newline}{{value}}{newline}{grammar.value_close[0]}{newline}",
        marks=(*grammar.value_ends, *(("<![CDATA[",) if grammar.cdata else ())),
    )


def _invoked_dialect(
    name: str, grammar: TagCalls, *, models: str, bare_call: bool = True
) -> Dialect:
    openers = (*grammar.sections, *(grammar.openers if bare_call else ()))
    return Dialect(
        name=name,
        written=(
            GrammarWithOpeners(openers, grammar),
            GrammarWithOpeners(grammar.sections, JsonCalls(grammar.section_close)),
        ),
        dropped=(*grammar.call_close, *grammar.section_close, *grammar.value_close),
        template=_template(grammar),
        models=models,
    )


def _anthropic(prefix: str = "") -> Dialect:
    """As prompts ask for it, and with the namespace in which Claude itself writes."""
    sections = dict.fromkeys((f"{prefix}function_calls", "function_calls"))
    grammar = replace(_invoke(prefix, *sections), comments=True, stray=("court", "count", "call"))
    return _invoked_dialect("anthropic_xml", grammar, models="any prompted model, Claude")


ANTHROPIC = _anthropic().spelled(_anthropic("antml:"))
MINIMAX_M2 = _invoked_dialect("minimax_m2", _invoke("", "minimax:tool_call"), models="MiniMax-M2")
DOTS = _invoked_dialect("dots", _invoke("", "dots_function_call"), models="dots")


_BARS = (BAR, "|", BAR * 2, "||", "\u2016")
_DSML_BARS = (
    *((bar, bar) for bar in _BARS),
    (BAR, f"{BAR} "),
    (BAR * 2, f"{BAR * 2} "),
    ("", BAR),
    *((f"{blank}{bar} ", f" {bar} ") for bar in (BAR, "|") for blank in ("", " ")),
)


def _dsml(name: str, *sections: str, models: str) -> Dialect:
    """DSML with its full-width bars, and with those that backends make of them: ASCII, doubled,
    with blanks after or around them, the first one lost."""
    own, *others = (
        _invoke(
            f"{bar}DSML{behind}",
            *(f"{bar}DSML{behind}{section}" for section in sections),
            type_attribute="string",
            trim=Trim.NOTHING,
        )
        for bar, behind in _DSML_BARS
    )
    mixed = tuple(each for grammar in (own, others[0]) for each in _mixed(grammar))
    spelled = (_invoked_dialect(name, grammar, models=models) for grammar in others)
    whole = _invoked_dialect(name, own, models=models).spelled(*spelled)
    return replace(whole, written=(*whole.written, *mixed))


def _mixed(own: TagCalls) -> tuple[GrammarWithOpeners, ...]:
    """DSML whose token is missing in some of the tags. A closing tag without it ends nothing if the
    opening tag of the value has it: the value may mention it."""
    plain = _invoke("", "function_calls", "tool_calls")
    outer = replace(
        own,
        sections=own.sections + plain.sections,
        section_close=own.section_close + plain.section_close,
    )
    inner = replace(
        outer,
        value=plain.value,
        value_close=plain.value_close + own.value_close,
        call_close=own.call_close + plain.call_close,
    )
    return (
        GrammarWithOpeners(plain.sections, outer),
        GrammarWithOpeners((*outer.sections, own.call.begin), inner),
        GrammarWithOpeners(own.sections, replace(inner, call=plain.call)),
    )


_DSML_OTHERS = ("tool_use", "calls")
DEEPSEEK_V32 = _dsml(
    "deepseek_v32_dsml", "function_calls", "tool_calls", *_DSML_OTHERS, models="DeepSeek V3.2"
)
DEEPSEEK_V4 = _dsml(
    "deepseek_v4_dsml", "tool_calls", "function_calls", *_DSML_OTHERS, models="DeepSeek V4"
)
_GCML = f"{BAR}GCML{BAR}"
GIGACHAT35 = _invoked_dialect(
    "gigachat35",
    _invoke(_GCML, f"{_GCML}tool_calls", type_attribute="string", trim=Trim.NOTHING),
    models="GigaChat 3.5",
)
UNMARKED = GrammarWithOpeners(("<tool_calls>",), _invoke("", "tool_calls"))
"""The remains of V4's tags if a server drops its own token and keeps the rest."""

_STEP_SECTION = f"<{BAR}tool_calls_begin{BAR}>"
_STEP_BEGIN = f"<{BAR}tool_call_begin{BAR}>"
_STEP_CALL = f"{_STEP_BEGIN}function<{BAR}tool_sep{BAR}>"
_STEP_END = (f"<{BAR}tool_call_end{BAR}>", f"<{BAR}tool_calls_end{BAR}>")
_STEP = TagCalls(
    sections=(
        f"{_STEP_SECTION}{_STEP_CALL}",
        f"{_STEP_SECTION}{_STEP_BEGIN}",
        _STEP_CALL,
        _STEP_BEGIN,
    ),
    section_close=_STEP_END,
    call=Tag("<steptml:invoke", attribute="name"),
    call_close=("</steptml:invoke>",),
    value=Tag("<steptml:parameter", attribute="name"),
    value_close=("</steptml:parameter>",),
)
STEP3 = Dialect(
    name="step3",
    written=(GrammarWithOpeners((*_STEP.sections, *_STEP.openers), _STEP),),
    dropped=_STEP_END,
    template=_template(_STEP),
    models="Step-3",
)


def _function_named(parameter: str) -> Dialect:
    grammar = TagCalls(
        call=Tag("<function", attribute="name"),
        call_close=_closing("function"),
        value=Tag(f"<{parameter}", attribute="name"),
        value_close=_closing(parameter),
        cdata=True,
        glued=("Ġ",),
    )
    return replace(_invoked_dialect("minicpm5", grammar, models="MiniCPM5"), drops_unknown=True)


MINICPM5 = _function_named("param").spelled(_function_named("parameter"))

_ATEM = _invoke("atem:", "atem:function_calls", untyped=Shape.JSON)
_MESSAGE_END = ("<|eom|>", "<|eot|>")


def _addressed(recipient: str) -> tuple[Channel, ...]:
    heads = ("<|start|>assistant to=", " to=", "to=")
    private = recipient == "self"
    return tuple(
        Channel(f"{head}{recipient}<|message|>", _MESSAGE_END, private=private) for head in heads
    )


MUSE = Dialect(
    name="muse_atem",
    written=(
        GrammarWithOpeners(
            ("<|start|>assistant to=", " to=", "to="), RoutedCalls("<|message|>", _ATEM)
        ),
        GrammarWithOpeners((*_ATEM.sections, *_ATEM.openers), RoutedCalls("", _ATEM)),
    ),
    reasoning=_addressed("self"),
    texts=_addressed("user"),
    dropped=("<|start|>assistant", *_MESSAGE_END),
    template=replace(
        _template(_ATEM),
        before="<|start|>assistant to=tools<|message|><atem:function_calls>\n",
        after="</atem:function_calls><|eom|>",
    ),
    models="Muse Glimmer",
)
_XTML = TagCalls(
    sections=("<|open|>tools<|sep|>",),
    section_close=("<|close|>tools<|sep|>",),
    call=Tag("<|open|>call ", end=("<|sep|>",), attribute="tool", escapes=True),
    call_close=("<|close|>call<|sep|>",),
    value=Tag("<|open|>argument ", end=("<|sep|>",), attribute="key", escapes=True),
    value_close=("<|close|>argument<|sep|>",),
    type_attribute="type",
    trim=Trim.NOTHING,
    tokens=True,
)
KIMI_K3 = _invoked_dialect("kimi_k3", _XTML, models="Kimi K3", bare_call=False).amid(
    reasoning=(Channel("<|open|>think<|sep|>", ("<|close|>think<|sep|>",), prompted=True),),
    dropped=("<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>"),
)
KIMI_K3 = replace(
    KIMI_K3, written=(*KIMI_K3.written, GrammarWithOpeners((_XTML.call.begin,), _XTML))
)
_M3_MARK = "]<]minimax[>["
MINIMAX_M3 = Dialect(
    name="minimax_m3",
    written=(
        GrammarWithOpeners((f"{_M3_MARK}<tool_call>",), MarkedTagCalls(_M3_MARK)),
        # where a server drops the mark
        GrammarWithOpeners(
            ("<tool_call>", "<invoke"),
            ChildTagCalls(Tag("<invoke", attribute="name"), ("</invoke>",), "tool_call"),
        ),
    ),
    reasoning=(Channel("<mm:think>", ("</mm:think>",), prompted=True),),
    dropped=(f"{_M3_MARK}</tool_call>",),
    template=Template(
        f'{_M3_MARK}<invoke name="{{name}}">{{arguments}}{_M3_MARK}</invoke>\n',
        before=f"{_M3_MARK}<tool_call>\n",
        after=f"{_M3_MARK}</tool_call>",
        notation=Notation.TAGS,
        value=f"{_M3_MARK}<{{key}}>{{value}}{_M3_MARK}</{{key}}>",
        marks=(_M3_MARK,),
    ),
    models="MiniMax-M3",
)

# ── What prompts of other programs ask for ──────────────────────────────────────────


def _named_inside(name: str, arguments: str, *, section: str) -> TagCalls:
    """`<tool_use><name>search</name><arguments>{…}</arguments></tool_use>`"""
    return TagCalls(
        sections=(f"<{section}>",),
        section_close=(f"</{section}>",),
        call=Tag(f"<{name}>", end=(f"</{name}>",), then=f"<{arguments}>"),
        call_close=(f"</{arguments}>",),
        value=Tag("<parameter", attribute="name"),
        value_close=("</parameter>",),
    )


def _attributed(tag: str) -> TagCalls:
    """`<tool_call name="search">{…}</tool_call>`"""
    return TagCalls(
        call=Tag(f"<{tag} ", attribute="name"),
        call_close=(f"</{tag}>",),
        value=Tag("<parameter", attribute="name"),
        value_close=("</parameter>",),
    )


_TOOL_USE = tuple(
    _named_inside(name, arguments, section=section)
    for section in ("tool_use", "tool_call")
    for name in ("name", "tool_name", "tool")
    for arguments in ("arguments", "parameters")
)
_ATTRIBUTED = tuple(_attributed(tag) for tag in ("tool_call", "tool", "function_call"))
TOOL_USE = Dialect(
    name="tool_use_xml",
    written=(
        *(GrammarWithOpeners(grammar.sections, grammar) for grammar in _TOOL_USE),
        *(GrammarWithOpeners((grammar.call.begin,), grammar) for grammar in _ATTRIBUTED),
    ),
    dropped=(
        *(close for each in _TOOL_USE for close in (*each.call_close, *each.section_close)),
        *(close for each in _ATTRIBUTED for close in each.call_close),
    ),
    template=Template(
        "<tool_use>\n<name>{name}</name>\n<arguments>{arguments}</arguments>\n</tool_use>",
        between="\n",
    ),
    models="any prompted model, Cherry Studio",
)

INVOKED_DIALECTS = (
    ANTHROPIC,
    MINIMAX_M2,
    DOTS,
    DEEPSEEK_V32,
    DEEPSEEK_V4,
    GIGACHAT35,
    STEP3,
    MINICPM5,
    MUSE,
    KIMI_K3,
    MINIMAX_M3,
    TOOL_USE,
)
