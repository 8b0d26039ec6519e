"""Upstreams over HTTP: any endpoint that speaks one of the protocols.

The bytes go from the socket to the reader as they come; nothing here looks into a stream.

What goes wrong *before* an answer begins is an `UpstreamError`, after the attempts that
`RetryPolicy` allows. What goes wrong *in* a stream:

- The connection drops, cleanly or not: the chunks just end. Whether the answer was over by
  then is written in the answer itself, and the reader judges it: many servers hang up
  rudely behind their last event, and a cut answer lacks its end however politely it was cut.
- The upstream falls silent: an `UpstreamError` with the code `timeout`, because nothing
  more comes and nobody else would notice.
"""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import aiohttp
from yarl import URL

from wholecall.core.conversation import Request
from wholecall.core.values import FaultKind
from wholecall.errors import UpstreamError
from wholecall.protocols.answers import dump
from wholecall.protocols.detect import is_whole
from wholecall.protocols.requests import encode_request
from wholecall.upstreams import refusals
from wholecall.upstreams.base import Answer, once
from wholecall.upstreams.endpoint import Endpoint
from wholecall.upstreams.network import find_certificates, find_proxy
from wholecall.upstreams.retry import Failure, RetryPolicy, ask, is_repeatable
from wholecall.upstreams.sessions import Sessions
from wholecall.upstreams.strangers import find_stranger

MOST_BODY_BYTES = 64 * 1024 * 1024
"""Bytes of an answer that is not streamed. The longest have a few megabytes, with images."""
MOST_CONNECTIONS = 1024
"""Of one upstream at a time. Who comes later waits as long as a connection may take."""
KEEP_ALIVE_SECONDS = 30.0
"""How long an idle connection is kept: longer than most tools run between two turns."""
# aiohttp sends bytes in one piece and warns above this size; a file it sends bit by bit.
_LARGE_REQUEST = 1024 * 1024
# White space may come first, as a sign of life. More of it says nothing of what follows.
_MOST_BLANK_BYTES = 1024
# Under these types, the last of which is aiohttp's word for none at all, a body may be one
# JSON document although a stream was asked for.
_WHOLE_TYPES = frozenset({"application/json", "text/plain", "application/octet-stream"})
_GOOD = range(200, 300)
_PROTOCOL = FaultKind.PROTOCOL.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long to wait in each phase. An answer as a whole may take as long as it likes."""

    connect: float | None = 10.0
    """Seconds for a connection: a free place, the address, the handshakes."""
    first_byte: float | None = 600.0
    """Seconds for the headers, and again for the first byte. An answer that is not streamed
    comes when all of it is written."""
    between_chunks: float | None = 300.0
    """Seconds of silence in an answer that has begun. Models think in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """How an upstream is reached."""

    timeouts: Timeouts = field(default_factory=Timeouts)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    """Where proxies and certificates are looked up."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A request, ready to be sent as often as needed."""

    url: URL
    headers: Mapping[str, str]
    body: bytes
    stream: bool


@dataclass(frozen=True, slots=True)
class _Begun:
    """An answer whose first bytes came."""

    response: aiohttp.ClientResponse
    start: bytes
    streamed: bool


def open_body(body: bytes) -> bytes | io.BytesIO:
    """A body in the form in which aiohttp sends it best."""
    return body if len(body) <= _LARGE_REQUEST else io.BytesIO(body)


def sessions_for(endpoint: Endpoint, settings: HttpSettings) -> Sessions:
    """Pools of connections to one endpoint."""

    # Not `trust_env`: that would look up proxies and .netrc in a thread for each request,
    # and an entry in .netrc would clash with our key.
    def make(open_socket: aiohttp.SocketFactoryType) -> aiohttp.ClientSession:
        timeouts, environ = settings.timeouts, settings.environ
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=MOST_CONNECTIONS,
                keepalive_timeout=KEEP_ALIVE_SECONDS,
                ssl=find_certificates(environ) or True,
                socket_factory=open_socket,
            ),
            proxy=find_proxy(endpoint.url_for("", stream=True), environ),
            timeout=aiohttp.ClientTimeout(connect=timeouts.connect, sock_read=timeouts.first_byte),
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    return Sessions(make)


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
        self._settings = settings or HttpSettings()
        self._sessions = sessions_for(self.endpoint, self._settings)

    @property
    def protocol(self) -> str:
        """The protocol that it speaks."""
        return self.endpoint.protocol

    @asynccontextmanager
    async def answer(self, request: Request) -> AsyncIterator[Answer]:
        """Ask, and read the answer inside of the context."""
        begun = await ask(partial(self._attempt, self._prepare(request)), self._settings.retry)
        try:
            yield Answer(
                protocol=self.protocol,
                chunks=self._read(begun) if begun.streamed else once(begun.start),
                streamed=begun.streamed,
                headers=begun.response.headers,
            )
        finally:
            # After the last byte the connection is in the pool again, and this does nothing.
            begun.response.close()

    async def close(self) -> None:
        """Close the connections. The next request opens new ones."""
        await self._sessions.close()

    def _prepare(self, request: Request) -> _Prepared:
        return _Prepared(
            url=self.endpoint.url_for(request.model, stream=request.stream),
            headers=self.endpoint.headers_for(stream=request.stream),
            body=dump(encode_request(self.protocol, request)),
            stream=request.stream,
        )

    # ── Until the answer begins ─────────────────────────────────────────────────────

    async def _attempt(self, prepared: _Prepared) -> _Begun | Failure:
        session = await self._sessions.current()
        try:
            response = await session.post(
                prepared.url,
                data=open_body(prepared.body),
                headers=prepared.headers,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, OSError) as error:
            return self._explain(error)
        try:
            return await self._begin(response, prepared)
        except (aiohttp.ClientError, OSError) as error:
            response.close()
            return self._explain(error)
        except BaseException:
            response.close()
            raise

    async def _begin(
        self, response: aiohttp.ClientResponse, prepared: _Prepared
    ) -> _Begun | Failure:
        if response.status not in _GOOD:
            return await self._refuse(response)
        start = await _read_start(response.content)
        waits = len(start) >= _MOST_BLANK_BYTES and start.isspace()
        stranger = find_stranger(response.status, response.content_type, start=start)
        if stranger and not waits:
            response.close()
            said = f"{self.endpoint.place} {stranger}"
            return Failure(UpstreamError(said, code=_PROTOCOL), repeatable=False)
        _limit_silence(response, self._settings.timeouts.between_chunks)
        if prepared.stream and not self._may_be_whole(response, start):
            return _Begun(response, start, streamed=True)
        body = await self._read_whole(response, start)
        # What is neither a stream nor a whole answer (a bare error) the reader knows, too.
        return _Begun(response, body, streamed=prepared.stream and not is_whole(body))

    async def _refuse(self, response: aiohttp.ClientResponse) -> Failure:
        try:
            async with asyncio.timeout(refusals.MOST_SECONDS):
                body = await _read_some(response.content, refusals.MOST_BYTES)
        except (aiohttp.ClientError, OSError):
            body = b""  # the status says enough
        response.close()
        return refusals.refuse(self.endpoint, response.status, headers=response.headers, body=body)

    def _may_be_whole(self, response: aiohttp.ClientResponse, start: bytes) -> bool:
        """Whether the upstream ignores that a stream was asked for."""
        return (
            not self.endpoint.streams_json
            and response.content_type in _WHOLE_TYPES
            and start.lstrip().startswith((b"{", b"["))
        )

    # ── While it comes in ───────────────────────────────────────────────────────────

    async def _read(self, begun: _Begun) -> AsyncIterator[bytes]:
        read = begun.response.content.readany
        chunk = begun.start
        try:
            while chunk:
                yield chunk
                chunk = await read()
        except TimeoutError as error:
            raise self._fell_silent() from error
        except (aiohttp.ClientError, OSError):
            return  # a dropped connection is the end of the chunks (see above)

    async def _read_whole(self, response: aiohttp.ClientResponse, start: bytes) -> bytes:
        try:
            rest = await _read_some(response.content, MOST_BODY_BYTES)
        except TimeoutError as error:
            raise self._fell_silent() from error
        except (aiohttp.ClientError, OSError) as error:
            raise UpstreamError(
                f"the connection to {self.endpoint.place} dropped in the midst of the answer",
                code="connection",
            ) from error
        if len(start) + len(rest) > MOST_BODY_BYTES:
            raise UpstreamError(
                f"{self.endpoint.place} sent an answer of more than {MOST_BODY_BYTES} bytes",
                code="limit",
            )
        return start + rest

    # ── What went wrong ─────────────────────────────────────────────────────────────

    def _fell_silent(self) -> UpstreamError:
        seconds = self._settings.timeouts.between_chunks
        return UpstreamError(
            f"{self.endpoint.place} fell silent for {seconds:g} s in the midst of an answer",
            code="timeout",
        )

    def _explain(self, error: Exception) -> Failure:
        """Why no answer began."""
        timeouts, place = self._settings.timeouts, self.endpoint.place
        match error:
            case aiohttp.ConnectionTimeoutError():
                # Nothing was sent yet, so it is as if the connection had been refused.
                said = f"no connection to {place} within {timeouts.connect:g} s"
                return _fail(error, said, code="connection", repeatable=True)
            case TimeoutError():
                # Not repeated: whoever asks has waited long, and the upstream may still work on it.
                said = f"{place} did not begin to answer within {timeouts.first_byte:g} s"
                return _fail(error, said, code="timeout", repeatable=False)
            case aiohttp.ClientHttpProxyError():
                said = f"the proxy answered with status {error.status}: {error.message}"
                repeatable = is_repeatable(error.status, {})
                return _fail(error, said, code="connection", repeatable=repeatable)
            case aiohttp.ClientSSLError() | aiohttp.ClientConnectorCertificateError():
                said = f"no safe connection to {place}: {error}"
                return _fail(error, said, code="certificate", repeatable=False)
            case aiohttp.ClientResponseError():
                said = f"{place} does not speak HTTP: {error.message}"
                return _fail(error, said, code="connection", repeatable=False)
        said = self.endpoint.hide_secrets(f"the connection to {place} failed: {error}")
        return _fail(error, said, code="connection", repeatable=True)


def _fail(cause: Exception, said: str, *, code: str, repeatable: bool) -> Failure:
    return Failure(UpstreamError(said, code=code), repeatable, cause)


def _limit_silence(response: aiohttp.ClientResponse, seconds: float | None) -> None:
    """From now on another limit holds. aiohttp keeps the time itself, without a timer a read."""
    connection = response.connection  # None: all of it has come
    if connection is not None and connection.protocol is not None:
        connection.protocol.read_timeout = seconds
        connection.protocol.start_timeout()


async def _read_start(content: aiohttp.StreamReader) -> bytes:
    """The first bytes that say something."""
    start = await content.readany()
    while start.isspace() and len(start) < _MOST_BLANK_BYTES:
        more = await content.readany()
        if not more:
            break
        start += more
    return start


async def _read_some(content: aiohttp.StreamReader, most: int) -> bytes:
    """A body as far as a little more than `most` bytes."""
    pieces: list[bytes] = []
    size = 0
    while size <= most:
        piece = await content.readany()
        if not piece:
            break
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)
