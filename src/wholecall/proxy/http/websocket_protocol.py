"""WebSocket connections with the proxy's own limits, on uvicorn's sans-IO implementation.

A message may be as large as the body of a request, a client that does not read is given up,
and the end of the server waits for the response that is being sent. uvicorn itself sends pings, and
gives up a client that does not answer them.
"""

from __future__ import annotations

from typing import Any, cast

from starlette.types import Scope
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from wholecall.proxy.http.client_request import ANSWERING
from wholecall.proxy.http.uvicorn_protocol import Alarm, LimitedApp


class TimedWebSocket(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket, with the limits of the application."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limited = cast(LimitedApp, self.app)
        # Also of what a compressed message becomes.
        self.conn.max_message_size = self._limited.limits.body_bytes
        self._late_reading = Alarm(self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._late_reading.stop()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client does not read as fast as we write."""
        self._late_reading.set(self._limited.limits.write_seconds)
        super().pause_writing()

    def resume_writing(self) -> None:
        """It has caught up."""
        self._late_reading.stop()
        super().resume_writing()

    def shutdown(self) -> None:
        """The server ends. A response comes to its end, and then the route closes the socket."""
        self._limited.leave()
        scope = cast(Scope, self.scope) if self.handshake_initiated else {}
        if not scope.get(ANSWERING):
            super().shutdown()

    def _give_up(self) -> None:
        self.transport.abort()
