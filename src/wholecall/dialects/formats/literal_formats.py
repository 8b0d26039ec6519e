"""Calls as literals of a language: Python's, Gemma's."""

from __future__ import annotations

from dataclasses import replace

from wholecall.dialects.dialect import Channel, Dialect, GrammarWithOpeners, Notation, Template
from wholecall.dialects.grammars.json_calls import JsonCalls
from wholecall.dialects.grammars.literal_calls import ArrowCalls, GemmaCalls
from wholecall.dialects.grammars.python_calls import PythonCalls


def _python_template(before: str, after: str, *, between: str = ", ") -> Template:
    return Template(
        "{name}({arguments})", before=before, between=between, after=after, notation=Notation.PYTHON
    )


def _gemma_template(before: str, after: str, *, quote: str) -> Template:
    call = f"{before}call:{{name}}{{arguments}}{after}"
    return Template(call, notation=Notation.GEMMA, quote=quote)


_PYTHON_MARKS = ("<|python_start|>", "<|python_tag|>")
_PYTHON_END = ("<|python_end|>", "<|eom_id|>")
_LIST = PythonCalls(marked=False)
PYTHONIC = Dialect(
    name="pythonic",
    written=(
        GrammarWithOpeners(_PYTHON_MARKS, PythonCalls(_PYTHON_END)),
        GrammarWithOpeners(("[",), _LIST),
    ),
    dropped=_PYTHON_END,
    template=_python_template("[", "]"),
    models="Llama 3.2 and 4, ToolACE",
)
_LFM_END = ("<|tool_call_end|>",)
LFM2 = Dialect(
    name="lfm2",
    written=(
        GrammarWithOpeners(
            ("<|tool_call_start|>",), PythonCalls(_LFM_END, json_too=True, alone=True)
        ),
    ),
    bare=(_LIST,),
    dropped=_LFM_END,
    template=_python_template("<|tool_call_start|>[", "]<|tool_call_end|>"),
    models="LFM2, LFM2.5",
)
_OLMO_END = ("</function_calls>",)
OLMO3 = Dialect(
    name="olmo3",
    written=(GrammarWithOpeners(("<function_calls>",), PythonCalls(_OLMO_END, brackets=False)),),
    dropped=_OLMO_END,
    template=_python_template("<function_calls>\n", "\n</function_calls>", between="\n"),
    models="Olmo 3",
)
_GEMMA4 = GemmaCalls('<|"|>', ("<tool_call|>",))
# What is left of it where special tokens are dropped, and what Gemini writes into its text.
_STRIPPED = replace(_GEMMA4, begin="", marked=False, closers=("<tool_call|>", "/>"))
GEMMA4 = Dialect(
    name="gemma4",
    written=(
        GrammarWithOpeners(("<|tool_call>",), _GEMMA4),
        GrammarWithOpeners(("\ncall:", "\n<call:", "\ndeclaration:"), _STRIPPED),
    ),
    reasoning=(
        Channel("<|channel>thought\n", ("<channel|>",)),
        Channel("<|channel>", ("<channel|>",)),
    ),
    dropped=("<tool_call|>", "<|tool_response>"),
    template=_gemma_template("<|tool_call>", "<tool_call|>", quote='<|"|>'),
    models="Gemma 4",
)
FUNCTIONGEMMA = Dialect(
    name="functiongemma",
    written=(
        GrammarWithOpeners(
            ("<start_function_call>",), GemmaCalls("<escape>", ("<end_function_call>",))
        ),
    ),
    dropped=("<end_function_call>",),
    template=_gemma_template("<start_function_call>", "<end_function_call>", quote="<escape>"),
    models="FunctionGemma-270m",
)
_TOOL_FENCE = "```tool_code\n"
TOOL_CODE = Dialect(
    name="tool_code",
    written=(
        GrammarWithOpeners(
            ("tool_code = ", "tool_code="), PythonCalls(("print(tool_code)",), brackets=False)
        ),
        GrammarWithOpeners(
            (_TOOL_FENCE,), PythonCalls(("```", ")\n```"), brackets=False, prints=True)
        ),
    ),
    fenced=(("tool_code", PythonCalls((")",), brackets=False, prints=True)),),
    models="Gemma 3",
)

ARROW_HASH = Dialect(
    name="arrow_hash",
    written=(
        GrammarWithOpeners(("[TOOL_CALL]",), ArrowCalls(("[/TOOL_CALL]",))),
        GrammarWithOpeners(("[TOOL_CALL]",), JsonCalls(("[/TOOL_CALL]",))),
    ),
    dropped=("[/TOOL_CALL]",),
    models="MiniMax models that leak it",
)

UI_TARS = Dialect(
    name="ui_tars",
    written=(
        GrammarWithOpeners(("\nAction: ", "\nAction:"), PythonCalls(brackets=False, timid=True)),
    ),
    template=_python_template("Action: ", "", between="\n\n"),
    models="UI-TARS, where actions are its tools",
)

DIALECTS = (PYTHONIC, LFM2, OLMO3, GEMMA4, FUNCTIONGEMMA, TOOL_CODE, ARROW_HASH, UI_TARS)
