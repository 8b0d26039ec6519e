"""`wholecall`, but with aiohttp as the client to upstreams: the other side of the comparison.

    python -m proxies.aiohttp_client serve --config FILE --port PORT

It does as little as it can: the same limits, one session, no cookies, redirects or proxy.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import aiohttp
from yarl import URL

from wholecall.cli.main import main
from wholecall.upstreams import http
from wholecall.upstreams.connection_pool import KEEP_ALIVE_SECONDS, MOST_CONNECTIONS, OpenSocket
from wholecall.upstreams.http_connection import (
    NotHttp,
    RawHeaders,
    Timeouts,
    find_media_type,
)


class AiohttpPool:
    """Sends requests to one upstream."""

    def __init__(
        self,
        url: URL,
        *,
        timeouts: Timeouts,
        proxy: URL | None,
        trust: Callable[[], ssl.SSLContext],
        open_socket: OpenSocket,
    ) -> None:
        del url, proxy
        self._between_chunks = timeouts.between_chunks
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=MOST_CONNECTIONS,
                keepalive_timeout=KEEP_ALIVE_SECONDS,
                ssl=trust(),
                socket_factory=open_socket,
            ),
            timeout=aiohttp.ClientTimeout(connect=timeouts.connect, sock_read=timeouts.first_byte),
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._session.closed

    async def post(self, url: URL, *, body: bytes, headers: Mapping[str, str]) -> AiohttpResponse:
        """Send a body and wait for the response's head."""
        with _translated():
            response = await self._session.post(
                url, data=body, headers=headers, allow_redirects=False
            )
        return AiohttpResponse(response, between_chunks=self._between_chunks)

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()


class AiohttpResponse:
    """A response whose head has come."""

    def __init__(self, response: aiohttp.ClientResponse, *, between_chunks: float | None) -> None:
        self._response = response
        self._between_chunks = between_chunks
        self._begun = False
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self.raw_headers: RawHeaders = [
            (name.lower(), value) for name, value in response.raw_headers
        ]

    @property
    def content_type(self) -> str:
        """The media type without its parameters."""
        return find_media_type(self.raw_headers)

    async def read(self) -> bytes:
        """Return the next bytes of the body; empty at its end."""
        with _translated():
            data = await self._response.content.readany()
        if not self._begun:
            self._begin()
        return data

    def _begin(self) -> None:
        """Switch to the limit on silence inside a body. aiohttp has no public way to do it."""
        self._begun = True
        connection = self._response.connection  # None: the whole body has come
        if connection is not None and connection.protocol is not None:
            connection.protocol.read_timeout = self._between_chunks
            connection.protocol.start_timeout()

    def close(self) -> None:
        """Close the connection unless the whole body has come."""
        self._response.close()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except aiohttp.ClientResponseError as error:
        raise NotHttp(error.message) from error
    except aiohttp.ClientError as error:
        raise ConnectionError(str(error)) from error


if __name__ == "__main__":
    vars(http).update(Pool=AiohttpPool)  # the one place that makes pools
    main()
