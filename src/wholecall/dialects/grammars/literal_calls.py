"""Calls in literals of a model's own: Gemma's, and hashes with arrows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
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

_LONGEST_BARE = 4096
_BEGIN = "call:"
_AGAIN = markers_of((_BEGIN,))
_BRACE = markers_of(("{", "(", "<", "\n", "}"))
_CLOSED_BY = {"{": "}", "(": ")"}
_KEY_END = markers_of((":",))
_ENDS = (",", "}", "]")
_BARE_END = markers_of(_ENDS)
_PAIRS = (("(", ")"), ("[", "]"), ("{", "}"))
_SAME_LINE = " \t"
_LINE_ENDS = frozenset({"", "\n", "\r", "<"})
_APOSTROPHE = markers_of(("'",))
_COMMA = markers_of((",",))
_MEMBER = re.compile(rf"\s*,\s*(?!{_BEGIN})\w+\s*:")
_LONGEST_MEMBER = 64
"""Characters in which the key of a member ends."""
_TOKENS = markers_of(("<bos>", "<eos>"))
_IN_QUOTES = re.compile(r"""(["'])((?:(?!\1).)*+)\1""", re.DOTALL)
_IN_NO_KEY = re.compile(r"""["'{}\[\](),<>\n]""")
_NAMED = re.compile(r"(\w++)\s*+:")
_QUOTES = ('<|"|>', "<escape>")
"""The marks around strings, in one format or the other."""


class _Broken(Exception):
    """A value is missing."""


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
        found = yield from _Reading(machine, self, opener=opener).call()
        again = found and not self.marked
        while again and (yield from machine.source.sees_ahead(_AGAIN)):
            again = yield from self._next(machine)
        return found

    def _next(self, machine: ParserContext) -> Steps[bool]:
        """Read the call after another one; read nothing without one."""
        place = machine.source.bookmark()
        yield from machine.source.skip()
        machine.source.at += len(_BEGIN)
        found = yield from _Reading(machine, self).call()
        if not found:
            machine.source.rewind(place)
        machine.source.forget()
        return found


class _Reading:
    def __init__(self, machine: ParserContext, grammar: GemmaCalls, *, opener: str = "") -> None:
        self._machine = machine
        self._source = machine.source
        self._output = machine.output
        self._grow = machine.output.grow
        self._marked = grammar.marked
        self._admit = machine.admit if grammar.marked else machine.find
        self._begin = markers_of((grammar.begin,)) if grammar.begin else None
        self._quote = markers_of((grammar.quote,))
        self._closers = markers_of(grammar.closers)
        self._resume = markers_of(grammar.closers if grammar.marked else (*grammar.closers, "\n"))
        """The place where text continues after a broken call."""
        self._tokens = (opener, *grammar.closers) if grammar.marked else ()
        """Text that arguments may hold only inside a string."""
        self._begins = markers_of(self._tokens[:1])
        self._key_end = markers_of((":", *self._tokens))
        self._in_string = markers_of((grammar.quote, *self._tokens))
        self._tells = False
        """True if a string holds such a token: what follows may belong to the string."""
        self._behind = markers_of((*grammar.closers, _BEGIN))
        self._bare_end = self._word_end = _BARE_END
        self._names: Mapping[str, Any] = {}
        """The parameters of the tool."""
        self._guessed = False
        """True if the end of a string was guessed."""

    def call(self) -> Steps[bool]:
        yield from self._source.skip()
        while (yield from self._source.accept(_TOKENS)):
            yield from self._source.skip()
        if self._begin is not None and not (yield from self._source.accept(self._begin)):
            return False
        head, end = yield from self._source.header(_BRACE, LONGEST_NAME)
        name = self._admit(head) if end in _CLOSED_BY else None
        if name is None:
            return False
        closer = _CLOSED_BY[end]
        self._bare_end = markers_of((*_ENDS, closer))
        self._word_end = markers_of((*_ENDS, closer, *self._tokens))
        self._output.open(name)
        try:
            self._names = self._machine.properties(name)
            yield from self._members(self._names, 0, closer=closer)
            yield from self._end()
        except _Broken:
            self._machine.spoil("a key or a value is not written as one")
            yield from self._read_over()
        return True

    def _read_over(self) -> Steps[None]:
        """Skip the rest of a broken call, except another call that begins right here. If a string
        mentions calls, it may have ended too early, and the others may be part of it."""
        if self._tells:
            yield from self._source.flow(markers_of(()), self._output.text)
        elif not (yield from self._source.sees_ahead(self._begins)):
            yield from self._source.flow(self._resume, ignore)

    def _end(self) -> Steps[None]:
        """The last brace, and what ends the call."""
        if self._guessed and not (yield from self._is_over()):
            raise _Broken
        if (yield from self._has_more_members()):
            raise _Broken
        # At the end of the text the brace may be one of a string without quotes.
        rested = self._guessed and not (yield from self._source.peek())
        self._output.grow("}", guessed=rested)
        self._output.seal()
        yield from self._source.accept_ahead(self._closers)

    def _has_more_members(self) -> Steps[bool]:
        """Return True if members follow the last brace: then it was a surplus one."""
        if not (yield from self._source.sees_ahead(_COMMA)):
            return False
        end = yield from self._source.ends_ahead(":", _LONGEST_MEMBER)
        at = self._source.at
        return _MEMBER.match(self._source.text, at, at + end) is not None

    def _is_over(self) -> Steps[bool]:
        """Return True if the following text shows that this brace is the last one."""
        if self._marked:
            return bool((yield from self._source.sees_ahead(self._behind)))
        follows = yield from self._source.skip(_SAME_LINE)
        return follows in _LINE_ENDS or bool((yield from self._source.sees(self._behind)))

    def _object(self, properties: Mapping[str, Any], depth: int) -> Steps[None]:
        yield from self._members(properties, depth, closer="}")
        self._grow("}")

    def _members(self, properties: Mapping[str, Any], depth: int, *, closer: str) -> Steps[None]:
        """The members of an object whose brace is read, up to the one that closes it."""
        self._grow("{")
        separator = ""
        while (yield from self._goes_on(closer, bool(separator))):
            key = yield from self._key(properties)
            if self._guessed and properties and key not in properties:
                raise _Broken
            self._grow(f'{separator}"{escape(key)}": ')
            yield from self._value(properties.get(key), depth + 1)
            separator = ", "

    def _array(self, items: Any, depth: int) -> Steps[None]:
        self._grow("[")
        separator = ""
        while (yield from self._goes_on("]", bool(separator))):
            self._grow(separator)
            yield from self._value(items, depth + 1)
            separator = ", "
        self._grow("]")

    def _goes_on(self, closer: str, later: bool) -> Steps[bool]:
        """Return True if another element follows; read the comma or the closer."""
        first = yield from self._source.skip()
        if later and first == ",":
            self._source.at += 1
            first = yield from self._source.skip()
        elif later and first != closer:
            raise _Broken
        if first == ",":
            raise _Broken
        if first == closer:
            self._source.at += 1
            return False
        return True

    def _key(self, properties: Mapping[str, Any]) -> Steps[str]:
        if (yield from self._source.accept(self._quote)):
            key, end = yield from self._source.header(self._quote, LONGEST_NAME)
            yield from self._source.skip()
            if not end or not (yield from self._source.accept(_KEY_END)):
                raise _Broken
            return key.strip().strip("\"'")
        text, end = yield from self._source.header(self._key_end, LONGEST_NAME)
        self._stop_at(end)
        text = text.strip()
        quoted = _IN_QUOTES.fullmatch(text)
        key = quoted[2] if quoted else text
        # A mark in it is what is left of another member, or a brace too many.
        if not end or not (quoted or key in properties or _is_word(key)):
            raise _Broken
        return key

    def _value(self, schema: Any, depth: int) -> Steps[None]:
        first = yield from self._source.skip()
        if depth > self._machine.limits.depth:
            raise _Broken
        inner = schema if isinstance(schema, Mapping) else {}
        if first == "{":
            self._source.at += 1
            yield from self._object(inner.get("properties") or {}, depth)
        elif first == "[":
            self._source.at += 1
            yield from self._array(inner.get("items"), depth)
        elif (yield from self._source.accept(self._quote)):
            yield from self._string()
        elif first == '"':
            yield from self._json_string()
        elif first == "'":
            yield from self._apostrophes()
        else:
            yield from self._bare(types_of(schema))

    def _string(self) -> Steps[None]:
        self._grow('"')
        while mark := (yield from self._source.flow(self._in_string, self._escaped)):
            if mark in self._quote:
                self._grow('"')
                return
            self._tells = True
            self._escaped(mark)
        raise _Broken

    def _stop_at(self, mark: str) -> None:
        """Stop at a token: neither a key nor a word contains one."""
        if mark in self._tokens:
            self._source.at -= len(mark)
            raise _Broken

    def _escaped(self, piece: str) -> None:
        self._grow(escape(piece))

    def _json_string(self) -> Steps[None]:
        pieces: list[str] = []
        whole = yield from read_value(self._source, pieces.append)
        value = decode_string("".join(pieces)) if whole else None
        if value is None:
            raise _Broken
        self._grow(f'"{escape(value)}"')

    def _apostrophes(self) -> Steps[None]:
        """A string between apostrophes; one that nothing ends is a part of it."""
        self._source.at += 1
        pieces: list[str] = []
        while (yield from self._source.flow(_APOSTROPHE, pieces.append)):
            if (yield from self._source.sees_ahead(self._bare_end)):
                self._grow(f'"{escape("".join(pieces))}"')
                return
            pieces.append("'")
        raise _Broken

    def _bare(self, types: frozenset[str]) -> Steps[None]:
        text, end = yield from self._source.header(self._word_end, _LONGEST_BARE)
        self._stop_at(end)
        if not end or _holds_quote(text):
            raise _Broken
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
        self._grow(value)

    def _check_colons(self, text: str, *, declared: bool) -> None:
        """A colon may be that of another member, whose comma was lost."""
        names = _NAMED.findall(text)
        if text.startswith(":") or (names and not declared):
            raise _Broken
        if any(name.endswith(tuple(self._names)) for name in names):
            raise _Broken


def _holds_quote(text: str) -> bool:
    """Return True if words hold a string mark, or the beginning of one."""
    begun = text.strip()
    return any(quote in text or (begun and quote.startswith(begun)) for quote in _QUOTES)


def _is_word(key: str) -> bool:
    """Return True if this may be an unquoted key."""
    return bool(key) and _IN_NO_KEY.search(key) is None


def _check_balance(text: str) -> None:
    """A bracket or a quote that is open tells that the text was not over."""
    if text.count('"') % 2 or any(text.count(begin) != text.count(end) for begin, end in _PAIRS):
        raise _Broken


# Hashes with arrows, as some MiniMax models leak them.
#
# > [TOOL_CALL]
# {tool => "search", args => {
#   --query "x"
#   --limit 3
# > }}
# [/TOOL_CALL]


_TOOL = markers_of(("tool",))
_ARGS = markers_of(("args",))
_ARROW = markers_of(("=>",))
_FLAG = markers_of(("--",))
_FLAG_END = markers_of((" ", "\t", "\n"))
_BRACES = BLANKS + "}"


@dataclass(frozen=True, slots=True)
class ArrowCalls:
    """One hash between two markers."""

    closers: tuple[str, ...]

    def read(self, machine: ParserContext, _opener: str = "", /) -> Steps[bool]:
        """Read the call at this position; return False without one."""
        source, output = machine.source, machine.output
        if (yield from source.skip()) != "{":
            return False
        source.at += 1
        if not (yield from _key(machine, _TOOL)):
            return False
        spelled = yield from read_string(source)
        name = machine.admit(spelled or "")
        yield from source.skip(BLANKS + ",")
        if name is None or not (yield from _key(machine, _ARGS)):
            return False
        if (yield from source.skip()) != "{":
            return False
        source.at += 1
        output.open(name, arguments="{")
        closers = markers_of(self.closers)
        if not (yield from _flags(machine)):
            machine.spoil("a flag is not written as one")
            yield from source.flow(closers, ignore)
            return True
        yield from source.skip(_BRACES)
        if (yield from source.accept(closers)):
            output.grow("}")
            output.seal()
        else:
            machine.spoil("it does not end with its mark")
        return True


def _key(machine: ParserContext, key: Markers) -> Steps[bool]:
    """`tool =>`"""
    source = machine.source
    yield from source.skip()
    if not (yield from source.accept(key)):
        return False
    yield from source.skip()
    return bool((yield from source.accept(_ARROW)))


def _flags(machine: ParserContext) -> Steps[bool]:
    """`--key value`, each in its line, up to the brace."""
    source, output = machine.source, machine.output
    separator = ""
    while (yield from source.skip(BLANKS + ",")) != "}":
        if not (yield from source.accept(_FLAG)):
            return False
        key, end = yield from source.header(_FLAG_END, LONGEST_NAME)
        if not end:
            return False
        output.grow(f'{separator}"{escape(key)}": ')
        if not (yield from read_value(source, output.grow)):
            return False
        separator = ", "
    return True
