"""The named limits of the core, and the size and depth of a JSON text measured before it is
parsed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, islice
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one turn."""

    calls: int = 64
    """Calls a turn. More than this is a model in a loop."""
    choices: int = 128
    """Choices an answer. It is the most that OpenAI gives for one request (`n`)."""
    name: int = 256
    """Characters of a tool's name, unless a longer one is offered. Providers allow 64 or 128."""
    blocks: int = 1024
    """Blocks, or calls, of one answer that a decoder tracks at a time. More than `calls`, so that
    the assembler can tell apart the excess calls."""
    characters: int = 4 * 1024 * 1024
    """Characters of arguments a call."""
    values: int = 65_000
    """Members and items of arguments, at whatever depth: a table of ten thousand rows. To
    build and check one takes a microsecond, and 4 MB could hold two million."""
    containers: int = 25_000
    """Objects and arrays among them. Each costs as much as several other values."""
    depth: int = 128
    """Nesting of arguments. Validators recurse; some crash on deep values."""
    blank_run: int = 1024
    """White space in a row outside strings. A model that emits more is degenerate and continues to
    the output limit; the deepest honest indentation stays below."""


DEFAULT = Limits()


# Measure the depth and size of a JSON text before anything is built from it.
#
# A value costs far more than its characters: 4 MB of `[],` are a million lists. So brackets and
# commas outside strings are counted first. Every pattern is possessive and stops where a limit is
# exceeded.


STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
"""A string, as a pattern for where none is open; its end may be missing."""

_STRING = re.compile(STRING, re.DOTALL)
_NO_BRACKETS = rf"(?:{STRING}|[^\"{{}}\[\]]++)"
BETWEEN_BRACKETS = re.compile(rf"{_NO_BRACKETS}++", re.DOTALL)
_NEXT_BRACKET = re.compile(rf"{_NO_BRACKETS}*+[{{}}\[\]]", re.DOTALL)
_OTHERS = re.compile(r"[^{}\[\]]++")
_LEVELS = {"{": 1, "[": 1, "}": -1, "]": -1}
_QUOTES = 4
"""Of one value: those of its name, and its own."""


class JsonExtent(NamedTuple):
    """The limits that a text exceeds."""

    excess: str = ""
    """The exceeded limit, in words."""
    too_deep: int | None = None
    """The position after the first bracket that is too deep."""


def measure_text(text: str, limits: Limits) -> JsonExtent:
    """Say whether a text is too large or too deep to be parsed."""
    too_many = f"too many: more than {limits.values} values"
    if _has_too_many_strings(text, limits.values):
        return JsonExtent(too_many)
    openers, commas = text.count("{") + text.count("["), text.count(",")
    if openers <= limits.depth and openers + commas <= limits.values:
        return JsonExtent()
    outside = _STRING.sub("", text)
    openers = outside.count("{") + outside.count("[")
    if openers > limits.containers:
        return JsonExtent(f"too many: more than {limits.containers} objects and arrays")
    if openers + outside.count(",") > limits.values:
        return JsonExtent(too_many)
    return JsonExtent(too_deep=_find_too_deep(text, outside, depth=limits.depth))


def _has_too_many_strings(text: str, values: int) -> bool:
    # Nearly every quote after a backslash belongs to a string; of the rest, half do.
    if text.count('"') - text.count('\\"') <= _QUOTES * values:
        return False
    return bool(_past(r'[^"]*+', STRING, count=_QUOTES // 2 * values).match(text))


def find_too_many(text: str, values: int) -> int | None:
    """Return the position after the mark that begins one value too many, or None.

    The first value of an object or array begins with its bracket, every other with a comma.
    """
    if text.count(",") + text.count("[") + text.count("{") <= values:
        return None
    found = _past(rf'(?:[^",\[{{]++|{STRING})*+', r"[,\[{]", count=values).match(text)
    return None if found is None else found.end()


@lru_cache(maxsize=8)
def _past(between: str, mark: str, *, count: int) -> re.Pattern[str]:
    """A text up to the mark that is one too many."""
    return re.compile(rf"(?:{between}{mark}){{{count + 1}}}+", re.DOTALL)


def _find_too_deep(text: str, outside: str, *, depth: int) -> int | None:
    brackets = _OTHERS.sub("", outside)
    for index, level in enumerate(accumulate(_LEVELS[bracket] for bracket in brackets)):
        if level > depth:
            return next(islice(_NEXT_BRACKET.finditer(text), index, None)).end()
        if level <= 0:  # the root is closed, and the parser stops there
            break
    return None
