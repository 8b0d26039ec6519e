"""Python calls, `[search(query="x", limit=3), now()]`, with literals as their arguments.

A call is held back to its end and written whole. Nothing is ever evaluated: an expression (`60 *
60`, `now()` as a value) is not an argument. One dict in the place of all keywords,
`search({"query": "x"})` or `search(**{"query": "x"})`, is the arguments.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from wholecall.arguments.json_grammar import number_flaw
from wholecall.dialects.char_stream import BLANKS, Steps, ignore, markers_of
from wholecall.dialects.grammars.json_calls import JsonCalls
from wholecall.dialects.grammars.json_values import escape
from wholecall.dialects.grammars.literal_calls import LiteralReader, UnreadableLiteral
from wholecall.dialects.parser_context import LONGEST_NAME, ParserContext, plausible
from wholecall.events import Reason

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
_QUOTES = markers_of(('"""', "'''", '"', "'"))
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?\Z")
_OTHER_BASE = re.compile(r"[+-]?0(?:[xX][\da-fA-F]+|[oO][0-7]+|[bB][01]+)\Z")
_BETWEEN_DIGITS = re.compile(r"(?<=[\da-fA-F])_(?=[\da-fA-F])")
_EQUALS = markers_of(("=", ")", ",", "(", "[", "{", '"', "'", "\n"))


class _Literal(LiteralReader):
    def value(self, _schema: Any, depth: int) -> Steps[str]:
        first = yield from self._first(depth)
        if first in ("[", "("):
            self._source.at += 1
            return (yield from self._list(None, depth, closer="]" if first == "[" else ")"))
        if first == "{":
            self._source.at += 1
            return (yield from self._braces(depth))
        if first in ("r", "R"):  # `r"\d"`; no word of the language begins so
            self._source.at += 1
            return (yield from self._string(raw=True))
        if first in _QUOTES:
            return (yield from self._string())
        return (yield from self._scalar())

    def key(self, _properties: Mapping[str, Any]) -> Steps[str]:
        """Read a keyword with its equals sign."""
        text, end = yield from self._source.header(_EQUALS, LONGEST_NAME)
        if end != "=" or not text.strip().isidentifier():
            raise UnreadableLiteral
        return text.strip()

    def _braces(self, depth: int) -> Steps[str]:
        """Read a dict or a set: which one, its first element shows."""
        found: list[str] = []
        is_set = False
        while (yield from self._goes_on("}", bool(found))):
            element = yield from self.value(None, depth + 1)
            colon = (yield from self._source.skip()) == ":"
            is_set = is_set or not (found or colon)
            if is_set:
                found.append(element)
                continue
            if not colon or not element.startswith('"'):
                raise UnreadableLiteral
            self._source.at += 1
            found.append(f"{element}: {(yield from self.value(None, depth + 1))}")
        return f"[{', '.join(found)}]" if is_set else f"{{{', '.join(found)}}}"

    def _string(self, *, raw: bool = False) -> Steps[str]:
        quote = yield from self._source.accept(_QUOTES)
        if not quote:
            raise UnreadableLiteral
        pieces: list[str] = []
        marks = markers_of((quote, "\\"))
        while (mark := (yield from self._source.flow(marks, pieces.append))) == "\\":
            pieces.append((yield from self._escape(raw)))
        if not mark:
            raise UnreadableLiteral
        return f'"{escape("".join(pieces))}"'

    def _escape(self, raw: bool) -> Steps[str]:
        """Read what follows a backslash. One before any other character is literal."""
        kind = yield from self._source.peek()
        if not kind:
            raise UnreadableLiteral
        self._source.at += 1
        if raw:
            return f"\\{kind}"
        if kind in _HEX:
            digits = yield from self._source.peek(_HEX[kind])
            hexadecimal = len(digits) == _HEX[kind] and _HEX_DIGITS.issuperset(digits)
            if hexadecimal and int(digits, 16) <= _LAST_CODE_POINT:
                self._source.at += len(digits)
                return chr(int(digits, 16))
        return _ESCAPES.get(kind, f"\\{kind}")

    def _scalar(self) -> Steps[str]:
        while True:
            found = _SCALAR.match(self._source.text, self._source.at)
            if found is None or found.end() - self._source.at > LONGEST_NAME:
                raise UnreadableLiteral
            if found.end() < len(self._source.text):
                break
            if not (yield from self._source.more()):
                raise UnreadableLiteral
        self._source.at = found.end()
        return _write_scalar(found.group())


def _write_scalar(text: str) -> str:
    if text in _WORDS:
        return _WORDS[text]
    text = _BETWEEN_DIGITS.sub("", text)
    if _OTHER_BASE.match(text):
        return str(int(text, 0))
    if not _NUMBER.match(text):
        raise UnreadableLiteral
    if text.lstrip("+-").isdigit():
        number = text.removeprefix("+")
        sign = "-" if number.startswith("-") else ""
        text = sign + (number.lstrip("-").lstrip("0") or "0")
    else:
        text = repr(float(text))
    if number_flaw(text):
        raise UnreadableLiteral
    return text


# ── Calls ───────────────────────────────────────────────────────────────────────────

_NAME = re.compile(r"[A-Za-z_][\w.\-]*")
_PRINT = markers_of(("print(",))
_UNPACKS = markers_of(("**",))
_OBJECT = markers_of(("{", "[{", "[ {", "[\n"))
_NO_KEYWORDS = "its arguments are not keywords with literals: name=value"


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
    leads: tuple[str, ...] = ()
    """Text that may lead to the next call after a closer: `[Calling tool: `."""

    def read(self, machine: ParserContext, opener: str = "", /) -> Steps[bool]:
        """Read the calls that stand here; False if none does."""
        first = yield from machine.source.skip()
        if self.prints:
            yield from machine.source.accept(_PRINT)
        if self.json_too and (yield from machine.source.sees_ahead(_OBJECT)) in ("{", "[{", "[ {"):
            return (yield from JsonCalls(self.closers).read(machine, opener))
        if first == "[" and not self.brackets and self.marked and self.closers:
            machine.source.at += 1
            return (yield from _Reading(machine, replace(self, brackets=True)).calls())
        if self.brackets and opener != "[":
            if first != "[":
                grammar = replace(self, brackets=False)
                return self.alone and (yield from _Reading(machine, grammar).calls())
            machine.source.at += 1
        return (yield from _Reading(machine, self).calls())


class _Reading(_Literal):
    def __init__(self, machine: ParserContext, grammar: PythonCalls) -> None:
        super().__init__(machine)
        self._grammar = grammar
        self._admit = machine.admit if grammar.marked else machine.find
        self._closers = markers_of(grammar.closers)
        self._separators = BLANKS + ",;" if grammar.brackets else BLANKS + ";"

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
            name = (yield from self._next(place)) if whole else ""
        if name != "":
            self._source.rewind(place)
        self._source.forget()
        return begun

    def _next(self, place: int) -> Steps[str | None]:
        """Return the name of another call; empty at the end of the calls, None if there is
        neither. `place` is the end of the last call."""
        first = yield from self._source.skip(self._separators)
        if self._grammar.brackets and first == "]":
            self._source.at += 1
            yield from self._source.skip()
            yield from self._source.accept(self._closers)
            return ""
        if (yield from self._source.accept(self._closers)):
            return (yield from self._led())
        listed = self._grammar.brackets and "," in self._source.since(place)
        name = yield from self._name(listed=listed)
        if name is None and first:
            return (yield from (self._foreign(place) if listed else self._stray()))
        return name

    def _led(self) -> Steps[str]:
        """Return the name of a call that follows a closer and another lead."""
        leads = markers_of(self._grammar.leads)
        if not (yield from self._source.sees_ahead(leads)):
            return ""
        place = self._source.bookmark()
        yield from self._source.accept_ahead(leads)
        name = yield from self._name()
        if name is None:
            self._source.rewind(place)
        self._source.forget()
        return name or ""

    def _foreign(self, place: int) -> Steps[str | None]:
        """Report an element of a list of calls that is not a call, and continue after it."""
        self._output.reject(Reason.BAD_MARKUP, "an element of the list of calls is not a call")
        try:
            yield from self.value(None, 0)
        except UnreadableLiteral:
            return None
        return (yield from self._next(place))

    def _stray(self) -> Steps[None]:
        """Report text between calls that are marked off, or in a list. It stays text."""
        if not self._grammar.marked or not self._grammar.closers:
            if self._grammar.brackets:
                self._output.reject(Reason.BAD_MARKUP, "text stands between the calls")
            return
        place = self._source.bookmark()
        _, end = yield from self._source.header(self._closers, LONGEST_NAME)
        self._source.rewind(place)
        self._source.forget()
        if end:
            self._output.reject(Reason.BAD_MARKUP, "text stands between the calls")

    def _name(self, *, listed: bool = False) -> Steps[str | None]:
        """Read the name of a call and its parenthesis; read nothing without one. In a list of
        calls an unknown one is reported."""
        while True:
            found = _NAME.match(self._source.text, self._source.at)
            end = found.end() if found else self._source.at
            if end < len(self._source.text) or end - self._source.at > LONGEST_NAME:
                break
            if not (yield from self._source.more()):
                return None
        spelled, method = found.group() if found else "", self._grammar.method
        if self._source.text[end] != "(" or not spelled.endswith(method):
            return None
        spelled = spelled.removesuffix(method)
        name = self._admit(spelled) or (plausible(spelled) if listed else None)
        if name is not None:
            self._source.at = end + 1
        return name

    def _call(self, name: str) -> Steps[bool | None]:
        """Return True if the call is whole; None if it is prose."""
        try:
            arguments = yield from self._arguments()
        except UnreadableLiteral as error:
            if self._grammar.timid and not (yield from self._is_cut()):
                return None
            self.refuse(name, error, flaw=_NO_KEYWORDS)
            # The place where text continues after a broken call.
            yield from self._source.flow(markers_of(self._grammar.closers or ("\n",)), ignore)
            return False
        self._output.open(name, arguments=arguments)
        self._output.seal()
        return True

    def _is_cut(self) -> Steps[bool]:
        """Return True if the text ends here, in a call that is not closed."""
        ahead = yield from self._source.peek()
        return not ahead and not self._source.text.endswith(")")

    def _arguments(self) -> Steps[str]:
        """Read all arguments up to the parenthesis, as an object."""
        yield from self._source.skip()
        yield from self._source.accept(_UNPACKS)
        if (yield from self._source.peek()) != "{":
            return (yield from self._keywords())
        written = yield from self.value(None, 0)
        if written.startswith("[") or (yield from self._source.skip(BLANKS + ",")) != ")":
            raise UnreadableLiteral  # a set, or more than one argument
        self._source.at += 1
        return written

    def _keywords(self) -> Steps[str]:
        found: list[str] = []
        while True:
            first = yield from self._source.skip()
            comma = first == ","
            if found and comma:
                first = yield from self._source.skip(BLANKS + ",")
            if first == ")":
                self._source.at += 1
                return f"{{{', '.join(found)}}}"
            if found and not comma:
                raise UnreadableLiteral
            key = yield from self.key({})
            found.append(f'"{key}": {(yield from self.value(None, 0))}')


# Code for an interpreter, which Llama 3.1 and Functionary v3.1 write without a name or quotes.


_INTERPRETERS = ("python", "ipython", "code_interpreter")


@dataclass(frozen=True, slots=True)
class RawCode:
    """The only text of a Python tool, up to a closer: `<|python_tag|>print(1)`."""

    closers: tuple[str, ...]
    turns: tuple[str, ...] = ()
    """The tokens that begin the turn of another role, and end the code as well."""

    def read(self, machine: ParserContext, _opener: str = "", /) -> Steps[bool]:
        """Read the code; False if no tool takes it, and if a call in JSON is what stands here."""
        offered = [name for name in _INTERPRETERS if name in (machine.offer or ())]
        texts = list(machine.properties(offered[0]).items()) if offered else []
        first = yield from machine.source.skip()
        if len(texts) != 1 or texts[0][1].get("type") != "string" or first in ("", "{", "["):
            return False
        machine.output.open(offered[0], arguments=f'{{"{escape(texts[0][0])}": "')
        marks = markers_of(self.closers + self.turns)
        end = yield from machine.source.flow(marks, lambda code: machine.output.grow(escape(code)))
        machine.source.at -= len(end) if end in self.turns else 0
        machine.output.grow('"}', guessed=not end)
        machine.output.seal()
        return True
