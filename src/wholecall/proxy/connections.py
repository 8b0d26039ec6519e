"""Connections that do not wait forever: what uvicorn leaves out.

A client that sends its headers one byte a minute, or does not read its answer, holds a connection
for nothing. The headers of a request must come in time, from its first byte on, and what is
written must be read in time. A connection between two requests is closed by uvicorn itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, cast

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from wholecall.proxy.config.settings import ServerLimits
from wholecall.proxy.intake import BODY_CAME

_ENDLESS = "/inspector/api/live"
"""A stream that ends only when one side leaves."""
_SILENT_SECONDS = 1.0
"""Who has connected when the server begins to end, and said nothing yet, has so long to ask."""
_CLOSE = b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_HEAD = b"HTTP/1.1 "
_TIMEOUT = b"HTTP/1.1 408 Request Timeout" + _CLOSE
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large" + _CLOSE


class _Limited(Protocol):
    """The application behind a connection."""

    @property
    def limits(self) -> ServerLimits:
        """What clients may do, at the moment."""

    def leave(self) -> None:
        """The server begins to end."""


class _Alarm:
    """Rings once, unless it is stopped before."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_set(self) -> bool:
        return self._timer is not None

    def set(self, seconds: float) -> None:
        self.stop()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._act)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class HeadHolder(asyncio.Transport):
    """Sends the head of an answer together with what follows it, as one packet and not as two.

    uvicorn writes them one after the other, and its loop sends at once whatever is written. A head
    that nothing follows in the same step of the loop is sent alone.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self._held = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send it, behind what is held."""
        if self._held:
            held, self._held = self._held, b""
            self._transport.write(held + data)
        elif bytes(data[: len(_HEAD)]) == _HEAD:
            self._held = bytes(data)
            asyncio.get_running_loop().call_soon(self._let_go)
        else:
            self._transport.write(data)

    def close(self) -> None:
        """Send what is held, and close."""
        self._let_go()
        self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._held = b""
        self._transport.abort()

    def is_closing(self) -> bool:
        """Whether nothing more is sent."""
        return self._transport.is_closing()

    def _let_go(self) -> None:
        held, self._held = self._held, b""
        if held and not self._transport.is_closing():
            self._transport.write(held)


class TimedProtocol(HttpToolsProtocol):
    """uvicorn's connection, with limits for the headers and for the reading of answers.

    The limits are those of the application, so that they can be changed while it runs.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limited = cast(_Limited, self.app)
        self._late_headers = _Alarm(partial(self._send_away, _TIMEOUT))
        self._in_headers = True
        self._head_size = 0
        """Bytes of headers that are not complete."""
        self._late_reading = _Alarm(self._give_up)
        self._silent = _Alarm(self._hang_up)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody connects, and should say what they want."""
        super().connection_made(transport)
        self.transport = HeadHolder(transport)
        self._late_headers.set(self._limited.limits.header_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._late_headers.stop()
        self._late_reading.stop()
        self._silent.stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes come. Headers without an end are not collected for as long as they may take."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        if not self._in_headers:
            self._head_size = 0
            return
        # Most headers come in one piece, and are over by now.
        if not self._late_headers.is_set:
            self._late_headers.set(self._limited.limits.header_seconds)
        self._head_size += len(data)
        if self._head_size > self._limited.limits.header_bytes:
            self._send_away(_TOO_LARGE)

    def on_message_begin(self) -> None:
        """A request begins: the first of this connection, or another one."""
        self._in_headers = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The headers of a request have come."""
        self._in_headers = False
        self._late_headers.stop()
        super().on_headers_complete()
        if self._silent.is_set:
            self._silent.stop()
            super().shutdown()  # this request is answered, and no other

    def on_message_complete(self) -> None:
        """All of a request has come; mostly before anybody looks at it."""
        super().on_message_complete()
        cast(Scope, self.scope)[BODY_CAME] = True

    def pause_writing(self) -> None:
        """The client does not read as fast as we write."""
        self._late_reading.set(self._limited.limits.write_seconds)
        super().pause_writing()

    def resume_writing(self) -> None:
        """It has caught up."""
        self._late_reading.stop()
        super().resume_writing()

    def shutdown(self) -> None:
        """The server ends. Answers come to their end, but a page that looks on would never go."""
        self._limited.leave()
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None:
            # Its first request may be on its way, or lie in the socket already.
            self._silent.set(_SILENT_SECONDS)
            return
        if not cycle.response_complete and self.scope["path"] == _ENDLESS:
            self.transport.close()
        super().shutdown()

    def _send_away(self, answer: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(answer)
            self.transport.close()

    def _give_up(self) -> None:
        self.transport.abort()

    def _hang_up(self) -> None:
        self.transport.close()
