"""Python's literals, written as JSON while they arrive: strings, numbers, words, lists, tuples,
sets, dicts. Nothing is ever evaluated."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar

from wholecall.core.grammar import number_flaw
from wholecall.dialects.jsontext import escape
from wholecall.dialects.machine import LONGEST_NAME, Machine
from wholecall.dialects.source import Sink, Steps

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

    def __init__(self, machine: Machine, sink: Sink) -> None:
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
