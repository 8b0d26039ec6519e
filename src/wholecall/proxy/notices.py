"""Requests in which a tool has begun, for other processes than the one that began it.

A resend (see `resends`) may reach another worker on the same port, or the one that was started
after the first had died: both know nothing about it. So a row is written before a tool begins that
must not begin twice, and a resend that finds it is refused. If the row cannot be written, the tool
does not begin.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable
from functools import partial

import msgspec

from wholecall.files.database import StoreFailed
from wholecall.proxy.client import RawRequest
from wholecall.proxy.failing import BROKEN_OFF, NEVER_AGAIN, explain_break
from wholecall.proxy.refusing import Refused
from wholecall.proxy.resends import KEPT_SECONDS, Name, find_resend, name_all
from wholecall.proxy.shelf import Shelf

_LOG = logging.getLogger(__name__)
_TIME = msgspec.json.Decoder(float)


class Notice:
    """The record that a tool begins for one request."""

    def __init__(self, write: Callable[[], None]) -> None:
        self._write = write
        self._writing = asyncio.Lock()
        self._written = False

    async def put_up(self) -> None:
        """Returns when it is on the disk; `StoreFailed` if it is not."""
        async with self._writing:
            if not self._written:
                await asyncio.to_thread(self._write)
                self._written = True


class Notices:
    """In a file that all processes share; without one they are forgotten with the process."""

    def __init__(
        self, shelf: Shelf | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._shelf = shelf
        self._clock = clock

    @property
    def are_kept(self) -> bool:
        """True if records are kept."""
        return self._shelf is not None

    def prepare(self, asked: RawRequest) -> Notice | None:
        """Return the record for a request whose tools may run; None if no other process needs
        it."""
        return None if self._shelf is None else Notice(partial(self._write, self._shelf, asked))

    async def check(self, asked: RawRequest) -> None:
        """`Refused` if this is a resend, and a tool has begun for the first."""
        name = None if self._shelf is None else find_resend(asked)
        if self._shelf is None or name is None:
            return
        written = await asyncio.to_thread(self._shelf.find, (_write_name(name),))
        with self._shelf.decoding():
            times = [_TIME.decode(text) for text in written.values()]
        if any(self._clock() - at < KEPT_SECONDS for at in times):
            told = explain_break(asked.request_id, ran=True, gone=False)
            raise Refused(told.status, told.message, code=BROKEN_OFF, headers=NEVER_AGAIN)

    def _write(self, shelf: Shelf, asked: RawRequest) -> None:
        names = [_write_name(name) for name in name_all(asked)]
        try:
            shelf.put(names, msgspec.json.encode(self._clock()))
        except StoreFailed as error:
            _LOG.error("request %s: no tool begins for it: %s", asked.request_id, error.why)
            raise


def _write_name(name: Name) -> str:
    """On the shelf. A client may choose a word of any length."""
    return f"begun {hashlib.sha256(repr(tuple(name)).encode()).hexdigest()}"
