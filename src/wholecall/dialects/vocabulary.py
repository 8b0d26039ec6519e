"""The marks that the engine searches in an answer: those of a dialect, and the tags of the
tools."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from wholecall.dialects.declaration import FOREIGN, Dialect, Grammar, Named
from wholecall.dialects.headed_calls import NamedHeadCalls
from wholecall.dialects.machine import LONGEST_NAME, Tags
from wholecall.dialects.marks import Marks, marks_of
from wholecall.dialects.nested_calls import NamedEmptyCalls, NamedTagCalls
from wholecall.dialects.yaml_calls import NamedYamlCalls

FENCE = "```"
_BEFORE_NAMES = ("print(", "functions.", "default_api.", "tools.")
MANY = 128
"""More tools are hardly ever offered, and to remember the names of so many takes room."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Vocabulary:
    """One dialect with the names of the tools on offer. It holds nothing of an answer, so that
    all answers to the same offer can share it."""

    grammars: Mapping[str, tuple[Grammar, ...]]
    """By opener, in the order of their declaration."""
    reasoning: Mapping[str, tuple[str, ...]]
    """The closing marks of reasoning, by its opening mark."""
    texts: Mapping[str, Marks]
    """The same of channels for the user."""
    prompted: frozenset[str]
    """Closers of reasoning that a prompt has opened."""
    dropped: frozenset[str]
    """Marks that are never text."""
    remnants: frozenset[str]
    """Marks that are not text directly after a call."""
    openers: Marks
    first: Marks
    """Openers that a line begins with, without its line end: where the answer begins."""
    alone: Marks
    """The beginnings of a call that is nothing but a name and its arguments, as the whole
    answer."""
    behind: Marks
    """All marks that are searched directly after a call."""
    marks: Marks
    """All marks that are searched in text."""
    many: bool
    """True if there are so many names that nothing is cached for the next answer."""

    @classmethod
    def of(cls, dialect: Dialect, names: tuple[str, ...]) -> Vocabulary:
        """The vocabulary of a dialect, where tools of these names are on offer."""
        # Of many names nothing is kept for the next answer: there would be no end of them.
        many = len(names) > MANY
        look_for = Marks if many else marks_of
        grammars = _table(dialect, names)
        reasoning = {channel.open: channel.close for channel in dialect.reasoning}
        texts = {channel.open: marks_of(channel.close) for channel in dialect.texts}
        closes = tuple(close for channel in dialect.reasoning for close in channel.close)
        begins = frozenset((*grammars, *reasoning, *texts))
        dropped = frozenset((*dialect.dropped, *closes)) - set(grammars)
        prompted = frozenset(
            close for each in dialect.reasoning if each.prompted for close in each.close
        )
        remnants = dropped.union(dialect.remains).difference(prompted, begins)
        return cls(
            grammars=grammars,
            reasoning=reasoning,
            texts=texts,
            prompted=prompted,
            dropped=dropped,
            remnants=remnants,
            openers=look_for(tuple(grammars)),
            first=look_for(tuple(each[1:] for each in grammars if each.startswith("\n"))),
            alone=look_for((*_BEFORE_NAMES, *(f"{name}(" for name in names if _fits(name)))),
            behind=look_for((*remnants, *begins)),
            marks=look_for((FENCE, *grammars, *reasoning, *texts, *dropped, *FOREIGN)),
            many=many,
        )

    def with_ends(self, tags: Tags) -> Marks:
        """Return all marks that are searched in text after a call that these tags have ended."""
        extend = Marks.extended if self.many else _extend
        return extend(self.marks, tags.value_close)


@lru_cache(maxsize=64)
def _extend(marks: Marks, words: tuple[str, ...]) -> Marks:
    return marks.extended(words)


_NamedCalls: TypeAlias = NamedTagCalls | NamedEmptyCalls | NamedYamlCalls | NamedHeadCalls
_NAMED: dict[Named, Callable[[str], _NamedCalls]] = {
    Named.TAGS: NamedTagCalls,
    Named.EMPTY: NamedEmptyCalls,
    Named.YAML: NamedYamlCalls,
    Named.HEADS: NamedHeadCalls,
}


def _fits(name: str) -> bool:
    return len(name) <= LONGEST_NAME


def _table(dialect: Dialect, names: tuple[str, ...]) -> dict[str, tuple[Grammar, ...]]:
    """The grammars by opener, in the order of their declaration."""
    table: defaultdict[str, tuple[Grammar, ...]] = defaultdict(tuple)
    for written in dialect.written:
        for opener in written.openers:
            # Formats that differ only in the text around a call read the call itself alike.
            if written.grammar not in table[opener]:
                table[opener] += (written.grammar,)
    for name in filter(_fits, names):
        for kind in dialect.named:
            grammar = _NAMED[kind](name)
            for opener in grammar.openers:
                table[opener] += (grammar,)
    return dict(table)
