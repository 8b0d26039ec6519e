"""The field `tool_calls` of a response template, translated to a grammar and its inverse.

The place of the tool's name and the notation of its arguments decide the family:

| content      | name              | becomes                          |
|--------------|-------------------|----------------------------------|
| `json`       | a key of it       | `JsonCalls`                      |
| `json`       | in the opening    | `HeadedCalls`, `GemmaCalls`, bare `JsonCalls` |
| `xml-inline` | in the opening    | `TagCalls`                       |
| `kv-lines`   | in the opening    | `LineCalls`                      |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from wholecall.dialects.declaration import Grammar, Written
from wholecall.dialects.encoding import Notation, Template
from wholecall.dialects.gemma_calls import GemmaCalls
from wholecall.dialects.headed_calls import HeadedCalls, Header
from wholecall.dialects.json_calls import JsonCalls
from wholecall.dialects.line_calls import LineCalls
from wholecall.dialects.patterns import Alternative, Blanks, Gap, Mark, Part, read_pattern
from wholecall.dialects.tag_calls import TagCalls
from wholecall.dialects.tag_heads import Tag
from wholecall.dialects.writing import Shape, Trim
from wholecall.errors import UnusableDialect

_NAME = "name"
_HOLE = re.compile(r"\{(\w+(?:\.\w+)*)\}\Z")
_TAG_NAME = re.compile(r"<([\w:.\-]+)")
_VALUE_SHAPES = {"text": Shape.TEXT, "json": Shape.JSON, "int": Shape.JSON, "float": Shape.JSON}
_VALUE_SHAPES["bool"] = Shape.JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class CallField:
    """A response template's description of calls."""

    opens: tuple[Alternative, ...]
    closes: tuple[str, ...]
    content: str
    content_args: Mapping[str, Any]
    transform: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """The reading and the writing of calls."""

    written: tuple[Written, ...] = ()
    bare: tuple[Grammar, ...] = ()
    dropped: tuple[str, ...] = ()
    template: Template | None = None


def translate_calls(field: CallField) -> Calls:
    """The grammar of the field; UnusableDialect says what of it cannot be translated."""
    name, arguments = _sources(field.transform)
    if not field.opens:
        raise _refusal("the calls open without a mark")
    if name != _NAME:
        if field.content != "json":
            raise _refusal(f"content {field.content!r} holds no name")
        return _json_calls(field, name.removeprefix("content."), arguments=arguments)
    if arguments != "content":
        raise _refusal(f"the arguments are {arguments!r}, and not the content")
    translate = _CAPTURED.get(field.content)
    if translate is None:
        raise _refusal(f"content {field.content!r} is not known")
    return translate(field, [_Opening.read(way) for way in field.opens])


def _refusal(why: str) -> UnusableDialect:
    return UnusableDialect(f"the field 'tool_calls': {why}")


# ── Where name and arguments come from ──────────────────────────────────────────────


def _sources(transform: object) -> tuple[str, str]:
    """The paths to the name and to the arguments."""
    if transform is None:
        return "content.name", "content.arguments"
    inner = transform.get("function", transform) if isinstance(transform, Mapping) else transform
    if inner == "{content}":
        return "content.name", "content.arguments"
    if not isinstance(inner, Mapping) or {"name", "arguments"} - inner.keys():
        raise _refusal(f"the transform {transform!r} gives no name and arguments")
    return _path(inner["name"]), _path(inner["arguments"])


def _path(text: object) -> str:
    found = _HOLE.match(text) if isinstance(text, str) else None
    if found is None:
        raise _refusal(f"{text!r} in the transform is no placeholder")
    return found[1]


@dataclass(frozen=True, slots=True)
class _Opening:
    """The text before and after the name."""

    before: Alternative
    after: Alternative

    @classmethod
    def read(cls, way: Alternative) -> _Opening:
        at = [index for index, part in enumerate(way) if part == Gap(_NAME)]
        if len(at) != 1 or not any(isinstance(part, Mark) for part in way[: at[0]]):
            raise _refusal("its opening has no mark before the name")
        return cls(way[: at[0]], way[at[0] + 1 :])

    @property
    def marks(self) -> list[str]:
        return _marks(self.before)

    @property
    def ends(self) -> list[str]:
        return _marks(self.after)


# ── JSON ────────────────────────────────────────────────────────────────────────────


def _json_calls(field: CallField, name: str, *, arguments: str) -> Calls:
    key = arguments.removeprefix("content.")
    if "." in name or "." in key:
        raise _refusal("name and arguments stand in objects in each other")
    ways = [_marks(way) for way in field.opens]
    if not all(ways):
        raise _refusal("the calls open without a mark")
    grammar = JsonCalls(field.closes, name_keys=(name,), argument_keys=(key,))
    openers = dict.fromkeys(marks[-1] for marks in ways)
    first, close = next(iter(openers)), field.closes[0] if field.closes else ""
    listed = isinstance(field.transform, Mapping) and not arguments.startswith("content.")
    call = f'{{"{name}": {{name_json}}, "{key}": {{arguments}}}}'
    return Calls(
        written=(Written(tuple(openers), grammar),),
        dropped=tuple(mark for marks in ways for mark in marks[:-1]) + field.closes,
        template=(
            Template(call, before=f"{first}[", between=", ", after=f"]{close}")
            if listed
            else Template(f"{first}\n{call}\n{close}", between="\n")
        ),
    )


def _headed_json(field: CallField, openings: list[_Opening]) -> Calls:
    if field.content_args.get("string_delims") or field.content_args.get("unquoted_keys"):
        return _gemma_calls(field, openings)
    if openings[0].marks[0].startswith("{"):
        return _bare_json(field)
    grammars = [_headed(field, opening) for opening in openings]
    head_end = "" if grammars[0].head_end == ("{",) else grammars[0].head_end[0]
    close = field.closes[0] if field.closes else ""
    return Calls(
        written=tuple(Written(grammar.calls, grammar) for grammar in grammars),
        dropped=field.closes,
        template=Template(f"{grammars[0].calls[0]}{{name}}{head_end}{{arguments}}{close}"),
    )


def _headed(field: CallField, opening: _Opening) -> HeadedCalls:
    """Read the name up to a mark; a word before it if there is more text between them."""
    ends = opening.ends
    plain = all(isinstance(part, Mark | Blanks) for part in opening.after) and len(ends) <= 1
    return HeadedCalls(
        calls=("".join(opening.marks),),
        head_end=(ends[-1].lstrip() or ends[-1],) if ends else ("{",),
        call_close=field.closes,
        head=Header.NAME if plain else Header.RECIPIENT,
    )


def _bare_json(field: CallField) -> Calls:
    """The opening is the beginning of the call's own object."""
    closes = tuple(close.lstrip("}") for close in field.closes)
    return Calls(
        bare=(JsonCalls(tuple(close for close in closes if close), marked=False),),
        dropped=tuple(close for close in closes if close),
        template=Template('{"name": {name_json}, "parameters": {arguments}}', between="\n"),
    )


def _gemma_calls(field: CallField, openings: list[_Opening]) -> Calls:
    delimiters = field.content_args.get("string_delims") or []
    if len(delimiters) != 1 or len(set(delimiters[0])) != 1:
        raise _refusal("strings are not delimited by one mark on both sides")
    quote, opener = delimiters[0][0], "".join(openings[0].marks)
    close = field.closes[0] if field.closes else ""
    return Calls(
        written=(Written((opener,), GemmaCalls(quote, field.closes, begin="")),),
        dropped=field.closes,
        template=Template(
            f"{opener}{{name}}{{arguments}}{close}", notation=Notation.GEMMA, quote=quote
        ),
    )


# ── Tags and lines ──────────────────────────────────────────────────────────────────


def _split(opening: _Opening) -> tuple[tuple[str, ...], str]:
    """The marks of a section, and the one right before the name."""
    *sections, call = opening.marks
    if not sections and call.rfind("<") > 0:
        at = call.rfind("<")
        sections, call = [call[:at]], call[at:]
    return tuple(sections), call


def _closing(call: str) -> tuple[str, ...]:
    """The closing tag of an opening one, which the pattern need not mention."""
    found = _TAG_NAME.match(call)
    return (f"</{found[1]}>",) if found else ()


def _tag_calls(field: CallField, openings: list[_Opening]) -> Calls:
    value, value_close, trim = _parameter(field.content_args.get("tag_pattern"))
    if field.content_args.get("merge_duplicates"):
        raise _refusal("parameters that come twice cannot be merged")
    opening = openings[0]
    sections, call = _split(opening)
    grammar = TagCalls(
        sections=sections,
        section_close=field.closes if sections else (),
        call=Tag(call, end=tuple(opening.ends[:1]) or ("\n",), keeps=(value.begin, *field.closes)),
        call_close=_closing(call) if sections else field.closes,
        value=value,
        value_close=(value_close,),
        trim=trim,
        untyped=_value_shape(field.content_args.get("value_parser")),
    )
    openers = (*sections, call)
    return Calls(
        written=(Written(openers, grammar),),
        dropped=(*grammar.call_close, *grammar.section_close, *grammar.value_close),
        template=_tag_template(grammar),
    )


def _tag_template(grammar: TagCalls) -> Template:
    newline = "\n" if grammar.trim is not Trim.NOTHING else ""
    value, call = grammar.value, grammar.call
    end = call.end[0] if call.end[0] != "\n" else ""
    sections = "".join(grammar.sections)
    return Template(
        f"{call.begin}{{name}}{end}\n{{arguments}}{grammar.call_close[0]}",
        before=f"{sections}\n" if sections else "",
        between="\n",
        after=f"\n{grammar.section_close[0]}" if sections else "",
        notation=Notation.TAGS,
        value=f"{value.begin}{{key}}{value.end[0]}{newline}{value.then}{{value}}"
        f"{newline}{grammar.value_close[0]}\n",
        marks=grammar.value_ends,
        trims=grammar.trim is Trim.BLANKS,
    )


def _parameter(pattern: object) -> tuple[Tag, str, Trim]:
    """`<parameter=(?P<key>…)>\\s*(?P<value>…)\\s*</parameter>`"""
    try:
        ways = read_pattern(pattern) if isinstance(pattern, str) else ()
    except UnusableDialect as error:
        raise _refusal(f"tag_pattern: {error}") from None
    way = ways[0] if len(ways) == 1 else ()
    gaps = [part for part in way if isinstance(part, Gap)]
    if gaps != [Gap("key"), Gap("value")]:
        raise _refusal(f"the tag_pattern {pattern!r} is no tag with a key and a value")
    key, value = way.index(gaps[0]), way.index(gaps[1])
    match _marks(way[:key]), _marks(way[key:value]), _marks(way[value:]):
        case [begin], [end, *then], [close]:
            tag = Tag(begin, end=(end.strip("\n"),), then="".join(then).strip("\n"))
        case _:
            raise _refusal(f"the tag_pattern {pattern!r} has too few marks")
    return tag, close.strip("\n"), _trim(way[value - 1], way[value + 1])


def _marks(parts: Alternative) -> list[str]:
    return [part.text for part in parts if isinstance(part, Mark)]


def _trim(before: Part, after: Part) -> Trim:
    if isinstance(before, Blanks) and isinstance(after, Blanks):
        return Trim.BLANKS
    match before, after:
        case Mark(text=first), Mark(text=last) if first.endswith("\n") and last.startswith("\n"):
            return Trim.NEWLINE
        case _:
            return Trim.NOTHING


def _value_shape(parser: object) -> Shape:
    """Return the shape of a value without a schema."""
    name = parser.get("name", "text") if isinstance(parser, Mapping) else "text"
    if name not in _VALUE_SHAPES:
        raise _refusal(f"the value_parser {name!r} is not known")
    return _VALUE_SHAPES[name]


def _line_calls(field: CallField, openings: list[_Opening]) -> Calls:
    if field.content_args.get("line_sep", "\n") != "\n":
        raise _refusal("parameters that do not stand in lines")
    sections, call = _split(openings[0])
    ends = openings[0].ends
    grammar = LineCalls(
        head_end=(ends[0].rstrip("\n") or "\n",) if ends else ("\n",),
        closers=(*field.closes, *(_closing(call) if sections else ())),
        begin=call if sections else "",
        separator=str(field.content_args.get("kv_sep", ":")),
        untyped=_value_shape(field.content_args.get("value_parser")),
    )
    opener = "".join(sections) or call
    return Calls(written=(Written((opener,), grammar),), dropped=grammar.closers)


_CAPTURED: dict[str, Callable[[CallField, list[_Opening]], Calls]] = {
    "json": _headed_json,
    "xml-inline": _tag_calls,
    "kv-lines": _line_calls,
}
