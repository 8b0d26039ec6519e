"""The engine's output: text, reasoning and calls, as the deltas of every protocol.

Some calls are known to be meant only later: in a code fence that may be the whole answer, in
reasoning that may never be closed. Their deltas are held until then.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from wholecall.core.values import (
    CallDelta,
    CallSealed,
    Delta,
    Reason,
    Reasoning,
    Rejected,
    Text,
    Value,
)
from wholecall.dialects.quotation import Quotation


class Retracted(Value, frozen=True):
    """All calls so far stood in reasoning that the prompt had opened: they were plans.

    The text so far stood there, too, unless there was other reasoning before.
    """

    texts: bool = False


class Found(Value, frozen=True):
    """The calls since the last one were found in a text. `prose` is that text, for whoever finds
    that they are no calls after all."""

    prose: Text | Reasoning
    call: str
    """The part of it that is the calls themselves, without tokens that follow them."""


Given: TypeAlias = Delta | Rejected | Retracted | Found

_BEFORE_VALUES = ('":', "':", "[", "{", ",")


class Output:
    """Collects deltas, for one call at a time."""

    __slots__ = (
        *("_before", "_given", "_held", "_planned", "_reasoned"),
        *("calls", "quotation", "texts", "thoughts"),
    )

    def __init__(self) -> None:
        self.calls = 0
        """The number of opened calls; the last one's number is its slot."""
        self.texts = False
        """True if any text but white space was produced and not retracted."""
        self._planned = 0
        """The number of retracted calls."""
        self._given: list[Given] = []
        self._held: list[Given] | None = None
        self._reasoned = False
        self.quotation = Quotation()
        """What the end of the text is a part of."""
        self.thoughts = Quotation()
        """The same of the reasoning."""
        self._before = (0, False, self.quotation.save())

    def take(self) -> list[Given]:
        """Return the output since the last call."""
        given, self._given = self._given, []
        return given

    @property
    def is_fresh(self) -> bool:
        """True if the answer has not begun: no text, and no call that was not retracted."""
        return not self.texts and self.calls == self._planned

    @property
    def amid_json(self) -> bool:
        """True if the text so far ends inside a JSON element that continues with a value."""
        return self.quotation.tail.rstrip().endswith(_BEFORE_VALUES)

    def text(self, text: str) -> None:
        """A piece of the answer."""
        self.quotation.add(text)
        self.texts = self.texts or not text.isspace()
        self._put(Text(text))

    def reasoning(self, text: str) -> None:
        """A piece of the reasoning."""
        self._reasoned = True
        self.thoughts.add(text)
        self._put(Reasoning(text))

    def reject(self, reason: Reason, detail: str) -> None:
        """Markup that no call can be made of."""
        self._put(Rejected(reason=reason, detail=detail))

    def retract(self) -> None:
        """The calls so far were none, and the text was reasoning."""
        texts = self.texts and not self._reasoned
        if self.calls or texts:
            self._put(Retracted(texts))
        self.texts = self.texts and self._reasoned
        self._reasoned = True
        self._planned = self.calls

    # ── Calls ───────────────────────────────────────────────────────────────────────

    def open(self, name: str | None, id: str | None = None, *, arguments: str = "") -> None:
        """A call begins."""
        self.calls += 1
        self._put(CallDelta(self.calls, arguments, name=name, id=id, opens=True))

    def grow(self, arguments: str, *, guessed: bool = False) -> None:
        """The arguments of the call go on; `guessed`: only the end of the text says so."""
        self._put(CallDelta(self.calls, arguments, guessed=guessed))

    def seal(self) -> None:
        """The call is over."""
        self._put(CallSealed(self.calls, written=True))

    def found(self, prose: Text | Reasoning, call: str = "") -> None:
        """Say in what text the calls were found; `call` is the part that they are themselves."""
        self._put(Found(prose, call or prose.text))

    def spoil(self, flaw: str) -> None:
        """The call is over, and no call can be made of it."""
        self._put(CallSealed(self.calls, flaw=flaw, written=True))

    def spoil_since(self, before: int, flaw: str) -> None:
        """The calls after the number `before` are over, and no calls can be made of them."""
        for number in range(before + 1, self.calls + 1):
            self._put(CallSealed(number, flaw=flaw, written=True))

    # ── Holding ─────────────────────────────────────────────────────────────────────

    def hold(self) -> None:
        """Give nothing from now on."""
        self._held = []
        self._before = (self.calls, self.texts, self.quotation.save())

    def release(self) -> None:
        """Give what was held: the text is over, and nothing but that shows that it was meant."""
        self._given += map(_as_guess, self._held or ())
        self._held = None

    def drop(self) -> None:
        """Forget what was held, as if it had never been."""
        self._held = None
        self.calls, self.texts, state = self._before
        self.quotation.restore(state)

    def _put(self, given: Given) -> None:
        (self._given if self._held is None else self._held).append(given)


def _as_guess(given: Given) -> Given:
    return msgspec.structs.replace(given, guessed=True) if isinstance(given, CallDelta) else given
