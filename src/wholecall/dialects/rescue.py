"""Calls that a "native" upstream left in the text of its answer.

Servers fail to parse what their models write, and the call arrives as text. A rescuer
stands between a protocol's decoder and the assembler: it reads the text in every format
at once and hands on deltas. Text streams on as it came, but for what may be a call.

A native call in the same answer wins: then what the text says is an echo of it, and
running both would run it twice. So rescued calls are held until the answer is over; a finish
reason is not its end, because some servers go on behind it.

Servers also take for reasoning what a model wrote without closing its thoughts. Where an
answer is nothing but reasoning, ended well, and its last words are a call, that is one; a
call with words behind it, or an answer, was a plan.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from wholecall.core.spec import Offer
from wholecall.core.values import (
    CallDelta,
    CallSealed,
    Delta,
    Fault,
    Hint,
    HintGiven,
    Reason,
    Reasoning,
    Rejected,
    Terminated,
    Text,
)
from wholecall.dialects.engine import Engine
from wholecall.dialects.marks import Marks, marks_of
from wholecall.dialects.output import Given, Retracted
from wholecall.dialects.registry import AUTO
from wholecall.dialects.remains import Remains
from wholecall.dialects.vocabulary import FENCE, MANY, Vocabulary

_WELL = frozenset({Hint.STOP, Hint.TOOL_CALLS})
MOST_THOUGHTS = 1_000_000
"""Characters of reasoning that are kept to be looked at in the end."""


class Rescuer:
    """Finds the calls in the text of one answer."""

    def __init__(self, offer: Offer) -> None:
        self._offer = offer
        self._engine: Engine | None = None
        self._held: list[CallDelta | CallSealed] = []
        self._native = False
        self._remains: Remains | None = None
        """What stands behind a native call, while it may be what is left of its marks."""
        self._over = False
        self._well: bool | None = None
        """Whether all that was said of its end is good; None: nothing was."""
        self._said = False
        self._thoughts: list[str] = []
        self._room = MOST_THOUGHTS

    def feed(self, delta: Delta) -> list[Delta | Rejected]:
        """Take a delta of the protocol; return what is to be assembled instead."""
        if isinstance(delta, Text) and not self._over:
            text = delta.text if self._remains is None else self._remains.feed(delta.text)
            return [] if text is None else self._read(text)
        if isinstance(delta, Reasoning):
            self._room -= len(delta.text)
            self._thoughts += [delta.text] if self._room >= 0 else []
        elif isinstance(delta, CallDelta):
            self._native = True
            self._remains = self._remains or Remains(_remnants())
        elif isinstance(delta, HintGiven):
            self._well = delta.hint in _WELL and self._well is not False
        elif isinstance(delta, Fault):
            self._well = False
            return [*self.end(), delta]
        elif isinstance(delta, Terminated) and delta.closes:
            return [*self.end(), delta]
        return [delta]

    def _read(self, text: str) -> list[Delta | Rejected]:
        self._said = self._said or not text.isspace()
        self._remains = None
        if self._engine is None:
            self._engine = _begin(self._offer)
        return self._sort(self._engine.feed(text))

    def end(self) -> list[Delta | Rejected]:
        """The answer is over: the rescued calls, unless there were native ones."""
        if self._over:
            return []
        self._over = True
        rest = "" if self._remains is None else self._remains.end()
        given = self._read(rest) if rest else []
        if self._engine is not None:
            given += self._sort(self._engine.end())
        if self._native and _is_opener(given):
            given = []  # that of the call which came natively
        if self._well and not self._said and not self._native and self._room >= 0:
            self._held = self._last_thoughts()
        held, self._held = self._held, []
        if not self._native:
            return [*given, *held]
        opened = (delta for delta in held if isinstance(delta, CallDelta) and delta.opens)
        return [*given, *(_refuse(delta.name) for delta in opened)]

    def _last_thoughts(self) -> list[CallDelta | CallSealed]:
        """The calls with which the reasoning ends."""
        engine = _begin(self._offer)
        calls: list[CallDelta | CallSealed] = []
        for each in [*engine.feed("".join(self._thoughts)), *engine.end()]:
            if isinstance(each, CallDelta):
                # Only that the thoughts end here shows that it is a call.
                slot = f"thought {each.slot}"
                calls.append(msgspec.structs.replace(each, slot=slot, guessed=True))
            elif isinstance(each, CallSealed):
                calls.append(msgspec.structs.replace(each, slot=f"thought {each.slot}"))
            elif not isinstance(each, Text) or not each.text.isspace():
                calls.clear()
        return calls

    def _sort(self, given: list[Given]) -> list[Delta | Rejected]:
        """Hold calls back, let all else pass."""
        passed: list[Delta | Rejected] = []
        for each in given:
            if isinstance(each, CallDelta | CallSealed):
                self._held.append(msgspec.structs.replace(each, slot=f"text {each.slot}"))
            elif isinstance(each, Retracted):
                self._held.clear()
            else:
                passed.append(each)
        return passed


def _begin(offer: Offer) -> Engine:
    vocabulary = _know(tuple(offer)) if len(offer) <= MANY else None
    return Engine(AUTO, offer, vocabulary=vocabulary)


@lru_cache(maxsize=256)
def _know(names: tuple[str, ...]) -> Vocabulary:
    """Whoever asks offers the same tools again and again."""
    return Vocabulary.of(AUTO, names)


@lru_cache(maxsize=1)
def _remnants() -> Marks:
    return marks_of(tuple(_know(()).remnants - {FENCE}))


def _is_opener(given: list[Delta | Rejected]) -> bool:
    """Whether this is the mark of a call and nothing else."""
    said = "".join(each.text if isinstance(each, Text) else FENCE for each in given).strip()
    return said.startswith("<") and said in _know(()).openers


def _refuse(name: str | None) -> Rejected:
    detail = "the answer holds calls of its own, so the one written in its text was not run"
    return Rejected(reason=Reason.AMBIGUOUS, detail=detail, name=name)
