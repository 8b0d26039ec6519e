"""JSON as a table: what may follow what, and where a text leaves JSON.

`walk` reads strict JSON mark by mark and reports where and why it stopped. It builds no value: the
parser does that ten times faster. It is used when the parser has failed, when a text may be too
deep for the parser, and for previews.

The theory: JSON is read from left to right without lookahead, so an invalid text is invalid at one
place. Either that place holds something that no JSON could have there (BROKEN), or the text ends
there and more of it could have made it whole (CUT). A text is CUT exactly if it is a proper prefix
of some JSON text whose numbers a machine can represent.

Every pattern here is possessive: it never backtracks, so the walk reads each character once.
"""

from __future__ import annotations

import enum
import math
import re
from typing import NamedTuple

DIGITS = 640
"""The longest number. Python's own limit can be set, but never below this one: what is
accepted here can be converted, shown and sent on under every setting."""

CLOSER_OF = {"{": "}", "[": "]"}
_CLOSERS = frozenset(CLOSER_OF.values())

# Marks: brackets, colon and comma stand for themselves, a string is its quote, and
# numbers and words are alike to the grammar.
STRING = '"'
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
    STRING: Expect.END,
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
    (Expect.FIRST_KEY, STRING): Expect.COLON,
    (Expect.FIRST_KEY, "}"): Expect.END,
    (Expect.KEY, STRING): Expect.COLON,
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


class Grammar:
    """The position of a JSON reader: what is open, and what must come next."""

    __slots__ = ("closers", "expects")

    def __init__(self) -> None:
        self.expects = Expect.VALUE
        self.closers: list[str] = []
        """The closing brackets that are still to come, the outermost first."""

    @classmethod
    def after(cls, last: str, closers: list[str], *, after_key: bool) -> Grammar:
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
    STRING: STRING,
    **dict.fromkeys("-0123456789tfn", SCALAR),
}


class Cause(enum.Enum):
    """The reason why a walk stopped."""

    COMPLETE = "the text is one whole JSON value"
    CUT = "the text ends before the value does"
    BROKEN = "something stands where no JSON could have it"
    DEEP = "nested too deep"


class Stop(NamedTuple):
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


def walk(text: str, *, depth: int, at: int = 0, grammar: Grammar | None = None) -> Walk:
    """Read strict JSON until its end or the first flaw.

    It begins at the beginning, or anywhere, if the `grammar` there is known.
    """
    grammar = grammar or Grammar()
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
    """Return the end of the pattern's match at `at`, or `at` if there is none."""
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


def explain(text: str, at: int, *, grammar: Grammar, known: int = 0) -> Stop:
    """Explain why a walk stops here. A string is `known` to be good up to some position."""
    expected = grammar.expects
    if at == len(text) and expected is Expect.END:
        return Stop(Cause.COMPLETE, at)
    if at == len(text):
        return Stop(Cause.CUT, at, f"it ends where {expected.value} is expected")
    mark = _MARK_OF.get(text[at], text[at])
    if not grammar.allows(mark):
        return Stop(Cause.BROKEN, at, f"expected {expected.value}")
    if mark in CLOSER_OF:
        return Stop(Cause.DEEP, at, f"nested more than {len(grammar.closers)} deep")
    if mark == STRING:
        return _explain_string(text, max(at + 1, known), is_key=expected in KEYS)
    return (
        _explain_word(text, at, expected=expected)
        if text[at] in "tfn"
        else _explain_number(text, at)
    )


def _explain_string(text: str, at: int, *, is_key: bool) -> Stop:
    end = match_end(_STRING_BODY, text, at=at)
    if _STRING_STUB.match(text, end):
        cut = None if is_key else end
        return Stop(Cause.CUT, len(text), "it ends inside a string", cut)
    return Stop(Cause.BROKEN, end, _BAD_ESCAPE if text[end] == "\\" else _BAD_CONTROL)


def _explain_word(text: str, at: int, *, expected: Expect) -> Stop:
    if len(text) - at < len("false") and text[at:] in _WORD_STUBS:
        return Stop(Cause.CUT, len(text), "it ends inside a word")
    return Stop(Cause.BROKEN, at, f"expected {expected.value}")


def _explain_number(text: str, at: int) -> Stop:
    if _NUMBER_STUB.match(text, at):
        return Stop(Cause.CUT, len(text), "it ends inside a number")
    literal = text[at : match_end(NUMBER, text, at=at)]
    flaw = number_flaw(literal) if literal else ""
    return Stop(Cause.BROKEN, at, flaw or "a number that is not written as in JSON")
