"""Tool names that arrive in pieces, or again and again.

A name is joined only towards an offered name. Without that rule one of two real
servers is misread: the one that splits `edit_existing_file` over two deltas, or the
one that repeats `bash` in each (and `bashbash` is born).

Each piece is joined to all that came before it; `Limits.name`, which the router holds,
keeps that from growing with the stream.
"""

from __future__ import annotations

import re
from collections.abc import Collection


def join_name(current: str, piece: str, *, offered: Collection[str] | None) -> str | None:
    """The name after one more piece; None if the piece is the name of another call."""
    if piece == current or not piece:
        return current
    if not current:
        return piece
    if offered is None:
        return _join_blindly(current, piece)
    if current in offered and piece in offered:
        return None
    joined = current + piece
    for reading in (joined, piece):
        # `piece` alone is read as a name that grows as a whole: `edit`, `edit_file`.
        if any(name.startswith(reading) for name in offered):
            return reading
    return joined


def _join_blindly(current: str, piece: str) -> str:
    # No tools were given: a longer spelling of the same name replaces it.
    return piece if piece.startswith(current) else current + piece


_NAMESPACES = ("functions.", "functions:", "default_api.", "default_api:")
"""Prefixes that models were trained to write before a tool's name: gpt-oss and Kimi, Gemini."""


_HEADER = re.compile(r"(?:.*\bto=)?(?P<name>[^\s<]+?)(?::\d+)?\s*(?:<\|.*)?", re.DOTALL)
"""Remains of a header that servers leave around a name: `to=functions.search <|constrain|>json` and
`search<|channel|>commentary` from gpt-oss, `functions.search:0` from Kimi."""


def offered_name(name: str, offered: Collection[str] | None) -> str:
    """Return the offered name that is meant: this one, or the one after a namespace or in a
    header."""
    name = name.strip()
    if offered is None or name in offered:
        return name
    headed = _HEADER.fullmatch(name)
    for spelled in (name, headed["name"]) if headed else (name,):
        for namespace in ("", *_NAMESPACES):
            bare = spelled.removeprefix(namespace)
            if bare in offered:
                return bare
    return name


def is_settled(name: str, offered: Collection[str] | None) -> bool:
    """Return True if no further piece can make another offered name of this one."""
    if not name or offered is None:
        return False
    return name in offered and not any(
        other != name and other.startswith(name) for other in offered
    )
