"""Refusals of requests, in the client protocol's error format."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import msgspec

from wholecall.protocols.registry import CLIENTS, ClientSide, client_side
from wholecall.protocols.response_base import Failure

_SIDES = tuple(client_side(name) for name in CLIENTS)


class RequestRefused(Exception):
    """A request is turned away; the words are for the client."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str,
        headers: tuple[tuple[bytes, bytes], ...] = (),
        unread: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.headers = headers
        self.unread = unread
        """True if the client is probably still sending its body."""


def refuse_for_now(status: int, message: str, *, code: str, seconds: float) -> RequestRefused:
    """Turn a request away that may come again after so many seconds."""
    retry_after = str(max(math.ceil(seconds), 1)).encode()
    return RequestRefused(status, message, code=code, headers=((b"retry-after", retry_after),))


def encode_refusal(path: str, refused: RequestRefused, *, request_id: str) -> bytes:
    """The body of the answer, as the clients of this path read errors."""
    failure = Failure(
        message=refused.message,
        status=refused.status,
        code=refused.code,
        request_id=request_id,
    )
    return msgspec.json.encode(_clients_of(path).encode_error(failure))


@lru_cache(maxsize=256)
def request_id_header(path: str) -> bytes:
    """The header in which the clients of this path look for the id of their request."""
    return _clients_of(path).request_id_header.encode()


def _clients_of(path: str) -> ClientSide:
    """Return how the clients of this path are served; by default as those of chat completions."""
    served = (side for side in _SIDES if f"{path}/".startswith(f"{side.path}/"))
    return next(served, _SIDES[0])


class HttpRefusal(NamedTuple):
    """A request that was turned away, for those who look after the proxy."""

    request_id: str
    path: str
    status: int
    code: str
    key_id: str = ""
    """Whose it was, where that was found out."""
