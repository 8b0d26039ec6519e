"""Python calls, `[search(query="x", limit=3), now()]`, translated while they arrive.

Only literals are read: strings, numbers, words, lists, tuples, sets, dicts. An expression (`60 *
60`, `now()` as a value) is not an argument; nothing is ever evaluated. One dict in the place of all
keywords, `search({"query": "x"})` or `search(**{"query": "x"})`, is the arguments.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from wholecall.dialects.json_calls import JsonCalls
from wholecall.dialects.machine import LONGEST_NAME, Machine
from wholecall.dialects.marks import marks_of
from wholecall.dialects.python_literals import BrokenLiteral, Literal
from wholecall.dialects.source import BLANKS, Sink, Steps, ignore

_NAME = re.compile(r"[A-Za-z_][\w.\-]*")
_PRINT = marks_of(("print(",))
_UNPACKS = marks_of(("**",))
_EQUALS = marks_of(("=", ")", ",", "(", "[", "{", '"', "'", "\n"))


@dataclass(frozen=True, slots=True)
class PythonCalls:
    """Calls in a list, one to a line, or alone."""

    closers: tuple[str, ...] = ()
    brackets: bool = True
    """Calls stand in a list."""
    marked: bool = True
    """True if a marker identifies calls; without one, only an offered name does."""
    json_too: bool = False
    """The list may hold JSON objects instead."""
    alone: bool = False
    """One call may stand there without a list."""
    prints: bool = False
    """It may stand in `print(…)`; a closer then begins with the parenthesis."""
    timid: bool = False
    """A broken call was prose: it is not reported."""
    method: str = ""
    """The text between a name and its parenthesis: `search.call(query="x")` (Llama)."""

    def read(self, machine: Machine, opener: str = "", /) -> Steps[bool]:
        """Read the calls that stand here; False if none does."""
        first = yield from machine.source.skip()
        if self.prints:
            yield from machine.source.accept(_PRINT)
        if self.json_too and (yield from _begins_object(machine)):
            return (yield from JsonCalls(self.closers).read(machine, opener))
        if self.brackets and opener != "[":
            if first != "[":
                grammar = replace(self, brackets=False)
                return self.alone and (yield from _Reading(machine, grammar).calls())
            machine.source.at += 1
        return (yield from _Reading(machine, self).calls())


def _begins_object(machine: Machine) -> Steps[bool]:
    return (yield from machine.source.sees_ahead(marks_of(("{", "[{", "[ {", "[\n")))) in (
        "{",
        "[{",
        "[ {",
    )


class _Reading:
    def __init__(self, machine: Machine, grammar: PythonCalls) -> None:
        self._machine = machine
        self._source = machine.source
        self._output = machine.output
        self._admit = machine.admit if grammar.marked else machine.find
        self._timid = grammar.timid
        self._method = grammar.method
        self._closers = marks_of(grammar.closers)
        self._resume = marks_of(grammar.closers or ("\n",))
        """The place where text continues after a broken call."""
        self._separators = BLANKS + ",;" if grammar.brackets else BLANKS + ";"
        self._brackets = grammar.brackets

    def calls(self) -> Steps[bool]:
        """Read all calls up to the end of the list, a closer, or text that is not a call."""
        yield from self._source.skip()
        place = self._source.bookmark()
        name = yield from self._name()
        begun = False
        while name:
            whole = yield from self._call(name)
            if whole is None:
                break
            begun = True
            self._source.forget()
            place = self._source.bookmark()
            name = (yield from self._next()) if whole else ""
        if name != "":
            self._source.rewind(place)
        self._source.forget()
        return begun

    def _next(self) -> Steps[str | None]:
        """Return the name of another call; empty at the end of the calls, None if there is
        neither."""
        first = yield from self._source.skip(self._separators)
        if self._brackets and first == "]":
            self._source.at += 1
            yield from self._source.skip()
            yield from self._source.accept(self._closers)
            return ""
        if (yield from self._source.accept(self._closers)):
            return ""
        return (yield from self._name())

    def _name(self) -> Steps[str | None]:
        """Read the name of a call and its parenthesis; read nothing if there is none."""
        while True:
            found = _NAME.match(self._source.text, self._source.at)
            end = found.end() if found else self._source.at
            if end < len(self._source.text) or end - self._source.at > LONGEST_NAME:
                break
            if not (yield from self._source.more()):
                return None
        spelled = found.group() if found else ""
        if self._source.text[end] != "(" or not spelled.endswith(self._method):
            return None
        name = self._admit(spelled.removesuffix(self._method))
        if name is not None:
            self._source.at = end + 1
        return name

    def _call(self, name: str) -> Steps[bool | None]:
        """Return True if the call is whole; None if it is prose."""
        if self._timid:
            return (yield from self._timid_call(name))
        self._output.open(name, arguments="{")
        whole = yield from self._arguments(self._output.grow)
        if whole:
            self._output.grow("}")
            self._output.seal()
        else:
            self._machine.spoil("its arguments are not keywords with literals: name=value")
            yield from self._source.flow(self._resume, ignore)
        return whole

    def _timid_call(self, name: str) -> Steps[bool | None]:
        """Read a call that is reported only if it is whole or cut off."""
        pieces: list[str] = []
        if (yield from self._arguments(pieces.append)):
            self._output.open(name, arguments=f"{{{''.join(pieces)}}}")
            self._output.seal()
            return True
        if (yield from self._source.peek()) or self._source.text.endswith(")"):
            return None
        self._output.open(name, arguments="{")
        return False

    def _arguments(self, sink: Sink) -> Steps[bool]:
        """All arguments up to the parenthesis, as the members of an object; whether it came."""
        yield from self._source.skip()
        yield from self._source.accept(_UNPACKS)
        first = yield from self._source.peek()
        try:
            return (yield from (self._positional(sink) if first == "{" else self._keywords(sink)))
        except BrokenLiteral:
            return False

    def _positional(self, sink: Sink) -> Steps[bool]:
        """A dict that is all arguments; its last brace is written when the parenthesis closes."""
        pieces: list[str] = []
        yield from Literal(self._machine, pieces.append).value(0)
        written = "".join(pieces)
        if written.startswith("[") or (yield from self._source.skip(BLANKS + ",")) != ")":
            return False  # a set, or more than one argument
        self._source.at += 1
        sink(written[1:-1])
        return True

    def _keywords(self, sink: Sink) -> Steps[bool]:
        separator = ""
        while True:
            first = yield from self._source.skip()
            comma = first == ","
            if separator and comma:
                first = yield from self._source.skip(BLANKS + ",")
            if first == ")":
                self._source.at += 1
                return True
            if separator and not comma:
                return False
            key, end = yield from self._source.header(_EQUALS, LONGEST_NAME)
            if end != "=" or not key.strip().isidentifier():
                return False
            sink(f'{separator}"{key.strip()}": ')
            yield from Literal(self._machine, sink).value(0)
            separator = ", "
