"""Calls as tags with their names in the tags: Qwen's, GLM's and their relatives."""

from __future__ import annotations

from wholecall.dialects.declaration import THINK, Channel, Dialect, Written
from wholecall.dialects.json_calls import JsonCalls
from wholecall.dialects.tag_calls import Tag, TagCalls
from wholecall.dialects.writing import Shape, Trim


def _function_equals(section: str) -> TagCalls:
    return TagCalls(
        sections=(f"<{section}>",),
        section_close=(f"</{section}>",),
        call=Tag("<function="),
        call_close=("</function>",),
        value=Tag("<parameter="),
        value_close=("</parameter>",),
        stops=True,
    )


def _dialect(
    name: str, grammar: TagCalls, models: str, *, reasoning: tuple[Channel, ...] = (THINK,)
) -> Dialect:
    openers = dict.fromkeys((*grammar.sections, grammar.call.begin))
    return Dialect(
        name=name,
        written=(
            Written(tuple(openers), grammar),
            Written(grammar.sections, JsonCalls(grammar.section_close)),
        ),
        reasoning=reasoning,
        dropped=(*grammar.call_close, *grammar.section_close, *grammar.value_close),
        models=models,
    )


QWEN3_XML = _dialect(
    "qwen3_xml",
    _function_equals("tool_call"),
    "Qwen3-Coder, Qwen3.5 and later, Nemotron 3, Step-3.5-Flash, MiMo, UI-TARS",
)
FUNCTIONARY_V31 = _dialect(
    "functionary_v31", _function_equals("tool_call"), "Functionary v3.1, Llama 3.1 (custom tools)"
)
SEED_OSS = _dialect(
    "seed_oss",
    _function_equals("seed:tool_call"),
    "Seed-OSS",
    reasoning=(Channel("<seed:think>", ("</seed:think>",), prompted=True), THINK),
)


def _arg_key(prefix: str = "", *, section: str = "", suffix: str = "") -> TagCalls:
    close = f"</{prefix}tool_call{suffix}>"
    separator = f"<tool_sep{suffix}>"
    value = Tag(
        f"<{prefix}arg_key{suffix}>",
        end=(f"</{prefix}arg_key{suffix}>",),
        then=f"<{prefix}arg_value{suffix}>",
    )
    return TagCalls(
        sections=(f"<{section}{suffix}>",) if section else (),
        section_close=(f"</{section}{suffix}>",) if section else (),
        call=Tag(
            f"<{prefix}tool_call{suffix}>",
            end=("\n", "\\n", separator),
            keeps=(value.begin, close),
            glued=value.end[0],
        ),
        call_close=(close,),
        value=value,
        value_close=(f"</{prefix}arg_value{suffix}>",),
        trim=Trim.NOTHING,
        untyped=Shape.JSON,
    )


GLM45 = _dialect("glm45", _arg_key(), "GLM-4.5, GLM-4.6")
GLM47 = _dialect("glm47", _arg_key(), "GLM-4.7, GLM-5, Ling-3")
POOLSIDE = _dialect("poolside_v1", _arg_key(), "Laguna")
LONGCAT_XML = _dialect("longcat_xml", _arg_key("longcat_"), "LongCat")
HUNYUAN_V3 = _dialect("hunyuan_v3", _arg_key(section="tool_calls"), "Hunyuan 3")

DIALECTS = (QWEN3_XML, FUNCTIONARY_V31, SEED_OSS, GLM45, GLM47, POOLSIDE, LONGCAT_XML, HUNYUAN_V3)
