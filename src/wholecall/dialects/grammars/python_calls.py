"""Python's literals, written as JSON while they arrive: strings, numbers, words, lists, tuples,
sets, dicts. Nothing is ever evaluated."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from wholecall.arguments.json_grammar import number_flaw
from wholecall.dialects.char_stream import BLANKS, Sink, Steps, ignore, markers_of
from wholecall.dialects.grammars.json_calls import JsonCalls
from wholecall.dialects.grammars.json_values import escape
from wholecall.dialects.parser_context import LONGEST_NAME, ParserContext

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
_SCALAR = re.compile(r"[\w.+\-]+")
_STRING_MARKS = {quote: re.compile(rf"[{quote}\\]") for quote in "\"'"}


class BrokenLiteral(Exception):
    """A literal is missing."""


class Literal:
    """Reads one literal and writes it as JSON."""

    def __init__(self, machine: ParserContext, sink: Sink) -> None:
        self._source = machine.source
        self._grow = sink
        self._depth = machine.limits.depth
        self._raw = False

    def value(self, depth: int) -> Steps[None]:
        """Read the value at this position."""
        first = yield from self._source.skip()
        if depth > self._depth or not first:
            raise BrokenLiteral
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
            raise BrokenLiteral
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
                raise BrokenLiteral
            self._source.at += 1
            self._grow(": ")
            yield from self.value(depth + 1)
            first = yield from self._source.skip()
            if first == ",":
                self._source.at += 1
                first = yield from self._source.skip()
            elif first != "}":
                raise BrokenLiteral
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
            raise BrokenLiteral
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
                raise BrokenLiteral
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
            raise BrokenLiteral
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
                raise BrokenLiteral
            if found.end() < len(self._source.text):
                break
            if not (yield from self._source.more()):
                raise BrokenLiteral
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
        raise BrokenLiteral
    if text.lstrip("+-").isdigit():
        number = text.removeprefix("+")
        sign = "-" if number.startswith("-") else ""
        text = sign + (number.lstrip("-").lstrip("0") or "0")
    else:
        text = repr(float(text))
    if number_flaw(text):
        raise BrokenLiteral
    return text


# Python calls, `[search(query="x", limit=3), now()]`, translated while they arrive.
#
# Only literals are read: strings, numbers, words, lists, tuples, sets, dicts. An expression (`60 *
# 60`, `now()` as a value) is not an argument; nothing is ever evaluated. One dict in the place of
# all keywords, `search({"query": "x"})` or `search(**{"query": "x"})`, is the arguments.


_NAME = re.compile(r"[A-Za-z_][\w.\-]*")
_PRINT = markers_of(("print(",))
_UNPACKS = markers_of(("**",))
_EQUALS = markers_of(("=", ")", ",", "(", "[", "{", '"', "'", "\n"))


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

    def read(self, machine: ParserContext, opener: str = "", /) -> Steps[bool]:
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


def _begins_object(machine: ParserContext) -> Steps[bool]:
    return (yield from machine.source.sees_ahead(markers_of(("{", "[{", "[ {", "[\n")))) in (
        "{",
        "[{",
        "[ {",
    )


class _Reading:
    def __init__(self, machine: ParserContext, grammar: PythonCalls) -> None:
        self._machine = machine
        self._source = machine.source
        self._output = machine.output
        self._admit = machine.admit if grammar.marked else machine.find
        self._timid = grammar.timid
        self._method = grammar.method
        self._closers = markers_of(grammar.closers)
        self._resume = markers_of(grammar.closers or ("\n",))
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
        """Read the name of a call and its parenthesis; read nothing without one."""
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
