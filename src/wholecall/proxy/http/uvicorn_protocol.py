"""Timeouts, pipelining and trailers, which uvicorn lacks.

- A client that sends its headers one byte a minute, or does not read its answer, holds a connection
  for nothing. The headers of a request must come in time, from its first byte on, and so must the
  rest of one that was answered before it had come, and what is written must be read in time.
  uvicorn itself closes an idle connection between two requests.
- A client may send requests before it has the answer to the first. Few of them wait in line, and a
  disconnect is noticed by the answer in progress, not by the last in line. After one too many,
  those that wait are answered, and the connection closes. Whatever is wrong with a later request,
  nothing is written into the middle of that answer.
- Trailers are not headers (RFC 9110, 6.5.1): proxies that check headers have not seen them.
- Clients that request an upgrade (Java's own asks for `h2c` with its first request) may be answered
  in HTTP/1.1 (RFC 9110, 7.8). httptools skips their bodies. Only a WebSocket is another protocol.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, cast

from httptools import HttpParserUpgrade, HttpRequestParser
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from wholecall.proxy.config.schema import ServerLimits
from wholecall.proxy.http.client_request import ANSWERING, BODY_CAME

MOST_WAITING = 32
"""Pipelined requests that wait for the current answer. Hardly any client sends a second; but each
costs a hundred times its bytes, and its key is not checked yet."""
_ENDLESS = "/inspector/api/live"
"""A stream that ends only when one side leaves."""
_SILENT_SECONDS = 1.0
"""Seconds for a client that connected before the shutdown to send its request."""
_UPGRADE = b"upgrade"
_OF_A_BODY = frozenset({b"content-length", b"transfer-encoding"})
_CLOSE = b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_HEAD = b"HTTP/1.1 "
_TIMEOUT = b"HTTP/1.1 408 Request Timeout" + _CLOSE
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large" + _CLOSE


class LimitedApp(Protocol):
    """The application of a connection."""

    @property
    def limits(self) -> ServerLimits:
        """The current limits for clients."""

    def leave(self) -> None:
        """The server begins to end."""


class Alarm:
    """Rings once, unless it is stopped before."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_set(self) -> bool:
        """True if it will ring."""
        return self._timer is not None

    def set(self, seconds: float) -> None:
        """Ring after so many seconds."""
        self.stop()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._act)

    def stop(self) -> None:
        """Do not ring."""
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

    @property
    def plain(self) -> asyncio.Transport:
        """The transport itself, for another protocol."""
        return self._transport

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send it, after what is held."""
        if self._held:
            held, self._held = self._held, b""
            self._transport.write(held + data)
        elif data[: len(_HEAD)] == _HEAD:
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
        """True if nothing more is sent."""
        return self._transport.is_closing()

    def _let_go(self) -> None:
        held, self._held = self._held, b""
        if held and not self._transport.is_closing():
            self._transport.write(held)


class _Nowhere(list[tuple[bytes, bytes]]):
    """Discards trailers."""

    def append(self, _: tuple[bytes, bytes]) -> None:
        """Discard it."""


_NOWHERE = _Nowhere()


class _TooManyWait(Exception):
    """Ends the reading of what came: the parser knows no other way."""


class _Parser(HttpRequestParser):
    """Calls when a request with an `Upgrade` header ends, with what came after its head."""

    def __init__(self, protocol: object, call: Callable[[bytes], None]) -> None:
        super().__init__(protocol)
        self._call = call

    def feed_data(self, data: Any) -> None:
        """Process received bytes."""
        try:
            super().feed_data(data)
        except HttpParserUpgrade as upgrade:
            self._call(data[upgrade.args[0] :])


class TimedProtocol(HttpToolsProtocol):
    """uvicorn's connection, with limits for the headers and for the reading of answers.

    The limits are those of the application, so that they can be changed while it runs.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limited = cast(LimitedApp, self.app)
        self._before: list[RequestResponseCycle] = []
        """Requests that were not answered when the next one came; `cycle` is the last."""
        self._is_full = False
        """True if too many came: what follows is discarded, and the last answer closes."""
        self._late_headers = Alarm(self._miss_headers)
        self._late_rest = Alarm(self._hang_up)
        self._in_headers = True
        self._in_body = False
        self._empty_bytes = 0
        """The number since the last useful one: a head, or part of a body."""
        self._is_read_again = False
        """True if the current request has an `Upgrade` header, which is ignored."""
        self.parser: HttpRequestParser = _Parser(self, self._read_again)
        self._late_reading = Alarm(self._give_up)
        self._silent = Alarm(self._hang_up)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timeout of a new connection."""
        super().connection_made(transport)
        self.transport = HeadHolder(transport)
        self._late_headers.set(self._limited.limits.header_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._late_headers.stop()
        self._late_rest.stop()
        self._late_reading.stop()
        self._silent.stop()
        super().connection_lost(exc)
        for each in self._before:
            each.disconnected = not each.response_complete
            each.message_event.set()

    def data_received(self, data: bytes) -> None:
        """Bytes come. What is of no use is not collected for as long as it may take."""
        if self.transport.is_closing() or self._is_full:
            return
        self._empty_bytes += len(data)
        super().data_received(data)
        # Most headers come in one piece, and are over by now.
        if self._in_headers and not self._late_headers.is_set:
            self._late_headers.set(self._limited.limits.header_seconds)
        if self._in_body and self.cycle.response_complete and not self._late_rest.is_set:
            self._late_rest.set(self._limited.limits.body_seconds)
        if self._empty_bytes > self._limited.limits.header_bytes:
            self._send_away(_TOO_LARGE)

    def on_message_begin(self) -> None:
        """A request begins: the first of this connection, or another one."""
        self._in_headers = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The headers of a request have come."""
        if self.parser.should_upgrade() and any(name == _UPGRADE for name, _ in self.headers):
            self._is_read_again = True
            return
        self._in_headers = False
        self._empty_bytes = 0
        self._late_headers.stop()
        before = self.cycle
        super().on_headers_complete()  # it may refuse the address
        self._in_body = True
        self.headers = _NOWHERE
        if self.pipeline:
            self._let_wait(before)
        if self._silent.is_set:
            self._silent.stop()
            super().shutdown()  # this request is answered, and no other

    def on_body(self, body: bytes) -> None:
        """Some of a body has come."""
        self._empty_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """All of a request has come; mostly before anybody looks at it."""
        if self._is_read_again:
            return
        self._in_body = False
        if self.cycle.response_complete:
            self._late_rest.stop()
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
        answered = self._answered
        if answered is None:
            # Its first request may be on its way, or lie in the socket already.
            self._silent.set(_SILENT_SECONDS)
            return
        if not answered.response_complete and answered.scope["path"] == _ENDLESS:
            self.transport.close()
        super().shutdown()

    def send_400_response(self, msg: str) -> None:
        """Answer an invalid request, or one too many."""
        if self._is_full:
            return  # those that were let in are answered first
        if self._may_answer:
            super().send_400_response(msg)
        else:
            self.transport.close()

    # ── Pipelining ──────────────────────────────────────────────────────────────────

    @property
    def _answered(self) -> RequestResponseCycle | None:
        """The request that is being answered, or was last."""
        return next((each for each in self._before if not each.response_complete), self.cycle)

    def _let_wait(self, before: RequestResponseCycle) -> None:
        """A request came before the answer to another. uvicorn reads no more until that is over,
        and so would not see the client leave."""
        self._before = [each for each in (*self._before, before) if not each.response_complete]
        self.flow.resume_reading()
        if len(self.pipeline) > MOST_WAITING:
            self.pipeline.popleft()
            self.cycle = self._before.pop()  # the last that was let in
            self.cycle.keep_alive = False
            self._is_full = True
            raise _TooManyWait

    @property
    def _may_answer(self) -> bool:
        """Return True if a write now belongs to the request being read, not to another answer."""
        answered = self._answered
        if answered is None or answered.response_complete:
            return True
        is_read = answered is self.cycle and answered.more_body
        return is_read and not answered.response_started

    def _read_again(self, rest: bytes) -> None:
        """The head of a request was read that asks for another protocol: read it without."""
        if not self._is_read_again:
            return  # it asks for a tunnel, and is answered; what comes through it is ignored
        if self._begins_socket():
            self._open_socket(rest)
            return
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        lines = [b"%s %s HTTP/%s" % (method, self.url, version)]
        lines += [b"%s: %s" % each for each in self.headers if each[0] != _UPGRADE]
        self._is_read_again = False
        self.parser = _Parser(self, self._read_again)
        self.parser.feed_data(b"\r\n".join([*lines, b"", rest]))

    def _begins_socket(self) -> bool:
        """Return True for the handshake of a WebSocket that may begin now."""
        is_plain = all(name not in _OF_A_BODY for name, _ in self.headers)
        is_get = is_plain and self.parser.get_method() == b"GET"
        return is_get and self._may_answer and self._should_upgrade()

    def _open_socket(self, rest: bytes) -> None:
        self._late_headers.stop()
        self._in_headers, self._empty_bytes = False, 0
        if self._silent.is_set:  # the server ends
            self.transport.close()
            return
        cast(Scope, self.scope)["method"] = "GET"
        self.transport = cast(HeadHolder, self.transport).plain
        self.handle_websocket_upgrade()
        socket = cast(WebSocketsSansIOProtocol, self.transport.get_protocol())
        if not socket.handshake_initiated:  # its head could not be read
            self.transport.close()
        elif rest:
            socket.data_received(rest)

    # ── Too late, or too much ───────────────────────────────────────────────────────

    def _miss_headers(self) -> None:
        if self._may_answer:
            self._send_away(_TIMEOUT)
        else:  # the answer before holds the connection in any case
            self._late_headers.set(self._limited.limits.header_seconds)

    def _send_away(self, answer: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._may_answer:
            self.transport.write(answer)
        self.transport.close()

    def _give_up(self) -> None:
        self.transport.abort()

    def _hang_up(self) -> None:
        self.transport.close()


# ── WebSockets ──────────────────────────────────────────────────────────────────────


class TimedWebSocket(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket, with the limits of the application.

    A message may be as large as the body of a request, a client that does not read is given up, and
    the end of the server waits for the response that is being sent. uvicorn itself sends pings, and
    gives up a client that does not answer them.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limited = cast(LimitedApp, self.app)
        # Also of what a compressed message becomes.
        self.conn.max_message_size = self._limited.limits.body_bytes
        self._late_reading = Alarm(self._give_up)
        self._early = b""
        """The bytes that the client sent before it was let in."""

    def data_received(self, data: bytes) -> None:
        """Bytes come. Before the handshake is over they wait: they may have to be refused."""
        if not self.handshake_initiated or self.handshake_complete:
            super().data_received(data)
            return
        self._early += data
        if len(self._early) > self._limited.limits.body_bytes:
            self.transport.abort()

    async def send(self, message: Any) -> None:
        """Send a message, and read what waited for the first."""
        await super().send(message)
        if self._early and self.handshake_complete and not self.transport.is_closing():
            early, self._early = self._early, b""
            self.data_received(early)

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
