"""A block of YAML in a tag that has the tool's name.

    <search>
    query: x
    where:
      - books
      - films
    note: |
      as many lines
      as it takes
    </search>

Supported is what models write: block mappings and lists, flow collections, plain and quoted
scalars, literal and folded blocks, comments. There are no anchors, tags, documents or plain
scalars over several lines; text with them is not a call. A call is held back to its end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wholecall.dialects.char_stream import Steps, ignore, markers_of
from wholecall.dialects.grammars.json_values import (
    Trim,
    escape,
    read_string,
    read_value,
    shape_of,
    types_of,
    write_value,
)
from wholecall.dialects.grammars.literal_calls import (
    IN_QUOTES,
    LONGEST_BARE,
    LiteralReader,
    TooDeep,
    UnreadableLiteral,
)
from wholecall.dialects.parser_context import LONGEST_NAME, ParserContext

_END = -1
"""The indentation of the closing tag: less than that of any line."""
_LINE_END = markers_of(("\n",))
_CHOMPS = frozenset({"", "-", "+"})
_LONGEST_BLOCK_HEAD = 16
_KEY_END = markers_of((": ", ":\n", ":\r", "\n"))
_FLOW_END = markers_of((",", "]", "}", "\n"))
_FLOW_KEY_END = markers_of((":",))
_QUOTES = markers_of(("''", "'"))
_AFTER_DASH = frozenset(" \r\n")
_QUOTED_OR_FLOW = frozenset("\"'[{|>")
_IN_NO_KEY = re.compile(r"""[{}\[\],"'`<>]|^[&*!|%@#:]|:$""")


@dataclass(frozen=True, slots=True)
class NamedYamlCalls:
    """`<search>`, YAML, `</search>`, of one tool."""

    name: str

    @property
    def openers(self) -> tuple[str, ...]:
        """The tag of the tool."""
        return (f"<{self.name}>",)

    def read(self, machine: ParserContext, _opener: str = "", /) -> Steps[bool]:
        """Read the call after its opening tag; False if it is not one."""
        return (yield from _Reading(machine, self.name).call())


class _Reading(LiteralReader):
    def __init__(self, machine: ParserContext, name: str) -> None:
        super().__init__(machine)
        self._name = name
        self._close = markers_of((f"</{name}>",))
        self._plain_end = markers_of(("\n", " #", f"</{name}>"))
        self._indent = _END
        """The indentation of the line that is to be read next."""

    def call(self) -> Steps[bool]:
        try:
            begins = yield from self._begins()
        except UnreadableLiteral:
            return False
        if not begins:
            return False
        properties = self._machine.properties(self._name)
        try:
            arguments = yield from self._members(max(self._indent, 0), properties, depth=0)
            yield from self._end()
        except UnreadableLiteral as error:
            self.refuse(self._name, error, flaw="it is not written in YAML")
            yield from self._source.flow(self._close, ignore)
            return True
        self._output.open(self._name, arguments=arguments)
        self._output.seal()
        return True

    def _end(self) -> Steps[None]:
        if self._indent != _END or not (yield from self._source.accept(self._close)):
            raise UnreadableLiteral

    def _begins(self) -> Steps[bool]:
        """Return True at a parameter, or at the end of a call without any."""
        yield from self._next_line()
        if self._indent == _END:
            return not self._source.ended or bool((yield from self._source.peek()))
        key, is_key = yield from self._key_ahead()
        known = key.strip("\"'") in self._machine.properties(self._name)
        return is_key and (known or not self._machine.rescues)

    def _key_ahead(self) -> Steps[tuple[str, bool]]:
        """Return the text up to the end of a key or of the line, and whether it is a key."""
        place = self._source.bookmark()
        key, end = yield from self._source.header(_KEY_END, LONGEST_NAME)
        self._source.rewind(place)
        self._source.forget()
        return key, end.startswith(":")

    # ── Lines ───────────────────────────────────────────────────────────────────────

    def _next_line(self) -> Steps[None]:
        """Go to the next line that says something."""
        while True:
            begin = self._source.place
            first = yield from self._source.skip(" ")
            self._indent = self._source.place - begin
            if first == "#":
                yield from self._source.flow(_LINE_END, ignore)
            elif first and first in "\r\n":
                self._source.at += 1
            else:
                break
        if first == "\t":
            raise UnreadableLiteral  # as in YAML: its width is unknown
        if not first or (yield from self._source.sees(self._close)):
            self._indent = _END

    def _end_line(self) -> Steps[None]:
        """Read the rest of a line after a scalar: a comment or the closing tag."""
        first = yield from self._source.skip(" \t")
        if first and first not in "\r\n#" and not (yield from self._source.sees(self._close)):
            raise UnreadableLiteral
        yield from self._next_line()

    def _block(self, outer: int) -> Steps[str]:
        """`|` keeps the ends of lines, `>` makes blanks of them; `-` and `+` say what of the
        last ones is kept."""
        text, end = yield from self._source.header(_LINE_END, _LONGEST_BLOCK_HEAD)
        style, chomp = text[:1], text[1:].partition("#")[0].strip()
        if not end or chomp not in _CHOMPS:
            raise UnreadableLiteral
        lines = yield from self._block_lines(outer)
        body, left = _join(lines, folds=style == ">")
        if chomp == "+":
            body += "\n" * left
        elif body.strip("\n") and not chomp:
            body += "\n"
        return f'"{escape(body)}"'

    def _block_lines(self, outer: int) -> Steps[list[str]]:
        """Read lines up to one that is indented less; an empty one has no text."""
        lines: list[str] = []
        inner: int | None = None
        while first := (yield from self._begin_line(inner)):
            if first == "\n":
                self._source.at += 1
                lines.append("")
                continue
            over = self._indent <= outer or (inner is not None and self._indent < inner)
            if over or (inner is None and (yield from self._source.sees(self._close))):
                break
            inner = self._indent if inner is None else inner
            pieces: list[str] = []
            if not (yield from self._source.flow(_LINE_END, pieces.append)):
                raise UnreadableLiteral
            lines.append("".join(pieces))
        if not first or (yield from self._source.sees(self._close)):
            self._indent = _END
        return lines

    def _begin_line(self, most: int | None) -> Steps[str]:
        """Read a line's blanks, at most so many; return the character that follows."""
        begin = self._source.place
        while True:
            ahead = yield from self._source.peek()
            self._indent = self._source.place - begin
            if ahead != " " or self._indent == most:
                return ahead
            self._source.at += 1

    # ── Blocks ──────────────────────────────────────────────────────────────────────

    def _node(self, schema: Any, *, depth: int) -> Steps[str]:
        """The block that begins with this line."""
        if depth > self._machine.limits.depth:
            raise TooDeep
        inner = schema if isinstance(schema, Mapping) else {}
        if (yield from self._is_item()):
            return (yield from self._sequence(self._indent, inner.get("items"), depth=depth))
        properties = inner.get("properties") or {}
        return (yield from self._members(self._indent, properties, depth=depth))

    def _is_item(self) -> Steps[bool]:
        ahead = yield from self._source.peek(2)
        return ahead[:1] == "-" and ahead[1:] in _AFTER_DASH

    def _members(self, indent: int, properties: Mapping[str, Any], *, depth: int) -> Steps[str]:
        found: list[str] = []
        while self._indent == indent:
            key = yield from self._block_key(properties)
            value = yield from self._block_value(properties.get(key), indent, depth=depth + 1)
            found.append(f'"{escape(key)}": {value}')
        if self._indent > indent:
            raise UnreadableLiteral
        return f"{{{', '.join(found)}}}"

    def _block_key(self, properties: Mapping[str, Any]) -> Steps[str]:
        first = yield from self._source.peek()
        quoted = (yield from read_string(self._source)) if first in ('"', "'") else None
        key, end = yield from self._source.header(_KEY_END, LONGEST_NAME)
        if not end.startswith(":") or (quoted is not None and key.strip()):
            raise UnreadableLiteral
        self._source.at -= len(end) - 1
        return _checked(key.strip(), properties) if quoted is None else quoted

    def _sequence(self, indent: int, items: Any, *, depth: int) -> Steps[str]:
        found: list[str] = []
        while self._indent == indent and (yield from self._is_item()):
            self._source.at += 1
            begin = self._source.place
            first = yield from self._source.skip(" ")
            column = indent + 1 + self._source.place - begin
            if first not in _QUOTED_OR_FLOW and (yield from self._begins_block()):
                self._indent = column
                found.append((yield from self._node(items, depth=depth + 1)))
            else:
                found.append((yield from self._block_value(items, indent, depth=depth + 1)))
        return f"[{', '.join(found)}]"

    def _begins_block(self) -> Steps[bool]:
        """Return True if a list or a mapping begins directly after a dash."""
        if (yield from self._is_item()):
            return True
        _, is_key = yield from self._key_ahead()
        return is_key

    # ── Values ──────────────────────────────────────────────────────────────────────

    def _block_value(self, schema: Any, indent: int, *, depth: int) -> Steps[str]:
        """Read the value after a key or a dash: a scalar on the line, or a block below it."""
        first = yield from self._source.skip(" ")
        if first in "\r\n#":
            return (yield from self._below(schema, indent, depth=depth))
        if first in "|>":
            return (yield from self._block(indent))
        value = yield from self._inline(first, schema, depth=depth)
        if value is None:
            value = yield from self._plain(types_of(schema))
        yield from self._end_line()
        return value

    def _below(self, schema: Any, indent: int, *, depth: int) -> Steps[str]:
        yield from self._next_line()
        same = self._indent == indent and (yield from self._is_item())
        if self._indent > indent or same:
            return (yield from self._node(schema, depth=depth))
        return '""' if types_of(schema) == {"string"} else "null"

    def _plain(self, types: frozenset[str]) -> Steps[str]:
        if (yield from self._source.sees(_KEY_END)).startswith(":"):
            raise UnreadableLiteral  # a colon too many
        pieces: list[str] = []
        mark = yield from self._source.flow(self._plain_end, pieces.append)
        if not mark:
            raise UnreadableLiteral
        self._source.at -= len(mark)
        return _write_bare("".join(pieces), types)

    def _inline(self, first: str, schema: Any, *, depth: int) -> Steps[str | None]:
        """Read a quoted scalar or a flow collection; return None without one."""
        if first == "'":
            return (yield from self._single_quoted())
        if first in ("[", "{"):
            return (yield from self._collection(schema, depth))
        if first != '"':
            return None
        pieces: list[str] = []
        if not (yield from read_value(self._source, pieces.append)):
            raise UnreadableLiteral
        return "".join(pieces)

    def _single_quoted(self) -> Steps[str]:
        """No escapes but the quote itself, written twice."""
        self._source.at += 1
        pieces: list[str] = []
        while (mark := (yield from self._source.flow(_QUOTES, pieces.append))) == "''":
            pieces.append("'")
        if not mark:
            raise UnreadableLiteral
        return f'"{escape("".join(pieces))}"'

    # ── Flow collections ────────────────────────────────────────────────────────────

    def key(self, properties: Mapping[str, Any]) -> Steps[str]:
        text, end = yield from self._source.header(_FLOW_KEY_END, LONGEST_NAME)
        if not end:
            raise UnreadableLiteral
        quoted = IN_QUOTES.fullmatch(text.strip())
        return quoted[2] if quoted else _checked(text.strip(), properties)

    def value(self, schema: Any, depth: int) -> Steps[str]:
        first = yield from self._first(depth)
        inline = yield from self._inline(first, schema, depth=depth)
        if inline is not None:
            return inline
        text, end = yield from self._source.header(_FLOW_END, LONGEST_BARE)
        if not end or not text.strip():
            raise UnreadableLiteral
        self._source.at -= 1
        return _write_bare(text, types_of(schema))


def _join(lines: list[str], *, folds: bool) -> tuple[str, int]:
    """Return the text of a block without its last line ends, and their number.

    Lines that are indented more than the block are not folded.
    """
    pieces: list[str] = []
    newlines, deeper_before = 0, False
    for line in lines:
        if not line:
            newlines += 1
            continue
        deeper = line[0] in " \t"
        folded = folds and bool(pieces) and not deeper and not deeper_before
        pieces += ["\n" * (newlines - 1) or " " if folded else "\n" * newlines, line]
        newlines, deeper_before = 1, deeper
    return "".join(pieces), newlines


def _checked(key: str, properties: Mapping[str, Any]) -> str:
    """A plain key, unless it is what is left of something else: a mark too many, a lost quote."""
    if key not in properties and (not key or _IN_NO_KEY.search(key)):
        raise UnreadableLiteral
    return key


def _write_bare(text: str, types: frozenset[str]) -> str:
    """A plain scalar as JSON text."""
    if types == {"string"}:
        return f'"{escape(text.strip())}"'
    if text.strip() == "~" and "string" not in types:
        return "null"
    return write_value(text, shape_of(types), types=types, trim=Trim.BLANKS)
