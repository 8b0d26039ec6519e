"""Reading a field of a choice, or refusing it with its name, its value and what is allowed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from wholecall.core.choice.values import Mode
from wholecall.errors import InvalidChoice

Wire: TypeAlias = Mapping[str, Any]
Offered: TypeAlias = Collection[str]

_PREVIEW = 200
# An error that lists a thousand tools does not help.
_LISTED = 20


def list_words(words: Iterable[str]) -> str:
    """Words for a sentence, in order, and not too many of them."""
    ordered = sorted(words)
    more = [f"and {len(ordered) - _LISTED} more"] if len(ordered) > _LISTED else []
    return ", ".join([*map(repr, ordered[:_LISTED]), *more]) or "nothing"


class Field(NamedTuple):
    """A value that a client sent, with the name by which a refusal calls it."""

    param: str
    value: object

    def refuse(self, allowed: str) -> InvalidChoice:
        """The error for a value that is not allowed."""
        value = repr(self.value)[:_PREVIEW]
        return InvalidChoice(f"{self.param} is {value}; allowed: {allowed}", param=self.param)

    def member(self, key: str) -> Field:
        """A field of this object."""
        return Field(f"{self.param}.{key}", self.read_object().get(key))

    def read_word(self, words: Mapping[str, Mode]) -> Mode:
        """A mode by its word."""
        if isinstance(self.value, str) and self.value in words:
            return words[self.value]
        raise self.refuse(list_words(words))

    def read_flag(self, *, default: bool) -> bool:
        """A flag that may be missing."""
        if self.value is None:
            return default
        if isinstance(self.value, bool):
            return self.value
        raise self.refuse("true, false")

    def read_object(self) -> Wire:
        """Return an object whose fields are not checked yet."""
        if isinstance(self.value, Mapping):
            return self.value
        raise self.refuse("an object")

    def read_name(self, offered: Offered) -> str:
        """The name of an offered tool, from an object that holds it."""
        name = self.member("name")
        if isinstance(name.value, str) and name.value in offered:
            return name.value
        raise name.refuse(list_words(offered))


def field_of(request: Wire, key: str) -> Field:
    """A field of the request itself."""
    return Field(key, request.get(key))
