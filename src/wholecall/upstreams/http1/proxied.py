"""The same through a proxy of the environment, by aiohttp: it knows how to ask one for a tunnel."""

from __future__ import annotations

import io
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import aiohttp
from yarl import URL

from wholecall.upstreams.http1.base import (
    ConnectTimeout,
    NotHttp,
    PoolClosed,
    ProxyRefused,
    RawHeaders,
    Timeouts,
    Unsafe,
    find_media_type,
    is_fit,
)
from wholecall.upstreams.http1.direct import KEEP_ALIVE_SECONDS, MOST_CONNECTIONS, OpenSocket

# aiohttp sends bytes in one piece and warns above this size; a file it sends bit by bit.
_LARGE_REQUEST = 1024 * 1024


class ProxiedPool:
    """Asks one upstream through a proxy."""

    def __init__(
        self,
        proxy: URL,
        *,
        timeouts: Timeouts,
        trust: Callable[[], ssl.SSLContext],
        open_socket: OpenSocket,
    ) -> None:
        self._between_chunks = timeouts.between_chunks
        # Not `trust_env`: that would look up proxies and .netrc in a thread for each request,
        # and an entry in .netrc would clash with our key.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=MOST_CONNECTIONS,
                keepalive_timeout=KEEP_ALIVE_SECONDS,
                ssl=trust(),
                socket_factory=open_socket,
            ),
            proxy=proxy,
            timeout=aiohttp.ClientTimeout(connect=timeouts.connect, sock_read=timeouts.first_byte),
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    @property
    def closed(self) -> bool:
        """Whether it can be used no more."""
        return self._session.closed

    async def post(self, url: URL, *, body: bytes, headers: Mapping[str, str]) -> ProxiedResponse:
        """Send a body, and wait for the head of the answer."""
        data = body if len(body) <= _LARGE_REQUEST else io.BytesIO(body)
        return await self._ask("POST", url, data=data, headers=headers)

    async def get(self, url: URL, *, headers: Mapping[str, str]) -> ProxiedResponse:
        """Ask for a page, and wait for its head."""
        return await self._ask("GET", url, headers=headers)

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def _ask(self, method: str, url: URL, **request: Any) -> ProxiedResponse:
        if self.closed:
            raise PoolClosed("it was closed on this side")
        with _translated():
            response = await self._session.request(method, url, allow_redirects=False, **request)
        return ProxiedResponse(response, between_chunks=self._between_chunks)


class ProxiedResponse:
    """An answer that comes through a proxy."""

    def __init__(self, response: aiohttp.ClientResponse, *, between_chunks: float | None) -> None:
        self._response = response
        self._between_chunks = between_chunks
        self._begun = False
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self.raw_headers: RawHeaders = [
            (name.lower(), value) for name, value in response.raw_headers if is_fit(value)
        ]

    @property
    def content_type(self) -> str:
        """The media type without its parameters."""
        return find_media_type(self.raw_headers)

    async def read(self) -> bytes:
        """What has come of the body; nothing: it is over."""
        with _translated():
            data = await self._response.content.readany()
        if not self._begun:
            self._begin()
        return data

    def _begin(self) -> None:
        """From now on another silence is allowed. aiohttp has no other way to say so."""
        self._begun = True
        connection = self._response.connection  # None: all of it has come
        if connection is not None and connection.protocol is not None:
            connection.protocol.read_timeout = self._between_chunks
            connection.protocol.start_timeout()

    def close(self) -> None:
        """Hang up, unless all of it has come."""
        self._response.close()


@contextmanager
def _translated() -> Iterator[None]:
    """Failures of aiohttp as those of ours."""
    try:
        yield
    except aiohttp.ConnectionTimeoutError as error:
        raise ConnectTimeout(str(error)) from error
    except TimeoutError:
        raise
    except aiohttp.ClientHttpProxyError as error:
        raise ProxyRefused(error.status, error.message) from error
    except (aiohttp.ClientSSLError, aiohttp.ClientConnectorCertificateError) as error:
        raise Unsafe(str(error)) from error
    except aiohttp.ClientResponseError as error:
        raise NotHttp(error.message) from error
    except aiohttp.ClientError as error:
        raise ConnectionError(str(error)) from error
