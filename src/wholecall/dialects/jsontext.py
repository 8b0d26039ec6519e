"""JSON inside other text: where a value ends, and its text handed on while it arrives.

It knows strings, escapes and brackets, which is all that decides where a value ends.
Apostrophes count as quotes: strict JSON has none outside its strings, and Python's
notation, which models fall into, is then read to its right end, too.
"""

from __future__ import annotations

import json
import re

from wholecall.core.parse import Parsed, parse
from wholecall.core.tolerant import Rewriter
from wholecall.dialects.marks import Marks, marks_of
from wholecall.dialects.source import BLANKS, Sink, Source, Steps, ignore

_CLOSER_OF = {"{": "}", "[": "]"}
_STRUCTURE = re.compile(r"""["'{}\[\]]""")
_STRUCTURE_OR_MARK = re.compile(r"""["'{}\[\]<]""")
_STRING_MARKS = {'"': re.compile(r'["\\]'), "'": re.compile(r"['\\]")}
_SCALAR_END = re.compile(r"[,}\]\s<\[|]")
_COMMA = marks_of((",",))
_QUOTE = marks_of(('"', "'"))
_BRACE = marks_of(("{",))
_MEMBER_OR_OBJECT = marks_of(('"', "'", "{"))
_FOLLOWED = r"""(?=\s*+(?:[,:}\]]|(?:```\s*+)?\Z))"""
_UNQUOTED = r"""(?!\s*+["'])"""
_IN_ORDER = re.compile(
    rf"""(?:\s++|[{{\[,:]|[}}\]]{_UNQUOTED}|"(?:[^"\\]++|\\.)*+"{_FOLLOWED}"""
    rf"""|'(?:[^'\\]++|\\.)*+'{_FOLLOWED}|[^\s"'{{}}\[\],:]++{_FOLLOWED}|```\s*+\Z)*+\Z""",
    re.DOTALL,
)
"""JSON up to some place, each of its strings between the marks that may stand beside one."""
_STRAY = frozenset("}]")
_MOST_STRAY = 8
"""Brackets too many before the end of a call."""
LONGEST_KEY = 1024
BROKEN_JSON = "its JSON is broken: a bracket does not fit, or something stands where nothing may"


def read_value(source: Source, sink: Sink, *, ends: Marks | None = None) -> Steps[bool]:
    """Pass on one value; return False if it is cut off or broken. Skip white space before it.

    It is also broken if one of `ends` is outside its strings.
    """
    first = yield from source.skip()
    if first in _CLOSER_OF and ends is not None:
        place = source.bookmark()
        whole = yield from _container(source, sink, ends=_Ends(source, ends, begin=place))
        source.forget()
        return whole
    if first in _CLOSER_OF:
        return (yield from _container(source, sink))
    if first and first in _STRING_MARKS:
        return (yield from _string(source, sink))
    return (yield from _scalar(source, sink))


def has_more_members(source: Source, *, begins: Marks = _QUOTE) -> Steps[bool]:
    """Return True if members follow a closed object: a surplus bracket closed it early."""
    if not (yield from source.sees_ahead(_COMMA)):
        return False
    comma = source.text.index(",", source.at) - source.at
    return bool((yield from source.sees_ahead(begins, comma + 1)))


def read_arguments(source: Source, sink: Sink, *, ends: Marks) -> Steps[bool]:
    """Hand on an object that is all of a call's arguments; False if it is not, or not whole."""
    place = source.bookmark()
    whole = yield from read_value(source, sink, ends=ends)
    text = source.since(place)
    alone = whole and not (yield from _is_followed(source, text))
    source.forget()
    return alone


def _is_followed(source: Source, text: str) -> Steps[bool]:
    """Return True if more follows these arguments: members, or another object. An equal object is a
    repeat."""
    while (yield from source.sees_ahead(_BRACE)):
        yield from source.skip()
        place = source.place
        if not (yield from read_value(source, ignore)) or source.since(place) != text:
            return True
    return (yield from has_more_members(source, begins=_MEMBER_OR_OBJECT))


def accept_end(source: Source, marks: Marks) -> Steps[None]:
    """Read the mark that ends a call, and brackets too many before it."""
    stray = 0
    while stray < _MOST_STRAY and (yield from source.peek(stray + 1))[stray:] in _STRAY:
        stray += 1
    if (yield from source.sees_ahead(marks, stray)):
        source.at += stray
        yield from source.skip()
        yield from source.accept(marks)


class _Ends:
    """Marks that end a value which has no end of its own.

    A quote that was not escaped turns strings inside out, and what stood in one then seems to
    stand outside. So an end is believed only while all strings stand where strings may.
    """

    def __init__(self, source: Source, marks: Marks, *, begin: int) -> None:
        self._source = source
        self._marks: Marks | None = marks
        self._begin = begin

    def stand_here(self) -> Steps[bool]:
        """Return True if one of them is here and is believed; the text is read once."""
        if self._marks is None or not (yield from self._source.sees(self._marks)):
            return False
        if _IN_ORDER.match(self._source.since(self._begin)):
            return True
        self._marks = None
        return False


def _container(source: Source, sink: Sink, *, ends: _Ends | None = None) -> Steps[bool]:
    structure = _STRUCTURE if ends is None else _STRUCTURE_OR_MARK
    closers: list[str] = []
    while True:
        found = structure.search(source.text, source.at)
        source.hand_on(found.start() if found else len(source.text), sink)
        if found is None:
            goes_on = yield from source.more()
        elif found.group() in _STRING_MARKS:
            goes_on = yield from _string(source, sink)
        elif ends is not None and found.group() in "<[" and (yield from ends.stand_here()):
            return False
        else:
            goes_on = _fits(closers, source.text[source.at])
            if goes_on:
                source.hand_on(source.at + 1, sink)
            if goes_on and not closers:
                return True
        if not goes_on:
            return False


def _fits(closers: list[str], mark: str) -> bool:
    """Take a bracket or another mark; return True if it is allowed here."""
    if mark in _CLOSER_OF:
        closers.append(_CLOSER_OF[mark])
    elif mark in _STRAY:
        return closers.pop() == mark
    return True


def _string(source: Source, sink: Sink, *, longest: int | None = None) -> Steps[bool]:
    """From the opening quote on to the closing one; False also if that is too far away."""
    marks = _STRING_MARKS[source.text[source.at]]
    begin = source.place
    source.hand_on(source.at + 1, sink)
    while longest is None or source.place - begin <= longest:
        found = marks.search(source.text, source.at)
        if found is None:
            source.hand_on(len(source.text), sink)
        elif found.group() != "\\":
            source.hand_on(found.end(), sink)
            return True
        elif found.end() < len(source.text):
            source.hand_on(found.end() + 1, sink)
            continue
        else:  # a backslash at the end: what it escapes is still to come
            source.hand_on(found.start(), sink)
        if not (yield from source.more()):
            source.hand_on(len(source.text), sink)
            return False
    return False


def _scalar(source: Source, sink: Sink) -> Steps[bool]:
    """A number or a word. It ends where something else begins."""
    seen = False
    while True:
        found = _SCALAR_END.search(source.text, source.at)
        end = len(source.text) if found is None else found.start()
        seen = seen or end > source.at
        source.hand_on(end, sink)
        if found is not None:
            return seen
        if not (yield from source.more()):
            return False


def read_string(source: Source, longest: int = LONGEST_KEY) -> Steps[str | None]:
    """Return a short string, decoded; None if there is none here."""
    first = yield from source.skip()
    if not first or first not in _STRING_MARKS:
        return None
    pieces: list[str] = []
    whole = yield from _string(source, pieces.append, longest=longest)
    return decode_string("".join(pieces)) if whole else None


def decode_string(text: str) -> str | None:
    """The value of a quoted string in JSON's or Python's notation."""
    parsed = read_text(text)
    return parsed.value if isinstance(parsed, Parsed) and isinstance(parsed.value, str) else None


def read_text(text: str) -> Parsed | None:
    """A whole value, strict or in a notation that has one reading."""
    parsed = parse(text)
    if isinstance(parsed, Parsed):
        return parsed
    rewriter = Rewriter(text)
    strict = rewriter.rewrite()
    if strict is None or text[rewriter.at :].strip(BLANKS):
        return None
    again = parse(strict)
    return again if isinstance(again, Parsed) else None


def escape(text: str) -> str:
    """Escape a piece of text for the inside of a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]
