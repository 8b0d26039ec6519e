"""JSON as a table of what may follow what, and the place where a text leaves it."""

from __future__ import annotations

import enum
import json
import math
import re
from typing import NamedTuple

STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
"""A string, as a pattern for where none is open; its end may be missing."""
NO_BRACKETS = rf"(?:{STRING}|[^\"{{}}\[\]]++)"
_BETWEEN_BRACKETS = re.compile(rf"{NO_BRACKETS}++", re.DOTALL)

DIGITS = 640
"""The longest number. Python's own limit can be set, but never below this one: what is
accepted here can be converted, shown and sent on under every setting."""

CLOSER_OF = {"{": "}", "[": "]"}
_CLOSERS = frozenset(CLOSER_OF.values())

# Marks: brackets, colon and comma stand for themselves, a string is its quote, and
# numbers and words are alike to the grammar.
JSON_STRING = '"'
SCALAR = "0"


class Expect(enum.Enum):
    """The expected next mark, in words that a model can act on."""

    VALUE = "a value"
    FIRST_ITEM = "a value or ']'"
    AFTER_ITEM = "',' or ']'"
    FIRST_KEY = "a key in double quotes or '}'"
    KEY = "a key in double quotes"
    COLON = "':'"
    AFTER_MEMBER = "',' or '}'"
    END = "the end of the text"

    # By identity, as members compare: the name's hash would cost more than the step.
    __hash__ = object.__hash__


# What comes after a whole value depends on what is open around it. In the table, such a
# step leads to END; `take` looks further.
_AFTER_VALUE_IN = {"": Expect.END, "}": Expect.AFTER_MEMBER, "]": Expect.AFTER_ITEM}
_BEGINNINGS = {
    JSON_STRING: Expect.END,
    SCALAR: Expect.END,
    "{": Expect.FIRST_KEY,
    "[": Expect.FIRST_ITEM,
}
_STEPS: dict[tuple[Expect, str], Expect] = {
    **{(Expect.VALUE, mark): step for mark, step in _BEGINNINGS.items()},
    **{(Expect.FIRST_ITEM, mark): step for mark, step in _BEGINNINGS.items()},
    (Expect.FIRST_ITEM, "]"): Expect.END,
    (Expect.AFTER_ITEM, ","): Expect.VALUE,
    (Expect.AFTER_ITEM, "]"): Expect.END,
    (Expect.FIRST_KEY, JSON_STRING): Expect.COLON,
    (Expect.FIRST_KEY, "}"): Expect.END,
    (Expect.KEY, JSON_STRING): Expect.COLON,
    (Expect.COLON, ":"): Expect.VALUE,
    (Expect.AFTER_MEMBER, ","): Expect.KEY,
    (Expect.AFTER_MEMBER, "}"): Expect.END,
}
# The same, from the previous mark and from what is open; any other mark ends a value.
_AFTER_MARK = {
    ("", ""): Expect.VALUE,
    ("{", "}"): Expect.FIRST_KEY,
    ("[", "]"): Expect.FIRST_ITEM,
    (":", "}"): Expect.VALUE,
    (",", "}"): Expect.KEY,
    (",", "]"): Expect.VALUE,
}
KEYS = frozenset({Expect.FIRST_KEY, Expect.KEY})
_COMPLETABLE = frozenset(
    {Expect.FIRST_ITEM, Expect.AFTER_ITEM, Expect.FIRST_KEY, Expect.AFTER_MEMBER, Expect.END}
)


class JsonGrammar:
    """The position of a JSON reader: what is open, and what must come next."""

    __slots__ = ("closers", "expects")

    def __init__(self) -> None:
        self.expects = Expect.VALUE
        self.closers: list[str] = []
        """The closing brackets that are still to come, the outermost first."""

    @classmethod
    def after(cls, last: str, closers: list[str], *, after_key: bool) -> JsonGrammar:
        """Stand in the middle of a text: what is open, and the last character before."""
        grammar = cls()
        grammar.closers = closers
        closer = closers[-1] if closers else ""
        grammar.expects = _AFTER_MARK.get((last, closer), _AFTER_VALUE_IN[closer])
        if after_key:
            grammar.expects = Expect.COLON
        return grammar

    def allows(self, mark: str) -> bool:
        """Return True if the mark is allowed here."""
        return (self.expects, mark) in _STEPS

    def take(self, mark: str) -> bool:
        """Step over a mark. False, and no step, if it may not stand here."""
        step = _STEPS.get((self.expects, mark))
        if step is None:
            return False
        if mark in CLOSER_OF:
            self.closers.append(CLOSER_OF[mark])
        elif mark in _CLOSERS:
            self.closers.pop()
        if step is Expect.END:
            step = _AFTER_VALUE_IN[self.closers[-1] if self.closers else ""]
        self.expects = step
        return True

    def take_back_comma(self) -> bool:
        """Step back over a comma. False, and no step, if none was just taken."""
        closer = self.closers[-1] if self.closers else ""
        # A value is also expected after a colon, but then the closer is a brace.
        if self.expects is not Expect.KEY and (self.expects, closer) != (Expect.VALUE, "]"):
            return False
        self.expects = _AFTER_VALUE_IN[closer]
        return True


# ── Walking ─────────────────────────────────────────────────────────────────────────

NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+")
_STRING_BODY = re.compile(
    r'[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+'
)
_BLANKS = re.compile(r"[ \t\r\n]*+")
# One valid mark, with the white space after it. A short integer needs no further check; any other
# number is a `number` whose size is checked.
_TOKEN = re.compile(
    r"(?:[{}\[\]:,]"
    rf'|"{_STRING_BODY.pattern}"'
    r"|true|false|null"
    r"|-?(?:0|[1-9][0-9]{0,17}+)(?![0-9.eE+-])"
    rf"|(?P<number>{NUMBER.pattern})(?![0-9.eE+-])"
    rf"){_BLANKS.pattern}"
)
_MARK_OF = {
    **{mark: mark for mark in "{}[]:,"},
    JSON_STRING: JSON_STRING,
    **dict.fromkeys("-0123456789tfn", SCALAR),
}


class Cause(enum.Enum):
    """The reason why a walk stopped."""

    COMPLETE = "the text is one whole JSON value"
    CUT = "the text ends before the value does"
    BROKEN = "something stands where no JSON could have it"
    DEEP = "nested too deep"


class GrammarStop(NamedTuple):
    """The position and the reason of a stop: the first fields of a `Walk`."""

    cause: Cause
    position: int
    message: str = ""
    open_string: int | None = None


class Walk(NamedTuple):
    """The extent to which a text is strict JSON, and why no further."""

    cause: Cause
    position: int
    """The position at which it stopped."""
    message: str
    """The reason, in words for a model; empty if the text is whole."""
    open_string: int | None
    """If a string value was cut: the end of its last whole character."""
    completable: int
    """Up to here the closers alone would make the text whole."""
    closers: list[str]
    """The closers of what is open there, the outermost first."""


def walk(text: str, *, depth: int, at: int = 0, grammar: JsonGrammar | None = None) -> Walk:
    """Read strict JSON until its end or the first flaw.

    It begins at the beginning, or anywhere, if the `grammar` there is known.
    """
    grammar = grammar or JsonGrammar()
    completable = at
    at = skip_blanks(text, at)
    while found := _TOKEN.match(text, at):
        mark = _MARK_OF[text[at]]
        too_deep = mark in CLOSER_OF and len(grammar.closers) == depth
        too_big = found.lastgroup is not None and number_flaw(found["number"])
        if too_deep or too_big or not grammar.take(mark):
            break
        at = found.end()
        if grammar.expects in _COMPLETABLE:
            completable = at
    return Walk(*explain(text, at, grammar=grammar), completable, grammar.closers)


def skip_blanks(text: str, at: int) -> int:
    """Return the end of the white space that begins at `at`."""
    return match_end(_BLANKS, text, at=at)


def match_end(pattern: re.Pattern[str], text: str, *, at: int) -> int:
    """Return the end of the pattern's match at `at`, or `at` without a match."""
    found = pattern.match(text, at)
    return at if found is None else found.end()


def number_flaw(literal: str) -> str:
    """Return the reason why this literal is not a valid number; empty if it is one."""
    if len(literal) > DIGITS:
        return f"a number of more than {DIGITS} digits"
    if not literal.lstrip("-").isdigit() and math.isinf(float(literal)):
        return "a number that is too large"
    return ""


# ── Explaining ──────────────────────────────────────────────────────────────────────

# A number that cannot end here, at the end of the text.
_NUMBER_STUB = re.compile(r"-?(?:(?:0|[1-9][0-9]*+)(?:(?:\.[0-9]++)?+[eE][+-]?|\.))?+\Z")
# The end of the text, perhaps inside an escape.
_STRING_STUB = re.compile(r"(?:\\(?:u[0-9a-fA-F]{0,3}+)?+)?+\Z")
_WORD_STUBS = frozenset(
    word[:end] for word in ("true", "false", "null") for end in range(1, len(word))
)
_BAD_CONTROL = "a raw control character in a string (write \\n, \\t or \\u00XX)"
_BAD_ESCAPE = "an invalid escape in a string (write \\\\ for a backslash)"


def explain(text: str, at: int, *, grammar: JsonGrammar, known: int = 0) -> GrammarStop:
    """Explain why a walk stops here. A string is `known` to be good up to some position."""
    expected = grammar.expects
    if at == len(text) and expected is Expect.END:
        return GrammarStop(Cause.COMPLETE, at)
    if at == len(text):
        return GrammarStop(Cause.CUT, at, f"it ends where {expected.value} is expected")
    mark = _MARK_OF.get(text[at], text[at])
    if not grammar.allows(mark):
        return GrammarStop(Cause.BROKEN, at, f"expected {expected.value}")
    if mark in CLOSER_OF:
        return GrammarStop(Cause.DEEP, at, f"nested more than {len(grammar.closers)} deep")
    if mark == JSON_STRING:
        return _explain_string(text, max(at + 1, known), is_key=expected in KEYS)
    return (
        _explain_word(text, at, expected=expected)
        if text[at] in "tfn"
        else _explain_number(text, at)
    )


def _explain_string(text: str, at: int, *, is_key: bool) -> GrammarStop:
    end = match_end(_STRING_BODY, text, at=at)
    if _STRING_STUB.match(text, end):
        cut = None if is_key else end
        return GrammarStop(Cause.CUT, len(text), "it ends inside a string", cut)
    return GrammarStop(Cause.BROKEN, end, _BAD_ESCAPE if text[end] == "\\" else _BAD_CONTROL)


def _explain_word(text: str, at: int, *, expected: Expect) -> GrammarStop:
    if len(text) - at < len("false") and text[at:] in _WORD_STUBS:
        return GrammarStop(Cause.CUT, len(text), "it ends inside a word")
    return GrammarStop(Cause.BROKEN, at, f"expected {expected.value}")


def _explain_number(text: str, at: int) -> GrammarStop:
    if _NUMBER_STUB.match(text, at):
        return GrammarStop(Cause.CUT, len(text), "it ends inside a number")
    literal = text[at : match_end(NUMBER, text, at=at)]
    flaw = number_flaw(literal) if literal else ""
    return GrammarStop(Cause.BROKEN, at, flaw or "a number that is not written as in JSON")


# Find where and why a rejected text leaves JSON, without reading all of it again.
#
# `grammar.walk` takes a microsecond per mark, and a broken text may have millions. But everything
# before the parser's error is JSON, and what may come next follows from the open brackets and the
# previous mark. So the walk starts there. It gives the same answer as a walk from the beginning.


class BadLiteral(ValueError):
    """A number or a word that the parser would read, and we do not."""

    def __init__(self, literal: str) -> None:
        super().__init__(literal)
        self.literal = literal


def find_flaw(text: str, error: json.JSONDecodeError | BadLiteral, *, depth: int) -> Walk:
    """Say where the text leaves JSON. The error is the parser's, or ours at a literal."""
    at = _begin_mark(text, error)
    before = text[:at].rstrip(_BLANK_RUN)
    after_key = not isinstance(error, BadLiteral) and error.msg.startswith(_NO_COLON)
    grammar = JsonGrammar.after(before[-1:], _find_open(before), after_key=after_key)
    if isinstance(error, BadLiteral):
        return _explain_literal(text, at, literal=error.literal, grammar=grammar)
    if text[at : at + 1] == '"' and not after_key:
        # The string is the flaw. To walk on would be to read it once more, and it may be long.
        stop = explain(text, at, grammar=grammar, known=_known_good(text, error))
        return Walk(*stop, at, grammar.closers)
    return walk(text, depth=depth, at=at, grammar=grammar)


def _explain_literal(text: str, at: int, *, literal: str, grammar: JsonGrammar) -> Walk:
    if literal[-1].isdigit():
        # The number is the flaw, and may be as long.
        return Walk(Cause.BROKEN, at, number_flaw(literal), None, at, grammar.closers)
    return Walk(*explain(text, at, grammar=grammar), at, grammar.closers)


# ── The mark that is flawed ─────────────────────────────────────────────────────────

_BLANK_RUN = " \t\r\n"
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
    for bracket in reversed(_BETWEEN_BRACKETS.sub("", text)):
        if bracket not in CLOSER_OF:
            closed += 1
        elif closed:
            closed -= 1
        else:
            closers.append(CLOSER_OF[bracket])
    return closers[::-1]
