"""Raw values of tags, written as JSON while they arrive.

What a schema takes for a string streams out piece by piece; `007` stays what it is. Any
other value is written once it is whole: as JSON if it is JSON of a type that the schema
allows, and as a string otherwise, which the schema's coercion judges like any other.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from wholecall.core.parse import Parsed
from wholecall.core.values import JSON
from wholecall.dialects.jsontext import decode_string, escape, read_text
from wholecall.dialects.source import BLANKS


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
    return _fits(value, types) and not (isinstance(value, str) and "string" in types)


def _fits(value: JSON, types: frozenset[str]) -> bool:
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
