"""What the engine gives: text, reasoning and calls, as the deltas of every protocol.

Some calls are known to be meant only later: in a code fence that may be the whole answer,
in reasoning that may never be closed. Their deltas are held until then.
"""

from __future__ import annotations

import re
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


class Retracted(Value, frozen=True):
    """All calls so far stood in reasoning that the prompt had opened: they were plans.

    The text so far stood there, too, unless there was other reasoning before.
    """

    texts: bool = False


Given: TypeAlias = Delta | Rejected | Retracted

_TAIL = 32
_QUOTE_BEGINS = re.compile(r"""(?:(?:\A|[\s(\[{:>*_-])(?:`{1,6}|")|\u201c)\Z""")
"""Behind a word it ends there: `look for "cats"<tool_call>`."""
_INDENTED = re.compile(r"\n[ \t]*+\r?\n(?: {4}|\t)[ \t]*\Z")
_BEFORE_VALUES = ('":', "':", "[", "{", ",")


class Output:
    """Collects deltas, for one call at a time."""

    __slots__ = ("_before", "_given", "_held", "_last", "_planned", "_reasoned", "calls", "texts")

    def __init__(self) -> None:
        self.calls = 0
        """How many calls were opened; the number of the last one is its slot."""
        self.texts = False
        """Whether any text but white space was given, and not taken back."""
        self._planned = 0
        """How many of the calls were taken back."""
        self._given: list[Given] = []
        self._held: list[Given] | None = None
        self._reasoned = False
        self._last = "\n"
        self._before = (0, False, self._last)

    def take(self) -> list[Given]:
        """What came since the last time."""
        given, self._given = self._given, []
        return given

    @property
    def is_fresh(self) -> bool:
        """Whether the answer has not begun: no text, no call but those that were taken back."""
        return not self.texts and self.calls == self._planned

    @property
    def begins_line(self) -> bool:
        """Whether nothing but white space stands before this place in its line."""
        return "\n" in self._last and not self._last.rpartition("\n")[2].strip()

    @property
    def begins_code(self) -> bool:
        """Whether a code block begins here by its indentation: behind a text and a blank line."""
        return self.texts and _INDENTED.search(self._last) is not None

    @property
    def quotes(self) -> bool:
        """Whether a code span, a quotation or a comment begins right before this place."""
        _, line_end, line = self._last.rpartition("\n")
        cited = bool(line_end) and line.strip() == ">"
        begun = cited or _QUOTE_BEGINS.search(self._last) is not None
        return begun or self._last.rstrip().endswith("<!--")

    @property
    def amid_json(self) -> bool:
        """Whether the text so far ends where an element of JSON goes on with a value."""
        return self._last.rstrip().endswith(_BEFORE_VALUES)

    def text(self, text: str) -> None:
        """A piece of the answer."""
        self._last = (self._last + text)[-_TAIL:]
        self.texts = self.texts or not text.isspace()
        self._put(Text(text))

    def reasoning(self, text: str) -> None:
        """A piece of the reasoning."""
        self._reasoned = True
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

    def spoil(self, flaw: str) -> None:
        """The call is over, and no call can be made of it."""
        self._put(CallSealed(self.calls, flaw=flaw, written=True))

    # ── Holding ─────────────────────────────────────────────────────────────────────

    def hold(self) -> None:
        """Give nothing from now on."""
        self._held = []
        self._before = (self.calls, self.texts, self._last)

    def release(self) -> None:
        """Give what was held: the text is over, and nothing but that shows that it was meant."""
        self._given += map(_as_guess, self._held or ())
        self._held = None

    def drop(self) -> None:
        """Forget what was held, as if it had never been."""
        self._held = None
        self.calls, self.texts, self._last = self._before

    def _put(self, given: Given) -> None:
        (self._given if self._held is None else self._held).append(given)


def _as_guess(given: Given) -> Given:
    return msgspec.structs.replace(given, guessed=True) if isinstance(given, CallDelta) else given
