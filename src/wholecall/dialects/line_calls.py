"""Calls with one parameter to a line.

    <tool_call>
    <function=search>
    query: x
    limit: 3
    </tool_call>

Values are raw and end with their line.
"""

from __future__ import annotations

from dataclasses import dataclass

from wholecall.dialects.jsontext import escape
from wholecall.dialects.machine import LONGEST_NAME, Machine
from wholecall.dialects.marks import marks_of
from wholecall.dialects.source import Steps, ignore
from wholecall.dialects.writing import Shape, Trim, ValueWriter, shape_of, types_of


@dataclass(frozen=True, slots=True)
class LineCalls:
    """Calls with a header, and lines up to one of the closers."""

    head_end: tuple[str, ...]
    """The marks that end the name."""
    closers: tuple[str, ...]
    begin: str = ""
    """The text between an opener and the name."""
    separator: str = ":"
    untyped: Shape = Shape.TEXT
    """The shape of a value without a schema."""

    def read(self, machine: Machine, _opener: str = "", /) -> Steps[bool]:
        """Read the call at this position; False if there is none."""
        return (yield from _Reading(machine, self).call())


class _Reading:
    def __init__(self, machine: Machine, grammar: LineCalls) -> None:
        self._machine = machine
        self._source = machine.source
        self._output = machine.output
        self._grammar = grammar
        self._closers = marks_of(grammar.closers)
        self._key_end = marks_of((grammar.separator, "\n", *grammar.closers))
        self._line_end = marks_of(("\n", *grammar.closers))

    def call(self) -> Steps[bool]:
        if self._grammar.begin:
            yield from self._source.skip()
            if not (yield from self._source.accept(marks_of((self._grammar.begin,)))):
                return False
        text, end = yield from self._source.header(marks_of(self._grammar.head_end), LONGEST_NAME)
        name = self._machine.admit(text.strip().strip("\"'")) if end else None
        if name is None:
            return False
        key = yield from self._key()
        if key is None:
            return False
        self._output.open(name, arguments="{")
        yield from self._lines(name, key)
        return True

    def _key(self) -> Steps[str | None]:
        """Return the next key; empty at the end of the call, None if there is neither."""
        yield from self._source.skip()
        if (yield from self._source.accept(self._closers)):
            return ""
        text, end = yield from self._source.header(self._key_end, LONGEST_NAME)
        return text.strip() or None if end == self._grammar.separator else None

    def _lines(self, name: str, key: str | None) -> Steps[None]:
        properties = self._machine.properties(name)
        separator = ""
        while key:
            self._output.grow(f'{separator}"{escape(key)}": ')
            types = types_of(properties.get(key))
            shape = shape_of(types) if key in properties else self._grammar.untyped
            writer = ValueWriter(self._output.grow, shape, trim=Trim.BLANKS, types=types)
            mark = yield from self._source.flow(self._line_end, writer.put)
            if not mark:
                return
            writer.close()
            self._source.at -= 0 if mark == "\n" else len(mark)
            separator = ", "
            key = yield from self._key()
        if key is None:
            self._machine.spoil("a line is no parameter and not the end")
            yield from self._source.flow(self._closers, ignore)
            return
        self._output.grow("}")
        self._output.seal()
        yield from self._source.accept_ahead(self._closers)
