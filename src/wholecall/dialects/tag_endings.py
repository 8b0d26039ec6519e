"""The beginning and end of a raw value: signs that it holds tags of its call."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from itertools import pairwise

LONGEST_TAG = 64
_CLOSING = re.compile(r"<\s*[/\\]\s*([^<>]+)>?\Z")
_OPENING = re.compile(r"\s*+(?:<([^\s<>=/!]+)|([^\s<>=/!]+)>)")
_OPEN_NAME = re.compile(r"\s*+<?[^\s<>=/!]*+")
_CDATA = re.compile(r"\s*+<!\W*+CDATA")
_QUOTES = frozenset("\"'` ")
"""Characters on both sides of a tag that a text only mentions."""
_USUAL = ("parameter", "param", "argument", "arg", "value")
"""Closing tags of values in other formats."""
_SHORTEST = 4
"""Letters of a part of a name that tell which one is meant."""
_SAME = 0.8
"""Similarity, of 1, at which names count as the same one misspelt."""


class Ending:
    """Hands a value on, and remembers how it ends."""

    __slots__ = ("_closed", "_put", "first", "inside", "is_another", "last")

    def __init__(self, put: Callable[[str], None], *, closed: bool = False) -> None:
        """`closed`: nothing but its closing tag can end it."""
        self._put = put
        self._closed = closed
        self.first = self.last = ""
        """Its beginning and its end."""
        self.inside = 0
        """The number of open tags without a name in it."""
        self.is_another = False
        """True if one of them looks like the beginning of another parameter."""

    def put(self, piece: str) -> None:
        """Take a piece of the raw value."""
        self.last = (self.last + piece)[-LONGEST_TAG:]
        if len(self.first) < LONGEST_TAG:
            self.first = (self.first + piece)[:LONGEST_TAG]
        self._put(piece)

    def tells_of_it(self, behind: str) -> bool:
        """Return True if the following tag is text, not markup of the call: in quotes, or between
        words."""
        before = self.last[-1:]
        return before in _QUOTES and behind == before

    def enter(self, *, ends_line: bool, meant: bool = False) -> None:
        """A tag without a name follows. Alone in its line it is written as one of the call."""
        begins_line = self.last.rstrip(" \t")[-1:] in ("", "\n", "\r")
        alone = meant or (ends_line and begins_line)
        self.is_another = self.is_another or alone
        self.inside += 1

    def leave(self) -> None:
        """A closing tag follows that ends a tag in the value, or seems to."""
        self.inside = max(self.inside - 1, 0)
        self.is_another = self.is_another and self.inside > 0
        self._closed = True

    def is_torn(self, closers: tuple[str, ...]) -> bool:
        """Return True if it ends with a torn or misspelt closing tag, or held a whole one."""
        last = self.last.rstrip()
        if self._closed or any(_ends_torn(last, tag) for tag in closers):
            return True
        found = _CLOSING.search(last)
        name = _letters(found[1]) if found else ""
        return bool(name) and any(_is_meant(name, _letters(tag)) for tag in (*closers, *_USUAL))

    def repeats(self, closers: tuple[str, ...]) -> str:
        """Return the name of a closing tag at its end, if it is one of these with a typo: the right
        one follows."""
        last = self.last.rstrip()
        torn = next((tag[2:-1] for tag in closers if last.endswith(tag[1:])), "")
        found = _CLOSING.search(last)
        name = _letters(found[1]) if found else ""
        if found and any(tag.startswith(found[0]) and tag != found[0] for tag in closers):
            return found[0]  # one that was begun: no opening tag belongs to it
        slip = name and any(_is_slip(name, _letters(tag)) for tag in closers)
        return found[1].strip() if found and slip else torn


def repeats_opening(text: str, opening: str, *, end: str) -> bool:
    """Return True if a value begins with a repetition of the end of its opening tag."""
    part, found, _ = text.partition(end)
    part += found
    return bool(found) and len(part) >= _SHORTEST and opening.endswith(part)


def came_twice(text: str, closers: tuple[str, ...]) -> bool:
    """Return True if the same text is before and after a closing tag: a piece that was sent
    twice."""
    parts = (pairwise(map(str.strip, text.split(tag))) for tag in closers)
    return any(one and one == other for pairs in parts for one, other in pairs)


def is_torn_cdata(text: str) -> bool:
    """Return True if a text begins with a broken opening of a CDATA section."""
    return _CDATA.match(text) is not None


def begins_opening(text: str) -> bool:
    """Return True if a text may be the beginning of an opening tag whose name continues."""
    return _OPEN_NAME.fullmatch(text) is not None


def is_opening(text: str, tag: str) -> bool:
    """Return True if a text begins with an opening tag that is this one misspelt."""
    found = _OPENING.match(text)
    return found is not None and _is_meant(_letters(found[1] or found[2]), _letters(tag))


def _ends_torn(text: str, tag: str) -> bool:
    """Return True if a text ends with a closing tag that lacks its beginning or its end."""
    if text.endswith((tag[1:], tag[2:])):
        return True
    _, bracket, behind = text.rpartition("<")
    name, end, more = behind.partition(">")
    if bracket and not end:
        return bool(name.strip("/")) and tag.startswith(bracket + name)
    if bracket and not more:
        return False  # a whole tag
    return text.endswith(tuple(tag[at:] for at in range(len(tag) - _SHORTEST + 1)))


def _letters(tag: str) -> str:
    return "".join(filter(str.isalnum, tag)).casefold()


def _is_meant(name: str, own: str) -> bool:
    """Return True if a name equals another one, is part of it, contains it, or nearly so."""
    if min(len(name), len(own)) < _SHORTEST:
        return name == own
    if name in own or own in name:
        return True
    return difflib.SequenceMatcher(None, name, own).ratio() >= _SAME


def _is_slip(name: str, own: str) -> bool:
    """Return True if a name differs from another one by one missing or doubled letter."""
    if name == own:
        return True
    longer, shorter = sorted((name, own), key=len, reverse=True)
    left_out = {longer[:at] + longer[at + 1 :] for at in range(len(longer))}
    return len(own) > _SHORTEST and shorter in left_out and not name.startswith(own)
