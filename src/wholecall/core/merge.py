"""Arguments that a provider streams as objects instead of text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from wholecall.core.limits import DEFAULT

_CONTRADICTION: Final = object()
# Represents a value that cannot be serialised. It is neither an object nor blank.
_UNWRITABLE = '"…"'


def merge_objects(pieces: Sequence[Mapping[str, Any]], depth: int = 0) -> dict[str, Any] | None:
    """One object of several that were sent for one call; None if they contradict each other.

    A server that streams objects sends either what is new in each string or the string
    so far; both are read, by whether each begins with the one before it.
    """
    given: dict[str, list[Any]] = {}
    for piece in pieces:
        for name in piece:
            given.setdefault(name, []).append(piece[name])
    merged: dict[str, Any] = {}
    for name, values in given.items():
        value = _merge_values(values, depth)
        if value is _CONTRADICTION:
            return None
        merged[name] = value
    return merged


def _merge_values(values: list[Any], depth: int) -> Any:
    first = values[0]
    if all(value == first for value in values):
        return first
    if all(isinstance(value, str) for value in values):
        grows = all(late.startswith(early) for early, late in pairwise(values))
        return values[-1] if grows else "".join(values)
    if depth < DEFAULT.depth and all(isinstance(value, Mapping) for value in values):
        inner = merge_objects(values, depth + 1)
        return _CONTRADICTION if inner is None else inner
    return _CONTRADICTION


def outgrows(late: Any, early: Any) -> bool:
    """Return True if an object contains all of another one and more: keys, letters, digits."""
    both = isinstance(late, Mapping) and isinstance(early, Mapping)
    return both and late != early and _holds(late, early)


def _holds(late: Any, early: Any) -> bool:
    if isinstance(early, Mapping) and isinstance(late, Mapping):
        return all(name in late and _holds(late[name], early[name]) for name in early)
    if isinstance(early, list) and isinstance(late, list):
        return len(early) <= len(late) and all(map(_holds, late, early))
    if type(late) is not type(early):
        return False
    return late == early if isinstance(early, bool) else str(late).startswith(str(early))


def same_json(one: Any, other: Any) -> bool:
    """Return True if two values are the same JSON. Python's 1, 1.0 and true are equal; JSON's are
    not."""
    return bool(one == other) and _canonical(one) == _canonical(other)


def digest_json(value: Any) -> bytes:
    """The same for values that are the same JSON, and for no others."""
    return hashlib.sha256(_canonical(value).encode()).digest()


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def write_json(value: Any) -> str:
    """Write a value as JSON, whatever a client library has put into it."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)
    except (ValueError, RecursionError):  # digits or nesting without end
        return _UNWRITABLE


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else repr(value)
