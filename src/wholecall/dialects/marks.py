"""A set of literals that are searched together, in a text that arrives in pieces.

Only the longest end of the text that may still become one of them is held back.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache

_DEEPEST = 24
"""Branchings in each other. Names that a client chose may begin with each other on and on."""

_SHORT = 16
"""Characters of the beginnings that are held. All of them would take the square of a length that
a client chose."""


class Marks:
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

    def extended(self, words: tuple[str, ...]) -> Marks:
        """These literals and others; the same, if they are among them."""
        new = [word for word in words if word not in self._words]
        return Marks((*self._words, *new)) if new else self

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
            begun = text[found.start() :]
            if begun in self._beginnings or (len(begun) > _SHORT and self._goes_on(begun)):
                return found.start()
        return len(text)

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
def marks_of(words: tuple[str, ...]) -> Marks:
    """These literals, compiled once for all parses."""
    return Marks(words)
