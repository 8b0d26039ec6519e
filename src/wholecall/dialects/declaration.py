"""What a format is: its markers, its grammar, its channels. Data, no code that reads."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from wholecall.dialects.encoding import Template
from wholecall.dialects.machine import Machine
from wholecall.dialects.source import Steps
from wholecall.errors import UnusableDialect


@runtime_checkable  # a stored dialect is checked by msgspec, which asks for it
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


END_TOKENS = (
    "</s>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|end_of_turn|>",
    "<end_of_turn>",
    "<eos>",
    "[e~[",
    "<|end▁of▁sentence|>",
    "<\uff5cend▁of▁sentence\uff5c>",
)
"""What ends an answer. Servers that hand it on do not mean it."""


RESULTS = {f"<{tag}>": (f"</{tag}>",) for tag in ("tool_response", "tool_result")}
"""What the results of calls stand between. A model that writes them makes them up."""
TURNS = (
    *(f"<|im_start|>{role}" for role in ("user", "tool", "system")),
    *(f"<|start_header_id|>{role}<|end_header_id|>" for role in ("user", "ipython", "tool")),
    "<start_of_turn>user",
    "<|observation|>",
    "<|user|>",
    "<\uff5cUser\uff5c>",
    "<\uff5ctool▁outputs▁begin\uff5c>",
    "<|start|>user",
    "<|start|>functions.",
    "[TOOL_RESULTS]",
)
"""Where the turn of somebody else begins: a model that runs on past the end of its own."""
OBSERVED = "\nObservation:"
"""The same in answers that reason and act in turns. Without a call before it, it is a word."""
FOREIGN = (*RESULTS, *TURNS, OBSERVED)


class Named(enum.Enum):
    """How a call begins that has nothing but the name of a tool as its mark."""

    TAGS = "tags"  # `<search><query>x</query></search>`
    EMPTY = "empty"  # `<search/>`
    YAML = "yaml"  # a block of YAML in such a tag
    HEADS = "heads"  # `search[ARGS]{"query": "x"}`


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
    bare_words: bool = False
    """They may begin with a word there, and not only with a bracket."""
    alone: tuple[Grammar, ...] = ()
    """Grammars that need no marker where nothing but the call stands in the answer."""
    fenced: tuple[tuple[str, Grammar], ...] = ()
    """Grammars of code fences by their language, where a fence is the whole answer."""
    reasoning: tuple[Channel, ...] = (THINK,)
    texts: tuple[Channel, ...] = ()
    """Channels for the user."""
    dropped: tuple[str, ...] = ()
    """Markers that are no text wherever they stand: stray closers, channels of text."""
    remains: tuple[str, ...] = END_TOKENS
    """Markers that are no text right behind a call, besides the dropped ones."""
    named: tuple[Named, ...] = ()
    """How the calls of a tool begin, where its name is their mark."""
    rescues: bool = False
    """Nobody told the model to write so: an unknown name is prose."""
    drops_unknown: bool = False
    """Parameters that a schema does not name are left out, as the model's own parser does."""
    template: Template | None = None
    """How calls are written back; None where nothing is to be written."""
    models: str = ""
    """Who writes it."""

    def amid(
        self, *, reasoning: tuple[Channel, ...] = (THINK,), dropped: tuple[str, ...] = ()
    ) -> Dialect:
        """The same calls in answers with this reasoning and, besides, these dropped markers."""
        return replace(self, reasoning=reasoning, dropped=(*self.dropped, *dropped))

    def spelled(self, *others: Dialect) -> Dialect:
        """The same, read in other spellings, too; calls are written back in its own."""
        return replace(
            self,
            written=(*self.written, *(each for other in others for each in other.written)),
            dropped=(*self.dropped, *(each for other in others for each in other.dropped)),
        )


def template_of(dialect: Dialect) -> Template:
    """How calls are written in a dialect; `UnusableDialect` if it can only be read."""
    if dialect.template is None:
        raise UnusableDialect(
            f"nothing is written in the dialect {dialect.name!r}: it can only be read"
        )
    return dialect.template
