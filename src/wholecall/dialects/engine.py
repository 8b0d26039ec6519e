"""One pass over the text of an answer: text, reasoning and calls, as deltas.

    TEXT ──opener──▶ CANDIDATE ──name and shape fit──▶ CALL ──end──▶ TEXT
      ▲                  └──anything else: given back as text──┐
      ├────────────────────────────────────────────────────────┘
      ├──<think>──▶ REASONING ──</think>──▶ TEXT
      └──```──▶ FENCE ──```──▶ TEXT

The policy, which is the same for every format:

- A call is what begins with an opener, has a name that may be called, and goes on as its
  grammar says. All else is text, byte for byte.
- In a code fence stands an example, unless fences are the whole answer. Where nobody announced
  the format, so it does in lines that are set off by four blanks, behind a text and a blank line.
- In reasoning stands a plan, unless the reasoning never ends.
- A marker that is repeated on and on is a model that has lost the thread.
- Text is held back only while it may still become a marker or a call.
"""

from __future__ import annotations

from wholecall.core.limits import DEFAULT, Limits
from wholecall.core.spec import Offer
from wholecall.core.values import Reason
from wholecall.dialects.declaration import (
    FOREIGN,
    OBSERVED,
    RESULTS,
    TURNS,
    Dialect,
    Grammar,
)
from wholecall.dialects.machine import LONGEST_NAME, Machine, Tags
from wholecall.dialects.marks import marks_of
from wholecall.dialects.output import Given
from wholecall.dialects.source import Sink, Steps, ignore
from wholecall.dialects.vocabulary import FENCE, Vocabulary

_FENCES = marks_of((FENCE,))
_FENCE_CLOSE = marks_of((f"\n{FENCE}",))
_LINE_END = marks_of(("\n",))
_INDENTED = marks_of(("    ", "\t", "\n", "\r\n"))
"""How a line of code goes on that is set off by its indentation."""
_LONGEST_LANGUAGE = 32
REPEATS = 16
"""Openers in a row with nothing between them. An honest model writes one."""
_BARE_BEGINNINGS = frozenset("{[")


class Engine:
    """Reads one answer in one dialect."""

    def __init__(
        self,
        dialect: Dialect,
        offer: Offer | None = None,
        *,
        limits: Limits = DEFAULT,
        vocabulary: Vocabulary | None = None,
    ) -> None:
        """`vocabulary` is that of the dialect and these tools, from whoever has it already."""
        self._machine = Machine(offer, rescues=dialect.rescues, limits=limits)
        self._source = self._machine.source
        self._output = self._machine.output
        self._dialect = dialect
        self._words = vocabulary or Vocabulary.of(dialect, tuple(offer or ()))
        self._steps = self._run()
        next(self._steps)

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
        if (yield from self._source.sees_ahead(marks_of(ended.call_close))):
            self._output.spoil("it ends twice: one of its values holds the end of a call")

    def _begin(self) -> Steps[None]:
        """Where an answer begins, a call may stand without any marker."""
        place = self._source.bookmark()
        first = yield from self._source.skip()
        if blanks := self._source.since(place):
            self._output.text(blanks)
        self._source.forget()
        found: bool | None = False
        if first in _BARE_BEGINNINGS or (first and self._dialect.bare_words):
            found = yield from self._try(self._dialect.bare, "", sink=self._output.text)
        if first and found is False:
            found = yield from self._try_first()
        if first and found is False:
            found = yield from self._try_alone()
        if found:
            yield from self._read_remains()

    def _try_first(self) -> Steps[bool | None]:
        """Whether a call stands here behind an opener that a line begins with."""
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
        """Whether a call stands here that is one only if it is all there is: it is held so long."""
        if not (yield from self._source.sees(self._words.alone)):
            return False  # as nearly every answer, at its first letter
        place = self._source.bookmark()
        self._output.hold()
        found = yield from self._try(self._dialect.alone, "", sink=ignore)
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
        quoted = self._output.quotes
        if mark == FENCE:
            yield from self._fence()
        elif quoted and (yield from self._source.peek()) == "`":
            self._output.text(mark)  # all of a code span
        elif mark in FOREIGN:
            yield from self._read_foreign(mark)
        else:
            yield from self._at_own(mark, quoted=quoted)

    def _at_own(self, mark: str, *, quoted: bool) -> Steps[None]:
        """The same of a mark of the dialect."""
        if mark in self._words.prompted:
            self._output.retract()
        elif mark in self._words.dropped:
            return
        elif mark in self._words.texts:
            yield from self._source.flow(self._words.texts[mark], self._output.text)
        elif mark in self._words.reasoning and not quoted:
            yield from self._reason(self._words.reasoning[mark])
        elif mark not in self._words.grammars:
            self._output.text(mark)
        elif self._dialect.rescues and self._output.begins_code:
            self._output.text(mark)
            yield from self._indented_text()
        else:
            yield from self._open(mark, quoted=quoted)

    def _read_foreign(self, mark: str) -> Steps[None]:
        """What is not the model's to say: the result of a call, the turn of somebody else. No call
        stands in it, and what follows a result that was made up goes by that."""
        if mark in TURNS and self._output.calls and not (yield from self._source.peek()):
            return  # the token that ended the answer
        self._output.text(mark)
        if mark != OBSERVED:
            end = yield from self._source.flow(marks_of(RESULTS.get(mark, ())), self._output.text)
            self._output.text(end)
        if self._output.calls:
            yield from self._source.flow(marks_of(()), self._output.text)

    def _open(self, mark: str, *, quoted: bool) -> Steps[None]:
        """A call, or else the text of its opener."""
        found: bool | None = False
        if not quoted:
            found = yield from self._try(self._words.grammars[mark], mark, sink=self._output.text)
        if found:
            yield from self._read_remains()
        elif found is False:
            yield from self._give_back(mark)

    def _read_remains(self) -> Steps[None]:
        """Read over what is left of marks behind a call: closers, tokens, a cut one at the end."""
        while True:
            # What begins something else is longer than the remnant that it begins with.
            follows = yield from self._source.sees_ahead(self._words.behind)
            if follows not in self._words.remnants:
                break
            yield from self._source.skip()
            self._source.at += len(follows)
        rest = self._source.text[self._source.at :]
        if follows is None and len(rest.strip()) > 1:
            self._source.at += len(rest)

    def _try(self, grammars: tuple[Grammar, ...], opener: str, *, sink: Sink) -> Steps[bool | None]:
        """Whether one of these grammars finds a call here. If not, all is as it was.

        None if so much was read to know it that it is not looked at again: it went to `sink`.
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
            return  # it stands where the end of the last call belongs
        again = marks_of((opener,))
        count = 1
        most = REPEATS if len(opener) > 1 else count  # a bracket is no marker that says anything
        while count < most and (yield from self._source.accept(again)):
            count += 1
        if count == REPEATS:
            self._output.reject(Reason.DEGENERATE, f"the marker {opener!r} comes on and on")
            yield from self._source.flow(marks_of(()), ignore)
            return
        self._output.text(opener * max(count - 1, 1))
        if count > 1:
            # The last of them is still to be looked at.
            grammars = self._words.grammars[opener]
            if (yield from self._try(grammars, opener, sink=self._output.text)) is False:
                self._output.text(opener)

    # ── Reasoning ───────────────────────────────────────────────────────────────────

    def _reason(self, close: tuple[str, ...]) -> Steps[None]:
        marks = marks_of((*close, *self._words.grammars))
        mark = yield from self._source.flow(marks, self._output.reasoning)
        if mark and mark not in close:
            yield from self._planned(mark, close)

    def _planned(self, opener: str, close: tuple[str, ...]) -> Steps[None]:
        """A call in reasoning: held until the reasoning ends, or else the answer."""
        place = self._source.bookmark()
        output = self._output
        output.hold()
        mark = opener
        while mark and mark not in close:
            if (
                yield from self._try(self._words.grammars[mark], mark, sink=output.reasoning)
            ) is False:
                output.reasoning(mark)
            mark = yield from self._source.flow(
                marks_of((*close, *self._words.grammars)), output.reasoning
            )
        if mark:
            output.drop()
            output.reasoning(opener + self._source.since(place).removesuffix(mark))
        else:
            output.release()
        self._source.forget()

    # ── Fences ──────────────────────────────────────────────────────────────────────

    def _fence(self) -> Steps[None]:
        if not self._output.begins_line:
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
        """Whether a fence holds calls and nothing else, and whether it is closed behind them."""
        language, line_end = yield from self._source.header(_LINE_END, _LONGEST_LANGUAGE)
        read = bool(line_end) and (yield from self._fenced_calls(language.strip()))
        return read, bool((yield from self._source.accept(_FENCES)))

    def _fenced_calls(self, language: str) -> Steps[bool]:
        """Whether calls stand here, one behind the other."""
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
        own = tuple(each for name, each in self._dialect.fenced if name == language)
        if not opener and not own and first not in _BARE_BEGINNINGS:
            return False
        grammars = self._words.grammars[opener] if opener else own or self._dialect.bare
        return (yield from self._try(grammars, opener, sink=self._output.text)) is True
