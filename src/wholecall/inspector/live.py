"""Runs that are under way, and the pages that look at them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from wholecall.inspector.encoding import Fields
from wholecall.inspector.record import Record

MOST_WAITING = 2000
"""Batches of events that a page may be behind. Then it is told how many it missed."""


class Batch(NamedTuple):
    """Events of one run."""

    run: str
    key: str
    events: Sequence[Fields]

    def encode(self) -> bytes:
        """The batch for a page."""
        return msgspec.json.encode({"run": self.run, "events": self.events})


class Listener:
    """One page that looks."""

    def __init__(self, owner: str | None) -> None:
        self._owner = owner
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue(MOST_WAITING)
        self._missed = 0

    def offer(self, key: str, message: bytes) -> None:
        """Something for the page, if it may see it and keeps up."""
        if self._owner not in (None, key):
            return
        if self._waiting.full():
            self._missed += 1
            return
        self._waiting.put_nowait(message)

    async def next(self) -> bytes:
        """The next message. What was missed is told before it."""
        message = await self._waiting.get()
        if self._missed and self._waiting.empty():
            missed, self._missed = self._missed, 0
            self._waiting.put_nowait(msgspec.json.encode({"missed": missed}))
        return message


class Live:
    """Tells pages what happens. To be used in one event loop."""

    def __init__(self) -> None:
        self.running: dict[str, Record] = {}
        self.failed = 0
        """Runs that could not be kept."""
        self._listeners: set[Listener] = set()

    @property
    def is_watched(self) -> bool:
        """Whether anybody looks."""
        return bool(self._listeners)

    def publish(self, batches: Sequence[Batch]) -> None:
        """Show events to whoever looks."""
        if not self._listeners:
            return
        for batch in batches:
            message = batch.encode()
            for listener in self._listeners:
                listener.offer(batch.key, message)

    @contextmanager
    def listen(self, owner: str | None) -> Iterator[Listener]:
        """Look. What happened before in the runs under way comes first.

        The same event may come twice; each has its number in its run.
        """
        listener = Listener(owner)
        for run, record in self.running.items():
            batch = Batch(run, record.about.key, record.events[:])
            listener.offer(batch.key, batch.encode())
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    def find(self, id: str, *, owner: str | None) -> Record | None:
        """A run that is under way."""
        record = self.running.get(id)
        return record if record is not None and owner in (None, record.about.key) else None
