"""A choice as a value, and what a protocol makes of it."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias


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
class Encoded:
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
