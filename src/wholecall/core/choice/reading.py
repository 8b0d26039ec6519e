"""Reading a field of a choice, or refusing it with its name, its value and what is allowed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeAlias

from wholecall.core.choice.values import Mode
from wholecall.errors import InvalidChoice

Wire: TypeAlias = Mapping[str, Any]
Offered: TypeAlias = Collection[str]

_PREVIEW = 200
# An error that lists a thousand tools helps nobody.
_LISTED = 20


def refuse(param: str, value: object, allowed: str) -> InvalidChoice:
    """The error for a value that is not allowed."""
    return InvalidChoice(f"{param} is {repr(value)[:_PREVIEW]}; allowed: {allowed}", param=param)


def list_words(words: Iterable[str]) -> str:
    """Words for a sentence, in order, and not too many of them."""
    ordered = sorted(words)
    more = [f"and {len(ordered) - _LISTED} more"] if len(ordered) > _LISTED else []
    return ", ".join([*map(repr, ordered[:_LISTED]), *more]) or "nothing"


def read_word(value: object, param: str, words: Mapping[str, Mode]) -> Mode:
    """A mode by its word."""
    if isinstance(value, str) and value in words:
        return words[value]
    raise refuse(param, value, list_words(words))


def read_flag(value: object, param: str, *, default: bool) -> bool:
    """A flag that may be missing."""
    if value is None:
        return default
    if isinstance(value, bool):
        return value
    raise refuse(param, value, "true, false")


def read_object(value: object, param: str) -> Wire:
    """An object, its fields not yet looked at."""
    if isinstance(value, Mapping):
        return value
    raise refuse(param, value, "an object")


def read_name(ref: Wire, param: str, offered: Offered) -> str:
    """The name of an offered tool."""
    name = ref.get("name")
    if isinstance(name, str) and name in offered:
        return name
    raise refuse(f"{param}.name", name, list_words(offered))
