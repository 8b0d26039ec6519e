"""Text that is shown as it comes, and wrapped between its words all the same.

A word is written as soon as it begins. If it turns out not to fit, what was written of it is
taken back and it begins anew in the next line. Code stays as it is, and so does a word that is
longer than a line: the terminal breaks it, and it can be copied in one piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rich.cells import cell_len

LEAST_WIDTH = 10
"""Columns. In fewer there is nothing to gain."""
_FENCES = ("```", "~~~")
_CODE = "    "
_HEAD = 8
"""Characters of a line by which it is known for what it is."""


class Step(NamedTuple):
    """Take so many columns back, then write."""

    back: int
    text: str


class Wrapping:
    """Wraps one answer; its pieces may be cut anywhere."""

    def __init__(self) -> None:
        self._fence = ""
        """The opener of the current code."""
        self.end_line()

    def end_line(self) -> None:
        """Note that the cursor is at the beginning of a line."""
        self._head = ""
        self._column = 0
        self._word = ""
        """The written part of a word that may be taken back."""
        self._is_long = False
        """True if that word is longer than a line. Then no more of it is remembered."""
        self._is_due = False
        """True if the line is full: what comes next starts another one."""
        self._is_code = bool(self._fence)

    def feed(self, piece: str, *, width: int) -> Iterator[Step]:
        """Yield what to write for a piece, in a terminal of so many columns; 0: unknown."""
        # The last column stays free: terminals differ in the cursor's position after it.
        room = width - 1 if width >= LEAST_WIDTH else 0
        back, text = 0, ""
        for character in piece:
            step = self._place(character, room)
            if step.back:
                yield Step(back, text)
                back, text = step.back, ""
            text += step.text
        yield Step(back, text)

    def _place(self, character: str, room: int) -> Step:
        if character == "\n":
            self.end_line()
            return Step(0, "\n")
        self._look_at(character)
        if self._is_code or not room:
            return Step(0, character)
        if character == " ":
            return Step(0, self._place_blank(room))
        cells = cell_len(character)
        before = self._make_room(cells, room)
        if self._is_long:
            return Step(0, character)
        self._column += cells
        # A line may be broken before and after wide characters: their scripts have no blanks.
        self._word = "" if cells > 1 else self._word + character
        return Step(before.back, before.text + character)

    def _look_at(self, character: str) -> None:
        """By its beginning, a line is code or the fence around it."""
        if len(self._head) == _HEAD:
            return
        self._head += character
        begun = self._head.lstrip(" ")
        if begun in _FENCES:
            self._is_code = True
            self._fence = {"": begun, begun: ""}.get(self._fence, self._fence)
        elif self._head == _CODE:
            self._is_code = True

    def _place_blank(self, room: int) -> str:
        self._is_due = self._is_due or self._is_long or self._column >= room
        self._word, self._is_long = "", False
        if self._is_due:
            return ""
        self._column += 1
        return " "

    def _make_room(self, cells: int, room: int) -> Step:
        """Return what begins another line, if this one is full."""
        if self._is_due:
            self._is_due, self._column = False, 0
            return Step(0, "\n")
        if self._is_long or self._column + cells <= room:
            return Step(0, "")
        back = cell_len(self._word)
        if back and back == self._column:
            self._is_long = True
            return Step(0, "")
        word, self._column = self._word, back
        return Step(back, "\n" + word)
