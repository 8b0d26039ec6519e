"""Timeouts, headers and failures of the HTTP client. Every failure is an `OSError`.

The one exception is an `UpstreamError` where the environment names a file that holds no
certificates.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from multidict import CIMultiDict

from wholecall.upstreams.retry import is_repeatable

RawHeaders: TypeAlias = Sequence[tuple[bytes, bytes]]
"""Names in lower case, in the order in which they came."""
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
GOOD = range(200, 300)
"""Statuses of success."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long to wait in each phase. An answer as a whole may take as long as it likes."""

    connect: float | None = 10.0
    """Seconds for a connection: a free place, the address, the handshakes."""
    first_byte: float | None = 600.0
    """Seconds of silence before the headers, and again before the first byte. An answer that is
    not streamed comes when all of it is written."""
    between_chunks: float | None = 300.0
    """Seconds of silence in an answer that has begun. Models think in between."""


class ConnectTimeout(TimeoutError):
    """No connection came about in time, so that nothing was sent."""


class PoolClosed(OSError):
    """It was closed on this side, with whatever was on its way."""


class Stale(ConnectionError):
    """It hung up on a second request without a word: likely before it knew of it, because it
    does not wait long between two, or never meant to."""


class Unsafe(OSError):
    """The upstream did not prove who it is, or the handshake of TLS failed."""


class NotHttp(OSError):
    """What came is no answer of HTTP."""


class ProxyRefused(OSError):
    """The proxy on the way let nothing through."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"the proxy answered with status {status}: {message}")
        self.status = status


class Trouble(NamedTuple):
    """What a failure means to whoever asked."""

    code: str
    repeatable: bool
    """Whether another attempt may bring an answer."""


def judge(error: OSError) -> Trouble:
    """What became of a request that brought no answer."""
    match error:
        case ConnectTimeout():
            # Nothing was sent yet, so it is as if the connection had been refused.
            return Trouble("connection", repeatable=True)
        case TimeoutError():
            # Whoever asks has waited long, and the upstream may still be at work on it.
            return Trouble("timeout", repeatable=False)
        case ProxyRefused():
            return Trouble("connection", is_repeatable(error.status, {}))
        case Unsafe():
            return Trouble("certificate", repeatable=False)
        case NotHttp() | PoolClosed():
            return Trouble("connection", repeatable=False)
    return Trouble("connection", repeatable=True)


def is_fit(value: bytes) -> bool:
    """Whether the value of a header may be handed on; with control characters it does harm."""
    return _CONTROL.search(value) is None


def find_header(headers: RawHeaders, wanted: bytes) -> bytes:
    """The first header of this name; empty if there is none."""
    for name, value in headers:
        if name == wanted:
            return value
    return b""


def find_media_type(headers: RawHeaders) -> str:
    """The media type of a body, without its parameters; without one it may be anything."""
    given = find_header(headers, b"content-type").partition(b";")[0].strip()
    return given.decode("latin-1").lower() or "application/octet-stream"


def decode_headers(headers: RawHeaders) -> Mapping[str, str]:
    """Headers by their names, in whatever case."""
    return CIMultiDict(
        (name.decode("latin-1"), value.decode("utf-8", "surrogateescape"))
        for name, value in headers
    )


def find_cause(error: OSError) -> str:
    """Say why a connection failed, without addresses: clients of the proxy read this."""
    if isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    if error.errno is not None:
        return os.strerror(error.errno)
    # Several addresses failed, each in its own way; what we raise ourselves has its own type.
    return "none of its addresses answers" if type(error) is OSError else str(error)
