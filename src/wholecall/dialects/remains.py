"""The remains of a format's markers in the text after a native call.

Servers that take a call out of a model's answer forget the tag that ends it, and the text continues
with `</tool_call>` (https://github.com/Rose22/openlumara/issues/92). Directly after a native call
such markers are not text.
"""

from __future__ import annotations

from wholecall.dialects.marks import Marks
from wholecall.dialects.source import BLANKS, MOST_BLANKS


class Remains:
    """Reads the text after a native call until something other than markers begins."""

    __slots__ = ("_held", "_marks")

    def __init__(self, marks: Marks) -> None:
        self._marks = marks
        self._held = ""

    def feed(self, text: str) -> str | None:
        """Take a piece; return the text from where it begins, None while it has not."""
        self._held += text
        while True:
            said = self._held.lstrip(BLANKS)
            if len(self._held) - len(said) > MOST_BLANKS:
                return self._held
            if self._marks.may_begin(said, 0):
                return None
            mark = self._marks.match(said, 0)
            if not mark:
                return self._held
            self._held = said[len(mark) :]

    def end(self) -> str:
        """The answer is over: what is held, unless it is a mark that was cut off."""
        return "" if len(self._held.strip(BLANKS)) > 1 else self._held
