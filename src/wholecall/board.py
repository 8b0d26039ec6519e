"""The state of a stream for display: a tap that reads events and changes nothing."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Any

from wholecall.core.values import (
    Call,
    Ended,
    Event,
    Evidence,
    Fault,
    Grew,
    Inconsistent,
    OfChoice,
    Opened,
    Proved,
    Reasoning,
    Rejected,
    Released,
    Repeated,
    Text,
)

# Of a text that grows only its end is of interest, and a screen holds no more.
KEPT_CHARACTERS = 280


class TextEnd:
    """The end of a text that grows: each piece costs the same, and memory is bounded."""

    __slots__ = ("_length", "kept", "pieces", "size")

    def __init__(self) -> None:
        self.size = 0
        """Characters so far."""
        self.pieces = 0
        self.kept: deque[str] = deque()
        """The last pieces; together they are at least what is shown."""
        self._length = 0

    def add(self, text: str) -> None:
        """Take the next piece."""
        if not text:
            return
        self.size += len(text)
        self.pieces += 1
        piece = text[-KEPT_CHARACTERS:]
        self.kept.append(piece)
        self._length += len(piece)
        while self._length - len(self.kept[0]) >= KEPT_CHARACTERS:
            self._length -= len(self.kept.popleft())

    def __str__(self) -> str:
        """Return the end of the text; `…` replaces the rest."""
        end = "".join(self.kept)[-KEPT_CHARACTERS:]
        return end if len(end) == self.size else f"…{end}"


class Lane:
    """One call on the board, from its first piece to its verdict."""

    __slots__ = ("arguments", "evidence", "name", "repeat_of", "verdict")

    def __init__(self) -> None:
        self.name = ""
        self.arguments = TextEnd()
        self.evidence = Evidence.NONE
        self.verdict: Call | Rejected | None = None
        self.repeat_of: int | None = None
        """The number of the call that this one only repeats."""


class Board:
    """The state of one answer."""

    def __init__(self) -> None:
        self.lanes: dict[int, Lane] = {}
        self.text = TextEnd()
        self.reasoning = TextEnd()
        self.oddities: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.ended: Ended | None = None
        self.choices: dict[int, Board] = {}
        """The other choices of an answer with `n` > 1, by their index."""

    def apply(self, event: Event) -> None:
        """Take one event in."""
        update = _UPDATES.get(type(event))
        if update is not None:
            update(self, event)

    def _lane(self, number: int) -> Lane:
        return self.lanes.setdefault(number, Lane())

    def _opened(self, event: Opened) -> None:
        self._lane(event.number).name = event.name

    def _grew(self, event: Grew) -> None:
        self._lane(event.number).arguments.add(event.text)

    def _proved(self, event: Proved) -> None:
        self._lane(event.number).evidence = event.evidence

    def _released(self, event: Released) -> None:
        lane = self._lane(event.call.number)
        lane.verdict, lane.evidence = event.call, event.call.evidence

    def _rejected(self, event: Rejected) -> None:
        lane = self._lane(event.number)
        lane.verdict, lane.name = event, event.name or lane.name

    def _repeated(self, event: Repeated) -> None:
        self._lane(event.number).repeat_of = event.of

    def _text(self, event: Text) -> None:
        self.text.add(event.text)

    def _reasoning(self, event: Reasoning) -> None:
        self.reasoning.add(event.text)

    def _odd(self, event: Inconsistent) -> None:
        detail = f" ({event.detail})" if event.detail else ""
        self.oddities[event.oddity.value + detail] += 1

    def _fault(self, event: Fault) -> None:
        self.faults[f"{event.kind.value}: {event.message}"] += 1

    def _ended(self, event: Ended) -> None:
        self.ended = event

    def _choice(self, event: OfChoice[Event]) -> None:
        self.choices.setdefault(event.choice, Board()).apply(event.value)


_UPDATES: dict[type[Event], Callable[[Board, Any], None]] = {
    Opened: Board._opened,
    Grew: Board._grew,
    Proved: Board._proved,
    Released: Board._released,
    Rejected: Board._rejected,
    Repeated: Board._repeated,
    Text: Board._text,
    Reasoning: Board._reasoning,
    Inconsistent: Board._odd,
    Fault: Board._fault,
    Ended: Board._ended,
    OfChoice: Board._choice,
}


def watch(events: Iterable[Event]) -> Board:
    """Fold all the events of an answer."""
    board = Board()
    for event in events:
        board.apply(event)
    return board
