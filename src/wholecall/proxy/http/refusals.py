"""Refusals of requests, in the client protocol's error format."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from wholecall.protocols.response_base import Failure, anthropic_error, openai_error

_ANTHROPIC = "/v1/messages"
_BELOW_ANTHROPIC = f"{_ANTHROPIC}/"


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
    return msgspec.json.encode(_shape_of(path)(failure))


def request_id_header(path: str) -> bytes:
    """The header in which the clients of this path look for the id of their request."""
    return b"request-id" if _is_anthropic(path) else b"x-request-id"


def _shape_of(path: str) -> Callable[[Failure], dict[str, Any]]:
    return anthropic_error if _is_anthropic(path) else openai_error


def _is_anthropic(path: str) -> bool:
    return path == _ANTHROPIC or path.startswith(_BELOW_ANTHROPIC)


class HttpRefusal(NamedTuple):
    """A request that was turned away, for those who look after the proxy."""

    request_id: str
    path: str
    status: int
    code: str
    key_id: str = ""
    """Whose it was, where that was found out."""
