"""Every dialect by its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from wholecall.dialects.constrained import CONSTRAINED
from wholecall.dialects.declaration import THINK, Dialect, Grammar, Named, Written
from wholecall.dialects.formats import (
    headed,
    invoked,
    json_bare,
    json_marked,
    literal,
    named,
    tagged,
)
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

# Words that prose is full of are no opener where nobody announced the format.
_TOO_PLAIN = frozenset(
    {"functools", ">>>", "[", "to=", " to=", "Here are my reasoning steps:", "```", "```json"}
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
        written=written,
        bare=(
            JsonCalls(closers=("</tool_call>", "</tool_calls>"), marked=False),
            PythonCalls(marked=False),
        ),
        reasoning=tuple(each for each in channels if each.open not in _TOO_PLAIN),
        named=(Named.TAGS,),
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
_ANY = (
    Dialect(name="think_tags", reasoning=(THINK,), models="any that reasons and calls nothing"),
    AUTO,
    CONSTRAINED,
    replace(_TEMPLATED, written=(*_TEMPLATED.written, Written(("<tool_call>",), _LINES))),
)
DIALECTS: Mapping[str, Dialect] = {dialect.name: dialect for dialect in (*_WRITTEN, *_BARE, *_ANY)}


def dialect_named(name: str) -> Dialect:
    """The dialect of this name."""
    try:
        return DIALECTS[name]
    except KeyError:
        known = ", ".join(sorted(DIALECTS))
        raise UnusableDialect(f"there is no dialect {name!r}; there are {known}") from None
