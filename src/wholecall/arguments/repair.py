"""Rewrite text that is whole but not strict JSON; every repair is recorded."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from string import ascii_letters
from typing import ClassVar

from wholecall.arguments.json_grammar import (
    JSON_STRING,
    KEYS,
    NUMBER,
    SCALAR,
    Expect,
    JsonGrammar,
    match_end,
    skip_blanks,
)
from wholecall.arguments.parse import excerpt, find_too_many
from wholecall.events import Repair, Value

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
_PLAIN = {'"': re.compile(r'[^"\\\x00-\x1f]*+'), "'": re.compile(r"[^'\"\\\x00-\x1f]*+")}
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
        self._grammar = JsonGrammar()
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
        return self._write(JSON_STRING, f'"{name}"')

    # ── Strings ─────────────────────────────────────────────────────────────────────

    def _read_string(self) -> bool:
        start = self.at
        quote = self._text[start]
        content = self._read_content(quote)
        if content is None:
            return False
        if quote != JSON_STRING:
            self.note("python_literal", self._text[start : self.at], after=f'"{content}"')
        return self._write(JSON_STRING, f'"{content}"')

    def _read_content(self, quote: str) -> str | None:
        """Return the text between the quotes as JSON writes it; None if the end is missing."""
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
        if mark in ("", JSON_STRING):
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


# Safe repairs: a text that is whole, but written in another syntax than strict JSON.
#
# A repair is safe if the text has exactly one reading. `tolerant.Rewriter` reads the value; this
# module handles what is around it: a code fence, a leaked word, text after the end. The result is
# strict JSON, which is parsed like any other.
#
# Only texts that are known to be whole may be repaired. Even so, a truncated text cannot become an
# object here: the value's own brace must close it, and what is dropped after the brace was not part
# of it.


REPAIRABLE = 64 * 1024
"""Characters. Longer arguments are files; what is wrong in them is for the model to say."""

_VALUES = 10_000
"""Of a text that is repaired. To rewrite one takes some microseconds."""

# A fence with its language, or the language alone if the fence was lost. Any other word before the
# object may say what the object is for, and is not a header.
_HEADERS = (
    ("strip_prefix", re.compile("\ufeff")),
    ("strip_fence", re.compile(r"`{3,}+[A-Za-z0-9_+-]{0,20}+|`++")),
    ("strip_prefix", re.compile(r"(?:json[5c]?|javascript|js|python|py)\b", re.IGNORECASE)),
)
# The object is the content of a JSON string whose own quotes were lost.
_ESCAPED_OBJECT = re.compile(r'\{(?:[ \t\r\n]|\\[nrt])*+\\"')
_LEFTOVER_MARKS = re.compile(r"(?:[\s}\]),;`]|\\[nrt])*+")


class Repaired(Value, frozen=True):
    """A text as strict JSON, and what was changed to make it so."""

    text: str
    repairs: tuple[Repair, ...]


def is_repairable(text: str) -> bool:
    """Return True if a text is small enough to be read mark by mark."""
    return len(text) <= REPAIRABLE and find_too_many(text, _VALUES) is None


def repair(text: str) -> Repaired | None:
    """Rewrite a text that is known to be whole; None if it has no single reading."""
    if not is_repairable(text):
        return None
    repairs, at = _read_headers(text)
    if _ESCAPED_OBJECT.match(text, at):
        text, at = f'"{text[at:].rstrip()}"', 0
    rewriter = Rewriter(text, at)
    strict = rewriter.rewrite()
    if strict is None:
        return None
    repairs.extend(rewriter.repairs.values())
    tail = text[rewriter.at :].strip()
    if any(change.kind == "strip_fence" for change in repairs):
        tail = tail.lstrip("`").lstrip()
    if tail:
        # `{}` proves nothing: some servers send it first, and then something else.
        is_python = "python_literal" in rewriter.repairs
        if not strict.startswith("{") or strict == "{}" or not may_drop(tail, python=is_python):
            return None
        repairs.append(Repair("drop_trailing", excerpt(tail), ""))
    return Repaired(strict, tuple(repairs))


def may_drop(tail: str, *, python: bool = False) -> bool:
    """Return True if the text after a closed object is certainly not part of it.

    It may be stray closers, then prose. It may not be another object, nor the rest of this one: if
    an inner quote was not escaped (`{"run": "echo "}" > a"}`) or a brace closed too early (`{"a":
    {}}, "b": 1}`), the object's true end is still to come, a brace after a quote. Python's strings
    (`python`) end in apostrophes as well.
    """
    end = match_end(_LEFTOVER_MARKS, tail, at=0)
    marks, prose = tail[:end], tail[end:]
    if not prose:
        return True
    part_of_an_object = "\"{}'" if python else '"{}'
    return "," not in marks and not any(mark in prose for mark in part_of_an_object)


def _read_headers(text: str) -> tuple[list[Repair], int]:
    repairs: list[Repair] = []
    at = skip_blanks(text, 0)
    for kind, pattern in _HEADERS:
        end = match_end(pattern, text, at=at)
        if end > at:
            repairs.append(Repair(kind, text[at:end], ""))
            at = skip_blanks(text, end)
    return repairs, at
