"""Every dialect by its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from wholecall.dialects.constrained import CONSTRAINED
from wholecall.dialects.declaration import END_TOKENS, THINK, Dialect, Grammar, Named, Written
from wholecall.dialects.formats import (
    headed,
    invoked,
    json_bare,
    json_marked,
    literal,
    named,
    tagged,
    unannounced,
)
from wholecall.dialects.headed_calls import HeadedCalls
from wholecall.dialects.json_calls import JsonCalls
from wholecall.dialects.line_calls import LineCalls
from wholecall.dialects.python_calls import PythonCalls
from wholecall.dialects.tag_calls import TagCalls
from wholecall.dialects.writing import Shape
from wholecall.errors import UnusableDialect

_WRITTEN = (
    *tagged.DIALECTS,
    *json_marked.DIALECTS,
    *headed.DIALECTS,
    *invoked.DIALECTS,
    *literal.DIALECTS,
    *named.DIALECTS,
)
_BARE = json_bare.DIALECTS

# Words that are common in prose are not openers unless the format was announced, and a fence after
# prose shows an example.
_TOO_PLAIN = frozenset(
    {
        *(">>>", "[", "{", "to=", " to=", "Here are my reasoning steps:"),
        *("```", "```json", "```tool_code\n"),
    }
)


def _auto(name: str, untyped: Shape | None = None) -> Dialect:
    """All formats at once: the first opener that is followed by a call selects one."""
    written = tuple(
        Written(
            tuple(each for each in entry.openers if each not in _TOO_PLAIN),
            _retyped(entry.grammar, untyped),
        )
        for dialect in (*_WRITTEN, *_BARE)
        for entry in dialect.written
    )
    channels = dict.fromkeys(channel for dialect in _WRITTEN for channel in dialect.reasoning)
    return Dialect(
        name=name,
        written=(*written, *unannounced.WRITTEN),
        bare=(
            JsonCalls(closers=("</tool_call>", "</tool_calls>"), marked=False),
            PythonCalls(marked=False),
        ),
        alone=unannounced.ALONE,
        fenced=tuple(pair for dialect in _WRITTEN for pair in dialect.fenced),
        reasoning=tuple(each for each in channels if each.open not in _TOO_PLAIN),
        texts=tuple(channel for each in _WRITTEN for channel in each.texts),
        remains=(*END_TOKENS, *dict.fromkeys(mark for each in _WRITTEN for mark in each.dropped)),
        named=(Named.TAGS, Named.HEADS),
        rescues=True,
        models="any",
    )


def _retyped(grammar: Grammar, untyped: Shape | None) -> Grammar:
    if untyped is None or not isinstance(grammar, TagCalls):
        return grammar
    return replace(grammar, untyped=untyped)


AUTO = _auto("auto")
# The answer of a model whose response template is not at hand: parameters may also stand in lines.
_LINES = LineCalls(head_end=(">",), closers=("</tool_call>", "</function>"), begin="<function=")
_TEMPLATED = _auto("hf_response_template", Shape.JSON)
# Ollama reads the marker of a model from its template; here all that are followed by JSON may
# stand there.
_TEMPLATE_TAG = replace(
    json_marked.TEMPLATE_TAG,
    written=tuple(
        Written(tuple(each for each in entry.openers if each not in _TOO_PLAIN), entry.grammar)
        for dialect in (json_marked.TEMPLATE_TAG, *_WRITTEN)
        for entry in dialect.written
        if isinstance(entry.grammar, JsonCalls | HeadedCalls)
    ),
)
_ANY = (
    _TEMPLATE_TAG,
    Dialect(name="think_tags", reasoning=(THINK,), models="any that reasons and calls nothing"),
    AUTO,
    CONSTRAINED,
    replace(_TEMPLATED, written=(*_TEMPLATED.written, Written(("<tool_call>",), _LINES))),
)
DIALECTS: Mapping[str, Dialect] = {dialect.name: dialect for dialect in (*_WRITTEN, *_BARE, *_ANY)}


# What servers call the same in their options (`--tool-call-parser`).
_ELSEWHERE: Mapping[str, str] = {
    "cohere_command3": "cohere_cmd3",
    "cohere_command4": "cohere_cmd4",
    "deepseek_v32": "deepseek_v32_dsml",
    "deepseek_v4": "deepseek_v4_dsml",
    "deepseekv3": "deepseek_v3",
    "deepseekv31": "deepseek_v31",
    "deepseekv32": "deepseek_v32_dsml",
    "deepseekv4": "deepseek_v4_dsml",
    "functionary": "functionary_v32",
    "glm": "glm45",
    "gpt_oss": "harmony",
    "granite": "granite3",
    "granite4": "hermes",
    "granite_20b_fc": "granite20b_fc",
    "hunyuan": "hunyuan_v3",
    "hy_v3": "hunyuan_v3",
    "internlm": "internlm2",
    "ling3": "glm47",
    "llama3": "llama3_json",
    "llama4": "pythonic",
    "llama4_json": "llama3_json",
    "llama4_pythonic": "pythonic",
    "longcat_json": "longcat",
    "mimo": "qwen3_xml",
    "minicpm5xml": "minicpm5",
    "minimax": "minimax_m1",
    "muse_glimmer": "muse_atem",
    "nemotron_v3": "qwen3_xml",
    "openai": "harmony",
    "phi4_mini_json": "phi4_functools",
    "qwen": "hermes",
    "qwen25": "hermes",
    "qwen3_coder": "qwen3_xml",
    "step3p5": "qwen3_xml",
    "trinity": "hermes",
    "xlam": "xlam_json",
}


def dialect_named(name: str) -> Dialect:
    """The dialect of this name, or of the name that a server gives to it."""
    written = name.lower().replace("-", "_")
    try:
        return DIALECTS[_ELSEWHERE.get(written, written)]
    except KeyError:
        known = ", ".join(sorted(DIALECTS))
        raise UnusableDialect(f"there is no dialect {name!r}; there are {known}") from None
