"""`tool_choice` as a value: which tools an answer may or must call, and whether it obeyed."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

from wholecall.errors import InvalidChoice
from wholecall.events import Call, Rejected


class Mode(enum.Enum):
    """The mode: may, must or must not an answer call tools?"""

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class Special:
    """A tool that is not a function: a custom one, or one that the upstream runs itself."""

    type: str
    name: str = ""
    server: str = ""


Tool: TypeAlias = str | Special
"""A function by its name, or a tool of another type."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A request's rules for calling tools."""

    mode: Mode = Mode.AUTO
    names: tuple[str, ...] = ()
    """The only functions that may be called; without names and specials, all that are offered."""
    parallel: bool = True
    """True if an answer may hold more than one call."""
    specials: tuple[Special, ...] = ()
    """The only other tools that may be called."""

    def __post_init__(self) -> None:
        if self.mode is Mode.NONE and (self.names or self.specials or not self.parallel):
            raise ValueError("where no tool may be called, there is nothing to restrict")

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The only tools that may be called; empty means all that are offered."""
        return (*self.names, *self.specials)


@dataclass(frozen=True, slots=True)
class EncodedChoice:
    """A choice in a protocol's own words."""

    fields: Mapping[str, Any]
    """Fields of the request. Upstreams refuse them in a request that offers no tools."""
    offer: tuple[str, ...] | None = None
    """The only tools to offer, where the protocol cannot name them otherwise; None: all."""
    unsaid: tuple[Special, ...] = ()
    """Tools that the protocol cannot express. They cannot be called."""


def restrict(mode: Mode, tools: Iterable[Tool], *, parallel: bool) -> Choice:
    """A choice among these tools only, each named once."""
    once = dict.fromkeys(tools)
    names = tuple(tool for tool in once if isinstance(tool, str))
    specials = tuple(tool for tool in once if isinstance(tool, Special))
    return Choice(mode, names, parallel, specials)


def allow_all(mode: Mode, *, parallel: bool) -> Choice:
    """A choice among all tools. Beside `none` the flag says nothing, for nothing is called."""
    return Choice(mode, parallel=parallel or mode is Mode.NONE)


# Reading a field of a choice, or refusing it with its name, its value and what is allowed.


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


class ChoiceForm(Protocol):
    """Reads and says a choice in one protocol's words."""

    def decode(self, request: Wire, offered: Offered, /) -> Choice:
        """Read the choice from a request's fields."""

    def encode(self, choice: Choice, /) -> EncodedChoice:
        """Say a choice."""


def read_choice(form: ChoiceForm, request: Wire, *, offered: Offered) -> Choice:
    """Read the choice from a request's fields, or raise `InvalidChoice`."""
    choice = form.decode(request, offered)
    if choice.mode is Mode.REQUIRED and not offered:
        raise field_of(request, "tool_choice").refuse("only 'auto' and 'none' without tools")
    return choice


# Check whether an answer obeys the tool choice. Not all upstreams enforce it.


@dataclass(frozen=True, slots=True)
class ChoiceBreach:
    """A violation of the tool choice."""

    message: str
    """Words for the model."""
    refused: tuple[int, ...] = ()
    """The calls that must not run, by their place in the answer."""


def obeyed(choice: Choice, answer: Sequence[Call | Rejected]) -> ChoiceBreach | None:
    """Return how the calls of an answer violate the choice, or None.

    A rejected call counts as an attempt: the model did call, and its feedback comes from elsewhere.
    """
    if choice.mode is Mode.NONE:
        return _check_silence(answer)
    allowed = {*choice.names, *(special.name for special in choice.specials)}
    outside = [place for place, call in enumerate(answer) if allowed and call.name not in allowed]
    inside = sorted(set(range(len(answer))).difference(outside))
    extra = [] if choice.parallel else [at for at in inside if isinstance(answer[at], Call)][1:]
    # What the upstream runs itself leaves no call in the answer: nothing can be proven missing.
    missing = choice.mode is Mode.REQUIRED and not inside and not choice.specials
    sentences = [
        *([_say_outside(choice, [answer[at] for at in outside])] if outside else []),
        *(["Send one call at a time; only the first of this answer counts."] if extra else []),
        *([_say_missing(choice)] if missing else []),
    ]
    return (
        ChoiceBreach(" ".join(sentences), tuple(sorted([*outside, *extra]))) if sentences else None
    )


def _check_silence(answer: Sequence[Call | Rejected]) -> ChoiceBreach | None:
    if not answer:
        return None
    message = "No tool may be called in this answer. Answer in plain text."
    return ChoiceBreach(message, tuple(range(len(answer))))


def _say_outside(choice: Choice, calls: Sequence[Call | Rejected]) -> str:
    allowed = [*choice.names, *(special.name or special.type for special in choice.specials)]
    called = list_words({call.name or "" for call in calls})
    return f"Only {list_words(allowed)} may be called in this answer, not {called}."


def _say_missing(choice: Choice) -> str:
    tools = list_words(choice.names) if len(choice.names) == 1 else _say_one_of(choice)
    return f"This answer must call {tools}."


def _say_one_of(choice: Choice) -> str:
    return f"one of {list_words(choice.names)}" if choice.names else "at least one of the tools"
