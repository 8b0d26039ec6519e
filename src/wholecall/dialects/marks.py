"""A set of literals that are looked for together, in a text that arrives in pieces.

Nothing but the longest end of the text that may still become one of them is held back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache


class Marks:
    """Literals, compiled once. The longest that fits at a place is the one that stands there."""

    __slots__ = ("_first", "_longest", "_pattern", "_prefixes", "_words")

    def __init__(self, words: Iterable[str]) -> None:
        self._words = tuple(sorted(set(words), key=len, reverse=True))
        # Plain literals: no branch of the alternation can backtrack.
        self._pattern = re.compile("|".join(map(re.escape, self._words)) or r"(?!)")
        self._first = re.compile("|".join({re.escape(word[0]) for word in self._words}) or r"(?!)")
        self._prefixes = frozenset(
            word[:end] for word in self._words for end in range(1, len(word))
        )
        self._longest = len(self._words[0]) if self._words else 0

    def __contains__(self, word: object) -> bool:
        return word in self._words

    def search(self, text: str, at: int, *, ended: bool) -> re.Match[str] | None:
        """The first mark from `at` on; None while one that begins before it, or a longer one,
        may still come."""
        found = self._pattern.search(text, at)
        if found is None or ended or self.safe_end(text, at) > found.start():
            return found
        return None

    def match(self, text: str, at: int) -> str:
        """The mark that stands at `at`, or nothing."""
        found = self._pattern.match(text, at)
        return found.group() if found else ""

    def may_begin(self, text: str, at: int) -> bool:
        """Whether all that stands from `at` on is the beginning of a mark."""
        return len(text) - at < self._longest and (at == len(text) or text[at:] in self._prefixes)

    def safe_end(self, text: str, at: int) -> int:
        """Up to where the text cannot be a part of a mark, whatever follows."""
        for found in self._first.finditer(text, max(at, len(text) - self._longest)):
            if text[found.start() :] in self._prefixes:
                return found.start()
        return len(text)


@lru_cache(maxsize=1024)
def marks_of(words: tuple[str, ...]) -> Marks:
    """These literals, compiled once for all parses."""
    return Marks(words)
