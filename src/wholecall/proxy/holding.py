"""Stored responses, which can be retrieved by their ids and continued.

OpenAI's Responses stores them, unless a request says `store: false`; no other upstream does, so the
proxy stores them itself. A response belongs to the key that requested it, and does not exist for
any other. Responses live in the memory of one process (see `sharing` for several), for a limited
time and size: the oldest goes first.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from wholecall.proxy.config.settings import ResponsesConfig

MOST_HELD = 10_000
"""Responses that are over."""
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors of a passed-through body, which may be anything."""
_MEGABYTE = 1024 * 1024


class _Identified(msgspec.Struct):
    id: str = ""


_IDENTIFIED = msgspec.json.Decoder(_Identified)


def read_id(response: bytes) -> str:
    """The id of a response; empty if it has none."""
    try:
        return _IDENTIFIED.decode(response).id
    except UNREADABLE:
        return ""


class Work(Protocol):
    """The work that makes, or made, a response."""

    @property
    def is_over(self) -> bool:
        """True if it does not change any more."""

    @property
    def size(self) -> int:
        """Bytes that it takes."""

    def show(self) -> bytes:
        """The response as it is now, as JSON."""


@dataclass(frozen=True, slots=True)
class Made:
    """A response that is over, as its client got it."""

    response: bytes

    @property
    def is_over(self) -> bool:
        """It is."""
        return True

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return len(self.response)

    def show(self) -> bytes:
        """The response as JSON."""
        return self.response


@dataclass(slots=True, kw_only=True)
class Held:
    """A response, whose it is, and what it answers."""

    id: str
    key_id: str
    items: bytes
    """All items of the conversation before it, as a JSON array."""
    work: Work
    weight: int = field(default=0, init=False)
    """Bytes that are counted for it."""
    settled_at: float = field(default=0.0, init=False)


class Holding:
    """The responses that one process holds."""

    def __init__(
        self,
        settings: ResponsesConfig | None = None,
        *,
        background: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`background`: whether work may be held that is not over. Other processes that serve the
        same clients would not find it."""
        self.settings = settings or ResponsesConfig()
        self._background = background
        self._clock = clock
        self._live: dict[str, Held] = {}
        self._dropped: dict[str, Held] = {}
        """Responses that were removed but have not ended: tools may run in them."""
        self._over: OrderedDict[str, Held] = OrderedDict()
        self._bytes = 0

    @property
    def enabled(self) -> bool:
        """True if anything is stored at all."""
        return self.settings.kept_seconds > 0

    @property
    def has_background(self) -> bool:
        """True if background responses are possible."""
        return self._background and self.enabled

    def find(self, key_id: str, id: str) -> Held | None:
        """The response of this id, if it is this key's."""
        held = self._look_up(id)
        return held if held is not None and held.key_id == key_id else None

    def holds(self, id: str) -> bool:
        """Return True if it is stored for any key."""
        return self._look_up(id) is not None

    def is_of_another(self, key_id: str, id: str) -> bool:
        """Return True if it is stored for another key."""
        held = self._look_up(id)
        return held is not None and held.key_id != key_id

    def count_live(self, key_id: str | None = None) -> int:
        """Responses that are being made; of one key, if it is named."""
        live = (*self._live.values(), *self._dropped.values())
        return sum(key_id in (None, held.key_id) for held in live)

    def put(self, held: Held) -> None:
        """Store a response. An id that another key's response has stays with it."""
        if not self.enabled or self.is_of_another(held.key_id, held.id):
            return
        if held.work.is_over:
            self._settle(held)
        else:
            self._live[held.id] = held

    def keep(self, response: bytes, *, key_id: str, items: bytes) -> None:
        """Store a response that its client got whole; one without an id cannot be retrieved."""
        id = read_id(response)
        if id:
            self.put(Held(id=id, key_id=key_id, items=items, work=Made(response)))

    def settle(self, held: Held) -> None:
        """A response that was being made is over: from now on its time runs."""
        self._dropped.pop(held.id, None)
        if self._live.pop(held.id, None) is not None:
            self._settle(held)

    def forget(self, id: str) -> None:
        """A response that is over is held no more."""
        held = self._over.get(id)
        if held is not None:
            self.drop(held)

    def drop(self, held: Held) -> None:
        """Forget a response. One that is being made has its place until it is settled."""
        if self._live.pop(held.id, None) is not None:
            self._dropped[held.id] = held
        before = self._over.pop(held.id, None)
        if before is not None:
            self._bytes -= before.weight

    def _settle(self, held: Held) -> None:
        self.drop(held)
        held.weight = held.work.size + len(held.items)
        held.settled_at = self._clock()
        self._over[held.id] = held
        self._bytes += held.weight
        self._make_room()

    def _look_up(self, id: str) -> Held | None:
        self._make_room()
        return self._live.get(id) or self._over.get(id)

    def _make_room(self) -> None:
        most, seconds = self.settings.megabytes * _MEGABYTE, self.settings.kept_seconds
        oldest = self._clock() - seconds
        while self._over:
            first = next(iter(self._over.values()))
            fits = self._bytes <= most and len(self._over) <= MOST_HELD
            if fits and first.settled_at > oldest:
                return
            self.drop(first)
