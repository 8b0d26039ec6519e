"""Rewrite lenient JSON to strict JSON in one pass.

A rewriter reads one value mark by mark, as `grammar.walk` does, but knows more ways to write a
mark: Python's quotes and words, JavaScript's bare keys, raw control characters, a surplus comma.
Each has exactly one reading; text with two readings is refused. It writes the strict form of what
it reads, and notes each kind of change once, with the first place as its example.

Two laws:

- Nothing that is missing is invented: no closer, quote, comma, key or value. A mark is read from
  left to right without lookahead past the value, and strict JSON is read as what it is. So no
  proper prefix of an object is ever an object here either.
- Comments are refused. A model's comment often replaces what it left out (`// … the other files`),
  and then the value without it is not what was meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from string import ascii_letters
from typing import ClassVar

from wholecall.core.grammar import (
    KEYS,
    NUMBER,
    SCALAR,
    STRING,
    Expect,
    Grammar,
    match_end,
    skip_blanks,
)
from wholecall.core.parse import excerpt
from wholecall.core.values import Repair

_ESCAPED_BLANKS = re.compile(r"(?:\\[nrt])++")
_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*+")
_WORDS = {
    "true": "true",
    "false": "false",
    "null": "null",
    "True": "true",
    "False": "false",
    "None": "null",
}

_CONTROLS = re.compile(r"[\x00-\x1f]++")
_PLAIN = {
    '"': re.compile(r'[^"\\\x00-\x1f]*+'),
    "'": re.compile(r"[^'\"\\\x00-\x1f]*+"),
}
# Python's strings may hold any escape of JSON's but `\/`, and two more.
# In JSON's, a backslash before any other character is a backslash (`C:\Projects`), unless
# another language has an escape there: `it\'s` is an apostrophe in JavaScript and one
# backslash more in a shell. `\u` without its digits is an open question, too, and so is a
# backslash at the end of a line.
_ESCAPES = {
    '"': re.compile(
        r'\\(?:(?P<quote>")|(?P<escape>[\\/bfnrt]|u[0-9a-fA-F]{4})'
        r"|(?P<raw>(?!['u\x00-\x1f]|x[0-9a-fA-F]{2}|U[0-9a-fA-F]{8}).))"
    ),
    "'": re.compile(
        r'\\(?:(?P<quote>")|(?P<escape>[\\bfnrt]|u[0-9a-fA-F]{4})'
        r"|(?P<apostrophe>')|x(?P<byte>[0-9a-fA-F]{2}))"
    ),
}
_STRICT_ESCAPES = {
    "quote": r"\{}",
    "escape": r"\{}",
    "raw": r"\\{}",
    "apostrophe": "{}",
    "byte": r"\u00{}",
}


class Rewriter:
    """Reads one value of a text and writes it as strict JSON."""

    def __init__(self, text: str, at: int = 0) -> None:
        self.at = at
        """The position up to which the text is read."""
        self.repairs: dict[str, Repair] = {}
        """One repair of each kind, with the first place as its example."""
        self._text = text
        self._grammar = Grammar()
        self._written: list[str] = []
        self._has_escapes = False

    def rewrite(self) -> str | None:
        """The next value as strict JSON; None if it has no single reading."""
        while self._grammar.expects is not Expect.END:
            read = self._READERS.get(self._text[self.at : self.at + 1])
            if read is None or not read(self):
                return None
        # A model that writes `C:\Projects` may also mean `C:\new` literally: then no escape in the
        # whole text can be trusted, in any string.
        if self._has_escapes and "escape_backslash" in self.repairs:
            return None
        return "".join(self._written)

    def note(self, kind: str, before: str, *, after: str) -> None:
        """Record a change."""
        if kind not in self.repairs:
            self.repairs[kind] = Repair(kind, excerpt(before), excerpt(after))

    def _write(self, mark: str, written: str) -> bool:
        self._written.append(written)
        return self._grammar.take(mark)

    # ── Between strings ─────────────────────────────────────────────────────────────

    def _read_blanks(self) -> bool:
        self.at = skip_blanks(self._text, self.at)
        return True

    def _read_escaped_blanks(self) -> bool:
        end = match_end(_ESCAPED_BLANKS, self._text, at=self.at)
        self.note("escaped_whitespace_outside_strings", self._text[self.at : end], after="")
        moved = end > self.at
        self.at = end
        return moved

    def _read_mark(self) -> bool:
        mark = self._text[self.at]
        self.at += 1
        return self._write(mark, mark)

    def _read_closer(self) -> bool:
        if self._grammar.take_back_comma():
            self._written.pop()
            closer = self._text[self.at]
            self.note("trailing_comma", f",{closer}", after=closer)
        return self._read_mark()

    def _read_number(self) -> bool:
        end = match_end(NUMBER, self._text, at=self.at)
        number, self.at = self._text[self.at : end], end
        return bool(number) and self._write(SCALAR, number)

    def _read_name(self) -> bool:
        end = match_end(_NAME, self._text, at=self.at)
        name, self.at = self._text[self.at : end], end
        if name not in _WORDS:
            return self._write_key(name)
        word = _WORDS[name]
        if word != name:
            self.note("python_literal", name, after=word)
        return self._write(SCALAR, word)

    def _write_key(self, name: str) -> bool:
        """A bare name is a key where a key must be, and nothing anywhere else."""
        if self._grammar.expects not in KEYS:
            return False
        self.note("quote_key", name, after=f'"{name}"')
        return self._write(STRING, f'"{name}"')

    # ── Strings ─────────────────────────────────────────────────────────────────────

    def _read_string(self) -> bool:
        start = self.at
        quote = self._text[start]
        content = self._read_content(quote)
        if content is None:
            return False
        if quote != STRING:
            self.note("python_literal", self._text[start : self.at], after=f'"{content}"')
        return self._write(STRING, f'"{content}"')

    def _read_content(self, quote: str) -> str | None:
        """Return the text between the quotes as JSON writes it; None if there is no end."""
        pieces: list[str] = []
        self.at += 1
        while True:
            end = match_end(_PLAIN[quote], self._text, at=self.at)
            pieces.append(self._text[self.at : end])
            self.at = end
            mark = self._text[end : end + 1]
            if mark == quote:
                self.at += 1
                return "".join(pieces)
            piece = self._read_special(mark, quote)
            if piece is None:
                return None
            pieces.append(piece)

    def _read_special(self, mark: str, quote: str) -> str | None:
        if mark == "\\":
            return self._read_escape(quote)
        if mark in ("", STRING):
            self.at += 1
            return f"\\{mark}" if mark else None
        end = match_end(_CONTROLS, self._text, at=self.at)
        controls, self.at = self._text[self.at : end], end
        self.note("escape_control", mark, after=json.dumps(mark)[1:-1])
        return json.dumps(controls)[1:-1]

    def _read_escape(self, quote: str) -> str | None:
        found = _ESCAPES[quote].match(self._text, self.at)
        if found is None:
            return None
        self.at = found.end()
        kind = str(found.lastgroup)
        strict = _STRICT_ESCAPES[kind].format(found[kind])
        if kind == "escape":
            self._has_escapes = True
        elif kind == "raw":
            self.note("escape_backslash", found.group(), after=strict)
        return strict

    _READERS: ClassVar[dict[str, Callable[[Rewriter], bool]]] = {
        **dict.fromkeys(" \t\r\n", _read_blanks),
        "\\": _read_escaped_blanks,
        **dict.fromkeys("{[:,", _read_mark),
        **dict.fromkeys("}]", _read_closer),
        **dict.fromkeys("\"'", _read_string),
        **dict.fromkeys("-0123456789", _read_number),
        **dict.fromkeys(f"{ascii_letters}_$", _read_name),
    }
