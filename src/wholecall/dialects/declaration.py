"""What a format is: its markers, its grammar, its channels. Data, no code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from wholecall.dialects.encoding import Template
from wholecall.dialects.machine import Machine
from wholecall.dialects.source import Steps


class Grammar(Protocol):
    """How the calls of a family are written."""

    def read(self, machine: Machine, opener: str, /) -> Steps[bool]:
        """Read what stands behind an opener (or, without one, at the beginning of the answer).

        False if no call stands there; nothing was given then, and what was read is text.
        """


@dataclass(frozen=True, slots=True)
class Channel:
    """What stands between two marks: reasoning, or text in which nothing is a call."""

    open: str
    close: tuple[str, ...]
    prompted: bool = False
    """The prompt may have opened it already: the answer then begins inside."""


THINK = Channel("<think>", ("</think>",), prompted=True)


@dataclass(frozen=True, slots=True)
class Written:
    """A grammar and what may stand before it."""

    openers: tuple[str, ...]
    grammar: Grammar


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One textual form of tool calls."""

    name: str
    written: tuple[Written, ...] = ()
    bare: tuple[Grammar, ...] = ()
    """Grammars that need no marker where the answer begins."""
    reasoning: tuple[Channel, ...] = (THINK,)
    texts: tuple[Channel, ...] = ()
    """Channels for the user."""
    dropped: tuple[str, ...] = ()
    """Markers that are no text wherever they stand: stray closers, channels of text."""
    names_are_tags: bool = False
    """`<search>` opens a call of the tool `search`."""
    rescues: bool = False
    """Nobody told the model to write so: an unknown name is prose."""
    template: Template | None = None
    """How calls are written back; None where nothing is to be written."""
    models: str = ""
    """Who writes it."""
