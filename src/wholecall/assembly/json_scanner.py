"""The proof by the brace: where a JSON object ends, and what follows it.

A stream of arguments can stop anywhere, and most of its prefixes look harmless: `{"path": "/tmp"`
needs one brace to be valid, and a parser that completes what is missing would supply it. But the
rest of the text may have been `/build"}`. So nothing is ever completed here, and the question is
which prefixes are proofs.

The answer is a property of the grammar. A JSON object begins with `{` and ends with the `}` that
matches it. Inside, brackets nest, and a brace in a string counts for nothing. So there is exactly
one position at which the depth returns to zero, and it is the last character of the object. A text
whose root object is closed is therefore not a proper prefix of any other JSON text: if more was to
come, it is not a part of this object. No finish reason and no end of a stream is needed for that,
and none can refute it. Numbers show why it has to be an object: `12` may be a prefix of `123`.

The scanner counts brackets outside strings and does nothing else. It does not validate: the parser
does, once, on the text that the brace has closed. A text with Python's quotes can mislead the
counting, in both directions, but it cannot mislead the parser. If the closed text is not JSON, the
brace proves nothing, and the draft says so (`call_builder`).

Two cases need more than the brace:

- `{}` closes like any object. Servers send it as a placeholder before the real object, and gateways
  send it in place of arguments that were cut. It is never a proof.
- Something follows the brace. The same object once more, or a stray closer, is a habit of servers
  and changes nothing. A different object, or the rest of a text in which an inner quote was not
  escaped, means that the first brace was not the end. `Tail` tells these apart.

The work is linear. Each character is scanned once, however the text is cut into pieces; no pattern
can backtrack; depth, number of values and runs of white space have limits, because a value costs
far more memory than its characters.
"""

from __future__ import annotations

import enum
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar, Final

from wholecall.arguments.json_grammar import STRING, skip_blanks
from wholecall.arguments.limits import DEFAULT, Limits
from wholecall.arguments.parse import Parsed, parse
from wholecall.events import Value

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
        *("_blank_run", "_closers", "_escaped", "_in_string", "_limits", "_opened", "_plain"),
        *("_strings", "_values", "state"),
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


# Arguments that a provider streams as objects instead of text.


_CONTRADICTION: Final = object()
# Represents a value that cannot be serialised. It is neither an object nor blank.
_UNWRITABLE = '"…"'


def merge_objects(pieces: Sequence[Mapping[str, Any]], depth: int = 0) -> dict[str, Any] | None:
    """One object of several that were sent for one call; None if they contradict each other.

    A server that streams objects sends either what is new in each string or the string
    so far; both are read, by whether each begins with the one before it.
    """
    given: dict[str, list[Any]] = {}
    for piece in pieces:
        for name in piece:
            given.setdefault(name, []).append(piece[name])
    merged: dict[str, Any] = {}
    for name, values in given.items():
        value = _merge_values(values, depth)
        if value is _CONTRADICTION:
            return None
        merged[name] = value
    return merged


def _merge_values(values: list[Any], depth: int) -> Any:
    first = values[0]
    if all(value == first for value in values):
        return first
    if all(isinstance(value, str) for value in values):
        grows = all(late.startswith(early) for early, late in pairwise(values))
        return values[-1] if grows else "".join(values)
    if depth < DEFAULT.depth and all(isinstance(value, Mapping) for value in values):
        inner = merge_objects(values, depth + 1)
        return _CONTRADICTION if inner is None else inner
    return _CONTRADICTION


def outgrows(late: Any, early: Any) -> bool:
    """Return True if an object contains all of another one and more: keys, letters, digits."""
    both = isinstance(late, Mapping) and isinstance(early, Mapping)
    return both and late != early and _holds(late, early)


def _holds(late: Any, early: Any) -> bool:
    if isinstance(early, Mapping) and isinstance(late, Mapping):
        return all(name in late and _holds(late[name], early[name]) for name in early)
    if isinstance(early, list) and isinstance(late, list):
        return len(early) <= len(late) and all(map(_holds, late, early))
    if type(late) is not type(early):
        return False
    return late == early if isinstance(early, bool) else str(late).startswith(str(early))


def same_json(one: Any, other: Any) -> bool:
    """Return True if two values are the same JSON. Python's 1, 1.0 and true are equal; JSON's are
    not."""
    return bool(one == other) and _canonical(one) == _canonical(other)


def digest_json(value: Any) -> bytes:
    """The same for values that are the same JSON, and for no others."""
    return hashlib.sha256(_canonical(value).encode()).digest()


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def write_json(value: Any) -> str:
    """Write a value as JSON, whatever a client library has put into it."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)
    except (ValueError, RecursionError):  # digits or nesting without end
        return _UNWRITABLE


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else repr(value)


# The text after a closed object: a repeat, a stray closer, or another object.


MOST_REPEATS = 8
"""More objects than this after the first one are not a repeat by mistake."""


class Tail(Value, frozen=True):
    """The text after the object that closed."""

    repeats: bool = False
    """The same object again, or `{}`."""
    differs: bool = False
    """Another object, or a part of one."""
    rest: str = ""
    """Anything else: a stray closer, prose."""


class TailText:
    """All that follows the object, as it comes in and as far as it is worth keeping."""

    __slots__ = ("_overrun", "_pieces", "_wholes")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._wholes = 0
        self._overrun = False

    @property
    def is_overrun(self) -> bool:
        """True if so much came that nothing of it is kept any more."""
        return self._overrun

    def append(self, text: str) -> None:
        """Take a piece. White space before anything else says nothing."""
        if not self._overrun and (self._pieces or text.strip()):
            self._pieces.append(text)

    def append_whole(self, text: str) -> None:
        """Take other arguments, which the protocol says are all of them."""
        self._wholes += 1
        if self._wholes > MOST_REPEATS:
            self.overrun()
        else:
            self._pieces.append(text)

    def overrun(self) -> None:
        """Keep nothing from now on: so much is surely no repeat by mistake."""
        self._overrun = True
        self._pieces.clear()

    def read(self, value: Any, *, limits: Limits) -> Tail:
        """Compare it with the object."""
        if self._overrun:
            return Tail(differs=True)
        return read_tail("".join(self._pieces), value, limits=limits) if self._pieces else Tail()


def read_tail(text: str, value: Any, *, limits: Limits) -> Tail:
    """Compare what follows a closed object with the object."""
    rest: list[str] = []
    text = _decoded(text, limits)
    for _ in range(MOST_REPEATS):
        before, brace, after = text.partition("{")
        rest.append(before)
        if not brace:
            return Tail(repeats=len(rest) > 1, rest="".join(rest).strip())
        scanner = ObjectScanner(limits)
        end = scanner.feed(brace + after)
        again = parse((brace + after)[:end], limits=limits)
        repeats = isinstance(again, Parsed) and (not again.value or same_json(again.value, value))
        if not repeats:
            break
        text = (brace + after)[end:]
    return Tail(differs=True)


def _decoded(text: str, limits: Limits) -> str:
    """Return the content of a string, if the whole text is one: the object, encoded twice."""
    # https://github.com/BerriAI/litellm/issues/20480
    parsed = parse(text, limits=limits) if text.lstrip().startswith('"') else None
    inside = parsed.value if isinstance(parsed, Parsed) else None
    return inside if isinstance(inside, str) and inside.lstrip().startswith("{") else text
