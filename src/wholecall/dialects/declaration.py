"""The declaration of a format: its markers, its grammar, its channels. Data without parsing
code."""

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
    """The grammar of a family of formats."""

    def read(self, machine: Machine, opener: str, /) -> Steps[bool]:
        """Read a call after its opener (or, without one, at the beginning of the answer).

        Return False if there is no call; then no delta was produced, and what was read is text.
        """


@dataclass(frozen=True, slots=True)
class Channel:
    """The content between two markers: reasoning, or text without calls."""

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
"""Tokens that end an answer. Servers sometimes pass them on by mistake."""


RESULTS = {f"<{tag}>": (f"</{tag}>",) for tag in ("tool_response", "tool_result")}
"""Markers around the results of calls. A model that writes them makes the results up."""
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
"""Markers of another role's turn: written by a model that continues past its own end."""
OBSERVED = "\nObservation:"
"""The same in answers that reason and act in turns. Without a call before it, it is a word."""
FOREIGN = (*RESULTS, *TURNS, OBSERVED)


class Named(enum.Enum):
    """The beginning of a call whose only marker is the name of a tool."""

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
    """Grammars that need no marker if the call is the whole answer."""
    fenced: tuple[tuple[str, Grammar], ...] = ()
    """Grammars of code fences by their language, where a fence is the whole answer."""
    reasoning: tuple[Channel, ...] = (THINK,)
    texts: tuple[Channel, ...] = ()
    """Channels for the user."""
    dropped: tuple[str, ...] = ()
    """Markers that are never text: stray closers, channels of text."""
    remains: tuple[str, ...] = END_TOKENS
    """Markers that are not text directly after a call, in addition to the dropped ones."""
    named: tuple[Named, ...] = ()
    """The beginnings of calls, for tools whose name is the marker."""
    rescues: bool = False
    """The model was not told to write in this format: an unknown name is prose."""
    drops_unknown: bool = False
    """Parameters that a schema does not name are left out, as the model's own parser does."""
    template: Template | None = None
    """The template for writing calls; None if the dialect is only read."""
    models: str = ""
    """The models that write it."""

    def amid(
        self, *, reasoning: tuple[Channel, ...] = (THINK,), dropped: tuple[str, ...] = ()
    ) -> Dialect:
        """Return the same calls in answers with this reasoning and these further dropped
        markers."""
        return replace(self, reasoning=reasoning, dropped=(*self.dropped, *dropped))

    def spelled(self, *others: Dialect) -> Dialect:
        """The same, read in other spellings, too; calls are written back in its own."""
        return replace(
            self,
            written=(*self.written, *(each for other in others for each in other.written)),
            dropped=(*self.dropped, *(each for other in others for each in other.dropped)),
        )


def template_of(dialect: Dialect) -> Template:
    """Return the template of a dialect; `UnusableDialect` if it can only be read."""
    if dialect.template is None:
        raise UnusableDialect(
            f"nothing is written in the dialect {dialect.name!r}: it can only be read"
        )
    return dialect.template
