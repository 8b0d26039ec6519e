r"""Lone surrogates in a JSON text: a pair is one character, one alone is none.

A lone surrogate cannot be encoded, so the first write would fail. It is replaced in the text, not
in the value: there two keys could become one unnoticed.

A surrogate is escaped (`\ud83d`) or raw: a provider that cuts a character in two sends each half
with its own chunk.
"""

from __future__ import annotations

import re
from typing import NamedTuple

HALVES = 10_000
"""Surrogates that are checked in one text. A broken emoji leaves one; more than this is noise."""

_REPLACEMENT = "\ufffd"
_RAW = re.compile("[\ud800-\udfff]")
_HALF = r"[dD][89a-fA-F][0-9a-fA-F]{2}"
_PAIR = r"[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_MAY_BE_LONE = re.compile(r"\\u[dD][89a-fA-F]")
# Everything up to a lone surrogate. Every escape is read, so that in `\\ud800` the second backslash
# begins nothing.
_UP_TO_LONE = re.compile(
    rf"[^\\]*+(?:\\(?:[^u]|u(?!{_HALF})|u{_PAIR})[^\\]*+)*+(?P<lone>\\u{_HALF})",
    re.DOTALL,
)


class Whole(NamedTuple):
    """A text without halves, and the first half that stood alone in it, as an escape."""

    text: str
    lone: str = ""


def join_halves(text: str) -> str:
    """Join raw surrogates that belong together and replace the others. For text that is not
    JSON."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def replace_lone(text: str) -> Whole | None:
    """Join the halves that belong together, replace the others. None if there are too many."""
    joined = _replace_raw(text)
    if joined is None:
        return None
    text, lone = joined
    pieces: list[str] = []
    end = 0
    while found := _find_lone(text, end):
        if len(pieces) == HALVES:
            return None
        pieces.append(text[end : found.start("lone")])
        lone, end = lone or found["lone"], found.end()
    return Whole(r"\ufffd".join([*pieces, text[end:]]), lone) if pieces else joined


def _find_lone(text: str, begin: int) -> re.Match[str] | None:
    """Return the next lone surrogate; no escape is open at `begin`."""
    candidate = _MAY_BE_LONE.search(text, begin)
    if candidate is None:
        return None
    # The backslashes before it tell whether it is an escape at all.
    before = text[begin : candidate.start()].rstrip("\\")
    return _UP_TO_LONE.match(text, begin + len(before))


def _replace_raw(text: str) -> Whole | None:
    if text.isascii() or _is_encodable(text):
        return Whole(text)
    with_halves = len(text.encode("utf-8", "surrogatepass"))
    if with_halves - len(text.encode("utf-8", "ignore")) > HALVES * _OCTETS:
        return None
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    lone = "".join(_RAW.findall(joined)[:1]).encode("ascii", "backslashreplace").decode()
    return Whole(_RAW.sub(_REPLACEMENT, joined), lone)


_OCTETS = 3
"""Of one half in UTF-8."""


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
