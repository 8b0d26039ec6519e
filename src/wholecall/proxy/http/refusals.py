"""Refuse a request in the client protocol's error format; add the headers of every response."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

import msgspec
from starlette.types import Message, Receive, Send

from wholecall.protocols.response_base import Failure, anthropic_error, openai_error

_ANTHROPIC = "/v1/messages"
_BELOW_ANTHROPIC = f"{_ANTHROPIC}/"


class RequestRefused(Exception):
    """A request is turned away; the words are for the client."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str,
        headers: tuple[tuple[bytes, bytes], ...] = (),
        unread: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.headers = headers
        self.unread = unread
        """True if the client is probably still sending its body."""


def refuse_for_now(status: int, message: str, *, code: str, seconds: float) -> RequestRefused:
    """Turn a request away that may come again after so many seconds."""
    retry_after = str(max(math.ceil(seconds), 1)).encode()
    return RequestRefused(status, message, code=code, headers=((b"retry-after", retry_after),))


def encode_refusal(path: str, refused: RequestRefused, *, request_id: str) -> bytes:
    """The body of the answer, as the clients of this path read errors."""
    failure = Failure(
        message=refused.message,
        status=refused.status,
        code=refused.code,
        request_id=request_id,
    )
    return msgspec.json.encode(_shape_of(path)(failure))


def request_id_header(path: str) -> bytes:
    """The header in which the clients of this path look for the id of their request."""
    return b"request-id" if _is_anthropic(path) else b"x-request-id"


def _shape_of(path: str) -> Callable[[Failure], dict[str, Any]]:
    return anthropic_error if _is_anthropic(path) else openai_error


def _is_anthropic(path: str) -> bool:
    return path == _ANTHROPIC or path.startswith(_BELOW_ANTHROPIC)


# The answer on its way out: the headers that every one has, and refusals.


LINGER_SECONDS = 2.0
LINGER_BYTES = 8 * 1024 * 1024
_Headers: TypeAlias = list[tuple[bytes, bytes]]
_START = "http.response.start"
_BODY = "http.response.body"
_EXPOSED = b"x-request-id, request-id, retry-after, x-should-retry"


class HttpRefusal(NamedTuple):
    """A request that was turned away, for those who look after the proxy."""

    request_id: str
    path: str
    status: int
    code: str
    key_id: str = ""
    """Whose it was, where that was found out."""


def tell_nobody(_: HttpRefusal) -> None:
    """Do nothing: no one is listening."""


async def _send_nowhere(_: Message) -> None:
    """Discard the message: no one is listening any more."""


async def _receive_nothing() -> Message:
    return {"type": "http.disconnect"}


class HttpReply:
    """Wraps `send` of one request."""

    def __init__(self, send: Send, path: str, *, receive: Receive, request_id: str) -> None:
        self.request_id = request_id
        self.origin: str | None = None
        """The website whose pages may read the answer."""
        self.refused = False
        """True if it was answered here. Further output of the application is discarded."""
        self.key_id = ""
        """Whose request it is, as soon as that is known."""
        self.on_refusal: Callable[[HttpRefusal], None] = tell_nobody
        self._send = send
        self._receive = receive
        self._path = path
        self._begun = False

    def let_go(self) -> None:
        """The request is over. The server holds its scope, which holds the caller, who holds this;
        if this went on to hold the server's part, only the collector could free them."""
        self._send, self._receive = _send_nowhere, _receive_nothing

    async def send(self, message: Message) -> None:
        """Pass on what the application says."""
        if self.refused:
            return
        if not self._begun and message["type"] == _START:
            message = self._begin(message)
        await self._send(message)

    async def refuse(self, refused: RequestRefused) -> None:
        """Answer instead of the application, unless it has begun to."""
        if self._begun or self.refused:
            return
        self.refused = True
        self.note(refused)
        body = encode_refusal(self._path, refused, request_id=self.request_id)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            *refused.headers,
        ]
        await self._start(refused.status, headers)
        await self._send({"type": _BODY, "body": body, "more_body": refused.unread})
        if refused.unread:
            await self._linger()
            await self._send({"type": _BODY, "body": b""})

    def note(self, refused: RequestRefused) -> None:
        """Tell of a refusal those who look after the proxy."""
        self.on_refusal(
            HttpRefusal(self.request_id, self._path, refused.status, refused.code, self.key_id)
        )

    async def _linger(self) -> None:
        """Read on for a while before the connection is closed.

        What lies unread when a socket is closed makes it a reset, and a reset takes the
        answer away that the client has not read yet.
        """
        left, more = LINGER_BYTES, True
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while more and left > 0:
                    message = await self._receive()
                    left -= len(message.get("body", b""))
                    more = message.get("more_body", False)

    async def approve(self, headers: _Headers) -> None:
        """Answer a browser that asks whether a page may call us."""
        await self._start(204, headers)
        await self._send({"type": _BODY, "body": b""})

    async def _start(self, status: int, headers: _Headers) -> None:
        await self._send(self._begin({"type": _START, "status": status, "headers": headers}))

    def _begin(self, message: Message) -> Message:
        """The head of the answer, with the headers that every one has."""
        self._begun = True
        given = list(message.get("headers", ()))
        names = {name.lower() for name, _ in given}
        missing = [header for header in self._own_headers() if header[0] not in names]
        return {**message, "headers": given + missing}

    def _own_headers(self) -> _Headers:
        own = [(request_id_header(self._path), self.request_id.encode())]
        if self.origin is not None:
            own += [
                (b"access-control-allow-origin", self.origin.encode()),
                (b"access-control-expose-headers", _EXPOSED),
                (b"vary", b"Origin"),
            ]
        return own
