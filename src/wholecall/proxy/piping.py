"""Connections to an upstream for bodies that are not ours: sent as they came.

Attempts, refusals and secrets are treated as `upstreams.http` does; but nothing here looks into
a body, neither on its way out nor back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, closing
from functools import partial
from types import TracebackType

from wholecall.core.values import Value
from wholecall.errors import UpstreamError
from wholecall.upstreams.endpoint import Endpoint
from wholecall.upstreams.http import MOST_BODY_BYTES, HttpSettings, pools_for
from wholecall.upstreams.http1.base import (
    GOOD,
    ConnectTimeout,
    NotHttp,
    Stale,
    Unsafe,
    judge,
)
from wholecall.upstreams.http1.connection import Response, read_some
from wholecall.upstreams.http1.pool import Pool
from wholecall.upstreams.refusals import read_refusal
from wholecall.upstreams.retry import FailedAttempt, ask

LISTING_SECONDS = 5.0
"""Seconds for a list of models."""
LISTING_BYTES = 4 * 1024 * 1024


class Letter(Value, frozen=True, kw_only=True):
    """A body for an upstream."""

    content: bytes
    model: str
    stream: bool
    below: str = ""
    """A path below the protocol's own: `count_tokens`."""
    headers: Mapping[str, str] = {}
    """The client's headers for this protocol."""


class Pipe:
    """Sends bodies to one endpoint."""

    def __init__(self, endpoint: Endpoint, settings: HttpSettings | None = None) -> None:
        self.endpoint = endpoint
        self._settings = settings or HttpSettings()
        self._pools = pools_for(endpoint, self._settings)

    def send(self, letter: Letter) -> AbstractAsyncContextManager[Response]:
        """Send a body; its answer has begun well inside of the context."""
        return _Sending(self, letter)

    async def open(self, letter: Letter) -> Response:
        """The same for a caller that closes the response itself."""
        return await ask(partial(self._attempt, letter), self._settings.retry)

    async def fetch_models(self) -> bytes:
        """The upstream's own list of its models; an `UpstreamError` if it gives none in time."""
        pool = await self._pools.current()
        try:
            async with asyncio.timeout(LISTING_SECONDS):
                return await self._fetch(pool)
        except OSError as error:
            raise self.fail(error) from error

    async def _fetch(self, pool: Pool) -> bytes:
        response = await pool.get(self.endpoint.models_url, headers=self.endpoint.headers)
        with closing(response):
            if response.status not in GOOD:
                raise UpstreamError("the upstream lists no models", status=response.status)
            return await read_whole(self, response, most_bytes=LISTING_BYTES)

    async def close(self) -> None:
        """Close the connections."""
        await self._pools.close()

    def fail(self, error: OSError) -> UpstreamError:
        """Return the error for a failed connection."""
        return UpstreamError(_describe(error), code=judge(error).code)

    async def _attempt(self, letter: Letter) -> Response | FailedAttempt:
        pool = await self._pools.current()
        url = self.endpoint.url_for(letter.model, stream=letter.stream)
        try:
            response = await pool.post(
                url / letter.below if letter.below else url,
                body=letter.content,
                headers=self.endpoint.headers_with(letter.headers),
            )
        except OSError as error:
            repeatable, at_once = judge(error).repeatable, isinstance(error, Stale)
            return FailedAttempt(self.fail(error), repeatable, error, at_once=at_once)
        if response.status in GOOD:
            return response
        return await read_refusal(self.endpoint, response)


def _describe(error: OSError) -> str:
    """Without the address, which is not the client's business."""
    match error:
        case ConnectTimeout():
            return f"no connection to the upstream: {error}"
        case TimeoutError():
            return "the upstream fell silent"
        case Unsafe():
            return "no safe connection to the upstream"
        case NotHttp():
            return f"the upstream does not speak HTTP: {error}"
    return "the connection to the upstream failed"


class _Sending:
    """A body on its way, and its answer inside of the context."""

    __slots__ = ("_letter", "_pipe", "_response")

    def __init__(self, pipe: Pipe, letter: Letter) -> None:
        self._pipe = pipe
        self._letter = letter

    async def __aenter__(self) -> Response:
        self._response = await self._pipe.open(self._letter)
        return self._response

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._response.close()


async def read_whole(pipe: Pipe, response: Response, *, most_bytes: int = MOST_BODY_BYTES) -> bytes:
    """A body in one piece, of a bounded size."""
    try:
        body = await read_some(response, most_bytes)
    except OSError as error:
        raise pipe.fail(error) from error
    if len(body) > most_bytes:
        raise UpstreamError("the upstream's answer is too large", code="limit")
    return body
