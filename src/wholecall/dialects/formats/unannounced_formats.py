"""Calls in answers although no format was announced: formats that agents teach their models,
half-forgotten formats, remains of a format that a server left.

They are read only with the name of an offered tool.
"""

from __future__ import annotations

from dataclasses import replace

from wholecall.dialects.dialect import TURNS, GrammarWithOpeners
from wholecall.dialects.formats.headed_formats import BAR
from wholecall.dialects.formats.json_formats import COMMAND_R_PLUS
from wholecall.dialects.formats.tag_formats import MUSE, STEP3, UNMARKED
from wholecall.dialects.grammars.headed_calls import HeadedCalls
from wholecall.dialects.grammars.json_calls import JsonCalls
from wholecall.dialects.grammars.literal_calls import AttributeCalls, GemmaCalls
from wholecall.dialects.grammars.nested_tag_calls import AROUND, ChildTagCalls
from wholecall.dialects.grammars.python_calls import PythonCalls, RawCode
from wholecall.dialects.grammars.tag_calls import TagCalls
from wholecall.dialects.grammars.tag_values import Tag

_ONE_CALL = PythonCalls(("]",), brackets=False, marked=False, timid=True)
_LEADS = ("[Calling tool: ", "Calling tool: ", "Tool call: ")

_PRINTED = PythonCalls((")",), brackets=False, marked=False, prints=True, timid=True)


def _line(*beginnings: str) -> tuple[str, ...]:
    return tuple(f"\n{each}" for each in beginnings)


# ── Prompts of agents: Qwen-Agent, those that reason and act in turns, UI-TARS ───────

_REACT = ("Action: ", "Action:")
_AGENTS = (
    *(
        GrammarWithOpeners((f"<{tag}>",), PythonCalls((f"</{tag}>",), alone=True))
        for tag in ("tool_call", "function_call")
    ),
    GrammarWithOpeners(
        ("✿FUNCTION✿:",), HeadedCalls(calls=("✿FUNCTION✿:",), head_end=("✿ARGS✿:",))
    ),
    GrammarWithOpeners(
        _line(*_REACT), HeadedCalls(calls=(*_REACT, *_line(*_REACT)), head_end=("\nAction Input:",))
    ),
    GrammarWithOpeners(_line(*_REACT), _ONE_CALL),
    # Its mark begins like those, one line end later.
    *(GrammarWithOpeners(_line(*each.openers), each.grammar) for each in COMMAND_R_PLUS.written),
)

# ── Transcripts, as agents show them and models imitate them ────────────────────────

_SHOWN = (
    GrammarWithOpeners(_line(*_LEADS), replace(_ONE_CALL, leads=_LEADS)),
    GrammarWithOpeners(_line("Calling tool: ", "Tool call: "), JsonCalls(marked=False)),
    GrammarWithOpeners(_line("[Calling tool="), AttributeCalls()),
)

# ── Tags that are spelled otherwise, or carry more than they should ─────────────────

_SPELLED = ("toolcall", "tool-call", "tool-use", "TOOL_CALL", "functioncall")
_EXECUTED = ("tool_code", "execute_tool")


def _executed(tag: str) -> GrammarWithOpeners:
    """Python between tags, printed or not."""
    close = f"</{tag}>"
    closers = (close, f"){close}", f")\n{close}")
    return GrammarWithOpeners((f"<{tag}>",), PythonCalls(closers, brackets=False, prints=True))


_TAGS = (
    GrammarWithOpeners(_line("tool_code\n"), _PRINTED),
    *(GrammarWithOpeners((f"<{tag}>",), JsonCalls((f"</{tag}>",))) for tag in _SPELLED),
    GrammarWithOpeners(("[tool_call]",), JsonCalls(("[/tool_call]",))),
    # `{"search": {"query": "x"}}`
    GrammarWithOpeners(("<tool_call>",), JsonCalls(("</tool_call>",), name_is_key=True)),
    GrammarWithOpeners(("<tool_call ",), JsonCalls(("</tool_call>",), head_end=">")),
    *(_executed(tag) for tag in _EXECUTED),
    # Qwen's, with an underscore for the equals sign
    GrammarWithOpeners(
        ("<function_",),
        TagCalls(
            call=Tag("<function_", keeps=("{",)),
            call_close=("</function>",),
            value=Tag("<parameter="),
            value_close=("</parameter>",),
        ),
    ),
    GrammarWithOpeners(
        ("<xai:function_call",),
        TagCalls(
            call=Tag("<xai:function_call", attribute="name"),
            call_close=("</xai:function_call>",),
            value=Tag("<parameter", attribute="name"),
            value_close=("</parameter>",),
        ),
    ),
)

# ── Two formats in one: Qwen's function with the parameters of others ────────────────

_FUNCTION = Tag("<function=", keeps=("{",))
_NAMED_FUNCTION = Tag("<function", attribute="name")
_ATTRIBUTES = (
    (Tag("<parameter", attribute="name"), "</parameter>"),
    (Tag("<param", attribute="name"), "</param>"),
)
# Llama's, as Groq quotes them in its errors: `<function=search({"query": "x"})</function>`, or with
# square brackets; `<function(search)>{"query": "x"}</function>`; the name after the tag
_BRACKETED = Tag("<function=", end=("(", "["))
_OTHERWISE = (Tag("<function(", end=(")>", ")")), Tag("<function>", end=("\n",), keeps=("{",)))
_PARAMETERS = (
    (Tag("<parameter>", end=("</parameter>",)), "</parameter>"),
    (Tag("<param="), "</param>"),
    *_ATTRIBUTES,
)


def _function(call: Tag, value: Tag, *, close: str) -> TagCalls:
    return TagCalls(
        sections=("<tool_call>",),
        section_close=("</tool_call>",),
        call=call,
        call_close=("</function>",),
        value=value,
        value_close=(close,),
    )


def _inside(section: str, name: str) -> GrammarWithOpeners:
    """`<tool_use><name>search</name><input><query>x</query></input></tool_use>`"""
    head = Tag(f"<{name}>", end=(f"</{name}>",))
    return GrammarWithOpeners(
        (f"<{section}>",), ChildTagCalls(head, section=section, around=AROUND)
    )


def _attributed(tag: str) -> GrammarWithOpeners:
    """`<tool_call name="search"><query>x</query></tool_call>`"""
    return GrammarWithOpeners(
        (f"<{tag} ",), ChildTagCalls(Tag(f"<{tag} ", attribute="name"), (f"</{tag}>",), tag)
    )


_CROSSED = (
    *(
        GrammarWithOpeners(
            ("<tool_call>", _FUNCTION.begin), _function(_FUNCTION, value, close=close)
        )
        for value, close in _PARAMETERS
    ),
    *(
        GrammarWithOpeners(("<tool_call>",), _function(_NAMED_FUNCTION, value, close=close))
        for value, close in _ATTRIBUTES
    ),
    GrammarWithOpeners(
        (_BRACKETED.begin,),
        replace(
            _function(_BRACKETED, Tag("<parameter="), close="</parameter>"),
            call_close=(")</function>", ")></function>", "</function>"),
        ),
    ),
    *(
        GrammarWithOpeners((call.begin,), _function(call, Tag("<parameter="), close="</parameter>"))
        for call in _OTHERWISE
    ),
    GrammarWithOpeners(
        ("<tool_call>",),
        _function(Tag("function=", keeps=("{",)), Tag("<parameter="), close="</parameter>"),
    ),
    GrammarWithOpeners(
        ("<tool_call>", "<function="),
        ChildTagCalls(Tag("<function="), ("</function>",), "tool_call"),
    ),
    GrammarWithOpeners(
        ("<tool_call>",), ChildTagCalls(Tag("<tool_call>", end=("\n",)), ("</tool_call>",))
    ),
    *(
        _inside(section, name)
        for section in ("tool_use", "tool_call", "function_call", "function", "invoke")
        for name in ("name", "tool_name", "tool", "function")
    ),
    *(_attributed(tag) for tag in ("tool_call", "tool_use", "tool", "function_call")),
)

# ── Formats whose beginning was lost, or was kept where it should have been dropped ──

# What begins a turn of the model, or its text.
_TURNS = ("<|im_start|>assistant\n", "<|assistant|>\n", "<start_of_turn>model\n", "\ufeff")
_LLAMA_HEADER = "<|start_header_id|>assistant<|end_header_id|>"
_LLAMA_ENDS = ("<|eom_id|>", "<|eot_id|>")
_LLAMA = (
    GrammarWithOpeners((_LLAMA_HEADER, *_TURNS), JsonCalls(marked=False)),
    GrammarWithOpeners(_TURNS, PythonCalls(marked=False)),
    GrammarWithOpeners(("<|python_tag|>",), PythonCalls(_LLAMA_ENDS, brackets=False, marked=False)),
    GrammarWithOpeners(("<|python_tag|>",), RawCode(_LLAMA_ENDS, TURNS)),
)


_PARTS = ("call begin", "call end", "calls end")


def _deepseek(bar: str, blank: str) -> GrammarWithOpeners:
    """The word `function`, the separator and the name, without what should stand before them."""
    words = ("sep", f"call{blank}end", f"calls{blank}end")
    separator, end, section_end = (f"<{bar}tool{blank}{each}{bar}>" for each in words)
    begin = f"function{separator}"
    return GrammarWithOpeners(
        (begin,),
        HeadedCalls(
            calls=(begin,), head_end=("\n", "{"), call_close=(end,), section_close=(section_end,)
        ),
    )


# The tokens of Step-3 are DeepSeek's with underscores, and longer marks are found first.
_STEP_SEPARATOR = f"<{BAR}tool_sep{BAR}>"
_STEP_END = (f"<{BAR}tool_call_end{BAR}>",)


def _as_step(*, headed: bool) -> GrammarWithOpeners:
    openers = STEP3.written[0].openers
    calls = tuple(each for each in openers if each.endswith(_STEP_SEPARATOR) is headed)
    head_end = ("\n", "{") if headed else (_STEP_SEPARATOR,)
    return GrammarWithOpeners(
        calls, HeadedCalls(calls=calls, head_end=head_end, call_close=_STEP_END)
    )


_DEEPSEEK = (
    UNMARKED,
    *(_deepseek(bar, blank) for bar in (BAR, "|") for blank in ("▁", "_")),
    _as_step(headed=True),
    _as_step(headed=False),
)

# ── HyperCLOVA X: the message says to whom it goes ──────────────────────────────────

_TO_TOOLS = "-> tool/function_call\n"
_CLOVA = (
    GrammarWithOpeners(
        (f"<|im_start|>assistant {_TO_TOOLS}", *_line(_TO_TOOLS)),
        JsonCalls(("<|im_end|>", "<|stop|>")),
    ),
)

# ── One JSON object in the place of the format's own body ────────────────────────────

_BODIES = (
    ("<iquestcoder_tool_call>", "</iquestcoder_tool_call>"),
    ("<ifm|tool_calls>", "</ifm|tool_call>", "</ifm|tool_calls>"),
    ("<|tool_call:start|>", "<|tool_call:end|>"),
    ("<|tool_call:begin|>", "<|tool_call:end|>", "<|calls|>"),
    ("<atem:function_calls>", "</atem:function_calls>"),
    ("]<]minimax[>[<tool_call>", "]<]minimax[>[</tool_call>", "</tool_call>"),
    ("<tool_use>", "</tool_use>"),
    ("<|tool_call>", "<tool_call|>"),
    ("<start_function_call>", "<end_function_call>"),
    ("<|tool_call_begin|>", "<|tool_call_end|>", "<|tool_calls_section_end|>"),
    *(
        tuple(f"<{bar}tool{blank}{words.replace(' ', blank)}{bar}>" for words in _PARTS)
        for bar in (BAR, "|")
        for blank in "▁_ "
    ),
)
_OBJECTS = (
    *(GrammarWithOpeners((opener,), JsonCalls(tuple(closers))) for opener, *closers in _BODIES),
    # Gemma's without the word before the name
    GrammarWithOpeners(
        ("<|tool_call>",), GemmaCalls('<|"|>', ("<tool_call|>",), begin="", marked=False)
    ),
)

# ── GigaChat: the header of the message without its tokens ───────────────────────────

_GIGACHAT = (GrammarWithOpeners(_line("function call\n"), JsonCalls(("</s>",), marked=False)),)

# ── Muse: the header of the message without its first token ──────────────────────────

_MUSE = tuple(
    GrammarWithOpeners(_line("to="), entry.grammar)
    for entry in MUSE.written
    if "to=" in entry.openers
)

WRITTEN = (
    *_AGENTS,
    *_SHOWN,
    *_TAGS,
    *_CROSSED,
    *_LLAMA,
    *_DEEPSEEK,
    *_CLOVA,
    *_MUSE,
    *_OBJECTS,
    *_GIGACHAT,
)

# ── Calls that are nothing but a name and its arguments ─────────────────────────────

ALONE = (_PRINTED,)
