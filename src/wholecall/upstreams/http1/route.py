"""How an upstream is reached: directly, or through a proxy of the environment.

A plain `http://` upstream is asked *through* the proxy: requests go to the proxy and name the
whole address (RFC 9112, 3.2.2). For an `https://` upstream the proxy opens a tunnel (CONNECT,
RFC 9110, 9.3.6), and TLS begins inside it, so that the proxy sees neither keys nor answers. The
proxy itself may be an `https://` one; then TLS runs inside TLS. The user and password of the
proxy's address go to the proxy only.
"""

from __future__ import annotations

import asyncio
import base64
import re
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypedDict, cast

from yarl import URL

from wholecall.upstreams.http1.base import (
    GOOD,
    NotHttp,
    PoolClosed,
    ProxyRefused,
    Unsafe,
    find_cause,
)
from wholecall.upstreams.http1.connection import Connection
from wholecall.upstreams.http1.incoming import MOST_HEAD_BYTES

_END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
_STATUS_LINE = re.compile(rb"HTTP/1\.\d (\d{3})(?: ([^\r\n]*))?\r?\n")
_INTERIM = range(100, 200)
_MOST_REASON = 200
"""Characters of a proxy's reason phrase that an error message shows."""


class _Safety(TypedDict, total=False):
    ssl: ssl.SSLContext
    server_hostname: str


class Route:
    """The way to one origin."""

    def __init__(
        self, origin: URL, *, proxy: URL | None, trust: Callable[[], ssl.SSLContext]
    ) -> None:
        self._origin = origin
        self._proxy = proxy
        self._trust = trust
        self._context: ssl.SSLContext | None = None
        self._has_tunnel = proxy is not None and origin.scheme == "https"
        self._to_proxy = [] if proxy is None else _authorize("Proxy-Authorization", proxy)

    @property
    def first_hop(self) -> URL:
        """Whom to connect to."""
        return self._origin if self._proxy is None else self._proxy

    # ── Requests ────────────────────────────────────────────────────────────────────

    def write_head(
        self, method: str, url: URL, *, headers: Mapping[str, str], length: int | None = None
    ) -> bytes:
        """Return the head of a request. Names and values were checked when they were given."""
        is_forwarded = self._proxy is not None and not self._has_tunnel
        target = url.raw_path_qs
        if is_forwarded:
            target = f"{url.scheme}://{url.host_port_subcomponent}{target}"
        lines = [f"{method} {target} HTTP/1.1"]
        given = [name.lower() for name in headers]
        if "host" not in given:
            lines.append(f"Host: {url.host_port_subcomponent}")
        lines += _authorize("Authorization", url)
        if is_forwarded and "proxy-authorization" not in given:
            lines += self._to_proxy
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if length is not None:
            lines.append(f"Content-Length: {length}")
        return "\r\n".join([*lines, "", ""]).encode()

    def _write_connect(self) -> bytes:
        place = f"{self._origin.host_subcomponent}:{self._origin.port}"
        lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}", "User-Agent: wholecall"]
        return "\r\n".join([*lines, *self._to_proxy, "", ""]).encode()

    # ── Connections ─────────────────────────────────────────────────────────────────

    def load_certificates(self) -> None:
        """Load the certificates to trust, if TLS is spoken. It takes some 50 ms of CPU, once, and
        is not the upstream's doing: it does not count as time for a connection."""
        for url in (self._origin, self.first_hop):
            self._secure(url)

    async def begin(self, opened: socket.socket, connection: Connection) -> None:
        """Start a connection on a connected socket, which is closed if that fails."""
        try:
            if self._has_tunnel:
                await self._begin_in_tunnel(opened, connection)
            else:
                await self._start(opened, connection)
        except BaseException:
            # First what the loop knows of: to part politely, it would go on to use the number of
            # the socket, which soon is the number of another one.
            connection.abort()
            opened.close()
            raise

    async def _begin_in_tunnel(self, opened: socket.socket, connection: Connection) -> None:
        tunnel = _Tunnel()
        try:
            await self._start(opened, tunnel)
            await tunnel.open(self._write_connect())
            await self._start_inside(tunnel, connection)
        except BaseException:
            tunnel.abort()
            raise

    async def _start(self, opened: socket.socket, protocol: asyncio.Protocol) -> None:
        loop = asyncio.get_running_loop()
        whom = "" if self._proxy is None else "the proxy: "
        with _naming_failures(whom):
            await loop.create_connection(
                lambda: protocol, sock=opened, **self._secure(self.first_hop)
            )

    async def _start_inside(self, tunnel: _Tunnel, connection: Connection) -> None:
        """Start TLS with the upstream itself."""
        loop = asyncio.get_running_loop()
        options = self._secure(self._origin)
        with _naming_failures():
            transport = await loop.start_tls(
                tunnel.transport,
                connection,
                options["ssl"],
                server_hostname=options["server_hostname"],
            )
        if transport is None:  # the proxy hung up in the same step
            raise ConnectionResetError("it hung up in the handshake")
        connection.connection_made(transport)

    def _secure(self, url: URL) -> _Safety:
        """Return the loop's options for TLS with this host."""
        if url.scheme != "https":
            return {}
        self._context = self._context or _make_context(self._trust)
        return {"ssl": self._context, "server_hostname": str(url.raw_host).rstrip(".")}

    @contextmanager
    def naming_proxy(self) -> Iterator[None]:
        """Say that it is the proxy that cannot be reached, if it is."""
        try:
            yield
        except (TimeoutError, PoolClosed):
            raise  # the pool has its own words for them
        except OSError as error:
            if self._proxy is None:
                raise
            said = f"the proxy cannot be reached: {find_cause(error)}"
            raise ConnectionError(said) from error


class _Tunnel(asyncio.Protocol):
    """A connection to a proxy, until it has answered CONNECT."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self._connected = False
        self._heard = b""
        self._answer: asyncio.Future[tuple[int, str]]
        self._answer = asyncio.get_running_loop().create_future()

    async def open(self, request: bytes) -> None:
        """Ask for the tunnel. Any 2xx opens it, whatever its headers say of a body."""
        self.transport.write(request)
        status, reason = await self._answer
        if status not in GOOD:
            raise ProxyRefused(status, reason)
        if self._heard:
            # A TLS server waits to be spoken to.
            raise NotHttp("the proxy sent more than an answer to CONNECT")
        if self.transport.is_closing():
            raise ConnectionResetError("the proxy hung up after it opened a tunnel")

    def abort(self) -> None:
        """Close at once, if there is anything to close."""
        if not self._answer.cancel() and not self._answer.cancelled():
            self._answer.exception()  # it may have failed before it was awaited
        if self._connected:
            self.transport.abort()

    # ── Called by the loop ──────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the transport."""
        self.transport = cast(asyncio.Transport, transport)
        self._connected = True

    def data_received(self, data: bytes) -> None:
        """Read the answer to CONNECT."""
        self._heard += data
        while not self._answer.done() and (end := _END_OF_HEAD.search(self._heard)):
            head, self._heard = self._heard[: end.end()], self._heard[end.end() :]
            self._read(head)
        if len(self._heard) > MOST_HEAD_BYTES:
            self._fail(NotHttp(f"the proxy sent a head of more than {MOST_HEAD_BYTES} bytes"))

    def connection_lost(self, _: Exception | None) -> None:
        """Fail, unless the answer has come."""
        self._connected = False
        self._fail(ConnectionResetError("the proxy hung up without an answer to CONNECT"))

    # ── The answer ──────────────────────────────────────────────────────────────────

    def _read(self, head: bytes) -> None:
        line = _STATUS_LINE.match(head)
        if line is None:
            self._fail(NotHttp("the proxy's answer to CONNECT is not HTTP"))
            return
        status = int(line[1])
        if status not in _INTERIM:
            self._answer.set_result((status, _show_reason(line[2] or b"")))

    def _fail(self, error: OSError) -> None:
        if not self._answer.done():
            self._answer.set_exception(error)
        self.abort()


def _show_reason(phrase: bytes) -> str:
    text = phrase.decode("utf-8", "replace").strip()[:_MOST_REASON]
    return "".join(each for each in text if each.isprintable())


@contextmanager
def _naming_failures(whom: str = "") -> Iterator[None]:
    """Turn what the loop raises in a handshake into our errors."""
    try:
        yield
    except ssl.SSLError as error:
        raise Unsafe(f"{whom}{error}") from error
    except ConnectionError as error:
        if error.args:
            raise
        raise ConnectionResetError(f"{whom}it hung up in the handshake") from error


def _make_context(trust: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
    context = trust()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _authorize(header: str, url: URL) -> list[str]:
    """Return the header for the user and password of an address, if it has any."""
    if url.user is None and url.password is None:
        return []
    pair = f"{url.user or ''}:{url.password or ''}"
    return [f"{header}: Basic {base64.b64encode(pair.encode()).decode()}"]
