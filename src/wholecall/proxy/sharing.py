"""Responses that several processes hold together: in a file, and in memory as far as they are used.

The next request may reach another process than the one that made the response. So what a client
names is looked up in the file before anybody looks for it in memory, and what is over is written
there before its client knows its end. What is being made cannot be shared.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec

from wholecall.files.database import StoreFailed
from wholecall.proxy.holding import Held, Holding, Made, read_id
from wholecall.proxy.shelf import Shelf

_MEGABYTE = 1024 * 1024
_LOG = logging.getLogger(__name__)


class _Kept(msgspec.Struct):
    key_id: str
    items: bytes
    response: bytes


_KEPT = msgspec.msgpack.Decoder(_Kept)


class Sharing:
    """Connects the memory of one process with the shared file; without a file it does nothing."""

    def __init__(self, holding: Holding, shelf: Shelf | None = None) -> None:
        self._holding = holding
        self._shelf = shelf

    async def fetch(self, id: str) -> None:
        """Hold the response of this id as the file has it: another process may have dropped it.

        `StoreFailed` if the file fails, and this process does not hold it either.
        """
        shelf = self._find_shelf()
        if shelf is None or not id:
            return
        try:
            text = (await asyncio.to_thread(shelf.find, (id,))).get(id)
            if text is None:
                self._holding.forget(id)
                return
            with shelf.decoding():
                kept = _KEPT.decode(text)
        except StoreFailed as error:
            if not self._holding.holds(id):
                raise
            _LOG.warning("the file of responses cannot be read: %s", error.why)
            return
        work = Made(kept.response)
        self._holding.put(Held(id=id, key_id=kept.key_id, items=kept.items, work=work))

    async def keep(self, response: bytes, *, key_id: str, items: bytes) -> None:
        """Hold a response that its client got whole, for every process."""
        self._holding.keep(response, key_id=key_id, items=items)
        shelf, id = self._find_shelf(), read_id(response)
        if shelf is None or self._holding.find(key_id, id) is None:
            return
        text = msgspec.msgpack.encode(_Kept(key_id, items, response))
        try:
            await asyncio.to_thread(shelf.put, (id,), text)
        except StoreFailed as error:  # the answer itself is good
            _LOG.warning("the file of responses cannot be written: %s", error.why)

    async def drop(self, held: Held) -> None:
        """Forget a response, in every process; `StoreFailed`: the others still hold it."""
        shelf = self._find_shelf()
        if shelf is not None:
            await asyncio.to_thread(shelf.drop, (held.id,))
        self._holding.drop(held)

    def close(self) -> None:
        """Close the file."""
        if self._shelf is not None:
            self._shelf.close()

    def _find_shelf(self) -> Shelf | None:
        """The file, with the limits of this moment."""
        settings, shelf = self._holding.settings, self._shelf
        if shelf is not None:
            shelf.seconds = settings.kept_seconds
            shelf.most_bytes = settings.megabytes * _MEGABYTE
        return shelf
