"""How deep and how large a JSON text is, told before anything is built from it.

A value costs far more than the characters that it is written in: 4 MB of `[],` are a
million lists. So brackets and commas are counted first, those outside strings. Every
pattern is possessive and runs without a step of Python for each match, and the count
ends where the limit is passed.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import accumulate, islice

STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
"""A string outside of which one stands, as a pattern; its end may be missing."""

_NO_BRACKETS = rf"{STRING}|[^\"{{}}\[\]]++"
_FLAT = rf"\{{(?:{_NO_BRACKETS})*+\}}|\[(?:{_NO_BRACKETS})*+\]"
BETWEEN_BRACKETS = re.compile(rf"(?:{_NO_BRACKETS})++", re.DOTALL)
_BETWEEN_NESTED = re.compile(rf"(?:{_NO_BRACKETS}|{_FLAT})++", re.DOTALL)
_NEXT_BRACKET = re.compile(rf"(?:{_NO_BRACKETS})*+[{{}}\[\]]", re.DOTALL)
_LEVELS = {"{": 1, "[": 1, "}": -1, "]": -1}


def find_too_many(text: str, values: int) -> int | None:
    """Behind the mark that begins one value too many; None if there is none.

    The first value of an object or array is begun by its bracket, any other by a comma.
    """
    if text.count(",") + text.count("[") + text.count("{") <= values:
        return None
    found = _past(values).match(text)
    return None if found is None else found.end()


@lru_cache(maxsize=8)
def _past(values: int) -> re.Pattern[str]:
    return re.compile(rf'(?:(?:[^",\[{{]++|{STRING})*+[,\[{{]){{{values + 1}}}+', re.DOTALL)


def find_too_deep(text: str, depth: int) -> int | None:
    """Behind the first bracket outside strings that goes too deep; None if none does."""
    if text.count("{") + text.count("[") <= depth:
        return None
    # First without the innermost objects and arrays, which go one level deeper: the rows of a
    # table are many, and each would be a step of Python.
    if _find_level(_BETWEEN_NESTED.sub("", text), depth) is None:
        return None
    index = _find_level(BETWEEN_BRACKETS.sub("", text), depth + 1)
    return None if index is None else next(islice(_NEXT_BRACKET.finditer(text), index, None)).end()


def _find_level(brackets: str, level: int) -> int | None:
    """Which of the brackets comes to a level."""
    for index, reached in enumerate(accumulate(_LEVELS[bracket] for bracket in brackets)):
        if reached == level:
            return index
        if reached <= 0:  # the root is closed, and the parser stops there
            break
    return None
