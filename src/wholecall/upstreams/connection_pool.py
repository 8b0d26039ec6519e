"""The route to an upstream: direct, or through a proxy of the environment.

A plain `http://` upstream gets its requests *through* the proxy: requests go to the proxy and name
the whole address (RFC 9112, 3.2.2). For an `https://` upstream the proxy opens a tunnel (CONNECT,
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
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias, TypedDict, cast

from aiohappyeyeballs import AddrInfoType, start_connection
from yarl import URL

from wholecall.upstreams.http_connection import (
    GOOD,
    MOST_HEAD_BYTES,
    ConnectTimeout,
    HttpConnection,
    HttpResponse,
    NotHttp,
    PoolClosed,
    ProxyRefused,
    Timeouts,
    Unsafe,
    find_cause,
)

_END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
_STATUS_LINE = re.compile(rb"HTTP/1\.\d (\d{3})(?: ([^\r\n]*))?\r?\n")
_INTERIM = range(100, 200)
_MOST_REASON = 200
"""Characters of a proxy's reason phrase that an error message shows."""


class _Safety(TypedDict, total=False):
    ssl: ssl.SSLContext
    server_hostname: str


class ConnectionRoute:
    """The route to one origin."""

    def __init__(
        self, origin: URL, *, proxy: URL | None, trust: Callable[[], ssl.SSLContext]
    ) -> None:
        self._origin = origin
        self._proxy = proxy
        self._trust = trust
        self._context: ssl.SSLContext | None = None
        self._has_tunnel = proxy is not None and origin.scheme == "https"
        self._to_proxy = [] if proxy is None else _authorize("Proxy-Authorization", proxy)
        self._head: tuple[str, URL | None, Mapping[str, str], str] = ("", None, {}, "")
        """The last head that was written, all but its length, and for what."""

    @property
    def first_hop(self) -> URL:
        """The address to connect to: the proxy, or the origin without one."""
        return self._origin if self._proxy is None else self._proxy

    # ── Requests ────────────────────────────────────────────────────────────────────

    def write_head(
        self, method: str, url: URL, *, headers: Mapping[str, str], length: int | None = None
    ) -> bytes:
        """Return the head of a request. Names and values were checked when they were given.

        Nearly every request has the URL and the headers of its endpoint, so the last head is kept.
        """
        of_method, of_url, of_headers, head = self._head
        if not (of_url is url and of_headers is headers and of_method == method):
            head = self._write_lines(method, url, headers=headers)
            self._head = method, url, headers, head
        if length is None:
            return f"{head}\r\n".encode()
        return f"{head}Content-Length: {length}\r\n\r\n".encode()

    def _write_lines(self, method: str, url: URL, *, headers: Mapping[str, str]) -> str:
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
        return "\r\n".join([*lines, ""])

    def _write_connect(self) -> bytes:
        place = f"{self._origin.host_subcomponent}:{self._origin.port}"
        lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}", "User-Agent: wholecall"]
        return "\r\n".join([*lines, *self._to_proxy, "", ""]).encode()

    # ── Connections ─────────────────────────────────────────────────────────────────

    def load_certificates(self) -> None:
        """Load the trusted certificates, if TLS is used. It takes some 50 ms of CPU, once, and the
        upstream does not cause it: it does not count as time for a connection."""
        for url in (self._origin, self.first_hop):
            self._secure(url)

    async def begin(self, opened: socket.socket, connection: HttpConnection) -> None:
        """Start a connection on a connected socket, which is closed if that fails."""
        try:
            if self._has_tunnel:
                await self._begin_in_tunnel(opened, connection)
            else:
                await self._start(opened, connection)
        except BaseException:
            # Abort the connection first: for a graceful close, the loop would still use the number
            # of the socket, which soon is the number of another one.
            connection.abort()
            opened.close()
            raise

    async def _begin_in_tunnel(self, opened: socket.socket, connection: HttpConnection) -> None:
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

    async def _start_inside(self, tunnel: _Tunnel, connection: HttpConnection) -> None:
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
        if transport is None:  # the proxy disconnected in the same step
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
        """Name the proxy in the error if it is the proxy that cannot be reached."""
        try:
            yield
        except (TimeoutError, PoolClosed):
            raise  # the pool reports these itself
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
        """Request the tunnel. Any 2xx opens it, whatever its headers say about a body."""
        self.transport.write(request)
        status, reason = await self._answer
        if status not in GOOD:
            raise ProxyRefused(status, reason)
        if self._heard:
            # A TLS server waits for the client to speak first.
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
        """Store the transport."""
        self.transport = cast(asyncio.Transport, transport)
        self._connected = True

    def data_received(self, data: bytes) -> None:
        """Read the response to CONNECT."""
        self._heard += data
        while not self._answer.done() and (end := _END_OF_HEAD.search(self._heard)):
            head, self._heard = self._heard[: end.end()], self._heard[end.end() :]
            self._read(head)
        if len(self._heard) > MOST_HEAD_BYTES:
            self._fail(NotHttp(f"the proxy sent a head of more than {MOST_HEAD_BYTES} bytes"))

    def connection_lost(self, _: Exception | None) -> None:
        """Fail, unless the response has arrived."""
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
    """Convert exceptions of the loop in a handshake to our errors."""
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


# Connections to one upstream, kept for the next request.
#
# The most recently used one is taken first, so that those which are not needed any more grow old
# and are closed.


OpenSocket: TypeAlias = Callable[[AddrInfoType], socket.socket]
_Addresses: TypeAlias = Sequence[AddrInfoType]

MOST_CONNECTIONS = 1024
"""The most connections to one upstream at a time. Further requests wait as long as a connection may
take."""
KEEP_ALIVE_SECONDS = 30.0
"""Seconds for which an idle connection is kept: longer than most tools run between two turns."""
_SIGNS_OF_LIFE = ("TCP_KEEPIDLE", "TCP_KEEPINTVL")
_SIGN_SECONDS = 60
# RFC 8305: the time that one address may take before the next is tried in parallel.
_NEXT_ADDRESS_SECONDS = 0.25


def open_socket(address: AddrInfoType) -> socket.socket:
    """Return a socket for this address, not connected yet.

    A model may think for minutes before it says anything. Devices in between drop a connection that
    is silent for long, so the system sends a keep-alive probe each minute.
    """
    family, kind, protocol, *_ = address
    opened = socket.socket(family, kind, protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name in _SIGNS_OF_LIFE:
        if hasattr(socket, name):  # not on every system
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), _SIGN_SECONDS)
    return opened


class ConnectionPool:
    """A client of one upstream, with as many connections as there are requests at a time."""

    def __init__(
        self,
        url: URL,
        *,
        timeouts: Timeouts,
        proxy: URL | None = None,
        trust: Callable[[], ssl.SSLContext] = ssl.create_default_context,
        open_socket: OpenSocket = open_socket,
    ) -> None:
        self.closed = False
        self._timeouts = timeouts
        self._route = ConnectionRoute(url.origin(), proxy=proxy, trust=trust)
        self._open_socket = open_socket
        self._loop = asyncio.get_running_loop()
        self._idle: deque[HttpConnection] = deque()
        """Idle connections, the most recently used one last."""
        self._open: set[HttpConnection] = set()
        self._connecting = 0
        self._limits: set[asyncio.Timeout] = set()
        """The time limits of requests that wait for a connection."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._sweeping: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[_Addresses] | None = None
        self._empty = asyncio.Event()

    async def post(self, url: URL, *, body: bytes, headers: Mapping[str, str]) -> HttpResponse:
        """Send a body, and wait for the head of the response."""
        return await self.send("POST", url, body=body, headers=headers)

    async def send(
        self, method: str, url: URL, *, body: bytes, headers: Mapping[str, str]
    ) -> HttpResponse:
        """Send a request with any method, and wait for the head of the response."""
        length = len(body) if body or method == "POST" else None
        head = self._route.write_head(method, url, headers=headers, length=length)
        return await (await self._find()).ask(head, body)

    async def get(self, url: URL, *, headers: Mapping[str, str]) -> HttpResponse:
        """Request a page, and wait for the head of the response."""
        head = self._route.write_head("GET", url, headers=headers)
        return await (await self._find()).ask(head, b"")

    async def close(self) -> None:
        """Close all connections, including those with a response under way."""
        self.closed = True
        if self._loop.is_closed():
            # Their transports cannot do anything any more. The code that opened the sockets closes
            # them.
            self._open.clear()
            self._idle.clear()
            return
        if self._sweeping is not None:
            self._sweeping.cancel()
        for connection in list(self._open):
            connection.abort(_closed())
        for limit in self._limits:
            if not limit.expired():
                limit.reschedule(self._loop.time())  # they time out now, and `_find` says why
        if self._looking is not None:
            self._looking.cancel()
        if self._open or self._connecting:
            await self._empty.wait()

    # ── Open connections ────────────────────────────────────────────────────────────

    def _keep(self, connection: HttpConnection) -> None:
        """Keep a connection whose response is complete: the next waiting request gets it."""
        connection.idle_since = self._loop.time()
        self._idle.append(connection)
        self._call_next()
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(KEEP_ALIVE_SECONDS, self._sweep)

    def _forget(self, connection: HttpConnection) -> None:
        """Forget a closed connection: another one may be opened."""
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._call_next()
        self._check_empty()

    def _check_empty(self) -> None:
        if self.closed and not self._open and not self._connecting:
            self._empty.set()

    def _take(self) -> HttpConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
        return None

    def _sweep(self) -> None:
        """Close connections that were idle for too long."""
        self._sweeping = None
        oldest = self._loop.time() - KEEP_ALIVE_SECONDS
        while self._idle and self._idle[0].idle_since <= oldest:
            self._idle.popleft().close()
        if self._idle:
            after = self._idle[0].idle_since - oldest
            self._sweeping = self._loop.call_later(after, self._sweep)

    # ── New connections ─────────────────────────────────────────────────────────────

    async def _find(self) -> HttpConnection:
        """Return a connection. Requests get theirs in the order in which they came."""
        if not self._waiting:
            free = self._take()
            if free is not None:
                return free
        self._route.load_certificates()
        seconds = self._timeouts.connect
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                self._limits.add(limit)
                return await self._wait_in_line() or await self._open_one()
        except TimeoutError as error:
            if self.closed:
                raise _closed() from None
            # The system's message, if the system gave up first.
            raise ConnectTimeout(str(error) or f"none within {seconds:g} s") from error
        finally:
            self._limits.discard(limit)

    async def _wait_in_line(self) -> HttpConnection | None:
        """Return a connection that became free; None if another one may be opened."""
        if not self._waiting and self._has_room():
            return None
        ticket = self._loop.create_future()
        self._waiting.append(ticket)
        try:
            while True:
                await ticket
                free = self._take()
                if free is not None or self._has_room():
                    return free
                # The free connection was taken, but this request remains the first.
                place = self._waiting.index(ticket)
                ticket = self._waiting[place] = self._loop.create_future()
        except asyncio.CancelledError:
            if not ticket.cancelled():
                self._call_next()  # woken, then cancelled: the next one's turn
            raise
        finally:
            self._waiting.remove(ticket)

    def _has_room(self) -> bool:
        """Return True if another connection may be opened. Raise `PoolClosed` if the pool is
        closed."""
        if self.closed:
            raise _closed()
        return len(self._open) + self._connecting < MOST_CONNECTIONS

    def _call_next(self) -> bool:
        """Wake the first waiting request that was not woken yet; it leaves the queue on its own."""
        for ticket in self._waiting:
            if not ticket.done():
                ticket.set_result(None)
                return True
        return False

    async def _open_one(self) -> HttpConnection:
        self._connecting += 1
        try:
            connection = await self._begin(await self._reach())
        except BaseException:
            self._call_next()
            raise
        finally:
            self._connecting -= 1
            self._check_empty()
        if self.closed:  # closed while it connected
            connection.abort()
            raise _closed()
        if connection.usable:
            self._open.add(connection)
        else:  # it was lost in the same step in which it was established
            self._call_next()
        return connection

    async def _look_up(self) -> _Addresses:
        """Return the addresses. Requests that need them at the same time share one lookup: few
        threads are available for it, and a thousand requests may need it at once."""
        if self._looking is None:
            self._looking = self._loop.create_task(self._look())
            self._looking.add_done_callback(self._looked)
        looking = self._looking
        await asyncio.wait([looking])  # a cancelled request leaves the lookup to the others
        if looking.cancelled():
            raise _closed()
        return looking.result()

    async def _look(self) -> _Addresses:
        hop = self._route.first_hop
        return await self._loop.getaddrinfo(hop.raw_host, hop.port, type=socket.SOCK_STREAM)

    def _looked(self, looking: asyncio.Task[_Addresses]) -> None:
        self._looking = None
        if not looking.cancelled():
            looking.exception()  # all requests that waited for it may be cancelled

    async def _reach(self) -> socket.socket:
        with self._route.naming_proxy():
            return await start_connection(
                await self._look_up(),
                happy_eyeballs_delay=_NEXT_ADDRESS_SECONDS,
                loop=self._loop,
                socket_factory=self._open_socket,
            )

    async def _begin(self, opened: socket.socket) -> HttpConnection:
        connection = HttpConnection(self._timeouts, on_free=self._keep, on_lost=self._forget)
        await self._route.begin(opened, connection)
        return connection


def _closed() -> PoolClosed:
    return PoolClosed("it was closed on this side")
