"""Find the end of a JSON object.

The scanner reads each character once, in whatever pieces the text arrives, and keeps nothing but
its position. It does not check that the text is JSON: it knows strings, escapes and brackets, which
is all that decides where the root object ends.

The theory: in an append-only text, the brace that closes the root object is a proof. A closed
object is never a proper prefix of other JSON. (A number is: `1` of `12`.) Parsing the text up to
the brace, once, then shows that it *is* an object.

    BLANK ──{──▶ INSIDE ──the last }──▶ CLOSED
      │             └──a closer that does not fit──▶ BROKEN
      └──anything else──▶ FOREIGN
    BLANK, INSIDE ──▶ TOO_DEEP, TOO_MANY, BLANK_FLOOD   if a limit is exceeded
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from functools import lru_cache
from typing import ClassVar

from wholecall.core.extent import STRING
from wholecall.core.grammar import skip_blanks
from wholecall.core.limits import DEFAULT, Limits

_BLANKS = " \t\r\n"
# No pattern here can backtrack.
_AT_ONCE = 100_000
"""Words and strings that are read before the values among them are counted."""
_ROW = 1000
"""Words and strings in an object or array that is read at once."""
_IN_STRING = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_CLOSER_OF = {"{": "}", "[": "]"}


class Scan(enum.Enum):
    """The state of the scanner."""

    BLANK = "nothing but white space yet"
    INSIDE = "inside the root object"
    CLOSED = "the root object is closed"
    FOREIGN = "the text does not begin with an object"
    BROKEN = "a closing bracket does not fit"
    TOO_DEEP = "nested too deep"
    TOO_MANY = "too many values"
    BLANK_FLOOD = "endless white space"


_STRING = re.compile(STRING, re.DOTALL)


@lru_cache(maxsize=8)
def _plain_text(blanks: int) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """All that changes nothing: words, whole strings, and not too much white space.

    One level above the deepest that is allowed, whole objects and arrays of such text do not
    change anything either: the second pattern. A table has one for every row.
    """
    body = _IN_STRING.pattern
    blank = rf"[ \t\r\n]{{1,{blanks}}}+(?![ \t\r\n])"
    word = rf'[^"{{}}\[\] \t\r\n]++|{blank}'
    row = rf'(?:{word}|"{body}"){{0,{_ROW}}}+'
    text = rf'{word}|"{body}(?:"|(?P<open>\\?+)\Z)'
    rows = rf"{text}|\{{{row}\}}|\[{row}\]"
    words, rows = (rf"(?:{each}){{0,{_AT_ONCE}}}+" for each in (text, rows))
    return re.compile(words, re.DOTALL), re.compile(rows, re.DOTALL)


class ObjectScanner:
    """Finds the end of one JSON object in a text that arrives in pieces."""

    __slots__ = (
        "_blank_run",
        "_closers",
        "_escaped",
        "_in_string",
        "_limits",
        "_opened",
        "_plain",
        "_strings",
        "_values",
        "state",
    )

    def __init__(self, limits: Limits = DEFAULT) -> None:
        self.state = Scan.BLANK
        self._limits = limits
        self._closers: list[str] = []
        self._in_string = False
        self._escaped = False
        self._blank_run = 0
        self._opened = 0
        """Brackets so far."""
        self._values = self._strings = 0
        """As far as they were counted."""
        self._plain = _plain_text(limits.blank_run)

    def feed(self, text: str) -> int:
        """Read a piece; return how much of it was read.

        That is all of it, unless the object ended in it: then what follows the brace
        is left to the caller.
        """
        if self.state is Scan.INSIDE:
            return self._inside(text, 0)
        if self.state is Scan.BLANK:
            return self._begin(text)
        return 0 if self.state is Scan.CLOSED else len(text)

    def _begin(self, text: str) -> int:
        body = text.lstrip(_BLANKS)
        start = len(text) - len(body)
        self._count_blanks(start)
        if not body or self.state is Scan.BLANK_FLOOD:
            return len(text)
        if body[0] != "{":
            self.state = Scan.FOREIGN
            return len(text)
        self.state = Scan.INSIDE
        self._open("{")
        return self._inside(text, start + 1)

    def _inside(self, text: str, at: int) -> int:
        while at < len(text):
            at = self._string(text, at) if self._in_string else self._structure(text, at)
            if self.state is not Scan.INSIDE:
                return at if self.state is Scan.CLOSED else len(text)
        return at

    def _string(self, text: str, at: int) -> int:
        """Go on inside a string; return where to go on from."""
        if self._escaped:
            self._escaped = False
            return at + 1
        found = _IN_STRING.match(text, at)  # always: it may be empty
        end = at if found is None else found.end()
        if end == len(text):
            return end
        # A quote, or a backslash that ends the piece: what it escapes is still to come.
        self._escaped = self._in_string = text[end] == "\\"
        return end + 1

    def _structure(self, text: str, at: int) -> int:
        """Go on between strings; return where to go on from."""
        if text[at] in _BLANKS:
            return self._blanks(text, at)
        may_open = len(self._closers) < self._limits.depth
        found = self._plain[may_open].match(text, at)  # always: it may be empty
        end = at if found is None else found.end()
        if end == len(text):
            self._leave_off(text[at:], opened=found and found["open"])
            return end
        self._blank_run = 0
        mark = text[end]
        if mark not in self._MARKS:  # no more is read at once
            self._count(text[at:end])
            return end
        self._MARKS[mark](self, mark)
        return end + 1

    def _leave_off(self, text: str, *, opened: str | None) -> None:
        """End a piece, perhaps inside a string, after a backslash or not."""
        self._in_string, self._escaped = opened is not None, opened == "\\"
        self._blank_run = 0 if self._in_string else len(text) - len(text.rstrip(_BLANKS))

    def _count(self, text: str) -> None:
        """Count the values in a text that is so long that they may be too many already."""
        outside, strings = _STRING.subn("", text)
        self._values += sum(map(outside.count, ",[{"))
        self._strings += strings
        if self._values > self._limits.values or self._strings > 2 * self._limits.values:
            self.state = Scan.TOO_MANY

    def _blanks(self, text: str, at: int) -> int:
        """Continue after white space. A run is counted over pieces: the cut decides nothing."""
        end = skip_blanks(text, at)
        self._count_blanks(end - at)
        return end

    def _drown(self, _: str) -> None:
        self.state = Scan.BLANK_FLOOD

    def _open(self, mark: str) -> None:
        self._blank_run = 0
        self._closers.append(_CLOSER_OF[mark])
        self._opened += 1
        if len(self._closers) > self._limits.depth:
            self.state = Scan.TOO_DEEP
        elif self._opened > self._limits.containers:
            self.state = Scan.TOO_MANY

    def _close(self, mark: str) -> None:
        if self._closers.pop() != mark:
            self.state = Scan.BROKEN
        elif not self._closers:
            self.state = Scan.CLOSED

    def _count_blanks(self, count: int) -> None:
        self._blank_run += count
        if self._blank_run > self._limits.blank_run:
            self.state = Scan.BLANK_FLOOD

    # The end of plain text. It is at a blank if too many follow.
    _MARKS: ClassVar[dict[str, Callable[[ObjectScanner, str], None]]] = {
        **dict.fromkeys("{[", _open),
        **dict.fromkeys("}]", _close),
        **dict.fromkeys(_BLANKS, _drown),
    }
