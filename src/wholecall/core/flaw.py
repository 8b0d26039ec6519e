"""Find where and why a rejected text leaves JSON, without reading all of it again.

`grammar.walk` takes a microsecond per mark, and a broken text may have millions. But everything
before the parser's error is JSON, and what may come next follows from the open brackets and the
previous mark. So the walk starts there. It gives the same answer as a walk from the beginning.
"""

from __future__ import annotations

import json
import re

from wholecall.core.extent import BETWEEN_BRACKETS, STRING
from wholecall.core.grammar import (
    CLOSER_OF,
    DIGITS,
    NUMBER,
    Cause,
    Grammar,
    Walk,
    explain,
    match_end,
    number_flaw,
    walk,
)


class BadLiteral(ValueError):
    """A number or a word that the parser would read, and we do not."""

    def __init__(self, literal: str) -> None:
        super().__init__(literal)
        self.literal = literal


def find_flaw(text: str, error: json.JSONDecodeError | BadLiteral, *, depth: int) -> Walk:
    """Say where the text leaves JSON. The error is the parser's, or ours at a literal."""
    at = _begin_mark(text, error)
    before = text[:at].rstrip(_BLANKS)
    after_key = not isinstance(error, BadLiteral) and error.msg.startswith(_NO_COLON)
    grammar = Grammar.after(before[-1:], _find_open(before), after_key=after_key)
    if isinstance(error, BadLiteral):
        return _explain_literal(text, at, literal=error.literal, grammar=grammar)
    if text[at : at + 1] == '"' and not after_key:
        # The string is the flaw. To walk on would be to read it once more, and it may be long.
        stop = explain(text, at, grammar=grammar, known=_known_good(text, error))
        return Walk(*stop, at, grammar.closers)
    return walk(text, depth=depth, at=at, grammar=grammar)


def _explain_literal(text: str, at: int, *, literal: str, grammar: Grammar) -> Walk:
    if literal[-1].isdigit():
        # The number is the flaw, and may be as long.
        return Walk(Cause.BROKEN, at, number_flaw(literal), None, at, grammar.closers)
    return Walk(*explain(text, at, grammar=grammar), at, grammar.closers)


# ── The mark that is flawed ─────────────────────────────────────────────────────────

_BLANKS = " \t\r\n"
_NO_COLON = "Expecting ':'"
_UNTERMINATED = "Unterminated string"
_BAD_UNICODE = "Invalid \\u"
_IN_STRING = ("Invalid control character", "Invalid \\")


def _known_good(text: str, error: json.JSONDecodeError) -> int:
    """Up to where the parser has read a string without finding fault."""
    if error.msg.startswith(_UNTERMINATED):
        # All of it, but for a backslash at the end that escapes nothing.
        return len(text) - (len(text) - len(text.rstrip("\\"))) % 2
    if error.msg.startswith(_BAD_UNICODE):
        return error.pos - 1  # the parser names the `u`
    return error.pos if error.msg.startswith(_IN_STRING) else 0


def _begin_mark(text: str, error: json.JSONDecodeError | BadLiteral) -> int:
    """Return the start of the flawed mark; the parser may name a place inside it."""
    if isinstance(error, BadLiteral):
        return match_end(_up_to(error.literal), text, at=0)
    if error.msg.startswith(_UNTERMINATED):
        return error.pos
    if error.msg.startswith(_IN_STRING):
        return _begin_string(text[: _known_good(text, error)])
    # Of `1.x` the parser has read the number 1.
    number = len(text[: error.pos].rstrip("0123456789.eE+-"))
    return number if text[number : number + 1] in _NUMBER_BEGINS else error.pos


def _begin_string(text: str) -> int:
    """Return the start of the string in which a text ends. The parser finds it fast."""
    begin = len(text)
    try:
        _DECODER.decode(text + " ")  # after one surrogate it expects the other, or more
    except json.JSONDecodeError as error:
        begin = error.pos
    return begin


_DECODER = json.JSONDecoder()
_NUMBER_BEGINS = frozenset("-0123456789")


def _up_to(literal: str) -> re.Pattern[str]:
    """All of a text before a bad literal, in one match. No other word has an N or I in it."""
    # A number that continues with another digit is bad as well and would have been found before.
    # One that continues with an exponent may be small.
    goes_on = r"[eE][+-]?[0-9]" if literal.lstrip("-").replace(".", "").isdigit() else "[0-9]"
    bad = rf"{re.escape(literal[: DIGITS + 1])}(?!{goes_on})"
    return re.compile(rf'(?:{STRING}|[^"\-0-9NI]++|(?!{bad}){NUMBER.pattern})*+', re.DOTALL)


# ── Brackets ────────────────────────────────────────────────────────────────────────


def _find_open(text: str) -> list[str]:
    """The closers of the brackets that are open at the end, the outermost first."""
    closers: list[str] = []
    closed = 0
    for bracket in reversed(BETWEEN_BRACKETS.sub("", text)):
        if bracket not in CLOSER_OF:
            closed += 1
        elif closed:
            closed -= 1
        else:
            closers.append(CLOSER_OF[bracket])
    return closers[::-1]
