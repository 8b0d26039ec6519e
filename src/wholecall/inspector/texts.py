"""The texts of a run that grow: what the model says, what it thinks, and arguments of calls.

Pieces that came at about the same time are joined before anything is made of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from wholecall.inspector.encoding import Hides
from wholecall.inspector.growing import GrowingText

STEP = 0.1
"""Seconds in which pieces of a text are joined. A replay shows them one by one."""
MOST_GROWN = 4 * 1024 * 1024
"""Characters of texts and arguments of one run that are shown while they grow."""


class Place(NamedTuple):
    """A text that grows."""

    kind: str
    number: int = 0


TEXT = Place("text")
REASONING = Place("reasoning")


class Grown(NamedTuple):
    """The next piece to show."""

    at: float
    place: Place
    text: str
    whole: bool = False
    """It takes the place of all that was shown of this text before."""


class _Step(NamedTuple):
    """Pieces of a text that came at about the same time."""

    at: float
    pieces: list[str]


class GrowingTexts:
    """All of them, one turn after the other."""

    def __init__(self, hides: Hides, *, most: int = MOST_GROWN) -> None:
        self._hides = hides
        self._room = most
        self.left_out = 0
        """Pieces for which there was no room."""
        self._growing: dict[Place, GrowingText] = {}
        self.fresh: dict[Place, list[_Step]] = {}
        """Pieces that are not shown yet."""
        self._calls: dict[int, Place] = {}
        # Where the last piece went: nearly always the next one goes there, too.
        self._last_place: Place | None = None
        self._last_until = 0.0
        self._last_pieces: list[str] = []

    def find_call(self, number: int) -> Place:
        """Return the text of a call's arguments."""
        place = self._calls.get(number)
        if place is None:
            place = self._calls[number] = Place("grew", number)
        return place

    def add(self, now: float, place: Place, *, text: str) -> None:
        """The next piece of a text."""
        self._room -= len(text)
        if self._room < 0:
            self._room = 0
            self.left_out += 1
            return
        if place is self._last_place and now < self._last_until:
            self._last_pieces.append(text)
            return
        steps = self.fresh.setdefault(place, [])
        if not steps or now - steps[-1].at >= STEP:
            steps.append(_Step(now, []))
        at, self._last_pieces = steps[-1]
        self._last_place, self._last_until = place, at + STEP
        self._last_pieces.append(text)

    def join(self, now: float) -> list[Grown]:
        """Return the text since the last call, in the order of its times; replaced text first."""
        fresh, self.fresh, self._last_place = self.fresh, {}, None
        replaced: list[Grown] = []
        shown: list[Grown] = []
        for place, steps in fresh.items():
            texts = [_clean("".join(step.pieces)) for step in steps]
            growing = self._growing.get(place)
            if growing is None:
                growing = self._growing[place] = GrowingText(self._hides)
            piece = growing.add(texts[0] if len(texts) == 1 else "".join(texts))
            if piece is not None and piece.whole:
                replaced.append(Grown(now, place, piece.text, whole=True))
            elif piece is not None:
                times = zip(steps, texts, strict=True)
                shown += (Grown(step.at, place, text) for step, text in times)
        return [*replaced, *(sorted(shown) if len(fresh) > 1 else shown)]

    def end(self, now: float) -> Iterator[Grown]:
        """The texts of a turn are over: each as it came, or anew and without its secrets."""
        for place, growing in self._growing.items():
            piece = growing.end()
            yield Grown(now, place, piece.text, whole=piece.whole)
        self._growing.clear()


def _clean(text: str) -> str:
    """A text without halves of characters, which UTF-8 does not have."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
