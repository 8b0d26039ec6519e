"""Calls as tags with their names in the tags: Qwen's, GLM's and their relatives."""

from __future__ import annotations

from dataclasses import replace

from wholecall.dialects.declaration import THINK, Channel, Dialect, Written
from wholecall.dialects.encoding import Notation, Template
from wholecall.dialects.json_calls import JsonCalls
from wholecall.dialects.tag_calls import TagCalls
from wholecall.dialects.tag_heads import Tag
from wholecall.dialects.writing import Shape, Trim


def _function_equals(section: str) -> TagCalls:
    return TagCalls(
        sections=(f"<{section}>",),
        section_close=(f"</{section}>",),
        call=Tag("<function=", keeps=("{",)),
        call_close=("</function>",),
        value=Tag("<parameter="),
        value_close=("</parameter>",),
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
            Written(_openers(grammar), grammar),
            Written(grammar.sections, JsonCalls(grammar.section_close)),
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
    models="Qwen3-Coder, Qwen3.5 and later, Nemotron 3, Step-3.5-Flash, MiMo, UI-TARS",
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
            keeps=(value.begin, close, "{"),
            glued=value.end[0],
        ),
        call_close=(close,),
        value=value,
        value_close=(f"</{prefix}arg_value{suffix}>",),
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


GLM45 = _arg_key_dialect("glm45", "GLM-4.5, GLM-4.6", newline="\n")
GLM47 = _arg_key_dialect("glm47", "GLM-4.7, GLM-5, Ling-3")
POOLSIDE = _arg_key_dialect("poolside_v1", "Laguna", newline="\n")
LONGCAT_XML = _arg_key_dialect("longcat_xml", "LongCat", prefix="longcat_", newline="\n")


def _hunyuan(*suffixes: str) -> Dialect:
    """Its tags may carry a suffix, all of them the same: `<tool_sep:opensource>`."""
    own = _arg_key_dialect("hunyuan_v3", "Hunyuan 3", newline="\n", section="tool_calls")
    grammars = tuple(_arg_key(section="tool_calls", suffix=suffix) for suffix in suffixes)
    thoughts = (Channel(f"<think{each}>", (f"</think{each}>",), prompted=True) for each in suffixes)
    return replace(
        own,
        written=(*own.written, *(Written(_openers(grammar), grammar) for grammar in grammars)),
        dropped=(*own.dropped, *(mark for grammar in grammars for mark in _closers(grammar))),
        reasoning=(*own.reasoning, *thoughts),
    )


HUNYUAN_V3 = _hunyuan(":opensource")

DIALECTS = (QWEN3_XML, FUNCTIONARY_V31, SEED_OSS, GLM45, GLM47, POOLSIDE, LONGCAT_XML, HUNYUAN_V3)
