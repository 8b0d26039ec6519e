"""Connections to one upstream, kept for the next request.

The one that was used last is taken first, so that those which are not needed any more grow old
and are closed.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from aiohappyeyeballs import AddrInfoType, start_connection
from yarl import URL

from wholecall.upstreams.http1.base import ConnectTimeout, PoolClosed, Timeouts
from wholecall.upstreams.http1.connection import Connection, Response
from wholecall.upstreams.http1.route import Route

OpenSocket: TypeAlias = Callable[[AddrInfoType], socket.socket]
_Addresses: TypeAlias = Sequence[AddrInfoType]

MOST_CONNECTIONS = 1024
"""Of one upstream at a time. Who comes later waits as long as a connection may take."""
KEEP_ALIVE_SECONDS = 30.0
"""How long an idle connection is kept: longer than most tools run between two turns."""
_SIGNS_OF_LIFE = ("TCP_KEEPIDLE", "TCP_KEEPINTVL")
_SIGN_SECONDS = 60
# RFC 8305: so long one address may take before the next is tried beside it.
_NEXT_ADDRESS_SECONDS = 0.25


def open_socket(address: AddrInfoType) -> socket.socket:
    """A socket for this address, not connected yet.

    A model may think for minutes before it says anything. What stands in between drops a
    connection that is silent for long, so the system gives a sign of life each minute.
    """
    family, kind, protocol, *_ = address
    opened = socket.socket(family, kind, protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name in _SIGNS_OF_LIFE:
        if hasattr(socket, name):  # not everywhere
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), _SIGN_SECONDS)
    return opened


class Pool:
    """Sends requests to one upstream, over as many connections as there are requests at a time."""

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
        self._route = Route(url.origin(), proxy=proxy, trust=trust)
        self._open_socket = open_socket
        self._loop = asyncio.get_running_loop()
        self._idle: deque[Connection] = deque()
        """The one that was used last at the end."""
        self._open: set[Connection] = set()
        self._connecting = 0
        self._limits: set[asyncio.Timeout] = set()
        """Of those who wait for a connection."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._sweeping: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[_Addresses] | None = None
        self._empty = asyncio.Event()

    async def post(self, url: URL, *, body: bytes, headers: Mapping[str, str]) -> Response:
        """Send a body, and wait for the head of the answer."""
        head = self._route.write_head("POST", url, headers=headers, length=len(body))
        return await (await self._find()).ask(head, body)

    async def get(self, url: URL, *, headers: Mapping[str, str]) -> Response:
        """Ask for a page, and wait for its head."""
        head = self._route.write_head("GET", url, headers=headers)
        return await (await self._find()).ask(head, b"")

    async def close(self) -> None:
        """Close all connections, whatever comes over them."""
        self.closed = True
        if self._loop.is_closed():
            # Their transports can do nothing any more. Whoever opened the sockets closes them.
            self._open.clear()
            self._idle.clear()
            return
        if self._sweeping is not None:
            self._sweeping.cancel()
        for connection in list(self._open):
            connection.abort(_closed())
        for limit in self._limits:
            if not limit.expired():
                limit.reschedule(self._loop.time())  # their time is over, and `_find` says why
        if self._looking is not None:
            self._looking.cancel()
        if self._open or self._connecting:
            await self._empty.wait()

    # ── Connections that are open ───────────────────────────────────────────────────

    def _keep(self, connection: Connection) -> None:
        """An answer is over: whoever waits for a connection gets this one."""
        connection.idle_since = self._loop.time()
        self._idle.append(connection)
        self._call_next()
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(KEEP_ALIVE_SECONDS, self._sweep)

    def _forget(self, connection: Connection) -> None:
        """A connection is closed: there is place for another."""
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._call_next()
        self._check_empty()

    def _check_empty(self) -> None:
        if self.closed and not self._open and not self._connecting:
            self._empty.set()

    def _take(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
        return None

    def _sweep(self) -> None:
        """Close those that nobody has needed for long."""
        self._sweeping = None
        oldest = self._loop.time() - KEEP_ALIVE_SECONDS
        while self._idle and self._idle[0].idle_since <= oldest:
            self._idle.popleft().close()
        if self._idle:
            after = self._idle[0].idle_since - oldest
            self._sweeping = self._loop.call_later(after, self._sweep)

    # ── New ones ────────────────────────────────────────────────────────────────────

    async def _find(self) -> Connection:
        """A connection, and who came first gets one first."""
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
            # The system's words, where it gave up by itself before.
            raise ConnectTimeout(str(error) or f"none within {seconds:g} s") from error
        finally:
            self._limits.discard(limit)

    async def _wait_in_line(self) -> Connection | None:
        """A connection that got free; None: another one may be opened."""
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
                # What was free is gone; but it remains the first.
                place = self._waiting.index(ticket)
                ticket = self._waiting[place] = self._loop.create_future()
        except asyncio.CancelledError:
            if not ticket.cancelled():
                self._call_next()  # called, and gone: somebody else's turn
            raise
        finally:
            self._waiting.remove(ticket)

    def _has_room(self) -> bool:
        """Whether another one may be opened. `PoolClosed`: none, ever."""
        if self.closed:
            raise _closed()
        return len(self._open) + self._connecting < MOST_CONNECTIONS

    def _call_next(self) -> bool:
        """Wake the first who was not called yet; it leaves the queue on its own."""
        for ticket in self._waiting:
            if not ticket.done():
                ticket.set_result(None)
                return True
        return False

    async def _open_one(self) -> Connection:
        self._connecting += 1
        try:
            connection = await self._begin(await self._reach())
        except BaseException:
            self._call_next()
            raise
        finally:
            self._connecting -= 1
            self._check_empty()
        if self.closed:  # while it came about
            connection.abort()
            raise _closed()
        if connection.usable:
            self._open.add(connection)
        else:  # it was lost in the same step in which it came about
            self._call_next()
        return connection

    async def _look_up(self) -> _Addresses:
        """Whoever needs the addresses at the same time waits for one look at them: there are few
        threads for it, and a thousand may need them at once."""
        if self._looking is None:
            self._looking = self._loop.create_task(self._look())
            self._looking.add_done_callback(self._looked)
        looking = self._looking
        await asyncio.wait([looking])  # who is cancelled leaves it to the others
        if looking.cancelled():
            raise _closed()
        return looking.result()

    async def _look(self) -> _Addresses:
        hop = self._route.first_hop
        return await self._loop.getaddrinfo(hop.raw_host, hop.port, type=socket.SOCK_STREAM)

    def _looked(self, looking: asyncio.Task[_Addresses]) -> None:
        self._looking = None
        if not looking.cancelled():
            looking.exception()  # all who waited for it may be gone

    async def _reach(self) -> socket.socket:
        with self._route.naming_proxy():
            return await start_connection(
                await self._look_up(),
                happy_eyeballs_delay=_NEXT_ADDRESS_SECONDS,
                loop=self._loop,
                socket_factory=self._open_socket,
            )

    async def _begin(self, opened: socket.socket) -> Connection:
        connection = Connection(self._timeouts, on_free=self._keep, on_lost=self._forget)
        await self._route.begin(opened, connection)
        return connection


def _closed() -> PoolClosed:
    return PoolClosed("it was closed on this side")
