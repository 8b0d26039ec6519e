"""Two renderings compared: what they have in common, without cutting through a mark.

Compared are words of a text, where `<|tool_call|>` and `[TOOL_CALLS]` are one word each:
that two marks end with `|>` says nothing.
"""

from __future__ import annotations

import re
from itertools import takewhile

from wholecall.errors import UnusableDialect

_MARK = re.compile(r"<[^<>\n]{1,64}>|\[/?[A-Z_]{2,32}\]")
_WORD = re.compile(rf"{_MARK.pattern}|.", re.DOTALL)


def words_of(text: str) -> list[str]:
    """The text in words: marks, and single characters."""
    return _WORD.findall(text)


def marks_in(text: str) -> list[str]:
    """The marks that stand in a text."""
    return _MARK.findall(text)


def common_prefix(first: str, second: str) -> str:
    """Return the common prefix of two texts."""
    pairs = zip(words_of(first), words_of(second), strict=False)
    return "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def common_suffix(first: str, second: str) -> str:
    """Return the common suffix of two texts."""
    pairs = zip(reversed(words_of(first)), reversed(words_of(second)), strict=False)
    same = [one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
    return "".join(reversed(same))


def split_at(text: str, *words: str) -> list[str]:
    """The text before, between and after words that stand in it in this order."""
    pieces = []
    for word in words:
        before, found, text = text.partition(word)
        if not found:
            raise UnusableDialect(f"the template does not write {word!r} where a call stands")
        pieces.append(before)
    return [*pieces, text]


def between_calls(head: str, tail: str, *, middle: str) -> tuple[str, str, str]:
    """Return what opens each call, what closes each, and what separates two.

    `head` precedes the first call, `middle` separates two, `tail` follows the last: the common
    suffix of `middle` and `head` opens every call, the common prefix of `middle` and `tail` closes
    it.
    """
    opening = common_suffix(head, middle)
    rest = middle[: len(middle) - len(opening)]
    closing = common_prefix(rest, tail)
    return opening, closing, rest[len(closing) :]
