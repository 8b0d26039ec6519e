"""A small HTTP/1.1 server on asyncio. Its handlers have access to the connection and may reset it.

llhttp parses, through httptools. A handler is cancelled when its client disconnects, so that it
does not hang without a reader. The server is for loopback: it has no TLS, and an idle connection
has no time limit.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from http.client import responses
from typing import TypeAlias, cast
from urllib.parse import parse_qs, unquote, urlsplit

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

MOST_BODY_BYTES = 64 * 1024 * 1024
"""The largest body of a request, in bytes."""
MOST_HEADER_BYTES = 64 * 1024
"""The largest target and headers of a request, in bytes."""
MOST_WAITING = 32
"""The most requests of one connection that may wait for the response to an earlier one."""
# Without lingering, the kernel sends RST instead of FIN: the client sees a reset, not an end.
_NO_LINGER = struct.pack("ii", 1, 0)
_JSON = {"content-type": "application/json; charset=utf-8"}


class HttpExchange:
    """One request, and the connection on which it is answered."""

    def __init__(self, connection: _ServerConnection) -> None:
        self.method = ""
        self.path = ""
        self.query: Mapping[str, str] = {}
        self.headers: dict[str, str] = {}
        """Names in lower case."""
        self.body = b""
        self.keeps_alive = False
        self.takes_chunks = True
        """True if the client accepts chunked bodies: HTTP/1.0 does not."""
        self._connection = connection

    async def send(
        self, body: bytes, *, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a response in one piece."""
        length = {"content-length": str(len(body))}
        await self._connection.write(_write_head(status, {**(headers or {}), **length}) + body)

    async def send_json(
        self, value: object, *, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a value as JSON."""
        content = json.dumps(value).encode()
        await self.send(content, status=status, headers={**_JSON, **(headers or {})})

    async def begin(self, headers: Mapping[str, str], *, length: int | None = None) -> None:
        """Send the response head. Without a length the body is chunked, and `finish` ends it."""
        if length is not None:
            self.takes_chunks = False
            framing = {"content-length": str(length)}
        elif self.takes_chunks:
            framing = {"transfer-encoding": "chunked"}
        else:
            framing, self.keeps_alive = {"connection": "close"}, False
        await self._connection.write(_write_head(HTTPStatus.OK, {**headers, **framing}))

    async def write(self, piece: bytes) -> None:
        """Send a piece of the body."""
        if self.takes_chunks and piece:
            piece = b"%x\r\n%b\r\n" % (len(piece), piece)
        await self._connection.write(piece)

    async def finish(self) -> None:
        """End the body."""
        if self.takes_chunks:
            await self._connection.write(b"0\r\n\r\n")

    def reset(self) -> None:
        """Reset the connection."""
        self._connection.reset()


Handle: TypeAlias = Callable[[HttpExchange], Awaitable[None]]


class HttpServer:
    """A server that passes every request to one handler."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._server: asyncio.Server | None = None
        self._connections: set[_ServerConnection] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _ServerConnection(self._handle, self._connections), host, port
        )
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def close(self, seconds: float) -> None:
        """Stop listening. Responses under way get this many seconds to end."""
        if self._server is None:
            return
        self._server.close()
        busy = [connection.task for connection in self._connections if connection.busy]
        if busy:
            await asyncio.wait(busy, timeout=seconds)
        left = [connection.task for connection in self._connections]
        for connection in list(self._connections):
            connection.transport.abort()
        await asyncio.gather(*left, return_exceptions=True)


class _ServerConnection(asyncio.Protocol):
    """A connection that reads requests and has them answered one after the other."""

    def __init__(self, handle: Handle, connections: set[_ServerConnection]) -> None:
        self.transport: asyncio.Transport
        self.task: asyncio.Task[None]
        self.busy = False
        self._handle = handle
        self._connections = connections
        self._parser = HttpRequestParser(self)
        self._waiting: asyncio.Queue[HttpExchange] = asyncio.Queue()
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._reading = HttpExchange(self)
        self._url = b""
        self._body: list[bytes] = []
        self._header_bytes = 0
        self._body_bytes = 0

    async def write(self, data: bytes) -> None:
        """Send bytes, as fast as the client reads."""
        if self.transport.is_closing():
            raise ConnectionResetError("the client is gone")
        self.transport.write(data)
        await self._can_write.wait()

    def reset(self) -> None:
        """Close the connection with a reset."""
        if not self.transport.is_closing():
            connection = self.transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            self.transport.abort()

    async def _serve(self) -> None:
        try:
            keeps_alive = True
            while keeps_alive:
                exchange = await self._waiting.get()
                self.busy = True
                await self._handle(exchange)
                self.busy = False
                keeps_alive = exchange.keeps_alive
        except ConnectionError:
            pass  # the client disconnected first
        finally:
            self.transport.close()

    # ── Called by the loop ──────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start to serve requests."""
        self.transport = cast(asyncio.Transport, transport)
        self._connections.add(self)
        self.task = asyncio.get_running_loop().create_task(self._serve())

    def data_received(self, data: bytes) -> None:
        """Parse received bytes."""
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self._refuse(HTTPStatus.NOT_IMPLEMENTED)
        except HttpParserError:
            self._refuse(HTTPStatus.BAD_REQUEST)
        if self._header_bytes > MOST_HEADER_BYTES:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        elif self._body_bytes > MOST_BODY_BYTES:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        elif self._waiting.qsize() > MOST_WAITING:
            self.transport.abort()

    def pause_writing(self) -> None:
        """Pause writing until the client has read."""
        self._can_write.clear()

    def resume_writing(self) -> None:
        """Resume writing."""
        self._can_write.set()

    def connection_lost(self, _: Exception | None) -> None:
        """Cancel the response under way."""
        self._can_write.set()
        self._connections.discard(self)
        self.task.cancel()

    def _refuse(self, status: HTTPStatus) -> None:
        if not self.transport.is_closing():
            framing = {"content-length": "0", "connection": "close"}
            self.transport.write(_write_head(status, framing))
            self.transport.close()

    # ── Called by the parser ────────────────────────────────────────────────────────

    def on_message_begin(self) -> None:
        """Begin another request."""
        self._reading = HttpExchange(self)
        self._url = b""
        self._body = []
        self._header_bytes = self._body_bytes = 0

    def on_url(self, url: bytes) -> None:
        """Collect the target, which may arrive in pieces."""
        self._url += url
        self._header_bytes += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header."""
        self._header_bytes += len(name) + len(value)
        self._reading.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Send `100 Continue` if the client waits for it."""
        if self._reading.headers.get("expect", "").lower() == "100-continue":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, data: bytes) -> None:
        """Collect the body, unless it is too large."""
        self._body_bytes += len(data)
        if self._body_bytes <= MOST_BODY_BYTES:
            self._body.append(data)

    def on_message_complete(self) -> None:
        """Queue the request for the handler."""
        reading, url = self._reading, urlsplit(self._url.decode("latin-1"))
        reading.method = self._parser.get_method().decode()
        reading.path = unquote(url.path)
        reading.query = {name: values[0] for name, values in parse_qs(url.query).items()}
        reading.body = b"".join(self._body)
        reading.keeps_alive = self._parser.should_keep_alive()
        reading.takes_chunks = self._parser.get_http_version() != "1.0"
        if max(self._header_bytes - MOST_HEADER_BYTES, self._body_bytes - MOST_BODY_BYTES) <= 0:
            self._waiting.put_nowait(reading)


def _write_head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {int(status)} {responses.get(status, '')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")
