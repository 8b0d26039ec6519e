"""Formats that write calls as JSON objects, between markers or bare."""

from __future__ import annotations

from dataclasses import replace

from wholecall.dialects.dialect import Channel, Dialect, GrammarWithOpeners, Template
from wholecall.dialects.formats.tag_formats import LONGCAT_XML
from wholecall.dialects.grammars.json_calls import BRACE, JsonCalls, ReplyOrCalls
from wholecall.dialects.grammars.python_calls import PythonCalls

OBJECT = '{"name": {name_json}, "arguments": {arguments}}'
_PARAMETERS = '{"name": {name_json}, "parameters": {arguments}}'


def _marked(
    name: str,
    markers: tuple[tuple[str, ...], tuple[str, ...]],
    *,
    models: str,
    call: str = OBJECT,
    listed: bool = False,
) -> Dialect:
    """`listed`: all calls stand in one list between the markers."""
    openers, closers = markers
    begin, end = openers[0], closers[0] if closers else ""
    # A closing tag may be written as inside of a JSON string: `<\\/tool_call>`.
    closers += tuple(each.replace("</", "<\\/") for each in closers if each.startswith("</"))
    return Dialect(
        name=name,
        written=(GrammarWithOpeners(openers, JsonCalls(closers)),),
        dropped=closers,
        template=(
            Template(call, before=f"{begin}[", between=", ", after=f"]{end}")
            if listed
            else Template(f"{begin}\n{call}\n{end}", between="\n")
        ),
        models=models,
    )


_TOOL_CALL = (("<tool_call>",), ("</tool_call>",))
_TOOL_CALLS = (("<tool_calls>",), ("</tool_calls>",))

HERMES = _marked("hermes", _TOOL_CALL, models="Hermes 2 and 3, Qwen2.5, Qwen3, QwQ, Granite 4")
ERNIE45 = _marked("ernie45", _TOOL_CALL, models="ERNIE-4.5").amid(
    dropped=("<response>", "</response>")
)
LONGCAT = _marked(
    "longcat", (("<longcat_tool_call>",), ("</longcat_tool_call>",)), models="LongCat-Flash"
).spelled(LONGCAT_XML)
TEMPLATE_TAG = replace(
    _marked(
        "template_tag_json", _TOOL_CALL, models="any model behind a template that Ollama reads"
    ),
    bare=(JsonCalls(marked=False),),
)
GRANITE_20B = replace(
    _marked("granite20b_fc", (("<function_call>",), ()), models="granite-20b-functioncalling"),
    dropped=("</function_call>",),
)
GRANITE3 = _marked(
    "granite3",
    (("<|tool_call|>", "<tool_call>"), ("</tool_call>", "<|/tool_call|>")),
    listed=True,
    models="Granite 3.0 to 3.3",
)
JAMBA = _marked("jamba", _TOOL_CALLS, models="Jamba 1.5 and later", listed=True)
MINIMAX_M1 = replace(
    _marked("minimax_m1", _TOOL_CALLS, models="MiniMax-M1"),
    template=Template(OBJECT, before="<tool_calls>\n", between="\n", after="\n</tool_calls>"),
)
HUNYUAN_A13B = _marked("hunyuan_a13b", _TOOL_CALLS, listed=True, models="Hunyuan-A13B").amid(
    dropped=("<answer>", "</answer>")
)
APRIEL = _marked("apriel", _TOOL_CALLS, listed=True, models="Apriel 1.5 and 1.6").amid(
    reasoning=(
        Channel("Here are my reasoning steps:", ("[BEGIN FINAL RESPONSE]",), prompted=True),
    ),
    dropped=("[END FINAL RESPONSE]",),
)
NEMOTRON = _marked(
    "nemotron_toolcall",
    (("<TOOLCALL>",), ("</TOOLCALL>",)),
    listed=True,
    models="Nemotron Nano v2, Nemotron-49B",
)
INTERNLM2 = _marked(
    "internlm2",
    (("<|action_start|><|plugin|>", "<|action_start|> <|plugin|>"), ("<|action_end|>",)),
    call=_PARAMETERS,
    models="InternLM2, InternLM2.5, Intern-S1",
)
GIGACHAT31 = _marked("gigachat31", (("<|function_call|>",), ("</s>",)), models="GigaChat3.1")
GIGACHAT3 = _marked(
    "gigachat3",
    (
        (
            "<|message_sep|>\n\nfunction call<|role_sep|>",
            "function call<|role_sep|>",
            "<|function_call|>",
        ),
        ("</s>",),
    ),
    models="GigaChat3-10B",
)
_COHERE_THINKING = (Channel("<|START_THINKING|>", ("<|END_THINKING|>",), prompted=True),)
_ACTION = (("<|START_ACTION|>",), ("<|END_ACTION|>",))
_COHERE_CALL = '{"tool_call_id": "{index}", "tool_name": {name_json}, "parameters": {arguments}}'
COHERE_CMD3 = _marked(
    "cohere_cmd3", _ACTION, call=_COHERE_CALL, listed=True, models="Command R7B, Command A"
).amid(reasoning=_COHERE_THINKING, dropped=("<|START_RESPONSE|>", "<|END_RESPONSE|>"))
COHERE_CMD4 = _marked(
    "cohere_cmd4", _ACTION, call=_COHERE_CALL, listed=True, models="Command 4, North Mini Code"
).amid(reasoning=_COHERE_THINKING, dropped=("<|START_TEXT|>", "<|END_TEXT|>"))
COMMAND_R_PLUS = _marked(
    "command_r_plus",
    (("Action:\n```json", "Action: ```json", "Action:```json", "Action:\n```\n"), ("```",)),
    call='{"tool_name": {name_json}, "parameters": {arguments}}',
    listed=True,
    models="Command R+",
).amid(dropped=("<|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>"))
PHI4 = _marked("phi4_functools", (("functools",), ()), listed=True, models="Phi-4-mini")
FIREFUNCTION = _marked(
    "firefunction_v2", (("functools",), ()), listed=True, models="FireFunction v2"
)
_MESSAGE, _INVOKE = "<|message_model|>", "<|content_invoke_tool_json|>"
_INVOKED = _marked(
    "inkling",
    ((_INVOKE, "<|content_invoke_tool_text|>"), ("<|end_message|>",)),
    call='{"name": {name_json}, "args": {arguments}}',
    models="Inkling",
).amid(
    reasoning=tuple(
        Channel(f"{begin}<|content_thinking|>", ("<|end_message|>",)) for begin in (_MESSAGE, "")
    ),
    dropped=(
        f"{_MESSAGE}<|content_text|>",
        "<|content_text|>",
        "<|content_tool_error|>",
        "<|content_model_end_sampling|>",
    ),
)
# The message of a call names the tool before its JSON does.
INKLING = replace(
    _INVOKED,
    written=(
        *_INVOKED.written,
        GrammarWithOpeners((_MESSAGE,), JsonCalls(("<|end_message|>",), head_end=_INVOKE)),
    ),
)
APERTUS = Dialect(
    name="apertus",
    written=(
        GrammarWithOpeners(
            ("<|tools_prefix|>",), JsonCalls(closers=("<|tools_suffix|>",), name_is_key=True)
        ),
    ),
    reasoning=(Channel("<|inner_prefix|>", ("<|inner_suffix|>",)),),
    dropped=("<|tools_suffix|>",),
    template=Template(
        "{{name_json}: {arguments}}",
        before="<|tools_prefix|>[",
        between=", ",
        after="]<|tools_suffix|>",
    ),
    models="Apertus 2509",
)
# Its lists are Python's; the token is often dropped with the other special ones.
SARASHINA = replace(
    _marked("sarashina", (("<|tool_calls|>",), ()), listed=True, models="Sarashina"),
    bare=(JsonCalls(marked=False),),
)
TOOLS_TAG = _marked(
    "tools_tag",
    (("<tools>", "<tool>"), ("</tools>", "</tool>")),
    models="small models that echo their prompt",
)
LMSTUDIO = _marked(
    "lmstudio",
    (("[TOOL_REQUEST]",), ("[END_TOOL_REQUEST]",)),
    models="any model without a format of its own in LM Studio",
)
DIALECTS = (
    HERMES,
    ERNIE45,
    LONGCAT,
    TEMPLATE_TAG,
    GRANITE_20B,
    GRANITE3,
    JAMBA,
    MINIMAX_M1,
    HUNYUAN_A13B,
    APRIEL,
    NEMOTRON,
    INTERNLM2,
    GIGACHAT31,
    GIGACHAT3,
    COHERE_CMD3,
    COHERE_CMD4,
    COMMAND_R_PLUS,
    PHI4,
    FIREFUNCTION,
    INKLING,
    APERTUS,
    SARASHINA,
    TOOLS_TAG,
    LMSTUDIO,
)


# Call objects as JSON without any marker: where an answer begins; Llama's, in its prose, too.


_LIST = Template(OBJECT, before="[", between=", ", after="]")
_WRAPPED = Template(OBJECT, before='{"tool_calls": [', between=", ", after="]}")
_BARE = JsonCalls(marked=False)

LLAMA3 = Dialect(
    name="llama3_json",
    written=(
        GrammarWithOpeners(
            ("<|python_tag|>", "<|python_start|>"),
            JsonCalls(closers=("<|python_end|>", "<|eom_id|>")),
        ),
        GrammarWithOpeners(
            ("<|python_tag|>",), PythonCalls(("<|eom_id|>",), brackets=False, method=".call")
        ),
        GrammarWithOpeners((BRACE,), _BARE),
    ),
    bare=(_BARE,),
    template=Template('{"name": {name_json}, "parameters": {arguments}}', between="; "),
    models="Llama 3.1, 3.2, 3.3 and 4",
)
XLAM = Dialect(
    name="xlam_json",
    written=(
        GrammarWithOpeners(("[TOOL_CALLS]",), JsonCalls()),
        GrammarWithOpeners(("<tool_call>",), JsonCalls(closers=("</tool_call>",))),
        GrammarWithOpeners(("```json", "```"), JsonCalls(closers=("```",))),
    ),
    bare=(_BARE,),
    template=_LIST,
    models="xLAM, Watt",
)
JSON_ARRAY = Dialect(
    name="json_array", bare=(_BARE,), template=_LIST, models="a forced tool choice in servers"
)
GENERIC = Dialect(
    name="json_generic", bare=(_BARE,), template=_WRAPPED, models="any model under a JSON grammar"
)
LITELLM = Dialect(
    name="litellm_json",
    bare=(_BARE,),
    template=Template(OBJECT, between="\n"),
    models="any prompted model",
)

CONSTRAINED = Dialect(
    name="constrained",
    bare=(ReplyOrCalls(),),
    template=Template(OBJECT, before='{"calls": [', between=", ", after="]}"),
    models="any, where the upstream can constrain decoding",
)

BARE_DIALECTS = (LLAMA3, XLAM, JSON_ARRAY, GENERIC, LITELLM)
