"""Upstreams over HTTP, their connection pools per event loop, proxies and certificates."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar
from weakref import WeakSet

from aiohappyeyeballs import AddrInfoType
from yarl import URL

from wholecall.errors import UpstreamError
from wholecall.events import FaultKind, Value
from wholecall.messages import Request
from wholecall.protocols.registry import begins_events, encode_request, is_full_response
from wholecall.protocols.response_base import dump
from wholecall.upstreams.base import Answer, once
from wholecall.upstreams.connection_pool import ConnectionPool, OpenSocket, open_socket
from wholecall.upstreams.endpoint import TRACE_HEADERS, Endpoint, find_stranger, read_refusal
from wholecall.upstreams.http_connection import (
    GOOD,
    HttpResponse,
    NotHttp,
    Stale,
    Timeouts,
    TookTooLong,
    Unsafe,
    describe_failure,
    judge,
    read_some,
)
from wholecall.upstreams.retry import FailedAttempt, RetryPolicy, ask

# The way out to the network as the environment describes it: proxies and certificates.


# The first one that is set wins; the names are those of OpenSSL, requests and curl.
_CERTIFICATES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_DIR")


def find_proxy(url: URL, environ: Mapping[str, str]) -> URL | None:
    """The proxy for this address: `HTTPS_PROXY`, `HTTP_PROXY` or `ALL_PROXY`, but `NO_PROXY`."""
    settings = _read_proxies(environ)
    proxy = settings.get(url.scheme) or settings.get("all")
    if not proxy or _is_exempt(url, settings.get("no", "")):
        return None
    address = URL(proxy if "://" in proxy else f"http://{proxy}")
    if address.scheme not in ("http", "https"):
        raise UpstreamError(
            f"the proxy for {url.scheme} is a {address.scheme} one; only http and https are spoken",
            code="connection",
        )
    return address


def _read_proxies(environ: Mapping[str, str]) -> dict[str, str]:
    upper = {name.lower(): value for name, value in environ.items() if name.isupper()}
    if "REQUEST_METHOD" in environ:
        # In a CGI program `HTTP_PROXY` is the header `Proxy` of the request.
        upper.pop("http_proxy", None)
    lower = {name: value for name, value in environ.items() if name.islower()}
    return {
        name.removesuffix("_proxy"): value
        for name, value in (upper | lower).items()
        if name.endswith("_proxy")
    }


def _is_exempt(url: URL, exempt: str) -> bool:
    """Return True if a list of hosts and domains (`*` is all of them) names this address."""
    host = url.host or ""
    for entry in exempt.lower().split(","):
        name = entry.strip().lstrip(".")
        if name == "*" or name in (host, f"[{host}]", f"{host}:{url.port}"):
            return True
        if name and host.endswith(f".{name}"):
            return True
    return False


def find_certificates(environ: Mapping[str, str]) -> ssl.SSLContext | None:
    """Whom to trust, if the environment says so; None: the system's certificates."""
    for name in _CERTIFICATES:
        place = environ.get(name)
        if place:
            return _load(name, Path(place))
    return None


def _load(name: str, path: Path) -> ssl.SSLContext:
    try:
        if path.is_dir():
            return ssl.create_default_context(capath=str(path))
        return ssl.create_default_context(cafile=str(path))
    except OSError as error:  # `ssl.SSLError` is one
        raise UpstreamError(
            f"{name} names {str(path)!r}, which holds no certificates ({error.strerror or error})",
            code="certificate",
        ) from error


# One pool of connections for each event loop that asks.
#
# A pool belongs to the loop in which it was made. A program may run one loop after another
# (`asyncio.run` for each question) or several in threads, and still keep one upstream. No
# connection outlives its loop: a loop that ends as `asyncio.run` ends it closes its own, and those
# of a loop that was just closed are closed when the upstream is next used.


OTHER_LOOP_SECONDS = 5.0
"""Seconds to wait for loops of other threads to close their own. A loop that is busy for longer
closes them later."""


class Pools:
    """Makes pools when they are needed, and closes them all."""

    def __init__(self, make: Callable[[OpenSocket], ConnectionPool]) -> None:
        self._make = make
        self._by_loop: dict[asyncio.AbstractEventLoop, _Kept] = {}

    async def current(self) -> ConnectionPool:
        """The pool of the running loop."""
        loop = asyncio.get_running_loop()
        kept = self._by_loop.get(loop)
        if kept is None or kept.pool.closed:
            await self._drop_dead()
            kept = self._by_loop.get(loop)  # another task may have been here meanwhile
        if kept is None or kept.pool.closed:
            kept = self._by_loop[loop] = await self._open()
        return kept.pool

    async def close(self) -> None:
        """Close every connection; each pool in its own loop, which is waited for if it runs."""
        here = asyncio.get_running_loop()
        await self._drop_dead()
        elsewhere: list[asyncio.Future[None]] = []
        while self._by_loop:
            loop, kept = self._by_loop.popitem()
            if loop is here:
                await kept.ending.aclose()
                continue
            closing = asyncio.run_coroutine_threadsafe(_close(kept), loop)
            if loop.is_running():
                elsewhere.append(asyncio.wrap_future(closing))
        if elsewhere:
            await asyncio.wait(elsewhere, timeout=OTHER_LOOP_SECONDS)

    async def _open(self) -> _Kept:
        sockets: WeakSet[socket.socket] = WeakSet()

        def remember(address: AddrInfoType) -> socket.socket:
            opened = open_socket(address)
            sockets.add(opened)
            return opened

        pool = self._make(remember)
        ending = _end_with_loop(pool)
        await anext(ending)
        return _Kept(pool, ending, sockets)

    async def _drop_dead(self) -> None:
        # Other threads do the same at the same time, each for its own loop.
        for loop in list(self._by_loop):
            kept = self._by_loop.pop(loop, None) if loop.is_closed() else None
            if kept is not None:
                await _bury(kept)


@dataclass(frozen=True, slots=True)
class _Kept:
    """A pool, and what is needed to close it."""

    pool: ConnectionPool
    ending: AsyncGenerator[None]
    """Open as long as the pool is. The loop knows it, and closes it at its own end."""
    sockets: WeakSet[socket.socket]
    """All that were opened and may be open still."""


async def _end_with_loop(pool: ConnectionPool) -> AsyncGenerator[None]:
    """A generator that has begun is closed by its loop (`shutdown_asyncgens`) at the latest."""
    try:
        yield
    finally:
        await pool.close()


async def _close(kept: _Kept) -> None:
    await kept.ending.aclose()


async def _bury(kept: _Kept) -> None:
    """The loop is gone and closes nothing more: the pool has to know, the sockets have to go."""
    await kept.pool.close()
    for left in list(kept.sockets):
        left.close()


MANY_PARTS = 200
"""Parts of a request that is encoded in a thread: others would wait for it."""
PER_TOOL = 8
"""Parts that a tool counts for: it may have hundreds of parameters."""
MOST_BODY_BYTES = 64 * 1024 * 1024
"""Bytes of an answer that is passed on in one piece."""
# White space may come first, as a sign of life. More of it says nothing of what follows.
_MOST_BLANK_BYTES = 1024
# Under these types, the last of which means no type at all, a body may be one JSON document
# although a stream was requested.
_WHOLE_TYPES = frozenset({"application/json", "text/plain", "application/octet-stream"})
_Opened = TypeVar("_Opened")
_PROTOCOL = FaultKind.PROTOCOL.value


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """Settings of the connections to an upstream."""

    timeouts: Timeouts = field(default_factory=Timeouts)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    """The environment with proxies and certificates."""
    answer_bytes: int = 128 * 1024 * 1024
    """Bytes of an answer, which is held until it is checked. The longest have a few megabytes."""


class _Prepared(Value, frozen=True):
    """A request, ready to be sent as often as needed."""

    url: URL
    headers: Mapping[str, str]
    body: bytes
    stream: bool


class _Begun(Value, frozen=True):
    """An answer whose first bytes came."""

    response: HttpResponse
    start: bytes
    streamed: bool


class ResponseContext(Generic[_Opened]):
    """A context that opens a response. As a generator, it would take a few calls more."""

    __slots__ = ("_begin", "_response")

    def __init__(self, begin: Callable[[], Awaitable[tuple[_Opened, HttpResponse]]]) -> None:
        self._begin = begin
        """Returns what is entered, and the response that is closed after it."""

    async def __aenter__(self) -> _Opened:
        opened, self._response = await self._begin()
        return opened

    async def __aexit__(self, *_: object) -> None:
        # After the last byte the connection is in the pool again, and this does nothing.
        self._response.close()


def pools_for(endpoint: Endpoint, settings: HttpSettings) -> Pools:
    """Pools of connections to one endpoint."""
    url, environ = endpoint.url_for("", stream=True), settings.environ

    def trust() -> ssl.SSLContext:
        return find_certificates(environ) or ssl.create_default_context()

    def make(open_socket: OpenSocket) -> ConnectionPool:
        return ConnectionPool(
            url,
            timeouts=settings.timeouts,
            proxy=find_proxy(url, environ),
            trust=trust,
            open_socket=open_socket,
        )

    return Pools(make)


class HttpUpstream:
    """Asks an HTTP endpoint. One upstream serves many requests at a time, in any event loop."""

    def __init__(
        self,
        protocol: str,
        base_url: str,
        *,
        api_key: str = "",
        headers: Mapping[str, str] | None = None,
        settings: HttpSettings | None = None,
    ) -> None:
        self.endpoint = Endpoint(protocol, base_url, api_key=api_key, headers=headers)
        self.protocol = protocol
        """The protocol that it speaks."""
        self._settings = settings or HttpSettings()
        self._pools = pools_for(self.endpoint, self._settings)

    def answer(self, request: Request) -> AbstractAsyncContextManager[Answer]:
        """Ask, and read the answer inside of the context."""
        return ResponseContext(partial(self._open, request))

    async def _open(self, request: Request) -> tuple[Answer, HttpResponse]:
        parts = sum(len(each.parts) for each in request.messages)
        prepare, many = partial(self._prepare, request), parts + PER_TOOL * len(request.tools)
        prepared = await asyncio.to_thread(prepare) if many > MANY_PARTS else prepare()
        begun = await ask(partial(self._attempt, prepared), self._settings.retry)
        answer = Answer(
            protocol=self.protocol,
            chunks=self._read(begun)
            if begun.streamed
            else once(self.endpoint.hide_in(begun.start)),
            streamed=begun.streamed,
            headers=begun.response.headers,
            silence=self._settings.timeouts.between_chunks,
        )
        return answer, begun.response

    async def close(self) -> None:
        """Close the connections. The next request opens new ones."""
        await self._pools.close()

    def _prepare(self, request: Request) -> _Prepared:
        given, headers = request.headers, self.endpoint.headers
        if given is not None and given.value:
            theirs = given.protocol == self.protocol
            passed = {n: v for n, v in given.value.items() if theirs or n in TRACE_HEADERS}
            headers = self.endpoint.headers_with(passed)
        return _Prepared(
            url=self.endpoint.url_for(request.model, stream=request.stream),
            headers=headers,
            body=dump(encode_request(self.protocol, request)),
            stream=request.stream,
        )

    # ── Until the answer begins ─────────────────────────────────────────────────────

    async def _attempt(self, prepared: _Prepared) -> _Begun | FailedAttempt:
        pool = await self._pools.current()
        try:
            response = await pool.post(prepared.url, body=prepared.body, headers=prepared.headers)
        except OSError as error:
            return self._explain(error)
        try:
            return await self._begin(response, prepared)
        except OSError as error:
            response.close()
            return self._explain(error)
        except BaseException:
            response.close()
            raise

    async def _begin(self, response: HttpResponse, prepared: _Prepared) -> _Begun | FailedAttempt:
        if response.status not in GOOD:
            return await read_refusal(self.endpoint, response)
        start = await response.read_start(_MOST_BLANK_BYTES)
        waits = len(start) >= _MOST_BLANK_BYTES and start.isspace()
        media_type = response.content_type
        stranger = find_stranger(response.status, media_type, start=start)
        if stranger and not waits:
            response.close()
            said = f"{self.endpoint.place} {stranger}"
            return FailedAttempt(UpstreamError(said, code=_PROTOCOL), repeatable=False)
        if prepared.stream and not self._may_be_whole(media_type, start):
            return _Begun(response, start, streamed=True)
        body = await self._read_whole(response, start)
        # What is neither a stream nor a whole answer (a bare error) the reader knows, too.
        streamed = begins_events(body) or (prepared.stream and not is_full_response(body))
        return _Begun(response, body, streamed=streamed)

    def _may_be_whole(self, media_type: str, start: bytes) -> bool:
        """Return True if the upstream ignores that a stream was requested."""
        return (
            media_type in _WHOLE_TYPES
            and start.lstrip().startswith((b"{", b"["))
            and not self.endpoint.streams_json
        )

    # ── While it comes in ───────────────────────────────────────────────────────────

    async def _read(self, begun: _Begun) -> AsyncIterator[bytes]:
        read = begun.response.read
        chunk, room = begun.start, self._settings.answer_bytes
        try:
            while chunk:
                room -= len(chunk)
                if room < 0:
                    raise self._too_large()
                yield self.endpoint.hide_in(chunk)
                chunk = await read()
        except TimeoutError as error:
            raise self._run_out(error) from error
        except OSError:
            return  # a dropped connection is the end of the chunks (see above)

    async def _read_whole(self, response: HttpResponse, start: bytes) -> bytes:
        try:
            rest = await read_some(response, self._settings.answer_bytes)
        except TimeoutError as error:
            raise self._run_out(error) from error
        except NotHttp:
            raise
        except OSError as error:
            raise UpstreamError(
                f"the connection to {self.endpoint.place} dropped in the middle of the answer",
                code="connection",
            ) from error
        if len(start) + len(rest) > self._settings.answer_bytes:
            raise self._too_large()
        return start + rest

    # ── What went wrong ─────────────────────────────────────────────────────────────

    def _too_large(self) -> UpstreamError:
        said = f"sent an answer of more than {self._settings.answer_bytes} bytes"
        return UpstreamError(f"{self.endpoint.place} {said}", code="limit")

    def _run_out(self, error: TimeoutError) -> UpstreamError:
        place, timeouts = self.endpoint.place, self._settings.timeouts
        said = f"fell silent for {timeouts.between_chunks:g} s in the middle of an answer"
        if isinstance(error, TookTooLong):
            said = f"did not end its answer within {timeouts.total:g} s"
        return UpstreamError(f"{place} {said}", code="timeout")

    def _explain(self, error: OSError) -> FailedAttempt:
        """Return why no answer began."""
        code, repeatable = judge(error)
        first_byte = self._settings.timeouts.first_byte
        said = describe_failure(error, self.endpoint.place, first_byte=first_byte)
        said += f": {error}" if isinstance(error, Unsafe) else ""
        failed = UpstreamError(self.endpoint.hide_secrets(said), code=code)
        return FailedAttempt(failed, repeatable, error, at_once=isinstance(error, Stale))
