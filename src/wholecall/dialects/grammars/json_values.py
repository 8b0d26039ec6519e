"""JSON values inside other text, and raw text written as JSON values while it arrives."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from wholecall.arguments.parse import Parsed, parse
from wholecall.arguments.repair import Rewriter
from wholecall.dialects.char_stream import (
    BLANKS,
    CharStream,
    Markers,
    Sink,
    Steps,
    ignore,
    markers_of,
)
from wholecall.events import JSON

_CLOSER_OF = {"{": "}", "[": "]"}
_STRUCTURE = re.compile(r"""["'{}\[\]]""")
_STRUCTURE_OR_MARK = re.compile(r"""["'{}\[\]<]""")
_STRING_MARKS = {'"': re.compile(r'["\\]'), "'": re.compile(r"['\\]")}
_SCALAR_END = re.compile(r"[,}\]\s<\[|]")
_COMMA = markers_of((",",))
_QUOTE = markers_of(('"', "'"))
_BRACE = markers_of(("{",))
_MEMBER_OR_OBJECT = markers_of(('"', "'", "{"))
_FOLLOWED = r"""(?=\s*+(?:[,:}\]]|(?:```\s*+)?\Z))"""
_UNQUOTED = r"""(?!\s*+["'])"""
_IN_ORDER = re.compile(
    rf"""(?:\s++|[{{\[,:]|[}}\]]{_UNQUOTED}|"(?:[^"\\]++|\\.)*+"{_FOLLOWED}"""
    rf"""|'(?:[^'\\]++|\\.)*+'{_FOLLOWED}|[^\s"'{{}}\[\],:]++{_FOLLOWED}|```\s*+\Z)*+\Z""",
    re.DOTALL,
)
"""JSON up to some place, each of its strings between the marks that may stand beside one."""
_STRAY = frozenset("}]")
_MOST_STRAY = 8
"""Brackets too many before the end of a call."""
LONGEST_KEY = 1024
BROKEN_JSON = "its JSON is broken: a bracket does not fit, or something stands where nothing may"


def read_value(source: CharStream, sink: Sink, *, ends: Markers | None = None) -> Steps[bool]:
    """Pass on one value; return False if it is cut off or broken. Skip white space before it.

    It is also broken if one of `ends` is outside its strings.
    """
    first = yield from source.skip()
    if first in _CLOSER_OF and ends is not None:
        place = source.bookmark()
        whole = yield from _container(source, sink, ends=_Ends(source, ends, begin=place))
        source.forget()
        return whole
    if first in _CLOSER_OF:
        return (yield from _container(source, sink))
    if first and first in _STRING_MARKS:
        return (yield from _string(source, sink))
    return (yield from _scalar(source, sink))


def has_more_members(source: CharStream, *, begins: Markers = _QUOTE) -> Steps[bool]:
    """Return True if members follow a closed object: a surplus bracket closed it early."""
    if not (yield from source.sees_ahead(_COMMA)):
        return False
    comma = source.text.index(",", source.at) - source.at
    return bool((yield from source.sees_ahead(begins, comma + 1)))


def read_arguments(source: CharStream, sink: Sink, *, ends: Markers) -> Steps[bool]:
    """Hand on an object that is all of a call's arguments; False if it is not, or not whole."""
    place = source.bookmark()
    whole = yield from read_value(source, sink, ends=ends)
    text = source.since(place)
    alone = whole and not (yield from _is_followed(source, text))
    source.forget()
    return alone


def _is_followed(source: CharStream, text: str) -> Steps[bool]:
    """Return True if more follows these arguments: members, or another object. An equal object is a
    repeat."""
    while (yield from source.sees_ahead(_BRACE)):
        yield from source.skip()
        place = source.place
        if not (yield from read_value(source, ignore)) or source.since(place) != text:
            return True
    return (yield from has_more_members(source, begins=_MEMBER_OR_OBJECT))


def accept_end(source: CharStream, marks: Markers) -> Steps[bool]:
    """Read the mark that ends a call, and brackets too many before it; False without a mark."""
    stray = 0
    while stray < _MOST_STRAY and (yield from source.peek(stray + 1))[stray:] in _STRAY:
        stray += 1
    if not (yield from source.sees_ahead(marks, stray)):
        return False
    source.at += stray
    yield from source.skip()
    yield from source.accept(marks)
    return True


class _Ends:
    """Marks that end a value which has no end of its own.

    A quote that was not escaped turns strings inside out, and what stood in one then seems to
    stand outside. So an end is believed only while all strings stand where strings may.
    """

    def __init__(self, source: CharStream, marks: Markers, *, begin: int) -> None:
        self._source = source
        self._marks: Markers | None = marks
        self._begin = begin

    def stand_here(self) -> Steps[bool]:
        """Return True if one of them is here and is believed; the text is read once."""
        if self._marks is None or not (yield from self._source.sees(self._marks)):
            return False
        if _IN_ORDER.match(self._source.since(self._begin)):
            return True
        self._marks = None
        return False


def _container(source: CharStream, sink: Sink, *, ends: _Ends | None = None) -> Steps[bool]:
    structure = _STRUCTURE if ends is None else _STRUCTURE_OR_MARK
    closers: list[str] = []
    while True:
        found = structure.search(source.text, source.at)
        source.hand_on(found.start() if found else len(source.text), sink)
        if found is None:
            goes_on = yield from source.more()
        elif found.group() in _STRING_MARKS:
            goes_on = yield from _string(source, sink)
        elif ends is not None and found.group() in "<[" and (yield from ends.stand_here()):
            return False
        else:
            goes_on = _fits(closers, source.text[source.at])
            if goes_on:
                source.hand_on(source.at + 1, sink)
            if goes_on and not closers:
                return True
        if not goes_on:
            return False


def _fits(closers: list[str], mark: str) -> bool:
    """Take a bracket or another mark; return True if it is allowed here."""
    if mark in _CLOSER_OF:
        closers.append(_CLOSER_OF[mark])
    elif mark in _STRAY:
        return closers.pop() == mark
    return True


def _string(source: CharStream, sink: Sink, *, longest: int | None = None) -> Steps[bool]:
    """From the opening quote on to the closing one; False also if that is too far away."""
    marks = _STRING_MARKS[source.text[source.at]]
    begin = source.place
    source.hand_on(source.at + 1, sink)
    while longest is None or source.place - begin <= longest:
        found = marks.search(source.text, source.at)
        if found is None:
            source.hand_on(len(source.text), sink)
        elif found.group() != "\\":
            source.hand_on(found.end(), sink)
            return True
        elif found.end() < len(source.text):
            source.hand_on(found.end() + 1, sink)
            continue
        else:  # a backslash at the end: what it escapes is still to come
            source.hand_on(found.start(), sink)
        if not (yield from source.more()):
            source.hand_on(len(source.text), sink)
            return False
    return False


def _scalar(source: CharStream, sink: Sink) -> Steps[bool]:
    """A number or a word. It ends where something else begins."""
    seen = False
    while True:
        found = _SCALAR_END.search(source.text, source.at)
        end = len(source.text) if found is None else found.start()
        seen = seen or end > source.at
        source.hand_on(end, sink)
        if found is not None:
            return seen
        if not (yield from source.more()):
            return False


def read_string(source: CharStream, longest: int = LONGEST_KEY) -> Steps[str | None]:
    """Return a short string, decoded; None without one at this position."""
    first = yield from source.skip()
    if not first or first not in _STRING_MARKS:
        return None
    pieces: list[str] = []
    whole = yield from _string(source, pieces.append, longest=longest)
    return decode_string("".join(pieces)) if whole else None


def decode_string(text: str) -> str | None:
    """The value of a quoted string in JSON's or Python's notation."""
    parsed = read_text(text)
    return parsed.value if isinstance(parsed, Parsed) and isinstance(parsed.value, str) else None


def read_text(text: str) -> Parsed | None:
    """A whole value, strict or in a notation that has one reading."""
    parsed = parse(text)
    if isinstance(parsed, Parsed):
        return parsed
    rewriter = Rewriter(text)
    strict = rewriter.rewrite()
    if strict is None or text[rewriter.at :].strip(BLANKS):
        return None
    again = parse(strict)
    return again if isinstance(again, Parsed) else None


def escape(text: str) -> str:
    """Escape a piece of text for the inside of a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


# Raw values of tags, written as JSON while they arrive.
#
# What a schema takes for a string streams out piece by piece; `007` stays what it is. Any other
# value is written once it is whole: as JSON if it is JSON of a type that the schema allows, and as
# a string otherwise, which the schema's coercion judges like any other.


class Trim(enum.Enum):
    """The white space around a value that belongs to the tags."""

    NOTHING = "nothing"
    NEWLINE = "newline"  # one on each side, if it is on both
    BLANKS = "blanks"


class Shape(enum.Enum):
    """The JSON form of a raw value."""

    TEXT = "text"
    JSON = "json"  # if it is JSON, else as a string
    TYPED = "typed"  # as JSON of the schema's types, else as a string


_TYPE_OF: dict[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}


_BLANKS = frozenset(BLANKS)
_MOST_KEPT = 64
"""Characters of white space that are kept until it is known what they belong to."""
_NUMBERS = frozenset({"integer", "number"})
_ZEROS = re.compile(r"(-?)0+(\d+)\Z", re.ASCII)
_BARE_POINT = re.compile(r"(?<![\d.])\.(?=\d+\Z)", re.ASCII)
_NO_OCTAL = re.compile(r"[89]")


def types_of(schema: Any) -> frozenset[str]:
    """The types that a schema allows; empty if it does not say."""
    if not isinstance(schema, Mapping):
        return frozenset()
    named = schema.get("type")
    types = {named} if isinstance(named, str) else set(named or ())
    for choices in ("anyOf", "oneOf"):
        for choice in schema.get(choices) or ():
            types |= types_of(choice)
    if not types and "enum" in schema:
        types = {_TYPE_OF.get(type(value), "") for value in schema["enum"]}
    return frozenset(types)


def shape_of(types: frozenset[str]) -> Shape:
    """Return the shape of a value of these types."""
    if types == {"string"}:
        return Shape.TEXT
    return Shape.TYPED if types else Shape.JSON


class ValueWriter:
    """Writes one value."""

    __slots__ = ("_grow", "_kept", "_pieces", "_shape", "_started", "_trim", "_types", "fell_back")

    def __init__(
        self,
        grow: Callable[[str], None],
        shape: Shape,
        *,
        trim: Trim = Trim.NOTHING,
        types: frozenset[str] = frozenset(),
    ) -> None:
        self._grow = grow
        self._shape = shape
        self._trim = trim
        self._types = types
        self._pieces: list[str] = []
        self._kept = ""
        self._started = False
        self.fell_back = False
        """True if it is written as a string because nothing else fits."""

    def put(self, piece: str) -> None:
        """Take a piece of the raw value."""
        if self._shape is not Shape.TEXT:
            self._pieces.append(piece)
            return
        piece = self._kept + piece
        self._kept = ""
        if not self._started:
            piece = self._begin(piece)
        if self._started:
            self._pass_on(piece)

    def _begin(self, piece: str) -> str:
        """Leave out what belongs to the opening tag; wait while that is not known."""
        body = piece.lstrip(BLANKS) if self._trim is Trim.BLANKS else piece
        if self._trim is Trim.NEWLINE:
            if piece == "\r":
                self._kept = piece
                return ""
            body = _without_first_newline(piece)
            if body is piece:
                self._trim = Trim.NOTHING  # none at the beginning, so none at the end
        if body or self._trim is Trim.NEWLINE:
            self._started = True
            self._grow('"')
        return body

    def _pass_on(self, piece: str) -> None:
        """Hand on all but what may belong to the closing tag, or to the next one."""
        body = piece
        if self._trim is Trim.BLANKS:
            body = piece.rstrip(BLANKS)
        elif piece[-1:] in _BLANKS and ("\n" in piece or "\r" in piece):
            body = _without_last_lines(piece)
        self._kept = piece[len(body) :]
        if body:
            self._grow(escape(body))

    def close(self, *, left_out: bool = False) -> None:
        """The value is whole. Where its closing tag was left out, the ends of lines before the
        next tag belong to that."""
        if self._shape is not Shape.TEXT:
            text = "".join(self._pieces)
            text = _without_last_lines(text) if left_out else text
            value = _read_as(text, self._shape, types=self._types)
            self.fell_back = value is None
            self._grow(_quote(text, self._trim) if value is None else value)
            return
        begin = "" if self._started else '"'
        rest = "" if left_out or self._trim is Trim.BLANKS else self._kept
        if self._trim is Trim.NEWLINE and rest.endswith("\n"):
            rest = rest[:-1].removesuffix("\r")
        self._grow(f'{begin}{escape(rest)}"')


def _without_last_lines(text: str) -> str:
    """A text up to the end of its last line that says something."""
    blanks = text[len(text.rstrip(BLANKS)) :][-_MOST_KEPT:]
    ends = [at for at in (blanks.find("\n"), blanks.find("\r")) if at >= 0]
    return text[: len(text) - len(blanks) + min(ends)] if ends else text


def _without_first_newline(text: str) -> str:
    if text.startswith("\n"):
        return text[1:]
    return text[2:] if text.startswith("\r\n") else text


def write_value(text: str, shape: Shape, *, types: frozenset[str], trim: Trim) -> str:
    """A raw value as JSON text."""
    value = _read_as(text, shape, types=types)
    return _quote(text, trim) if value is None else value


def _quote(text: str, trim: Trim) -> str:
    return f'"{escape(trimmed(text, trim))}"'


def _read_as(text: str, shape: Shape, *, types: frozenset[str]) -> str | None:
    """Return the JSON of a raw value; None if it is not JSON, or not to be read as such."""
    bare = _plain_number(text.strip(BLANKS), types)
    parsed = (read_text(bare) or _read_escaped(bare)) if bare else None
    if parsed is not None and not parsed.duplicates and _is_meant(parsed.value, shape, types=types):
        return json.dumps(parsed.value, ensure_ascii=False)
    return None


def _plain_number(text: str, types: frozenset[str]) -> str:
    """As JSON writes it: without a plus, with digits on both sides of the point, and without
    the zeros before it where it cannot be meant as an octal one: `007`."""
    if not types & _NUMBERS or "string" in types:
        return text
    text = _BARE_POINT.sub("0.", text.removeprefix("+"))
    text = f"{text}0" if text.endswith(".") else text
    found = _ZEROS.match(text)
    if found is None or (len(found[2]) > 1 and not _NO_OCTAL.search(found[2])):
        return text
    return found[1] + found[2]


def _read_escaped(text: str) -> Parsed | None:
    r"""Read JSON that is the content of a JSON string: `[{\"id\": 1}]`."""
    if text[:1] not in ("{", "[") or '\\"' not in text:
        return None
    inside = decode_string(f'"{text}"')
    return None if inside is None else read_text(inside)


def _is_meant(value: JSON, shape: Shape, *, types: frozenset[str]) -> bool:
    """Return True if a text that can be read as JSON is meant as JSON."""
    if shape is Shape.JSON:  # it was declared: only where all is text, digits stay what they are
        return types != {"string"} or isinstance(value, str)
    return _fits_type(value, types) and not (isinstance(value, str) and "string" in types)


def _fits_type(value: JSON, types: frozenset[str]) -> bool:
    kind = _TYPE_OF[type(value)]
    if kind in types or (kind == "integer" and "number" in types):
        return True
    return kind == "number" and "integer" in types and float(value).is_integer()  # type: ignore[arg-type]  # a number


def trimmed(text: str, trim: Trim) -> str:
    """A value without the white space that belongs to its tags."""
    if trim is Trim.BLANKS:
        return text.strip(BLANKS)
    body = _without_first_newline(text) if trim is Trim.NEWLINE else text
    if body is text or not body.endswith("\n"):
        return body
    return body[:-1].removesuffix("\r")
