"""Python calls, `[search(query="x", limit=3), now()]`, translated while they arrive.

Only literals are read: strings, numbers, words, lists, tuples, sets, dicts. An expression
(`60 * 60`, `now()` as a value) is no argument; nothing is ever evaluated. One dict in the place
of all keywords, `search({"query": "x"})` or `search(**{"query": "x"})`, is the arguments.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from wholecall.core.grammar import number_flaw
from wholecall.dialects.json_calls import JsonCalls
from wholecall.dialects.jsontext import escape
from wholecall.dialects.machine import LONGEST_NAME, Machine
from wholecall.dialects.marks import marks_of
from wholecall.dialects.source import BLANKS, Sink, Steps, ignore

_WORDS = {
    "True": "true",
    "False": "false",
    "None": "null",
    "true": "true",
    "false": "false",
    "null": "null",
}
_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "b": "\b",
    "f": "\f",
    "a": "\a",
    "v": "\v",
    "0": "\0",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "\n": "",
}
_HEX = {"x": 2, "u": 4, "U": 8}
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")
_LAST_CODE_POINT = 0x10FFFF
_NAME = re.compile(r"[A-Za-z_][\w.\-]*")
_SCALAR = re.compile(r"[\w.+\-]+")
_STRING_MARKS = {quote: re.compile(rf"[{quote}\\]") for quote in "\"'"}
_PRINT = marks_of(("print(",))
_UNPACKS = marks_of(("**",))
_EQUALS = marks_of(("=", ")", ",", "(", "[", "{", '"', "'", "\n"))


class _Broken(Exception):
    """No literal stands where one must be."""


@dataclass(frozen=True, slots=True)
class PythonCalls:
    """Calls in a list, one to a line, or alone."""

    closers: tuple[str, ...] = ()
    brackets: bool = True
    """Calls stand in a list."""
    marked: bool = True
    """Whether a marker says that these are calls; without one, only an offered name does."""
    json_too: bool = False
    """The list may hold JSON objects instead."""
    alone: bool = False
    """One call may stand there without a list."""
    prints: bool = False
    """It may stand in `print(…)`; a closer then begins with the parenthesis."""
    method: str = ""
    """What stands between a name and its parenthesis: `search.call(query="x")` (Llama)."""

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
        self._method = grammar.method
        self._closers = marks_of(grammar.closers)
        self._resume = marks_of(grammar.closers or ("\n",))
        """Where text goes on after a broken call."""
        self._separators = BLANKS + ",;" if grammar.brackets else BLANKS + ";"
        self._brackets = grammar.brackets

    def calls(self) -> Steps[bool]:
        """All calls up to the end of the list, a closer, or what is no call."""
        yield from self._source.skip()
        name = yield from self._name()
        if name is None:
            return False
        while name is not None and (yield from self._call(name)):
            place = self._source.bookmark()
            name = yield from self._next()
            if name is None:
                self._source.rewind(place)
            self._source.forget()
            name = name or None
        return True

    def _next(self) -> Steps[str | None]:
        """The name of another call; empty where the calls end, None if neither stands here."""
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
        """The name of a call and its parenthesis; nothing is read if there is none."""
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

    def _call(self, name: str) -> Steps[bool]:
        yield from self._source.skip()
        yield from self._source.accept(_UNPACKS)
        first = yield from self._source.peek()
        self._output.open(name, arguments="{")
        try:
            whole = yield from (self._positional() if first == "{" else self._keywords())
        except _Broken:
            whole = False
        if whole:
            self._output.grow("}")
            self._output.seal()
        else:
            self._machine.spoil("its arguments are not keywords with literals: name=value")
            yield from self._source.flow(self._resume, ignore)
        return whole

    def _positional(self) -> Steps[bool]:
        """A dict that is all arguments; its last brace is written when the parenthesis closes."""
        pieces: list[str] = []
        yield from Literal(self._machine, pieces.append).value(0)
        written = "".join(pieces)
        if written.startswith("[") or (yield from self._source.skip(BLANKS + ",")) != ")":
            return False  # a set, or more than one argument
        self._source.at += 1
        self._output.grow(written[1:-1])
        return True

    def _keywords(self) -> Steps[bool]:
        separator = ""
        while True:
            first = yield from self._source.skip(BLANKS + ("," if separator else ""))
            if first == ")":
                self._source.at += 1
                return True
            key, end = yield from self._source.header(_EQUALS, LONGEST_NAME)
            if end != "=" or not key.strip().isidentifier():
                return False
            self._output.grow(f'{separator}"{key.strip()}": ')
            yield from Literal(self._machine).value(0)
            separator = ", "


class Literal:
    """Reads one literal and writes it as JSON."""

    def __init__(self, machine: Machine, sink: Sink | None = None) -> None:
        self._source = machine.source
        self._grow: Sink = sink or machine.output.grow
        self._depth = machine.limits.depth
        self._raw = False

    def value(self, depth: int) -> Steps[None]:
        """The value that stands here."""
        first = yield from self._source.skip()
        if depth > self._depth or not first:
            raise _Broken
        read = self._READERS.get(first)
        if read is not None:
            yield from read(self, depth)
        else:
            yield from self._scalar()

    def _sequence(self, depth: int) -> Steps[None]:
        closer = {"[": "]", "(": ")"}[self._source.text[self._source.at]]
        self._source.at += 1
        self._grow("[")
        yield from self._items(closer, depth)
        self._grow("]")

    def _items(self, closer: str, depth: int, *, separator: str = "") -> Steps[None]:
        while True:
            first = yield from self._source.skip()
            if first == closer:
                self._source.at += 1
                return
            if separator:
                self._comma(first)
                if (yield from self._source.skip()) == closer:
                    continue
                self._grow(separator)
            separator = ", "
            yield from self.value(depth + 1)

    def _comma(self, first: str) -> None:
        if first != ",":
            raise _Broken
        self._source.at += 1

    def _mapping(self, depth: int) -> Steps[None]:
        self._source.at += 1
        written = self._grow
        first = yield from self._source.skip()
        if first == "}":
            self._source.at += 1
            written("{}")
            return
        # Whether it is a dict or a set is known after its first element.
        pieces: list[str] = []
        self._grow = pieces.append
        yield from self.value(depth + 1)
        self._grow = written
        is_set = (yield from self._source.skip()) != ":"
        written(("[" if is_set else "{") + "".join(pieces))
        if is_set:
            yield from self._items("}", depth, separator=", ")
        else:
            yield from self._members("".join(pieces), depth)
        written("]" if is_set else "}")

    def _members(self, key: str, depth: int) -> Steps[None]:
        while True:
            if not key.startswith('"') or (yield from self._source.skip()) != ":":
                raise _Broken
            self._source.at += 1
            self._grow(": ")
            yield from self.value(depth + 1)
            first = yield from self._source.skip()
            if first == ",":
                self._source.at += 1
                first = yield from self._source.skip()
            elif first != "}":
                raise _Broken
            if first == "}":
                self._source.at += 1
                return
            self._grow(", ")
            key = first.replace("'", '"')
            yield from self.value(depth + 1)

    # ── Strings ─────────────────────────────────────────────────────────────────────

    def _raw_string(self, _: int) -> Steps[None]:
        """`r"\\d"`, in which a backslash is one. No word of the language begins so."""
        if (yield from self._source.peek(2))[1:] not in _STRING_MARKS:
            raise _Broken
        self._source.at += 1
        self._raw = True
        yield from self._string(0)
        self._raw = False

    def _string(self, _: int) -> Steps[None]:
        quote = self._source.text[self._source.at]
        triple = (yield from self._source.peek(3)) == quote * 3
        self._source.at += 3 if triple else 1
        self._grow('"')
        while not (yield from self._piece(quote, triple)):
            pass
        self._grow('"')

    def _piece(self, quote: str, triple: bool) -> Steps[bool]:
        """The string up to its next mark; whether that ended it."""
        found = _STRING_MARKS[quote].search(self._source.text, self._source.at)
        end = len(self._source.text) if found is None else found.start()
        if end > self._source.at:
            self._grow(escape(self._source.text[self._source.at : end]))
            self._source.at = end
        if found is None:
            if not (yield from self._source.more()):
                raise _Broken
            return False
        if found.group() == "\\":
            yield from self._escape()
            return False
        if triple and (yield from self._source.peek(3)) != quote * 3:
            self._grow(escape(quote))
            self._source.at += 1
            return False
        self._source.at += 3 if triple else 1
        return True

    def _escape(self) -> Steps[None]:
        kind = (yield from self._source.peek(2))[1:]
        if not kind:
            raise _Broken
        if kind in _HEX and not self._raw:
            digits = (yield from self._source.peek(2 + _HEX[kind]))[2:]
            if len(digits) == _HEX[kind] and _HEX_DIGITS.issuperset(digits):
                code = int(digits, 16)
                if code <= _LAST_CODE_POINT:
                    self._source.at += 2 + len(digits)
                    self._grow(escape(chr(code)))
                    return
        # As in Python, a backslash before any other character is a backslash.
        self._grow(escape("\\" + kind if self._raw else _ESCAPES.get(kind, "\\" + kind)))
        self._source.at += 2

    # ── Numbers and words ───────────────────────────────────────────────────────────

    def _scalar(self) -> Steps[None]:
        while True:
            found = _SCALAR.match(self._source.text, self._source.at)
            if found is None or found.end() - self._source.at > LONGEST_NAME:
                raise _Broken
            if found.end() < len(self._source.text):
                break
            if not (yield from self._source.more()):
                raise _Broken
        self._source.at = found.end()
        self._grow(_write_scalar(found.group()))

    _READERS: ClassVar[dict[str, Callable[[Literal, int], Steps[None]]]] = {
        **dict.fromkeys("[(", _sequence),
        "{": _mapping,
        **dict.fromkeys("\"'", _string),
        **dict.fromkeys("rR", _raw_string),
    }


_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?\Z")
_OTHER_BASE = re.compile(r"[+-]?0(?:[xX][\da-fA-F]+|[oO][0-7]+|[bB][01]+)\Z")
_BETWEEN_DIGITS = re.compile(r"(?<=[\da-fA-F])_(?=[\da-fA-F])")


def _write_scalar(text: str) -> str:
    if text in _WORDS:
        return _WORDS[text]
    text = _BETWEEN_DIGITS.sub("", text)
    if _OTHER_BASE.match(text):
        return str(int(text, 0))
    if not _NUMBER.match(text):
        raise _Broken
    if text.lstrip("+-").isdigit():
        number = text.removeprefix("+")
        sign = "-" if number.startswith("-") else ""
        text = sign + (number.lstrip("-").lstrip("0") or "0")
    else:
        text = repr(float(text))
    if number_flaw(text):
        raise _Broken
    return text
