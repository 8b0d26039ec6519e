"""The lines of a block of YAML: their indentation, and texts that go over several of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from wholecall.dialects.char_stream import Sink, Steps, ignore, markers_of
from wholecall.dialects.grammars.json_values import (
    Shape,
    Trim,
    ValueWriter,
    escape,
    read_string,
    read_value,
    shape_of,
    types_of,
    write_value,
)
from wholecall.dialects.parser_context import LONGEST_NAME, ParserContext

END = -1
"""The indentation of the closing tag: less than that of any line."""
_LINE_END = markers_of(("\n",))
_CHOMPS = frozenset({"", "-", "+"})


class UnreadableYaml(Exception):
    """The text is not in the supported subset of YAML."""


class Lines:
    """Goes from line to line."""

    __slots__ = ("_close", "_source", "indent")

    def __init__(self, machine: ParserContext, close: str) -> None:
        self._source = machine.source
        self._close = markers_of((close,))
        self.indent = END
        """The indentation of the line that is to be read next."""

    def next(self) -> Steps[None]:
        """Go to the next line that says something."""
        while True:
            begin = self._source.place
            first = yield from self._source.skip(" ")
            self.indent = self._source.place - begin
            if first == "#":
                yield from self._source.flow(_LINE_END, ignore)
            elif first and first in "\r\n":
                self._source.at += 1
            else:
                break
        if first == "\t":
            raise UnreadableYaml  # as in YAML: its width is unknown
        if not first or (yield from self._source.sees(self._close)):
            self.indent = END

    def end_line(self) -> Steps[None]:
        """Read the rest of a line after a scalar: a comment or the closing tag."""
        first = yield from self._source.skip(" \t")
        if first and first not in "\r\n#" and not (yield from self._source.sees(self._close)):
            raise UnreadableYaml
        yield from self.next()

    # ── Literal and folded blocks ───────────────────────────────────────────────────

    def block(self, outer: int, sink: Sink) -> Steps[None]:
        """`|` keeps the ends of lines, `>` makes blanks of them; `-` and `+` say what of the
        last ones is kept."""
        text, end = yield from self._source.header(_LINE_END, 16)
        style, chomp = text[:1], text[1:].partition("#")[0].strip()
        if not end or chomp not in _CHOMPS:
            raise UnreadableYaml
        sink('"')
        newlines, written = yield from _Block(self, sink, folds=style == ">").read(outer)
        if chomp == "+":
            sink("\\n" * newlines)
        elif written and not chomp:
            sink("\\n")
        sink('"')

    def begin(self, most: int | None) -> Steps[str]:
        """Read a line's blanks, at most so many; return the character that follows."""
        begin = self._source.place
        while True:
            ahead = yield from self._source.peek()
            self.indent = self._source.place - begin
            if ahead != " " or self.indent == most:
                return ahead
            self._source.at += 1

    def text(self, sink: Sink) -> Steps[bool]:
        """Hand on the rest of a line; whether it had an end."""

        def put(piece: str) -> None:
            sink(escape(piece))

        return bool((yield from self._source.flow(_LINE_END, put)))

    def closes(self) -> Steps[bool]:
        """Return True at the closing tag."""
        return bool((yield from self._source.sees(self._close)))

    def step(self) -> None:
        """Read over the end of an empty line."""
        self._source.at += 1


class _Block:
    """One text over several lines."""

    def __init__(self, lines: Lines, sink: Sink, *, folds: bool) -> None:
        self._lines = lines
        self._folds = folds
        self._sink = sink
        self._newlines = 0
        """Ends of lines that are not written yet."""
        self._written = False
        self._deeper = False
        """True if the last line was indented more than the block: such lines are not folded."""

    def read(self, outer: int) -> Steps[tuple[int, bool]]:
        """Up to a line that is indented less; how many newlines are left, and whether any text
        was written."""
        inner: int | None = None
        while True:
            first = yield from self._lines.begin(inner)
            if first == "\n":
                self._lines.step()
                self._newlines += 1
                continue
            if not first or (yield from self._is_over(outer, inner)):
                break
            inner = self._lines.indent if inner is None else inner
            self._join(first in " \t")
            if not (yield from self._lines.text(self._sink)):
                raise UnreadableYaml
            self._newlines, self._written = 1, True
        if not first or (yield from self._lines.closes()):
            self._lines.indent = END
        return self._newlines, self._written

    def _is_over(self, outer: int, inner: int | None) -> Steps[bool]:
        if self._lines.indent <= outer or (inner is not None and self._lines.indent < inner):
            return True
        return inner is None and (yield from self._lines.closes())

    def _join(self, deeper: bool) -> None:
        """Write the separator between two lines."""
        count = self._newlines
        if not self._folds or deeper or self._deeper or not self._written:
            self._sink("\\n" * count)
        else:
            self._sink("\\n" * (count - 1) if count > 1 else " ")
        self._deeper = deeper


# A block of YAML in a tag that has the tool's name, translated while it arrives.
#
#     <search>
# >     query: x
#     where:
#       - books
#       - films
#     note: |
#       as many lines
#       as it takes
#     </search>
#
# Supported is what models write: block mappings and lists, flow collections, plain and quoted
# scalars, literal and folded blocks, comments. There are no anchors, tags, documents or plain
# scalars over several lines; text with them is not a call.


_KEY_END = markers_of((": ", ":\n", ":\r", "\n"))
_FLOW_END = markers_of((",", "]", "}", "\n"))
_FLOW_KEY_END = markers_of((":",))
_QUOTES = markers_of(("''", "'"))
_AFTER_DASH = frozenset(" \r\n")
_QUOTED_OR_FLOW = frozenset("\"'[{|>")
_LONGEST_BARE = 4096
_IN_QUOTES = re.compile(r"""(["'])((?:(?!\1).)*+)\1""", re.DOTALL)
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


class _Reading:
    def __init__(self, machine: ParserContext, name: str) -> None:
        self._machine = machine
        self._source = machine.source
        self._output = machine.output
        self._grow = machine.output.grow
        self._name = name
        self._close = f"</{name}>"
        self._lines = Lines(machine, self._close)
        self._plain_end = markers_of(("\n", " #", self._close))

    def call(self) -> Steps[bool]:
        try:
            begins = yield from self._begins()
        except UnreadableYaml:
            return False
        if not begins:
            return False
        # The brace that closes the arguments is written after the closing tag: without the tag they
        # are cut off.
        self._output.open(self._name, arguments="{")
        try:
            properties = self._machine.properties(self._name)
            yield from self._members(max(self._lines.indent, 0), properties, depth=0)
            yield from self._end()
        except UnreadableYaml:
            self._machine.spoil("it is not written in YAML")
            yield from self._source.flow(markers_of((self._close,)), ignore)
            return True
        self._grow("}")
        self._output.seal()
        return True

    def _begins(self) -> Steps[bool]:
        """Return True at a parameter, or at the end of a call without any."""
        yield from self._lines.next()
        if self._lines.indent == END:
            return not self._source.ended or bool((yield from self._source.peek()))
        place = self._source.bookmark()
        key, end = yield from self._source.header(_KEY_END, LONGEST_NAME)
        self._source.rewind(place)
        self._source.forget()
        known = key.strip("\"'") in self._machine.properties(self._name)
        return end.startswith(":") and (known or not self._machine.rescues)

    def _end(self) -> Steps[None]:
        if self._lines.indent != END or not (
            yield from self._source.accept(markers_of((self._close,)))
        ):
            raise UnreadableYaml

    # ── Blocks ──────────────────────────────────────────────────────────────────────

    def _node(self, schema: Any, *, depth: int) -> Steps[None]:
        """The block that begins with this line."""
        if depth > self._machine.limits.depth:
            raise UnreadableYaml
        if (yield from self._is_item()):
            yield from self._sequence(self._lines.indent, schema, depth=depth)
        else:
            properties = schema.get("properties") if isinstance(schema, Mapping) else None
            yield from self._mapping(self._lines.indent, properties or {}, depth=depth)

    def _is_item(self) -> Steps[bool]:
        ahead = yield from self._source.peek(2)
        return ahead[:1] == "-" and ahead[1:] in _AFTER_DASH

    def _mapping(self, indent: int, properties: Mapping[str, Any], *, depth: int) -> Steps[None]:
        self._grow("{")
        yield from self._members(indent, properties, depth=depth)
        self._grow("}")

    def _members(self, indent: int, properties: Mapping[str, Any], *, depth: int) -> Steps[None]:
        separator = ""
        while self._lines.indent == indent:
            key = yield from self._key(properties)
            self._grow(f'{separator}"{escape(key)}": ')
            yield from self._value(properties.get(key), indent, depth=depth + 1)
            separator = ", "
        if self._lines.indent > indent:
            raise UnreadableYaml

    def _key(self, properties: Mapping[str, Any]) -> Steps[str]:
        first = yield from self._source.peek()
        quoted = (yield from read_string(self._source)) if first in ('"', "'") else None
        key, end = yield from self._source.header(_KEY_END, LONGEST_NAME)
        if not end.startswith(":") or (quoted is not None and key.strip()):
            raise UnreadableYaml
        self._source.at -= len(end) - 1
        if quoted is not None:
            return quoted
        return _checked(key.strip(), properties)

    def _sequence(self, indent: int, schema: Any, *, depth: int) -> Steps[None]:
        items = schema.get("items") if isinstance(schema, Mapping) else None
        self._grow("[")
        separator = ""
        while self._lines.indent == indent and (yield from self._is_item()):
            self._grow(separator)
            self._source.at += 1
            begin = self._source.place
            first = yield from self._source.skip(" ")
            column = indent + 1 + self._source.place - begin
            if first not in _QUOTED_OR_FLOW and (yield from self._is_block()):
                self._lines.indent = column
                yield from self._node(items, depth=depth + 1)
            else:
                yield from self._value(items, indent, depth=depth + 1)
            separator = ", "
        self._grow("]")

    def _is_block(self) -> Steps[bool]:
        """Return True if a list or a mapping begins directly after a dash."""
        if (yield from self._is_item()):
            return True
        place = self._source.bookmark()
        _, end = yield from self._source.header(_KEY_END, LONGEST_NAME)
        self._source.rewind(place)
        self._source.forget()
        return end.startswith(":")

    # ── Values ──────────────────────────────────────────────────────────────────────

    def _value(self, schema: Any, indent: int, *, depth: int) -> Steps[None]:
        """Read the value after a key or a dash: a scalar on the line, or a block below it."""
        first = yield from self._source.skip(" ")
        if first in "\r\n#":
            yield from self._below(schema, indent, depth=depth)
        elif first in "|>":
            yield from self._lines.block(indent, self._output.grow)
        else:
            yield from self._INLINE.get(first, _Reading._plain)(self, schema, depth)
            yield from self._lines.end_line()

    def _below(self, schema: Any, indent: int, *, depth: int) -> Steps[None]:
        yield from self._lines.next()
        same = self._lines.indent == indent and (yield from self._is_item())
        if self._lines.indent > indent or same:
            yield from self._node(schema, depth=depth)
        else:
            self._grow('""' if types_of(schema) == {"string"} else "null")

    def _plain(self, schema: Any, _depth: int) -> Steps[None]:
        if (yield from self._source.sees(_KEY_END)).startswith(":"):
            raise UnreadableYaml  # a colon too many
        types = types_of(schema)
        if shape_of(types) is Shape.TEXT:
            writer = ValueWriter(self._grow, Shape.TEXT, trim=Trim.BLANKS)
            mark = yield from self._source.flow(self._plain_end, writer.put)
            writer.close()
        else:
            pieces: list[str] = []
            mark = yield from self._source.flow(self._plain_end, pieces.append)
            self._grow(_bare("".join(pieces), types))
        if not mark:
            raise UnreadableYaml
        self._source.at -= len(mark)

    def _double_quoted(self, _schema: Any, _depth: int) -> Steps[None]:
        if not (yield from read_value(self._source, self._grow)):
            raise UnreadableYaml

    def _single_quoted(self, _schema: Any, _depth: int) -> Steps[None]:
        """No escapes but the quote itself, written twice."""
        self._source.at += 1
        self._grow('"')
        mark = "''"
        while mark == "''":
            mark = yield from self._source.flow(_QUOTES, self._escaped)
            self._grow("'" if mark == "''" else "")
        if not mark:
            raise UnreadableYaml
        self._grow('"')

    def _escaped(self, piece: str) -> None:
        self._grow(escape(piece))

    # ── Flow collections ────────────────────────────────────────────────────────────

    def _flow_list(self, schema: Any, depth: int) -> Steps[None]:
        items = schema.get("items") if isinstance(schema, Mapping) else None
        self._source.at += 1
        self._grow("[")
        separator = ""
        while (yield from self._goes_on("]", later=bool(separator))):
            self._grow(separator)
            yield from self._flow_value(items, depth + 1)
            separator = ", "
        self._grow("]")

    def _flow_mapping(self, schema: Any, depth: int) -> Steps[None]:
        properties = (schema.get("properties") if isinstance(schema, Mapping) else None) or {}
        self._source.at += 1
        self._grow("{")
        separator = ""
        while (yield from self._goes_on("}", later=bool(separator))):
            key, end = yield from self._source.header(_FLOW_KEY_END, LONGEST_NAME)
            if not end:
                raise UnreadableYaml
            key = _unquoted(key.strip(), properties)
            self._grow(f'{separator}"{escape(key)}": ')
            yield from self._flow_value(properties.get(key), depth + 1)
            separator = ", "
        self._grow("}")

    def _goes_on(self, closer: str, *, later: bool) -> Steps[bool]:
        """Return True if another element follows; read the comma or the closer."""
        first = yield from self._source.skip()
        if later and first == ",":
            self._source.at += 1
            first = yield from self._source.skip()
        elif later and first != closer:
            raise UnreadableYaml
        self._source.at += first == closer
        return first != closer

    def _flow_value(self, schema: Any, depth: int) -> Steps[None]:
        first = yield from self._source.skip()
        if depth > self._machine.limits.depth:
            raise UnreadableYaml
        read = self._INLINE.get(first)
        if read is not None:
            yield from read(self, schema, depth)
            return
        text, end = yield from self._source.header(_FLOW_END, _LONGEST_BARE)
        if not end or not text.strip():
            raise UnreadableYaml
        self._source.at -= 1
        self._grow(_bare(text, types_of(schema)))

    _INLINE: ClassVar[dict[str, Callable[[_Reading, Any, int], Steps[None]]]] = {
        '"': _double_quoted,
        "'": _single_quoted,
        "[": _flow_list,
        "{": _flow_mapping,
    }


def _unquoted(key: str, properties: Mapping[str, Any]) -> str:
    """A key in a flow mapping, with quotes or without."""
    quoted = _IN_QUOTES.fullmatch(key)
    return quoted[2] if quoted else _checked(key, properties)


def _checked(key: str, properties: Mapping[str, Any]) -> str:
    """A plain key, unless it is what is left of something else: a mark too many, a lost quote."""
    if key not in properties and (not key or _IN_NO_KEY.search(key)):
        raise UnreadableYaml
    return key


def _bare(text: str, types: frozenset[str]) -> str:
    """A plain scalar as JSON text."""
    if types == {"string"}:
        return f'"{escape(text.strip())}"'
    if text.strip() == "~" and "string" not in types:
        return "null"
    return write_value(text, shape_of(types), types=types, trim=Trim.BLANKS)
