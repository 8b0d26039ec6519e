"""Resent requests.

Official SDKs resend a request by themselves, up to two times: after a timeout, a dropped
connection, a 5xx. If tools run here, doing it all again would run them again. So the second request
reads the answer to the first. A resend is distinguished from a new, equal request by:

- `Idempotency-Key`: the client says so itself. With another body it is a mistake, and refused.
- `x-stainless-retry-count`, which the official SDKs count up: above 0 it is a resend, at 0 it is
  not.
- Without either: an equal body while the first request is still being answered.

After a disconnect the run is cancelled (see `departing`). If a tool had begun by then, its effects
remain, and a resend is told so instead of running it again.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from wholecall.errors import UnreadableRequest
from wholecall.proxy.client import TOOLS_HEADER, RawRequest
from wholecall.proxy.live import LiveAnswer

KEPT_SECONDS = 120.0
"""Seconds for which a finished answer is kept: SDKs wait at most 8 seconds, or as long as they are
told."""
MOST_KEPT = 256
"""Finished answers that are kept. The oldest goes first; what is being made never does."""


MOST_KEPT_BYTES = 256 * 1024 * 1024
"""Of them all; but the last one is kept, however large it is."""


class Name(NamedTuple):
    """The identity that a resend shares with the first request."""

    key_id: str
    path: str
    word: str


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer that is being made, or was a moment ago."""

    answer: LiveAnswer
    digest: str
    show: Callable[[], bytes] = bytes
    """Returns its state, for clients that do not wait for its end."""


class _Finished(NamedTuple):
    timer: asyncio.TimerHandle
    size: int


class Resends:
    """The answers that a resend may ask for."""

    def __init__(self, *, seconds: float = KEPT_SECONDS, most_bytes: int = MOST_KEPT_BYTES) -> None:
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._bytes = 0
        """Of the finished answers that are kept."""
        self._kept: dict[Name, Kept] = {}
        self._names: dict[LiveAnswer, set[Name]] = {}
        self._over: OrderedDict[LiveAnswer, _Finished] = OrderedDict()

    def find(self, asked: RawRequest) -> Kept | None:
        """The answer that this request asks for a second time."""
        digest = _digest(asked)
        key = asked.headers.get("idempotency-key")
        if key:
            kept = self._kept.get(_name(asked, key))
            if kept is not None and kept.digest != digest:
                said = "this Idempotency-Key came before with another request"
                raise UnreadableRequest(said, param="Idempotency-Key")
            return kept
        kept = self._kept.get(_name(asked, digest))
        count = asked.headers.get("x-stainless-retry-count")
        if kept is None or count == "0" or (count is None and kept.answer.is_over):
            return None
        return kept

    def keep(
        self, asked: RawRequest, answer: LiveAnswer, *, show: Callable[[], bytes] = bytes
    ) -> Kept:
        """Remember an answer that is being made, and for a while after it is."""
        digest = _digest(asked)
        kept = Kept(answer, digest, show)
        self._names[answer] = names = name_all(asked, digest)
        self._kept.update(dict.fromkeys(names, kept))
        return kept

    def forget(self, answer: LiveAnswer) -> None:
        """Nothing was done that must not be done again."""
        finished = self._over.pop(answer, None)
        if finished is not None:
            finished.timer.cancel()
            self._bytes -= finished.size
        for name in self._names.pop(answer, ()):
            kept = self._kept.get(name)
            if kept is not None and kept.answer is answer:  # the same words may have come anew
                del self._kept[name]

    def forget_later(self, answer: LiveAnswer) -> None:
        """The answer is over; it is kept for those who lost it on the way."""
        if answer not in self._names:
            return
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._seconds, self.forget, answer)
        self._over[answer] = _Finished(timer, answer.size)
        self._bytes += answer.size
        while len(self._over) > MOST_KEPT or (
            self._bytes > self._most_bytes and len(self._over) > 1
        ):
            self.forget(next(iter(self._over)))


def name_all(asked: RawRequest, digest: str = "") -> set[Name]:
    """Return the names under which a request is remembered; `digest` if the caller has it."""
    digest = digest or _digest(asked)
    words = {digest, asked.headers.get("idempotency-key") or digest}
    return {_name(asked, word) for word in words}


def find_resend(asked: RawRequest) -> Name | None:
    """Under which the first is remembered, if this request says that it may be the second."""
    key = asked.headers.get("idempotency-key")
    if key:
        return _name(asked, key)
    count = asked.headers.get("x-stainless-retry-count", "0")
    return None if count == "0" else _name(asked, _digest(asked))


def _name(asked: RawRequest, word: str) -> Name:
    return Name(asked.key.id, asked.client.path, word)


def _digest(asked: RawRequest) -> str:
    """Of the words, and of the tools that they are asked with."""
    wanted = asked.headers.get(TOOLS_HEADER, "").encode()
    return hashlib.sha256(b"\0".join((wanted, asked.body))).hexdigest()
