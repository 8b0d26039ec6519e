"""Decide which calls of a turn may begin now.

Calls run in parallel, with three exceptions: a barrier runs alone, after every call before it and
before every call after it; no more than `concurrency` calls run at a time; and no more calls of a
tool than its own limit. "Before" is the order in which the model made the calls. A call that is
released late, because its tool needs more evidence, may find later calls already running; a barrier
then waits for them.

The first unfinished call can always begin once nothing runs, so no call waits for ever.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class _Place:
    call_id: str
    order: tuple[int, int]
    name: str
    barrier: bool
    concurrency: int | None
    ready: bool = False
    running: bool = False


class Schedule:
    """Calls that are not over, by their ids."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._places: dict[str, _Place] = {}
        self._in_order: list[_Place] = []
        self._added = 0
        self._running: Counter[str] = Counter()
        """The number of running calls of a tool, by its name."""
        self._alone = False
        """True if a barrier runs."""

    def add(
        self, call_id: str, number: int, *, name: str, barrier: bool, concurrency: int | None
    ) -> None:
        """Take a call in. It holds its place, but does not begin before it is ready."""
        self._added += 1
        place = _Place(call_id, (number, self._added), name, barrier, concurrency)
        self._places[call_id] = place
        insort(self._in_order, place, key=lambda place: place.order)

    def make_ready(self, call_id: str) -> None:
        """Nothing but the other calls is in the way of this one any more."""
        self._places[call_id].ready = True

    def finish(self, call_id: str) -> None:
        """A call is over, whether or not it had begun."""
        place = self._places.pop(call_id)
        self._in_order.remove(place)
        self._running[place.name] -= place.running
        self._alone = self._alone and not (place.barrier and place.running)

    def begin(self) -> list[str]:
        """The calls that begin now, in order. They count as running from here on."""
        begun: list[str] = []
        room = 0 if self._alone else self._concurrency - self._running.total()
        for place in self._in_order:
            if len(begun) >= room:
                break
            if self._may_begin(place):
                self._start(place)
                begun.append(place.call_id)
            if place.barrier:
                break
        return begun

    def _may_begin(self, place: _Place) -> bool:
        if not place.ready or place.running:
            return False
        if place.barrier:
            return place is self._in_order[0] and not self._running.total()
        return place.concurrency is None or self._running[place.name] < place.concurrency

    def _start(self, place: _Place) -> None:
        place.running = True
        self._alone = place.barrier
        self._running[place.name] += 1
