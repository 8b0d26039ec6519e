"""Runs in progress and the pages that follow them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec

from wholecall.inspector.page_encoder import Fields
from wholecall.inspector.run_record import Record

_KEY = "wholecall.admission"


def put_admission(scope: MutableMapping[str, Any], is_admitted: Callable[[], bool]) -> None:
    """Let the routes ask."""
    scope[_KEY] = is_admitted


def is_admitted(scope: MutableMapping[str, Any]) -> bool:
    """Return True if the sender of the request may still read; always True without keys."""
    ask: Callable[[], bool] | None = scope.get(_KEY)
    return ask is None or ask()


# Runs that are under way, and the pages that look at them.


MOST_WAITING = 8 * 1024 * 1024
"""Bytes that a page may lag. Beyond it, the page learns how many messages it missed."""


class LiveMessage(NamedTuple):
    """Something for pages."""

    key: str
    """Whose run it is about."""
    content: bytes

    @classmethod
    def of(cls, record: Record, events: Sequence[Fields]) -> LiveMessage:
        """Events of one run."""
        content = msgspec.json.encode({"run": record.id, "events": events})
        return cls(record.about.key, content)


class Listener:
    """One page that looks."""

    def __init__(self, owner: str | None) -> None:
        self.owner = owner
        self._waiting: list[bytes] = []
        self._size = 0
        self._missed = 0
        self._came = asyncio.Event()

    def offer(self, messages: Sequence[LiveMessage]) -> None:
        """Something for the page, as far as it may see it and keeps up."""
        for message in messages:
            if not _may_see(self.owner, message.key):
                continue
            if self._size + len(message.content) > MOST_WAITING:
                self._missed += 1
                continue
            self._waiting.append(message.content)
            self._size += len(message.content)
            self._came.set()

    async def next(self) -> bytes:
        """Return all waiting messages as a JSON array, followed by the number of missed ones."""
        await self._came.wait()
        self._came.clear()
        taken, self._waiting, self._size = self._waiting, [], 0
        if self._missed:
            taken.append(msgspec.json.encode({"missed": self._missed}))
            self._missed = 0
        return b"[" + b",".join(taken) + b"]"


def _do_nothing() -> None:
    """Do nothing: no one is listening."""


async def _wait_for_nothing() -> None:
    """Return at once: the backlog is empty."""


class LiveRuns:
    """Tells pages what happens. To be used in one event loop."""

    def __init__(self) -> None:
        self.running: dict[str, Record] = {}
        self.failed = 0
        """Runs that could not be kept."""
        self.on_look: Callable[[], None] = _do_nothing
        """Called when a page begins to watch."""
        self.catch_up: Callable[[], Awaitable[None]] = _wait_for_nothing
        """Waits until the records have all that happened."""
        self._listeners: set[Listener] = set()

    @property
    def is_watched(self) -> bool:
        """True if a page watches."""
        return bool(self._listeners)

    def publish(self, messages: Sequence[LiveMessage]) -> None:
        """Send events to all watching pages."""
        for listener in self._listeners:
            listener.offer(messages)

    @contextmanager
    def listen(self, owner: str | None) -> Iterator[Listener]:
        """Look from now on, at runs of one key or at all."""
        listener = Listener(owner)
        self._listeners.add(listener)
        self.on_look()
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    def show(self, owner: str | None) -> list[Record]:
        """The runs under way that may be seen."""
        return [run for run in self.running.values() if _may_see(owner, run.about.key)]

    def find(self, id: str, *, owner: str | None) -> Record | None:
        """A run that is under way."""
        return next((run for run in self.show(owner) if run.id == id), None)


def _may_see(owner: str | None, key: str) -> bool:
    return owner is None or owner == key
