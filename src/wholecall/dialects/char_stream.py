"""The text of one answer, read once from left to right while it arrives, and the markers searched
in it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import lru_cache
from typing import TypeAlias, TypeVar

_DEEPEST = 24
"""Branchings in each other. Names that a client chose may begin with each other on and on."""

_SHORT = 4
"""Characters of the beginnings that are held. Those of 16 took three times as much memory as all
the rest of a vocabulary, and one is kept for each set of tools."""


class Markers:
    """Literals, compiled once. The longest match at a position wins."""

    __slots__ = ("_beginnings", "_first", "_longest", "_pattern", "_words")

    def __init__(self, words: Iterable[str]) -> None:
        self._words = sorted(set(words))
        self._pattern = re.compile(_pattern_of(self._words) if self._words else r"(?!)")
        firsts = "".join(sorted({word[0] for word in self._words}))
        self._first = re.compile(f"[{re.escape(firsts)}]" if firsts else r"(?!)")
        self._beginnings = frozenset(
            word[:end] for word in self._words for end in range(1, min(len(word), _SHORT + 1))
        )
        self._longest = max(map(len, self._words), default=0)

    def __contains__(self, word: object) -> bool:
        return word in self._words

    def extended(self, words: tuple[str, ...]) -> Markers:
        """These literals and others; the same, if they are among them."""
        new = [word for word in words if word not in self._words]
        return Markers((*self._words, *new)) if new else self

    def search(self, text: str, at: int, *, ended: bool) -> re.Match[str] | None:
        """The first mark from `at` on; None while one that begins before it, or a longer one,
        may still come."""
        found = self._pattern.search(text, at)
        if found is None or ended or self.safe_end(text, at) > found.start():
            return found
        return None

    def match(self, text: str, at: int) -> str:
        """Return the mark at `at`, or nothing."""
        found = self._pattern.match(text, at)
        return found.group() if found else ""

    def may_begin(self, text: str, at: int) -> bool:
        """Return True if the text from `at` on is the beginning of a mark."""
        return len(text) - at < self._longest and self._goes_on(text[at:])

    def safe_end(self, text: str, at: int) -> int:
        """Up to where the text cannot be a part of a mark, whatever follows."""
        for found in self._first.finditer(text, max(at, len(text) - self._longest)):
            start = found.start()
            if text[start : start + _SHORT] in self._beginnings and self._may_begin(text, start):
                return start
        return len(text)

    def _may_begin(self, text: str, start: int) -> bool:
        """Return True if the rest of a text begins a mark, whose first characters it has."""
        return len(text) - start <= _SHORT or self._goes_on(text[start:])

    def _goes_on(self, begun: str) -> bool:
        """Return True if a longer mark begins like this."""
        # It would be the next in the order of the alphabet.
        place = bisect_right(self._words, begun)
        return place < len(self._words) and self._words[place].startswith(begun)


def _pattern_of(words: Sequence[str], depth: int = 0) -> str:
    """Literals as a tree of their beginnings: what they share is compared once.

    A longer word is tried before the one that it begins with, so the longest is found; no
    more can be tried again than the length of a word.
    """
    shared = _shared_beginning(words)
    rests = sorted({word[len(shared) :] for word in words}, key=len, reverse=True)
    if depth == _DEEPEST:
        return re.escape(shared) + f"(?:{'|'.join(map(re.escape, rests))})"
    followers: defaultdict[str, list[str]] = defaultdict(list)
    for rest in filter(None, rests):
        followers[rest[0]].append(rest)
    branches = "|".join(_pattern_of(group, depth + 1) for group in followers.values())
    option = "?" if "" in rests else ""
    return re.escape(shared) + (f"(?:{branches}){option}" if branches else "")


def _shared_beginning(words: Sequence[str]) -> str:
    # What the first and the last in the order of the alphabet share, all others share, too.
    first, last = min(words), max(words)
    pairs = enumerate(zip(first, last, strict=False))
    return first[: next((at for at, (one, other) in pairs if one != other), len(first))]


@lru_cache(maxsize=2048)
def markers_of(words: tuple[str, ...]) -> Markers:
    """These literals, compiled once for all parses."""
    return Markers(words)


# The text of one answer, read once from left to right while it arrives.
#
# Readers are generators: they yield if they need more text and continue when it has arrived, so
# that a grammar reads like one for a whole text, and how the text was cut changes nothing. Their
# return value is the result; `yield` itself carries nothing.
#
# Text that was read is forgotten unless a bookmark was placed: a call that turns out to be prose is
# given back unchanged.


_WORD = re.compile(r"[\w.\-]*+")
_Result = TypeVar("_Result")
Steps: TypeAlias = Generator[None, None, _Result]
Sink: TypeAlias = Callable[[str], None]
"""Takes text in pieces."""

BLANKS = " \t\r\n"
MOST_BLANKS = 1024
"""White space in a row that is looked over to see what follows it."""


class CharStream:
    """Text in pieces, with a place up to which it is read."""

    __slots__ = ("_bookmarks", "_log", "_log_end", "at", "ended", "text")

    def __init__(self) -> None:
        self.text = ""
        """The unread text begins at `at`; it is never longer than a mark or a header."""
        self.at = 0
        self.ended = False
        self._bookmarks = 0
        self._log: list[str] = []
        self._log_end = 0

    def feed(self, piece: str) -> None:
        """Take the next piece."""
        if self._bookmarks and self.at:
            self._log.append(self.text[: self.at])
        self._log_end += self.at
        self.text = self.text[self.at :] + piece
        self.at = 0

    def more(self) -> Steps[bool]:
        """Wait for more text; return False if the text has ended."""
        if self.ended:
            return False
        yield
        return True

    # ── Bookmarks ───────────────────────────────────────────────────────────────────

    @property
    def place(self) -> int:
        """The number of characters read so far."""
        return self._log_end + self.at

    def bookmark(self) -> int:
        """Remember the text from here on."""
        self._bookmarks += 1
        return self.place

    def forget(self) -> None:
        """Give one bookmark up."""
        self._bookmarks -= 1
        if not self._bookmarks:
            self._log.clear()

    def since(self, place: int) -> str:
        """The text from a bookmark up to here."""
        read = self.text[: self.at]
        if place >= self._log_end:
            return read[place - self._log_end :]
        pieces, begin = [read], self._log_end
        earlier = reversed(self._log)
        while begin > place:
            pieces.append(next(earlier))
            begin -= len(pieces[-1])
        return "".join(reversed(pieces))[place - begin :]

    def rewind(self, place: int) -> None:
        """Go back to a bookmark. What is read again must be short."""
        if place >= self._log_end:
            self.at = place - self._log_end
            return
        self.text, self.at = self.since(place) + self.text[self.at :], 0
        while self._log_end > place:
            piece = self._log.pop()
            self._log_end -= len(piece)
            if self._log_end < place:
                self._log.append(piece[: place - self._log_end])
                self._log_end = place

    # ── Looking ─────────────────────────────────────────────────────────────────────

    def peek(self, count: int = 1) -> Steps[str]:
        """The next characters; fewer only at the end of the text."""
        while len(self.text) - self.at < count:
            if not (yield from self.more()):
                break
        return self.text[self.at : self.at + count]

    def sees(self, marks: Markers) -> Steps[str]:
        """Return the mark at this position, or nothing."""
        while not self.ended and marks.may_begin(self.text, self.at):
            yield from self.more()
        return marks.match(self.text, self.at)

    def sees_ahead(self, marks: Markers, past: int = 0) -> Steps[str | None]:
        """Return the next mark after white space, unread; None if the text ends first.

        `past` characters at this position are skipped as well.
        """
        ahead = past
        while ahead - past <= MOST_BLANKS:
            ahead = _end_of(BLANKS, self.text, at=self.at + ahead) - self.at
            if self.ended or not marks.may_begin(self.text, self.at + ahead):
                break
            yield from self.more()
        found = marks.match(self.text, self.at + ahead)
        if not found and self.ended and marks.may_begin(self.text, self.at + ahead):
            return None
        return found

    def ends_ahead(self, mark: str, farthest: int, *, past: int = 0) -> Steps[int]:
        """Return the distance to the end of a mark, unread; 0 if it is too far away or missing.

        `past` characters at this position are skipped.
        """
        while True:
            found = self.text.find(mark, self.at + past, self.at + farthest)
            if found >= 0:
                return found + len(mark) - self.at
            if len(self.text) - self.at >= farthest or not (yield from self.more()):
                return 0

    # ── Reading ─────────────────────────────────────────────────────────────────────

    def skip(self, characters: str = BLANKS) -> Steps[str]:
        """Read over these characters; return the one that follows them, unread."""
        while True:
            self.at = _end_of(characters, self.text, at=self.at)
            if self.at < len(self.text):
                return self.text[self.at]
            if not (yield from self.more()):
                return ""

    def word(self, longest: int) -> Steps[str]:
        """Read over white space and return the word that follows, unread; empty without one."""
        yield from self.skip()
        while True:
            found = next(_WORD.finditer(self.text, self.at))
            if found.end() < len(self.text) or len(found[0]) > longest:
                return found[0]
            if not (yield from self.more()):
                return found[0]

    def accept(self, marks: Markers) -> Steps[str]:
        """Read and return the mark at this position; empty without one."""
        mark = yield from self.sees(marks)
        self.at += len(mark)
        return mark

    def accept_ahead(self, marks: Markers) -> Steps[None]:
        """Read the mark that follows white space; without one, the white space stays unread."""
        if (yield from self.sees_ahead(marks)):
            yield from self.skip()
            yield from self.accept(marks)

    def flow(self, marks: Markers, sink: Sink) -> Steps[str]:
        """Hand on all text before the next mark while it arrives; read and return the mark."""
        while True:
            found = marks.search(self.text, self.at, ended=self.ended)
            if found is not None:
                self.hand_on(found.start(), sink)
                self.at = found.end()
                return found.group()
            end = len(self.text) if self.ended else marks.safe_end(self.text, self.at)
            self.hand_on(end, sink)
            if not (yield from self.more()):
                return ""

    def header(self, marks: Markers, longest: int) -> Steps[tuple[str, str]]:
        """The text before the next mark and the mark; no mark if it is too far away."""
        searched = 0
        while True:
            found = marks.search(self.text, self.at + searched, ended=self.ended)
            if found is not None and found.start() - self.at <= longest:
                head = self.text[self.at : found.start()]
                self.at = found.end()
                return head, found.group()
            # One that begins near enough may end farther away, and not be here yet.
            searched = marks.safe_end(self.text, self.at + searched) - self.at
            if found is not None or searched > longest or not (yield from self.more()):
                return "", ""

    def hand_on(self, end: int, sink: Sink) -> None:
        """Read up to an end in `text`; what was read goes to the sink."""
        if end > self.at:
            piece = self.text[self.at : end]
            self.at = end
            sink(piece)


@lru_cache(maxsize=16)
def _run_of(characters: str) -> re.Pattern[str]:
    return re.compile(f"[{re.escape(characters)}]*+")


def _end_of(characters: str, text: str, *, at: int) -> int:
    """Return the end of a run of these characters, without copying the rest of the text."""
    return next(_run_of(characters).finditer(text, at)).end()


def ignore(_: str) -> None:
    """Discard text that has no use."""
