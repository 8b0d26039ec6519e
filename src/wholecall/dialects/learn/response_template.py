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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from wholecall.dialects.dialect import (
    Channel,
    Dialect,
    Grammar,
    GrammarWithOpeners,
    Notation,
    Template,
)
from wholecall.dialects.grammars.headed_calls import HeadedCalls, Header, LineCalls
from wholecall.dialects.grammars.json_calls import JsonCalls
from wholecall.dialects.grammars.json_values import Shape, Trim
from wholecall.dialects.grammars.literal_calls import GemmaCalls
from wholecall.dialects.grammars.tag_calls import TagCalls
from wholecall.dialects.grammars.tag_values import Tag
from wholecall.errors import UnusableDialect

# ── Patterns ───────────────────────────────────────────────────────────────────────────
# A format is described by regular expressions, most of which say no more than
# `<tool_call>\s*<function=(?P<name>\w+)>`: a mark, white space, a mark, a name, a mark. Those are
# read as data; a pattern that says more is refused by name. None is ever run.

_MOST_WAYS = 16
"""Alternatives that a pattern may have. Real ones have two."""
_DEEPEST = 8
"""Groups in each other. Real ones are one deep."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Literal text."""

    text: str


@dataclass(frozen=True, slots=True)
class Blanks:
    """White space, or none."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Text that is wanted, under its name; without one, it is read over."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class TextEdge:
    """The beginning or the end of the text."""


Part: TypeAlias = Mark | Blanks | Gap | TextEdge
Alternative: TypeAlias = tuple[Part, ...]
"""One way in which a pattern can stand in a text."""

_TOKEN = re.compile(
    r"""(?P<group>\(\?P<(?P<name>\w+)>|\(\?:)
    | (?P<unread>\(|\\[1-9bBAdDW]|\{\d)
    | (?P<close>\))
    | (?P<or>\|)
    | (?P<edge>\^|\$|\\Z)
    | (?P<blank>\\s)
    | (?P<many>\[(?:\\.|[^\]\\])+\]|\\[wS]|\.)
    | \\(?P<control>[nrt])
    | \\(?P<escaped>.)
    | (?P<literal>[^\\])""",
    re.VERBOSE | re.DOTALL,
)
_REPEAT = re.compile(r"[*+][?+]?|\?{1,2}")
_LONGEST_SHOWN = 48
_CLASSES: dict[str, Part] = {"edge": TextEdge(), "blank": Blanks(), "many": Gap()}
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t"}


def read_pattern(pattern: str) -> tuple[Alternative, ...]:
    """The ways in which a pattern can stand in a text; UnusableDialect if it says more."""
    reader = _Reader(pattern)
    ways = reader.ways()
    if reader.at < len(pattern):
        raise UnusableDialect(f"')' in {pattern!r} closes nothing")
    return tuple(_joined(way) for way in ways)


class _Reader:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self.at = 0
        self._depth = 0

    def ways(self) -> list[Alternative]:
        """Alternatives up to a closing parenthesis or the end."""
        done: list[Alternative] = []
        ways: list[Alternative] = [()]
        while self.at < len(self._pattern) and self._pattern[self.at] != ")":
            found = self._token()
            if found["or"]:
                done += ways
                ways = [()]
                continue
            further = self._atom(found)
            ways = [(*way, *more) for way in ways for more in further]
            if len(done) + len(ways) > _MOST_WAYS:
                raise UnusableDialect(f"{self._pattern!r} has too many alternatives")
        return done + ways

    def _token(self) -> re.Match[str]:
        found = _TOKEN.match(self._pattern, self.at)
        if found is None or found["unread"]:
            raise self._refusal(self.at, self.at + 12)
        self.at = found.end()
        return found

    def _repeat(self) -> str:
        found = _REPEAT.match(self._pattern, self.at)
        self.at = found.end() if found else self.at
        return found.group() if found else ""

    def _atom(self, found: re.Match[str]) -> list[Alternative]:
        begin = found.start()
        if found["group"]:
            return self._group(found["name"] or "", begin)
        repeat = self._repeat()
        for kind, part in _CLASSES.items():
            if found[kind]:
                return [(part,)]
        literal = _CONTROLS.get(found["control"] or "") or found["escaped"] or found["literal"]
        if not repeat:
            return [(Mark(literal),)]
        if literal.isspace():
            return [(Blanks(),)]
        if repeat == "?":
            return [(Mark(literal),), ()]
        raise self._refusal(begin)

    def _group(self, name: str, begin: int) -> list[Alternative]:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise UnusableDialect(f"{self._pattern!r} has too many groups in each other")
        ways = self.ways()
        self._depth -= 1
        if self.at >= len(self._pattern):
            raise UnusableDialect(f"a group in {self._pattern!r} is not closed")
        self.at += 1
        repeat = self._repeat()
        if name and (repeat or ways != [(Gap(),)]):
            raise self._refusal(begin)
        if name:
            return [(Gap(name),)]
        if repeat not in ("", "?"):
            raise self._refusal(begin)
        return [*ways, ()] if repeat else ways

    def _refusal(self, begin: int, end: int | None = None) -> UnusableDialect:
        culprit, pattern = self._pattern[begin : end or self.at], self._pattern
        return UnusableDialect(f"{_cut(culprit)} in {_cut(pattern)} cannot be translated")


def _cut(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…")


def _joined(way: Alternative) -> Alternative:
    """The same with neighbouring marks as one, and neighbouring blanks, too."""
    parts: list[Part] = []
    for part in way:
        last = parts[-1] if parts else None
        if isinstance(last, Mark) and isinstance(part, Mark):
            parts[-1] = Mark(last.text + part.text)
        elif not (isinstance(part, Blanks) and isinstance(last, Blanks)):
            parts.append(part)
    return tuple(parts)


# ── Calls ──────────────────────────────────────────────────────────────────────────────

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

    written: tuple[GrammarWithOpeners, ...] = ()
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
        written=(GrammarWithOpeners(tuple(openers), grammar),),
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
        written=tuple(GrammarWithOpeners(grammar.calls, grammar) for grammar in grammars),
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
        written=(GrammarWithOpeners((opener,), GemmaCalls(quote, field.closes, begin="")),),
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
        written=(GrammarWithOpeners(openers, grammar),),
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
    return Calls(written=(GrammarWithOpeners((opener,), grammar),), dropped=grammar.closers)


_CAPTURED: dict[str, Callable[[CallField, list[_Opening]], Calls]] = {
    "json": _headed_json,
    "xml-inline": _tag_calls,
    "kv-lines": _line_calls,
}


# A `response_template` of Hugging Face's transformers, loaded as a dialect.
#
# It ships in `tokenizer_config.json` and describes a model's answer by fields:
#
#     {"start_anchor": "<|im_start|>assistant\n",
# >      "fields": {"thinking": {"open": "<think>", "close": "</think>"},
# >                 "tool_calls": {"open": "<tool_call>", "close": "</tool_call>", "repeats": true,
# >                                "content": "json", "transform": {"function": "{content}"}},
#                 "content": {"close": "<|im_end|>"}}}
#
# What its marks and patterns say becomes a declaration; no pattern is ever run over a model's text.
# What cannot be said in a declaration is refused, with its place.


_REASONING = frozenset({"thinking", "reasoning", "reasoning_content"})
_TEXT = "content"
_CALLS = "tool_calls"
_KNOWN = _REASONING | {_TEXT, _CALLS}
_TOP = frozenset({"version", "defaults", "fields", "start_anchor", "start_anchor_pattern"})


@dataclass(frozen=True, slots=True)
class _Region:
    """The beginning and the end of a field."""

    opens: tuple[Alternative, ...]
    closes: tuple[str, ...]

    def marks(self, name: str) -> list[tuple[str, tuple[str, ...]]]:
        """The marks that open it, each with those that may stand before it."""
        found = [(way, [part.text for part in way if isinstance(part, Mark)]) for way in self.opens]
        if any(not marks and way != (TextEdge(),) for way, marks in found):
            raise UnusableDialect(f"the field {name!r} opens without a mark")
        return [(marks[-1], tuple(marks[:-1])) for _, marks in found if marks]


def load_response_template(described: object, *, name: str = "response_template") -> Dialect:
    """The dialect that a response template describes.

    Given is the template itself, or a `tokenizer_config.json` that holds one.
    """
    template = _template_in(described)
    fields = template["fields"]
    if _CALLS not in fields:
        raise UnusableDialect(f"the response_template has no field {_CALLS!r}: it calls no tools")
    regions = {key: _read_region(key, field) for key, field in fields.items()}
    calls = translate_calls(_call_field(fields[_CALLS], regions[_CALLS]))
    texts, before = _texts_of(regions.get(_TEXT))
    anchors = _literals(template.get("start_anchor", []), "start_anchor")
    return Dialect(
        name=name,
        written=calls.written,
        bare=calls.bare,
        reasoning=tuple(_channels(regions)),
        texts=texts,
        dropped=tuple(
            dict.fromkeys((*calls.dropped, *before, *(each for each in anchors if each[0] == "<")))
        ),
        template=calls.template,
        models="the model of the response template",
    )


def _template_in(described: object) -> Mapping[str, Any]:
    if not isinstance(described, Mapping):
        raise UnusableDialect("a response_template is a JSON object")
    inside = described.get("response_template", described)
    if inside is described and ("response_schema" in described or "x-regex" in described):
        raise UnusableDialect(
            "a response_schema (from transformers before 5.13) holds regular expressions over "
            "whole answers, which cannot be translated; learn the chat template instead"
        )
    if not isinstance(inside, Mapping) or not isinstance(inside.get("fields"), Mapping):
        raise UnusableDialect("there is no response_template with fields in it")
    unknown = sorted(inside.keys() - _TOP)
    if unknown:
        raise UnusableDialect(f"the response_template has {unknown[0]!r}, which is not known")
    if inside.get("version", 1) != 1:
        raise UnusableDialect(f"version {inside['version']!r} of response_template is not known")
    return inside


# ── Regions ─────────────────────────────────────────────────────────────────────────


def _read_region(name: str, field: object) -> _Region:
    if name not in _KNOWN:
        raise UnusableDialect(f"the field {name!r} is neither text nor reasoning nor calls")
    if not isinstance(field, Mapping):
        raise UnusableDialect(f"the field {name!r} is no object")
    where = f"the field {name!r}"
    closes = tuple(_closers(_ways(field, "close", where=where), where))
    return _Region(_ways(field, "open", where=where), closes)


def _ways(field: Mapping[str, Any], key: str, *, where: str) -> tuple[Alternative, ...]:
    pattern = field.get(f"{key}_pattern")
    if pattern is None:
        return tuple((Mark(text),) for text in _literals(field.get(key, []), f"{key} of {where}"))
    if not isinstance(pattern, str):
        raise UnusableDialect(f"{where}: {key}_pattern is no text")
    try:
        return read_pattern(pattern)
    except UnusableDialect as error:
        raise UnusableDialect(f"{where}: {key}_pattern: {error}") from None


def _literals(value: object, where: str) -> list[str]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(each, str) and each for each in listed):
        raise UnusableDialect(f"{where} is neither a text nor a list of texts")
    return listed


def _closers(ways: tuple[Alternative, ...], where: str) -> Iterator[str]:
    for way in ways:
        parts = [part for part in way if not isinstance(part, Blanks | TextEdge)]
        match parts:
            case []:
                continue
            case [Mark(text=text)]:
                yield text
            case _:
                raise UnusableDialect(f"{where} closes with more than one mark")


# ── Channels ────────────────────────────────────────────────────────────────────────


def _channels(regions: Mapping[str, _Region]) -> Iterator[Channel]:
    for name in regions.keys() & _REASONING:
        region = regions[name]
        others = {mark for key, other in regions.items() if key != name for mark in other.closes}
        # A closer of its own may come alone: then the prompt has opened the reasoning.
        prompted = others.isdisjoint(region.closes)
        for mark, _ in region.marks(name):
            yield Channel(mark, region.closes, prompted=prompted)


def _texts_of(region: _Region | None) -> tuple[tuple[Channel, ...], tuple[str, ...]]:
    """Return the channels of text, and markers that are not part of it."""
    if region is None:
        return (), ()
    if not region.opens:
        return (), region.closes
    marks = region.marks(_TEXT)
    before = tuple(each for _, earlier in marks for each in earlier)
    return tuple(Channel(mark, region.closes) for mark in dict(marks)), before


def _call_field(field: Mapping[str, Any], region: _Region) -> CallField:
    arguments = field.get("content_args", {})
    return CallField(
        opens=region.opens,
        closes=region.closes,
        content=str(field.get("content", "text")),
        content_args=arguments if isinstance(arguments, Mapping) else {},
        transform=field.get("transform"),
    )
