"""Connections that do not wait forever: what uvicorn leaves out.

A client that sends its headers one byte a minute, or does not read its answer, holds a connection
for nothing. The headers of a request must come in time, from its first byte on, and what is
written must be read in time. A connection between two requests is closed by uvicorn itself.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_TIMEOUT = (
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
)


class TimedProtocol(HttpToolsProtocol):
    """uvicorn's connection, with limits for the headers and for the reading of answers."""

    header_seconds: ClassVar[float] = 10.0
    write_seconds: ClassVar[float] = 60.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._waiting: asyncio.TimerHandle | None = None
        self._stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody connects, and should say what they want."""
        super().connection_made(transport)
        self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._waiting = _stop(self._waiting)
        self._stuck = _stop(self._stuck)
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """A request begins."""
        if self._waiting is None:  # not the first one of this connection
            self._wait_for_headers()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The headers of a request have come."""
        self._waiting = _stop(self._waiting)
        super().on_headers_complete()

    def pause_writing(self) -> None:
        """The client does not read as fast as we write."""
        super().pause_writing()
        self._stuck = _stop(self._stuck)
        self._stuck = self.loop.call_later(self.write_seconds, self._give_up)

    def resume_writing(self) -> None:
        """It has caught up."""
        self._stuck = _stop(self._stuck)
        super().resume_writing()

    def _wait_for_headers(self) -> None:
        self._waiting = self.loop.call_later(self.header_seconds, self._send_away)

    def _send_away(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(_TIMEOUT)
            self.transport.close()

    def _give_up(self) -> None:
        self.transport.abort()


def _stop(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


def limit_connections(*, header_seconds: float, write_seconds: float) -> type[TimedProtocol]:
    """A protocol class with these limits: uvicorn makes its connections of a class."""
    limits = {"header_seconds": header_seconds, "write_seconds": write_seconds}
    return type("LimitedProtocol", (TimedProtocol,), limits)
