"""Calls as literals of a language: what all have in common, Gemma's, hashes with arrows.

These formats are rare and their arguments short, so a call is held back to its end and then written
whole. It is still read while it arrives: prose is recognised at its first wrong character, and what
is broken is refused there, not at the end of the answer. Nothing is ever evaluated.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from wholecall.dialects.char_stream import BLANKS, Markers, Steps, ignore, markers_of
from wholecall.dialects.grammars.json_values import (
    Shape,
    Trim,
    decode_string,
    escape,
    read_string,
    read_value,
    shape_of,
    types_of,
    write_value,
)
from wholecall.dialects.parser_context import LONGEST_NAME, ParserContext

LONGEST_BARE = 4096
"""Characters of a value without quotes."""
IN_QUOTES = re.compile(r"""(["'])((?:(?!\1).)*+)\1""", re.DOTALL)


class UnreadableLiteral(Exception):
    """A key or a value is not written as one."""


class TooDeep(UnreadableLiteral):
    """Containers are nested deeper than arguments may be."""


class LiteralReader(ABC):
    """Reads lists and mappings between brackets; a language says what a key and a value are.

    Every reader returns the JSON text of what it read.
    """

    def __init__(self, machine: ParserContext) -> None:
        self._machine = machine
        self._source = machine.source
        self._output = machine.output

    @abstractmethod
    def value(self, schema: Any, depth: int) -> Steps[str]:
        """Read the value at this position."""

    @abstractmethod
    def key(self, properties: Mapping[str, Any]) -> Steps[str]:
        """Read a key and the mark that follows it."""

    def _first(self, depth: int) -> Steps[str]:
        """Return the first character of a value."""
        if depth > self._machine.limits.depth:
            raise TooDeep
        return (yield from self._source.skip())

    def _collection(self, schema: Any, depth: int) -> Steps[str]:
        """Read the list or the mapping at this position."""
        inner = schema if isinstance(schema, Mapping) else {}
        bracket = self._source.text[self._source.at]
        self._source.at += 1
        if bracket == "[":
            return (yield from self._list(inner.get("items"), depth))
        return (yield from self._mapping(inner.get("properties") or {}, depth))

    def _list(self, items: Any, depth: int, *, closer: str = "]") -> Steps[str]:
        """Read a list after its bracket."""
        found: list[str] = []
        while (yield from self._goes_on(closer, bool(found))):
            found.append((yield from self.value(items, depth + 1)))
        return f"[{', '.join(found)}]"

    def _mapping(
        self, properties: Mapping[str, Any], depth: int, *, closer: str = "}"
    ) -> Steps[str]:
        """Read a mapping after its bracket."""
        found: list[str] = []
        while (yield from self._goes_on(closer, bool(found))):
            key = yield from self.key(properties)
            value = yield from self.value(properties.get(key), depth + 1)
            found.append(f'"{escape(key)}": {value}')
        return f"{{{', '.join(found)}}}"

    def _goes_on(self, closer: str, later: bool) -> Steps[bool]:
        """Return True if another element follows; read the comma or the closer."""
        first = yield from self._source.skip()
        if later and first == ",":
            self._source.at += 1
            first = yield from self._source.skip()
        elif later and first != closer:
            raise UnreadableLiteral
        if first == ",":
            raise UnreadableLiteral
        self._source.at += first == closer
        return first != closer

    def refuse(self, name: str, error: UnreadableLiteral, *, flaw: str) -> None:
        """Open a call that can never run. The assembler names the limit if it was too deep."""
        deep = "[" * self._machine.limits.depth if isinstance(error, TooDeep) else ""
        self._output.open(name, arguments="{" + deep)
        self._machine.spoil(flaw)


# ── Gemma's: `call:search{query:<|"|>x<|"|>,limit:3}` ───────────────────────────────

_BEGIN = "call:"
_AGAIN = markers_of((_BEGIN, f",{_BEGIN}", f", {_BEGIN}"))
_BRACE = markers_of(("{", "(", "<", "\n", "}"))
_CLOSED_BY = {"{": "}", "(": ")"}
_ENDS = (",", "}", "]")
_PAIRS = (("(", ")"), ("[", "]"), ("{", "}"))
_SAME_LINE = " \t"
_LINE_ENDS = frozenset({"", "\n", "\r", "<"})
_APOSTROPHE = markers_of(("'",))
_COMMA = markers_of((",",))
_MEMBER = re.compile(rf"\s*,\s*(?!{_BEGIN})\w+\s*:")
_LONGEST_MEMBER = 64
"""Characters in which the key of a member ends."""
_TOKENS = markers_of(("<bos>", "<eos>"))
_IN_NO_KEY = re.compile(r"""["'{}\[\](),<>\n]""")
_NAMED = re.compile(r"(\w++)\s*+:")
_STRING_QUOTES = ('<|"|>', "<escape>")
"""The marks around strings, in one format or the other."""
_NO_MEMBER = "a key or a value is not written as one"


@dataclass(frozen=True, slots=True)
class GemmaCalls:
    """Calls after one marker each."""

    quote: str
    closers: tuple[str, ...]
    begin: str = _BEGIN
    marked: bool = True
    """True if a marker identifies the call; without one, only an offered name does."""

    def read(self, machine: ParserContext, opener: str = "", /) -> Steps[bool]:
        """Read the call at this position; return False without one."""
        reading = _Reading(machine, self, opener=opener)
        found = again = yield from reading.call()
        while again and not reading.closed and (yield from machine.source.sees_ahead(_AGAIN)):
            reading = _Reading(machine, replace(self, begin=""), opener=opener)
            again = yield from self._next(machine, reading)
        return found

    def _next(self, machine: ParserContext, reading: _Reading) -> Steps[bool]:
        """Read the call after another one; read nothing without one."""
        place = machine.source.bookmark()
        yield from machine.source.accept_ahead(_AGAIN)
        found = yield from reading.call()
        if not found:
            machine.source.rewind(place)
        machine.source.forget()
        return found


class _Reading(LiteralReader):
    def __init__(self, machine: ParserContext, grammar: GemmaCalls, *, opener: str = "") -> None:
        super().__init__(machine)
        self._grammar = grammar
        self._quote = markers_of((grammar.quote,))
        self._tokens = (opener, *grammar.closers) if grammar.marked else ()
        """Text that arguments may hold only inside a string."""
        self._tells = False
        """True if a string holds such a token: what follows may belong to the string."""
        self._ends: tuple[str, ...] = _ENDS
        """The ends of a word."""
        self._assigns: tuple[str, ...] = (":",)
        """The marks after a key: in parentheses an equals sign, too."""
        self._names: Mapping[str, Any] = {}
        """The parameters of the tool."""
        self._guessed = False
        """True if the end of a string was guessed."""
        self.closed = False
        """True if a mark ended the calls."""

    def call(self) -> Steps[bool]:
        grammar = self._grammar
        yield from self._source.skip()
        while (yield from self._source.accept(_TOKENS)):
            yield from self._source.skip()
        if grammar.begin and not (yield from self._source.accept(markers_of((grammar.begin,)))):
            return False
        head, end = yield from self._source.header(_BRACE, LONGEST_NAME)
        admit = self._machine.admit if grammar.marked else self._machine.find
        name = admit(head) if end in _CLOSED_BY else None
        if name is None:
            return False
        self._ends = (*_ENDS, _CLOSED_BY[end])
        self._assigns = (":",) if end == "{" else (":", "=")
        self._names = self._machine.properties(name)
        try:
            arguments = yield from self._mapping(self._names, 0, closer=_CLOSED_BY[end])
            yield from self._check_end()
        except UnreadableLiteral as error:
            self.refuse(name, error, flaw=_NO_MEMBER)
            self.closed = True
            yield from self._read_over()
            return True
        self._output.open(name, arguments=arguments[:-1])
        # At the end of the text the brace may be one of a string without quotes.
        rested = self._guessed and not (yield from self._source.peek())
        self._output.grow("}", guessed=rested)
        self._output.seal()
        closer = yield from self._source.sees_ahead(markers_of(grammar.closers))
        self.closed = bool(closer) and grammar.marked
        yield from self._source.accept_ahead(markers_of(grammar.closers))
        return True

    def _read_over(self) -> Steps[None]:
        """Skip the rest of a broken call, except another call that begins right here. If a string
        mentions calls, it may have ended too early, and the others may be part of it."""
        closers = self._grammar.closers
        if self._tells:
            yield from self._source.flow(markers_of(()), self._output.text)
        elif not (yield from self._source.sees_ahead(markers_of(self._tokens[:1]))):
            resume = closers if self._grammar.marked else (*closers, "\n")
            yield from self._source.flow(markers_of(resume), ignore)

    def _check_end(self) -> Steps[None]:
        """Raise an error unless the brace that was read is the last one."""
        if self._guessed and not (yield from self._is_over()):
            raise UnreadableLiteral
        if (yield from self._has_more_members()):
            raise UnreadableLiteral

    def _has_more_members(self) -> Steps[bool]:
        """Return True if members follow the last brace: then it was a surplus one."""
        if not (yield from self._source.sees_ahead(_COMMA)):
            return False
        end = yield from self._source.ends_ahead(":", _LONGEST_MEMBER)
        at = self._source.at
        return _MEMBER.match(self._source.text, at, at + end) is not None

    def _is_over(self) -> Steps[bool]:
        """Return True if the following text shows that this brace is the last one."""
        behind = markers_of((*self._grammar.closers, _BEGIN))
        if self._grammar.marked:
            return bool((yield from self._source.sees_ahead(behind)))
        follows = yield from self._source.skip(_SAME_LINE)
        return follows in _LINE_ENDS or bool((yield from self._source.sees(behind)))

    def key(self, properties: Mapping[str, Any]) -> Steps[str]:
        quoted = bool((yield from self._source.accept(self._quote)))
        key = yield from (self._quoted_key() if quoted else self._plain_key(properties))
        if self._guessed and properties and key not in properties:
            raise UnreadableLiteral
        return key

    def _quoted_key(self) -> Steps[str]:
        key, end = yield from self._source.header(self._quote, LONGEST_NAME)
        yield from self._source.skip()
        if not end or not (yield from self._source.accept(markers_of(self._assigns))):
            raise UnreadableLiteral
        return key.strip().strip("\"'")

    def _plain_key(self, properties: Mapping[str, Any]) -> Steps[str]:
        marks = markers_of((*self._assigns, *self._tokens))
        text, end = yield from self._source.header(marks, LONGEST_NAME)
        self._stop_at(end)
        text = text.strip()
        quoted = IN_QUOTES.fullmatch(text)
        key = quoted[2] if quoted else text
        # A mark in it is what is left of another member, or a brace too many.
        if not end or not (quoted or key in properties or _is_word(key)):
            raise UnreadableLiteral
        return key

    def value(self, schema: Any, depth: int) -> Steps[str]:
        first = yield from self._first(depth)
        if first in ("{", "["):
            return (yield from self._collection(schema, depth))
        if (yield from self._source.accept(self._quote)):
            return (yield from self._string())
        if first == '"':
            return (yield from self._json_string())
        if first == "'":
            return (yield from self._apostrophes())
        return (yield from self._bare(types_of(schema)))

    def _string(self) -> Steps[str]:
        pieces: list[str] = []
        marks = markers_of((self._grammar.quote, *self._tokens))
        while mark := (yield from self._source.flow(marks, pieces.append)):
            if mark == self._grammar.quote:
                return f'"{escape("".join(pieces))}"'
            self._tells = True
            pieces.append(mark)
        raise UnreadableLiteral

    def _stop_at(self, mark: str) -> None:
        """Stop at a token: neither a key nor a word contains one."""
        if mark in self._tokens:
            self._source.at -= len(mark)
            raise UnreadableLiteral

    def _json_string(self) -> Steps[str]:
        pieces: list[str] = []
        whole = yield from read_value(self._source, pieces.append)
        value = decode_string("".join(pieces)) if whole else None
        if value is None:
            raise UnreadableLiteral
        return f'"{escape(value)}"'

    def _apostrophes(self) -> Steps[str]:
        """A string between apostrophes; one that nothing ends is a part of it."""
        self._source.at += 1
        pieces: list[str] = []
        while (yield from self._source.flow(_APOSTROPHE, pieces.append)):
            if (yield from self._source.sees_ahead(markers_of(self._ends))):
                return f'"{escape("".join(pieces))}"'
            pieces.append("'")
        raise UnreadableLiteral

    def _bare(self, types: frozenset[str]) -> Steps[str]:
        marks = markers_of((*self._ends, *self._tokens))
        text, end = yield from self._source.header(marks, LONGEST_BARE)
        self._stop_at(end)
        if not end or _holds_quote(text):
            raise UnreadableLiteral
        self._source.at -= 1
        shape = shape_of(types)
        if shape is Shape.TEXT:
            value = f'"{escape(text.strip())}"'
        else:
            value = write_value(text, shape, types=types, trim=Trim.BLANKS)
        if value.startswith('"'):
            self._guessed = True
            _check_balance(text)
            self._check_colons(text, declared="string" in types)
        return value

    def _check_colons(self, text: str, *, declared: bool) -> None:
        """A colon may be that of another member, whose comma was lost."""
        names = _NAMED.findall(text)
        if text.startswith(":") or (names and not declared):
            raise UnreadableLiteral
        if any(name.endswith(tuple(self._names)) for name in names):
            raise UnreadableLiteral


def _holds_quote(text: str) -> bool:
    """Return True if words hold a string mark, or the beginning of one."""
    begun = text.strip()
    return any(quote in text or (begun and quote.startswith(begun)) for quote in _STRING_QUOTES)


def _is_word(key: str) -> bool:
    """Return True if this may be an unquoted key."""
    return bool(key) and _IN_NO_KEY.search(key) is None


def _check_balance(text: str) -> None:
    """A bracket or a quote that is open tells that the text was not over."""
    if text.count('"') % 2 or any(text.count(begin) != text.count(end) for begin, end in _PAIRS):
        raise UnreadableLiteral


# ── Hashes with arrows, as some MiniMax models leak them ────────────────────────────
#
# `[TOOL_CALL]`, then `{tool => "search", args => {`, then one parameter to a line, `--query "x"`,
# then `}}` and `[/TOOL_CALL]`.

_TOOL = markers_of(("tool",))
_ARGS = markers_of(("args",))
_ARROW = markers_of(("=>",))
_FLAG = markers_of(("--",))
_ATTRIBUTE_END = markers_of(("=", "]", '"', "\n"))
_LINE_END = markers_of(("\n",))
_FLAG_END = markers_of((" ", "\t", "\n"))
_HASH_BRACES = BLANKS + "}"


@dataclass(frozen=True, slots=True)
class ArrowCalls:
    """One hash between two markers."""

    closers: tuple[str, ...]

    def read(self, machine: ParserContext, _opener: str = "", /) -> Steps[bool]:
        """Read the call at this position; return False without one."""
        source, output = machine.source, machine.output
        if not (yield from _brace(machine)) or not (yield from _arrow(machine, _TOOL)):
            return False
        spelled = yield from read_string(source)
        name = machine.admit(spelled or "")
        yield from source.skip(BLANKS + ",")
        if name is None or not (yield from _arrow(machine, _ARGS)):
            return False
        if not (yield from _brace(machine)):
            return False
        closers = markers_of(self.closers)
        flags = yield from _flags(machine)
        output.open(name, arguments="{" if flags is None else "{" + ", ".join(flags))
        if flags is None:
            machine.spoil("a flag is not written as one")
            yield from source.flow(closers, ignore)
            return True
        yield from source.skip(_HASH_BRACES)
        if (yield from source.accept(closers)):
            output.grow("}")
            output.seal()
        else:
            machine.spoil("it does not end with its mark")
        return True


# ── Attributes: `[Calling tool="search" query="x"]`, what small models make of transcripts ──


@dataclass(frozen=True, slots=True)
class AttributeCalls:
    """A name and strings by their keys, up to a bracket. The opener ends with the equals sign."""

    def read(self, machine: ParserContext, opener: str = "", /) -> Steps[bool]:
        """Read the calls of offered tools from here on; return False without one."""
        if not (yield from self._call(machine)):
            return False
        again = markers_of((opener.removeprefix("\n"),))
        source = machine.source
        while (yield from source.sees_ahead(again)):
            place = source.bookmark()
            yield from source.accept_ahead(again)
            found = yield from self._call(machine)
            if not found:
                source.rewind(place)
            source.forget()
            if not found:
                break
        return True

    def _call(self, machine: ParserContext) -> Steps[bool]:
        source, output = machine.source, machine.output
        name = machine.find((yield from read_string(source)) or "")
        if name is None:
            return False
        found: list[str] = []
        while (yield from source.skip()) != "]":
            key, end = yield from source.header(_ATTRIBUTE_END, LONGEST_NAME)
            pieces: list[str] = []
            quoted = end == "=" and (yield from source.peek()) == '"'
            if not quoted or not (yield from read_value(source, pieces.append)):
                output.open(name, arguments="{")
                machine.spoil("an attribute is not written as one")
                yield from source.flow(_LINE_END, ignore)
                return True
            found.append(f'"{escape(key.strip())}": {"".join(pieces)}')
        source.at += 1
        output.open(name, arguments=f"{{{', '.join(found)}}}")
        output.seal()
        return True


def _brace(machine: ParserContext) -> Steps[bool]:
    found = (yield from machine.source.skip()) == "{"
    machine.source.at += found
    return found


def _arrow(machine: ParserContext, key: Markers) -> Steps[bool]:
    """`tool =>`"""
    source = machine.source
    yield from source.skip()
    if not (yield from source.accept(key)):
        return False
    yield from source.skip()
    return bool((yield from source.accept(_ARROW)))


def _flags(machine: ParserContext) -> Steps[list[str] | None]:
    """`--key value`, each in its line, up to the brace; None if that is not what is there."""
    source = machine.source
    flags: list[str] = []
    while (yield from source.skip(BLANKS + ",")) != "}":
        if not (yield from source.accept(_FLAG)):
            return None
        key, end = yield from source.header(_FLAG_END, LONGEST_NAME)
        pieces: list[str] = []
        if not end or not (yield from read_value(source, pieces.append)):
            return None
        flags.append(f'"{escape(key)}": {"".join(pieces)}')
    return flags
