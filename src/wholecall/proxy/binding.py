"""Whose the responses are that an upstream holds in its own account.

All keys of the proxy share that account, and an id alone does not say whose it is. So it is kept
which key was given which id, and to any other key the id does not exist. Without keys there is
but one client, and nothing is kept.
"""

from __future__ import annotations

import asyncio
import logging

from wholecall.files.database import StoreFailed
from wholecall.proxy.holding import read_id
from wholecall.proxy.shelf import Shelf

_LOG = logging.getLogger(__name__)


class Binding:
    """Remembers ids in a file, which several processes share."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    async def bind(self, key_id: str, response: bytes) -> None:
        """Record that this key owns this response. One without an id cannot be retrieved."""
        id = read_id(response)
        if not key_id or not id:
            return
        try:
            await asyncio.to_thread(self._shelf.put, (_name(id),), key_id.encode())
        except StoreFailed as error:  # the answer is good: it only cannot be continued there
            _LOG.warning("it cannot be kept whose a response is: %s", error.why)

    async def is_of(self, key_id: str, id: str) -> bool:
        """Return True if this key may continue from the response of this id; raise `StoreFailed` if
        unknown."""
        if not key_id:
            return True
        found = await asyncio.to_thread(self._shelf.find, (_name(id),))
        return found.get(_name(id)) == key_id.encode()


def _name(id: str) -> str:
    return f"response {id}"
