"""One pass over the text of an answer: text, reasoning and calls, as deltas.

The engine reads a model's text from left to right and divides it into three: text for the user,
reasoning, and calls. It searches for markers: the openers of a dialect's formats, of its reasoning
and of its channels. Text before a marker goes out at once; only a tail that may be the beginning
of a marker waits. At an opener the grammars of that opener are tried in the order of their
declaration. The first that recognises a call reads it to its end and writes it as deltas. If none
does, the opener was prose, and it goes out as text.

Why a single pass. Answers arrive in pieces of a few characters. A parser that reads its buffer
again with each piece needs the square of the length, and one that looks at each piece alone loses
what a cut divides. Here readers are generators over a `CharStream`: they yield where they need
more text and resume at the same place, so that each character is read once and no cut matters.
A grammar is written as if the whole text were there.

Why no backtracking. A choice that may be taken back later would have to hold back all that was
read since, and hostile text could make it be read again and again. So a grammar decides within a
header of bounded length (`LONGEST_NAME`) whether this is a call. Up to there the engine may rewind
and try the next grammar. After that the decision is final: what breaks later is a rejected call
with its reason, never text, and never a second reading that happens to fit. Patterns are
possessive, limits have names, and `tests/dialects/test_engine_hostile.py` counts the work.

Reading ahead is a promise about place and output, and all of it is made by six operations:

    stream.bookmark    remember the text from here on
    stream.rewind      go back to a bookmark: another grammar reads the same text
    stream.forget      give the bookmark up: this text will not be read again
    context.hold       write nothing for now: it is not decided whether this is a call
    context.release    write what was held, as a guess: the text is over
    context.drop       take back what was held: it was no call

What the engine does not do: it proves nothing. A call that it delivers is a draft like any other;
the assembler decides by its own evidence whether it is whole. So a grammar writes the brace that
closes the arguments only when it has seen the end of the call, and a text that was cut leaves an
open object, which never runs.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

from wholecall.arguments.compiled_schema import SizedCache
from wholecall.arguments.limits import DEFAULT, Limits
from wholecall.assembly.verdict import WRAPPER
from wholecall.dialects.char_stream import MOST_BLANKS, Markers, Sink, Steps, ignore, markers_of
from wholecall.dialects.dialect import (
    FOREIGN,
    OBSERVED,
    RESULTS,
    TOKENS,
    TURNS,
    AfterShorter,
    Dialect,
    Grammar,
    GrammarWithOpeners,
    Named,
)
from wholecall.dialects.grammars.headed_calls import HeadedCalls, NamedHeadCalls
from wholecall.dialects.grammars.nested_tag_calls import NamedEmptyCalls, NamedTagCalls
from wholecall.dialects.grammars.python_calls import PythonCalls
from wholecall.dialects.grammars.yaml_calls import NamedYamlCalls
from wholecall.dialects.parser_context import LONGEST_NAME, Given, ParserContext, Tags
from wholecall.dialects.quotation import Quotation
from wholecall.events import Reason, Reasoning, Text
from wholecall.messages import Offer

FENCE = "```"
# How a call without an opener of a format may begin.
_BARE_OPENERS = ("print(", "functions.", "default_api.", "tools.")
_MESSAGE = "<|start|>assistant"
VOCABULARY_BYTES = 64 * 1024 * 1024
"""Bytes of the vocabularies that are kept: those of some hundred sets of tools."""
_BASE_BYTES = 300_000
_NAME_BYTES = 2_600
MANY = 128
"""Of more tools the marks after a call are not kept: they are hardly ever offered."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Vocabulary:
    """One dialect with the names of the tools on offer. It holds nothing of an answer, so that
    all answers to the same offer can share it."""

    dialect: Dialect
    grammars: Mapping[str, tuple[Grammar, ...]]
    """By opener, in the order of their declaration."""
    bare: tuple[Grammar, ...]
    """Those that need no opener where the answer begins."""
    lone: tuple[Grammar, ...]
    """Those that need none where the call is the whole answer."""
    fenced: tuple[tuple[str, Grammar], ...]
    """Those of code fences, by their language."""
    foreign: frozenset[str]
    """Openers of other formats than the announced one."""
    sections: frozenset[str]
    """Tokens around calls. One that stays alone is never text."""
    closers: Markers
    """The marks that end a call, or begin another one."""
    reasoning: Mapping[str, tuple[str, ...]]
    """The closing marks of reasoning, by its opening mark."""
    texts: Mapping[str, Markers]
    """The same of channels for the user."""
    private: frozenset[str]
    """Opening marks of reasoning that holds no calls."""
    headers: tuple[str, ...]
    """Marks that begin with a message of the model. One ends such reasoning."""
    prompted: frozenset[str]
    """Closers of reasoning that a prompt has opened."""
    dropped: frozenset[str]
    """Marks that are never text."""
    remnants: frozenset[str]
    """Marks that are not text directly after a call."""
    openers: Markers
    first: Markers
    """Openers that a line begins with, without its line end: where the answer begins."""
    alone: Markers
    """The beginnings of a call that is nothing but a name and its arguments, as the whole
    answer."""
    behind: Markers
    """All marks that are searched directly after a call."""
    marks: Markers
    """All marks that are searched in text."""
    many: bool
    """True if there are so many names that `with_ends` keeps nothing for the next answer."""

    @classmethod
    def of(cls, dialect: Dialect, names: tuple[str, ...]) -> Vocabulary:
        """Build the vocabulary of a dialect, where tools of these names are on offer."""
        if names and WRAPPER.name not in names:
            names = (*names, WRAPPER.name)
        grammars = _table(dialect, names)
        thoughts = (*dialect.reasoning, *dialect.drift.reasoning)
        reasoning = {channel.open: channel.close for channel in thoughts}
        texts = {channel.open: markers_of(channel.close) for channel in dialect.texts}
        closes = tuple(close for channel in thoughts for close in channel.close)
        begins = frozenset((*grammars, *reasoning, *texts))
        dropped = frozenset((*dialect.dropped, *closes)) - set(grammars)
        prompted = frozenset(close for each in thoughts if each.prompted for close in each.close)
        remnants = dropped.union(dialect.remains).difference(prompted, begins)
        return cls(
            dialect=dialect,
            grammars=grammars,
            bare=(*dialect.bare, *dialect.drift.bare),
            lone=(*dialect.alone, *dialect.drift.alone),
            fenced=(*dialect.fenced, *dialect.drift.fenced),
            foreign=frozenset(
                opener for each in dialect.drift.written for opener in each.openers
            ).difference(opener for each in dialect.written for opener in each.openers),
            sections=frozenset(
                mark
                for each in dialect.written
                if isinstance(each.grammar, HeadedCalls)
                for mark in each.grammar.sections
                if mark.startswith(TOKENS)
            ),
            closers=Markers((*dialect.dropped, *grammars)),
            reasoning=reasoning,
            texts=texts,
            private=frozenset(each.open for each in thoughts if each.private),
            headers=tuple(mark for mark in begins if mark.startswith(_MESSAGE)),
            prompted=prompted,
            dropped=dropped,
            remnants=remnants,
            openers=Markers(tuple(grammars)),
            first=Markers(tuple(each[1:] for each in grammars if each.startswith("\n"))),
            alone=Markers((*_BARE_OPENERS, *(f"{name}(" for name in names if _fits(name)))),
            behind=Markers((*remnants, *begins)),
            marks=Markers((FENCE, *grammars, *reasoning, *texts, *dropped, *FOREIGN)),
            many=len(names) > MANY,
        )

    def with_ends(self, tags: Tags) -> Markers:
        """Return all marks that are searched in text after a call that these tags have ended."""
        extend = Markers.extended if self.many else _extend
        return extend(self.marks, tags.value_close)


@dataclass(frozen=True, slots=True, eq=False)
class DialectKey:
    """A dialect as the key of a cache. To compare two by their fields takes as long as to build a
    vocabulary."""

    dialect: Dialect

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DialectKey) and self.dialect is other.dialect

    def __hash__(self) -> int:
        return id(self.dialect)


def vocabulary_of(dialect: Dialect, names: tuple[str, ...]) -> Vocabulary:
    """Return the vocabulary of a dialect and these tools. It is kept: the same tools are offered
    again and again."""
    key = (id(dialect), names)  # a vocabulary keeps its dialect, so that no other has this id
    return _VOCABULARIES.find(key, lambda _: Vocabulary.of(dialect, names))


def has_vocabulary(dialect: Dialect, names: tuple[str, ...]) -> bool:
    """Return True if the vocabulary is kept. To build one takes 30 ms and, for many tools, more."""
    return _VOCABULARIES.has((id(dialect), names))


def _weigh(key: tuple[int, tuple[str, ...]]) -> int:
    return _BASE_BYTES + sum(_NAME_BYTES + 24 * len(name) for name in key[1])


_VOCABULARIES: SizedCache[tuple[int, tuple[str, ...]], Vocabulary] = SizedCache(
    weigh=_weigh, most_bytes=VOCABULARY_BYTES
)


@lru_cache(maxsize=64)
def _extend(marks: Markers, words: tuple[str, ...]) -> Markers:
    return marks.extended(words)


_LIST = "["
_LISTS = GrammarWithOpeners((_LIST,), PythonCalls(marked=False, timid=True))


@lru_cache(maxsize=256)
def _with_lists(key: DialectKey) -> Dialect:
    """The same dialect after a list of calls without a marker: others may follow words."""
    drift = key.dialect.drift
    return replace(key.dialect, drift=replace(drift, written=(*drift.written, _LISTS)))


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
    _add(table, dialect.written)
    own = dict(table)
    _add(table, dialect.drift.written)
    for opener in table.keys() - own.keys():
        bare = opener.removeprefix("\n")
        shorter = max((each for each in own if bare.startswith(each)), key=len, default="")
        if shorter:
            table[opener] = (AfterShorter(shorter, own[shorter]), *table[opener])
    for name in filter(_fits, names):
        for kind in dict.fromkeys((*dialect.named, *dialect.drift.named)):
            grammar = _NAMED[kind](name)
            for opener in grammar.openers:
                table[opener] += (grammar,)
    return dict(table)


def _add(
    table: defaultdict[str, tuple[Grammar, ...]], entries: tuple[GrammarWithOpeners, ...]
) -> None:
    for entry in entries:
        for opener in entry.openers:
            # Formats that differ only in the text around a call read the call itself alike.
            if entry.grammar not in table[opener]:
                table[opener] += (entry.grammar,)


_FENCES = markers_of((FENCE,))
_FENCE_CLOSE = markers_of((f"\n{FENCE}",))
_LINE_END = markers_of(("\n",))
_INDENTED = markers_of(("    ", "\t", "\n", "\r\n"))
"""The beginning of a line that continues an indented code block."""
_ENDS = ("", "\r", "\n")
_LONGEST_LANGUAGE = 32
REPEATS = 16
"""Openers in a row with nothing between them. An honest model writes one."""
_BARE_BEGINNINGS = frozenset("{[")
_UNCLOSED = "[TOOL_CALLS]"
IN_A_SENTENCE = "words follow on its line, so that it reads as a part of a sentence"
"""The flaw of a call that is only mentioned in a sentence."""


class CallPosition(enum.Enum):
    """The positions at which a call may begin."""

    UNQUOTED = enum.auto()
    """Outside a quotation."""
    AGREED = enum.auto()
    """The same, and no words follow on its line: the format was announced to the model."""
    APART = enum.auto()
    """Outside a quotation, and first on its line: the format was not announced to the model. What
    may follow the call is not decided here."""
    LED_IN = enum.auto()
    """The same, but a special token (`<|…`), which prose hardly holds, may follow words."""


_APART = (CallPosition.APART, CallPosition.LED_IN)


class Engine:
    """Reads one answer in one dialect."""

    def __init__(
        self,
        dialect: Dialect,
        offer: Offer | None = None,
        *,
        limits: Limits = DEFAULT,
        reading: CallPosition = CallPosition.UNQUOTED,
    ) -> None:
        self._machine = ParserContext(offer, rescues=dialect.rescues, limits=limits)
        self._source = self._machine.source
        self._output = self._machine.output
        self._dialect = dialect
        self._reading = reading
        self._names = tuple(offer or ())
        self._words = vocabulary_of(dialect, self._names)
        self._steps = self._run()
        next(self._steps)

    @property
    def name(self) -> str:
        """The name of the dialect."""
        return self._dialect.name

    @property
    def unread(self) -> str:
        """The text from a mark on after which no call was read; empty without one."""
        return self._output.unread

    def feed(self, text: str) -> list[Given]:
        """Take a piece of the answer; return what it brought."""
        self._source.feed(text)
        next(self._steps)
        return self._output.take()

    def end(self) -> list[Given]:
        """The answer is over."""
        self._source.ended = True
        next(self._steps, None)  # it waits for nothing any more
        return self._output.take()

    # ── Text ────────────────────────────────────────────────────────────────────────

    def _run(self) -> Steps[None]:
        yield
        while True:
            if self._output.is_fresh:
                yield from self._begin()
            ended = self._machine.ended
            marks = self._words.marks if ended is None else self._words.with_ends(ended)
            mark = yield from self._source.flow(marks, self._output.text)
            if not mark:
                return
            if ended is not None and mark in ended.value_close:
                yield from self._look_back(ended)
            yield from self._at(mark)

    def _look_back(self, ended: Tags) -> Steps[None]:
        """Refuse the last call if it ends here once more: then it did not end where it seemed to,
        but a value of it held the end of a call."""
        if (yield from self._source.sees_ahead(markers_of(ended.call_close))):
            self._output.spoil("it ends twice: one of its values holds the end of a call")

    def _begin(self) -> Steps[None]:
        """Read the beginning of an answer, where a call needs no marker."""
        place = self._source.bookmark()
        first = yield from self._source.skip()
        if blanks := self._source.since(place):
            self._output.text(blanks)
        self._source.forget()
        place, before = self._source.bookmark(), self._output.calls
        found: bool | None = False
        if first in _BARE_BEGINNINGS or (first and self._dialect.bare_words):
            found = yield from self._try(self._words.bare, "", sink=self._output.text)
            if found and first == _LIST:
                self._words = vocabulary_of(_with_lists(DialectKey(self._dialect)), self._names)
        if first and found is False:
            found = yield from self._try_first()
        if first and found is False:
            found = yield from self._try_alone()
        if found:
            call = self._source.since(place)
            yield from self._read_remains(before)
            self._output.found(Text(self._source.since(place)), call)
        self._source.forget()

    def _try_first(self) -> Steps[bool | None]:
        """Return True if a call follows an opener that begins a line."""
        place = self._source.bookmark()
        mark = yield from self._source.accept(self._words.first)
        found: bool | None = False
        if mark:
            grammars = self._words.grammars[f"\n{mark}"]
            found = yield from self._try(grammars, mark, sink=self._output.text)
        if found is False:
            self._source.rewind(place)
        self._source.forget()
        return found

    def _try_alone(self) -> Steps[bool | None]:
        """Return True if a call that needs no marker is the whole answer. It is held until that is
        known."""
        if not (yield from self._source.sees(self._words.alone)):
            return False  # as nearly every answer, at its first letter
        place = self._source.bookmark()
        self._output.hold()
        found = yield from self._try(self._words.lone, "", sink=ignore)
        if found and not (yield from self._source.skip()):
            self._output.release()
        else:
            self._output.drop()
            if found is not False:
                self._output.text(self._source.since(place))
                found = None
        self._source.forget()
        return found

    def _at(self, mark: str) -> Steps[None]:
        if mark == FENCE:
            yield from self._fence()
            return
        quoted = self._output.quotation.holds(new_line=mark.startswith("\n"))
        if quoted and (yield from self._source.peek()) == "`":
            self._output.text(mark)  # all of a code span
        elif mark in FOREIGN:
            yield from self._read_foreign(mark)
        else:
            yield from self._at_own(mark, quoted=quoted)

    def _is_prose(self, mark: str, within: Quotation) -> bool:
        """Return True if a mark that can begin a call does not begin one at this position."""
        new_line = mark.startswith("\n")
        return within.holds(new_line=new_line) or not (
            new_line
            or within.begins_line
            or self._position_of(mark) not in _APART
            or (
                self._position_of(mark) is CallPosition.LED_IN
                and mark.startswith(TOKENS)
                and within.follows_words
            )
        )

    def _position_of(self, mark: str) -> CallPosition:
        """Return where this mark may begin a call. That of another format was not announced."""
        foreign = self._reading is CallPosition.AGREED and mark in self._words.foreign
        return CallPosition.LED_IN if foreign else self._reading

    def _at_own(self, mark: str, *, quoted: bool) -> Steps[None]:
        """The same of a mark of the dialect."""
        if mark in self._words.prompted:
            self._output.retract()
        elif mark in self._words.dropped and not quoted:
            return
        elif mark in self._words.texts:
            yield from self._source.flow(self._words.texts[mark], self._output.text)
        elif mark in self._words.reasoning and not quoted:
            yield from self._reason(mark)
        elif mark not in self._words.grammars:
            self._output.text(mark)
        elif self._is_indented():
            self._output.text(mark)
            yield from self._indented_text()
        elif self._is_prose(mark, self._output.quotation):
            yield from self._skip_call(mark)
        else:
            yield from self._open(mark)

    def _is_indented(self) -> bool:
        """Return True if an indented code block begins here."""
        set_off = self._dialect.rescues and self._output.texts
        return set_off and self._output.quotation.begins_code

    def _read_foreign(self, mark: str) -> Steps[None]:
        """Read what the model may not say: the result of a call, another role's turn. It holds no
        calls, and text after an invented result depends on it."""
        if mark in TURNS and self._output.calls and not (yield from self._source.peek()):
            return  # the token that ended the answer
        self._output.text(mark)
        if mark != OBSERVED:
            end = yield from self._source.flow(markers_of(RESULTS.get(mark, ())), self._output.text)
            self._output.text(end)
        if self._output.calls:
            yield from self._source.flow(markers_of(()), self._output.text)

    def _open(self, mark: str) -> Steps[None]:
        """A call, or else the text of its opener."""
        place, before = self._source.bookmark(), self._output.calls
        found = yield from self._try(self._words.grammars[mark], mark, sink=self._output.text)
        if found:
            call = mark + self._source.since(place)
            yield from self._read_remains(before)
            self._output.found(Text(mark + self._source.since(place)), call)
        self._source.forget()
        if found is False:
            yield from self._report_broken(mark)
            yield from self._give_back(mark)

    def _report_broken(self, mark: str) -> Steps[None]:
        """Report markup that is closed like a call but holds none; it stays text, too.

        A token of the model is never prose, and neither is a tag around a bracket or directly after
        a call. Mistral's calls have no closing mark: there a bracket is enough.
        """
        if self._dialect.rescues or len(mark) == 1 or mark.startswith("\n") or mark.endswith("="):
            return
        place, end = self._source.bookmark(), ""
        first = yield from self._source.skip()
        certain = mark.startswith(TOKENS) or self._output.follows
        if certain or first in _BARE_BEGINNINGS:
            _, end = yield from self._source.header(self._words.closers, LONGEST_NAME)
        self._source.rewind(place)
        self._source.forget()
        opened = mark == _UNCLOSED and first in _BARE_BEGINNINGS
        if opened or (end and end not in self._words.grammars):
            self._output.reject(Reason.BAD_MARKUP, f"no call can be read after {mark!r}")

    def _skip_call(self, mark: str) -> Steps[None]:
        """Pass on as text what would be a call elsewhere; nothing in it is a call, either."""
        place, before = self._source.bookmark(), self._output.calls
        self._output.hold()
        if (yield from self._try(self._words.grammars[mark], mark, sink=ignore)):
            yield from self._read_remains(before)
        self._output.drop()
        self._output.text(mark + self._source.since(place))
        self._source.forget()

    def _read_remains(self, before: int) -> Steps[None]:
        """Read over what is left of marks after calls: closers, tokens, a cut one at the end.

        Where words follow on the line, the calls since the number `before` are refused.
        """
        while True:
            # What begins something else is longer than the remnant that it begins with.
            follows = yield from self._source.sees_ahead(self._words.behind)
            if follows not in self._words.remnants or (yield from self._opens_fence(follows)):
                break
            yield from self._source.skip()
            self._source.at += len(follows)
        if follows is None:
            rest = self._source.text[self._source.at :]
            self._source.at += len(rest) if len(rest.strip()) > 1 else 0
        elif self._reading is CallPosition.AGREED and (yield from self._sees_words()):
            self._output.spoil_since(before, IN_A_SENTENCE)

    def _opens_fence(self, mark: str | None) -> Steps[bool]:
        """Return True if this is a fence with content, and not one that a call has left open."""
        if mark != FENCE:
            return False
        past = self._source.text.index(FENCE, self._source.at) + len(FENCE) - self._source.at
        return (yield from self._source.sees_ahead(self._words.marks, past)) is not None

    def _sees_words(self) -> Steps[bool]:
        """Return True if words follow on this line."""
        mark = yield from self._source.sees_ahead(self._words.marks)
        at = self._source.at
        near = self._source.text[at : at + MOST_BLANKS]
        return mark == "" and near.strip(" \t")[:1] not in _ENDS

    def _try(self, grammars: tuple[Grammar, ...], opener: str, *, sink: Sink) -> Steps[bool | None]:
        """Return True if one of these grammars finds a call here; otherwise restore the position.

        Return None if too much was read to read it again: it went to `sink`.
        """
        place = self._source.bookmark()
        found: bool | None = False
        for grammar in grammars:
            found = yield from grammar.read(self._machine, opener)
            if not found and self._source.place - place > LONGEST_NAME:
                sink(opener + self._source.since(place))
                found = None
            if found is not False:
                break
            self._source.rewind(place)
        self._source.forget()
        return found

    def _give_back(self, opener: str) -> Steps[None]:
        """An opener that opens nothing is text, unless it comes again and again."""
        if self._output.calls and not (yield from self._source.peek()):
            return  # it is in the place of the last call's end
        again = markers_of((opener,))
        count = 1
        most = REPEATS if len(opener) > 1 else count  # a bracket alone is not a marker
        while count < most and (yield from self._source.accept(again)):
            count += 1
        if count == REPEATS:
            self._output.reject(Reason.DEGENERATE, f"the marker {opener!r} comes on and on")
            yield from self._source.flow(markers_of(()), ignore)
            return
        told = not self._dialect.rescues or opener in self._dialect.dropped
        alone = told or not (yield from self._source.peek())
        self._output.unread = self._output.unread or opener
        put = ignore if alone and opener in self._words.sections else self._output.text
        put(opener * max(count - 1, 1))
        if count > 1:
            # The last of them is still to be checked.
            grammars = self._words.grammars[opener]
            if (yield from self._try(grammars, opener, sink=self._output.text)) is False:
                put(opener)

    # ── Reasoning ───────────────────────────────────────────────────────────────────

    def _reason(self, opener: str) -> Steps[None]:
        close, private = self._words.reasoning[opener], opener in self._words.private
        marks = markers_of((*close, *(self._words.headers if private else self._words.grammars)))
        mark = yield from self._source.flow(marks, self._output.reasoning)
        if mark and mark not in close:
            yield from self._at_own(mark, quoted=False) if private else self._planned(mark, close)

    def _planned(self, opener: str, close: tuple[str, ...]) -> Steps[None]:
        """A call in reasoning: held until the reasoning ends, or else the answer."""
        place = self._source.bookmark()
        output = self._output
        output.hold()
        mark = opener
        while mark and mark not in close:
            yield from self._plan(mark)
            mark = yield from self._source.flow(
                markers_of((*close, *self._words.grammars)), output.reasoning
            )
        if mark:
            output.drop()
            output.reasoning(opener + self._source.since(place).removesuffix(mark))
        else:
            output.release()
        self._source.forget()

    def _plan(self, mark: str) -> Steps[None]:
        """A call in reasoning, or else the text of its opener."""
        output = self._output
        place = self._source.bookmark()
        if self._is_prose(mark, output.thoughts):
            found: bool | None = False
        else:
            grammars = self._words.grammars[mark]
            found = yield from self._try(grammars, mark, sink=output.reasoning)
        if found:
            output.found(Reasoning(mark + self._source.since(place)))
        elif found is False:
            output.reasoning(mark)
        self._source.forget()

    # ── Fences ──────────────────────────────────────────────────────────────────────

    def _fence(self) -> Steps[None]:
        if not self._output.quotation.begins_line:
            self._output.text(FENCE)
        elif self._output.is_fresh:
            yield from self._fenced_answer()
        else:
            self._output.text(FENCE)
            yield from self._fenced_text()

    def _fenced_text(self) -> Steps[None]:
        mark = yield from self._source.flow(_FENCE_CLOSE, self._output.text)
        if mark:
            self._output.text(mark)

    def _indented_text(self) -> Steps[None]:
        """The rest of the lines that are set off."""
        while line_end := (yield from self._source.flow(_LINE_END, self._output.text)):
            self._output.text(line_end)
            if not (yield from self._source.sees(_INDENTED)):
                return

    def _fenced_answer(self) -> Steps[None]:
        """Fences at the beginning: held until it is known whether they are all there is."""
        place = self._source.bookmark()
        self._output.hold()
        again = closed = True
        while again:
            read, closed = yield from self._one_fence()
            if read and not (yield from self._source.skip()):
                self._output.found(Text(FENCE + self._source.since(place)))
                self._output.release()
                self._source.forget()
                return
            again = read and closed and bool((yield from self._source.accept(_FENCES)))
        self._output.drop()
        self._output.text(FENCE + self._source.since(place))
        self._source.forget()
        if not closed:
            yield from self._fenced_text()

    def _one_fence(self) -> Steps[tuple[bool, bool]]:
        """Return whether a fence holds calls and nothing else, and whether it is closed after
        them."""
        language, line_end = yield from self._source.header(_LINE_END, _LONGEST_LANGUAGE)
        read = bool(line_end) and (yield from self._fenced_calls(language.strip()))
        return read, bool((yield from self._source.accept(_FENCES)))

    def _fenced_calls(self, language: str) -> Steps[bool]:
        """Return True if there are calls here, one after the other."""
        read = yield from self._fenced_call(language)
        while read:
            opener = yield from self._source.sees_ahead(self._words.openers)
            if not opener or opener.startswith(FENCE):
                break
            read = yield from self._fenced_call(language)
        yield from self._source.skip()
        return read

    def _fenced_call(self, language: str) -> Steps[bool]:
        first = yield from self._source.skip()
        opener = yield from self._source.accept(self._words.openers)
        own = tuple(each for name, each in self._words.fenced if name == language)
        if not opener and not own and first not in _BARE_BEGINNINGS:
            return False
        grammars = self._words.grammars[opener] if opener else own or self._words.bare
        return (yield from self._try(grammars, opener, sink=self._output.text)) is True
