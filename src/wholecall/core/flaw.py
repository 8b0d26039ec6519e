"""Where and why a text that the parser refused leaves JSON, without reading it all again.

`grammar.walk` takes a microsecond a mark, and a broken text may have millions. But the
parser has read all that stands before the flaw, so that is JSON; and what may come next
follows from the brackets that are open there and from the mark before. So the walk need
only begin there. Its answer is the one of a walk from the beginning.
"""

from __future__ import annotations

import json
import re
from itertools import accumulate, islice

from wholecall.core.grammar import CLOSER_OF, NUMBER, Grammar, Walk, walk


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
    return walk(text, depth=depth, at=at, grammar=grammar)


# ── The mark that is flawed ─────────────────────────────────────────────────────────

_BLANKS = " \t\r\n"
_NO_COLON = "Expecting ':'"
_IN_STRING = ("Unterminated string", "Invalid control character", "Invalid \\")
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_LITERAL = re.compile(rf"{_STRING.pattern}|-?Infinity|NaN|{NUMBER.pattern}", re.DOTALL)


def _begin_mark(text: str, error: json.JSONDecodeError | BadLiteral) -> int:
    """Where the flawed mark begins; the parser may name a place inside it."""
    if isinstance(error, BadLiteral):
        found = (mark for mark in _LITERAL.finditer(text) if mark.group() == error.literal)
        return next(found).start()
    if error.msg.startswith(_IN_STRING):
        last = min(error.pos, len(text) - 1)
        return next(mark.start() for mark in _STRING.finditer(text) if mark.end() > last)
    # Of `1.x` the parser has read the number 1.
    number = len(text[: error.pos].rstrip("0123456789.eE+-"))
    return number if text[number : number + 1] in _NUMBER_BEGINS else error.pos


_NUMBER_BEGINS = frozenset("-0123456789")


# ── Brackets ────────────────────────────────────────────────────────────────────────

_NO_BRACKETS = rf"{_STRING.pattern}|[^\"{{}}\[\]]++"
_BETWEEN_BRACKETS = re.compile(_NO_BRACKETS, re.DOTALL)
_NEXT_BRACKET = re.compile(rf"(?:{_NO_BRACKETS})*+[{{}}\[\]]", re.DOTALL)
_LEVELS = {"{": 1, "[": 1, "}": -1, "]": -1}


def _find_open(text: str) -> list[str]:
    """The closers of the brackets that are open at the end, the outermost first."""
    closers: list[str] = []
    closed = 0
    for bracket in reversed(_BETWEEN_BRACKETS.sub("", text)):
        if bracket not in CLOSER_OF:
            closed += 1
        elif closed:
            closed -= 1
        else:
            closers.append(CLOSER_OF[bracket])
    return closers[::-1]


def find_too_deep(text: str, depth: int) -> int | None:
    """Behind the first bracket outside strings that goes too deep; None if none does."""
    if text.count("{") + text.count("[") <= depth:
        return None
    levels = accumulate(_LEVELS[bracket] for bracket in _BETWEEN_BRACKETS.sub("", text))
    first = next((index for index, level in enumerate(levels) if level > depth), None)
    if first is None:
        return None
    return next(islice(_NEXT_BRACKET.finditer(text), first, None)).end()
