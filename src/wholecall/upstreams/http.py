"""Upstreams over HTTP: any endpoint that speaks one of the protocols.

The bytes go from the socket to the reader as they come; nothing here parses a stream.

A failure *before* an answer begins is an `UpstreamError`, after the attempts that `RetryPolicy`
allows. Failures *in* a stream:

- The connection drops, cleanly or not: the chunks just end. Whether the answer was over by
  then is written in the answer itself, and the reader judges it: many servers reset
  the connection after their last event, and a cut answer lacks its end however it was cut.
- The upstream falls silent: an `UpstreamError` with the code `timeout`, because nothing
  more comes and nothing else would notice.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from yarl import URL

from wholecall.core.conversation import Request
from wholecall.core.values import FaultKind
from wholecall.errors import UpstreamError
from wholecall.protocols.answers import dump
from wholecall.protocols.detect import begins_events, is_whole
from wholecall.protocols.requests import encode_request
from wholecall.upstreams.base import Answer, once
from wholecall.upstreams.endpoint import Endpoint
from wholecall.upstreams.http1.base import (
    GOOD,
    ConnectTimeout,
    NotHttp,
    ProxyRefused,
    Stale,
    Timeouts,
    Unsafe,
    find_cause,
    judge,
)
from wholecall.upstreams.http1.connection import Response, read_some
from wholecall.upstreams.http1.pool import OpenSocket, Pool
from wholecall.upstreams.network import find_certificates, find_proxy
from wholecall.upstreams.pools import Pools
from wholecall.upstreams.refusals import read_refusal
from wholecall.upstreams.retry import FailedAttempt, RetryPolicy, ask
from wholecall.upstreams.strangers import find_stranger

MOST_BODY_BYTES = 64 * 1024 * 1024
"""Bytes of an answer that is not streamed. The longest have a few megabytes, with images."""
# White space may come first, as a sign of life. More of it says nothing of what follows.
_MOST_BLANK_BYTES = 1024
# Under these types, the last of which means no type at all, a body may be one JSON document
# although a stream was requested.
_WHOLE_TYPES = frozenset({"application/json", "text/plain", "application/octet-stream"})
_PROTOCOL = FaultKind.PROTOCOL.value


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """Settings of the connections to an upstream."""

    timeouts: Timeouts = field(default_factory=Timeouts)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    """The environment with proxies and certificates."""


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

    response: Response
    start: bytes
    streamed: bool


def pools_for(endpoint: Endpoint, settings: HttpSettings) -> Pools:
    """Pools of connections to one endpoint."""
    url, environ = endpoint.url_for("", stream=True), settings.environ

    def trust() -> ssl.SSLContext:
        return find_certificates(environ) or ssl.create_default_context()

    def make(open_socket: OpenSocket) -> Pool:
        return Pool(
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
        self._settings = settings or HttpSettings()
        self._pools = pools_for(self.endpoint, self._settings)

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
        await self._pools.close()

    def _prepare(self, request: Request) -> _Prepared:
        given, headers = request.headers, self.endpoint.headers
        if given is not None and given.protocol == self.protocol:
            headers = self.endpoint.headers_with(given.value)
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

    async def _begin(self, response: Response, prepared: _Prepared) -> _Begun | FailedAttempt:
        if response.status not in GOOD:
            return await read_refusal(self.endpoint, response)
        start = await _read_start(response)
        waits = len(start) >= _MOST_BLANK_BYTES and start.isspace()
        stranger = find_stranger(response.status, response.content_type, start=start)
        if stranger and not waits:
            response.close()
            said = f"{self.endpoint.place} {stranger}"
            return FailedAttempt(UpstreamError(said, code=_PROTOCOL), repeatable=False)
        if prepared.stream and not self._may_be_whole(response, start):
            return _Begun(response, start, streamed=True)
        body = await self._read_whole(response, start)
        # What is neither a stream nor a whole answer (a bare error) the reader knows, too.
        streamed = begins_events(body) or (prepared.stream and not is_whole(body))
        return _Begun(response, body, streamed=streamed)

    def _may_be_whole(self, response: Response, start: bytes) -> bool:
        """Return True if the upstream ignores that a stream was requested."""
        return (
            not self.endpoint.streams_json
            and response.content_type in _WHOLE_TYPES
            and start.lstrip().startswith((b"{", b"["))
        )

    # ── While it comes in ───────────────────────────────────────────────────────────

    async def _read(self, begun: _Begun) -> AsyncIterator[bytes]:
        read = begun.response.read
        chunk = begun.start
        try:
            while chunk:
                yield chunk
                chunk = await read()
        except TimeoutError as error:
            raise self._fell_silent() from error
        except OSError:
            return  # a dropped connection is the end of the chunks (see above)

    async def _read_whole(self, response: Response, start: bytes) -> bytes:
        try:
            rest = await read_some(response, MOST_BODY_BYTES)
        except TimeoutError as error:
            raise self._fell_silent() from error
        except NotHttp:
            raise
        except OSError as error:
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

    def _explain(self, error: OSError) -> FailedAttempt:
        """Return why no answer began."""
        code, repeatable = judge(error)
        said = self.endpoint.hide_secrets(self._describe(error))
        failed = UpstreamError(said, code=code)
        return FailedAttempt(failed, repeatable, error, at_once=isinstance(error, Stale))

    def _describe(self, error: OSError) -> str:
        place, first_byte = self.endpoint.place, self._settings.timeouts.first_byte
        match error:
            case ConnectTimeout():
                return f"no connection to {place}: {error}"
            case TimeoutError() if first_byte is not None:
                return f"{place} did not begin to answer within {first_byte:g} s"
            case ProxyRefused():
                return str(error)
            case Unsafe():
                return f"no safe connection to {place}: {error}"
            case NotHttp():
                return f"{place} does not speak HTTP: {error}"
        return f"the connection to {place} failed: {find_cause(error)}"


async def _read_start(response: Response) -> bytes:
    """The first bytes that say something."""
    start = await response.read()
    while start.isspace() and len(start) < _MOST_BLANK_BYTES:
        more = await response.read()
        if not more:
            break
        start += more
    return start
