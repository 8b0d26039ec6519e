"""Which calls of a turn may begin now.

Calls run side by side, with three exceptions: a barrier runs alone, after every call
before it and before every call behind it; no more than `parallel` calls run at a time;
and no more calls of a tool than its own limit. "Before" is the order in which the model
made the calls. A call that comes to be known late, because its tool asks for more
evidence, may find calls behind it running already; a barrier then waits for them.

The first call that is not over can always begin once nothing runs, so no call waits for ever.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class _Place:
    order: tuple[int, int]
    name: str
    barrier: bool
    concurrency: int | None
    ready: bool = False
    running: bool = False


class Schedule:
    """Calls that are not over, by their ids."""

    def __init__(self, parallel: int) -> None:
        self._parallel = parallel
        self._places: dict[str, _Place] = {}
        self._added = 0

    def add(
        self, call_id: str, number: int, *, name: str, barrier: bool, concurrency: int | None
    ) -> None:
        """Take a call in. It holds its place, but does not begin before it is ready."""
        self._added += 1
        self._places[call_id] = _Place((number, self._added), name, barrier, concurrency)

    def make_ready(self, call_id: str) -> None:
        """Nothing but the other calls is in the way of this one any more."""
        self._places[call_id].ready = True

    def finish(self, call_id: str) -> None:
        """A call is over, whether or not it had begun."""
        del self._places[call_id]

    def begin(self) -> list[str]:
        """The calls that begin now, in order. They count as running from here on."""
        begun: list[str] = []
        ahead = False
        for call_id, place in sorted(self._places.items(), key=lambda item: item[1].order):
            if self._may_begin(place, ahead=ahead):
                place.running = True
                begun.append(call_id)
            if place.barrier:
                break
            ahead = True
        return begun

    def _may_begin(self, place: _Place, *, ahead: bool) -> bool:
        running = [other for other in self._places.values() if other.running]
        if not place.ready or place.running:
            return False
        if place.barrier:
            return not running and not ahead
        if any(other.barrier for other in running) or len(running) >= self._parallel:
            return False
        same = sum(other.name == place.name for other in running)
        return place.concurrency is None or same < place.concurrency
