"""The outermost layer of the proxy: who is admitted, what every response has, how requests are
refused, and 404, 405 and 500 bodies in the client protocol's error format.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeAlias, get_args

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wholecall.inspector.tap import put_admission
from wholecall.proxy.config.load import take_over
from wholecall.proxy.config.schema import Config, ForwardedRoute, ServerLimits
from wholecall.proxy.http.api_keys import ANONYMOUS, STRANGER, Key, KeyStore, KeyStoreFailed
from wholecall.proxy.http.client_request import (
    ADMISSION,
    BODY_CAME,
    CALLER,
    Caller,
    RequestHead,
    approve_preflight,
    check_head,
    choose_request_id,
    is_preflight,
    read_key,
    refuse_body,
    refuse_key,
    wants_stream,
)
from wholecall.proxy.http.rate_limits import RateLimits
from wholecall.proxy.http.refusals import (
    HttpRefusal,
    RequestRefused,
    encode_refusal,
    refuse_for_now,
    request_id_header,
)
from wholecall.storage import CODE, StoreFailed

_LOG = logging.getLogger(__name__)
BUSY_SECONDS = 1.0
"""`Retry-After` if all slots are taken: it is unknown when one becomes free."""
_ALIVE = "/health"
_SHELL = "/inspector"
"""A page without anything in it. It asks for a key, and for its data with it."""
_OPEN = frozenset({_ALIVE, _SHELL, "/"})
_SHELL_FILES = "/inspector/page"
_LOOKS = frozenset({"GET", "HEAD", "OPTIONS"})
_RUNS = frozenset({"/v1/chat/completions", "/v1/responses", "/v1/messages"})
"""Routes that ask a model, which may take minutes."""
_FORWARDED = frozenset(get_args(ForwardedRoute))
_HELD = "/v1/responses/"
"""The prefix of stored responses. Reading the stream of one may take as long."""
_INTERNAL_ERROR = 1011
_NO_KEY = "a key is needed: send it as `Authorization: Bearer wc_…` or as `x-api-key: wc_…`"
_BAD_KEY = "this key is not known, has ended, or was revoked"
_NO_KEYS = "the proxy cannot look up its keys; its log says why"
_FULL = "too many requests are under way"
BUG = RequestRefused(
    500, "the proxy failed; its log says why under this request's id", code="internal_error"
)


# ── The response: the headers that every one has, and refusals ──────────────────────

LINGER_SECONDS = 2.0
LINGER_BYTES = 8 * 1024 * 1024
_Headers: TypeAlias = list[tuple[bytes, bytes]]
_START = "http.response.start"
_BODY = "http.response.body"
_HEADS = frozenset({_START, "websocket.accept"})
_EXPOSED = b"x-request-id, request-id, retry-after, x-should-retry"


def tell_nobody(_: HttpRefusal) -> None:
    """Do nothing: no one is listening."""


async def _send_nowhere(_: Message) -> None:
    """Discard the message: no one is listening any more."""


async def _receive_nothing() -> Message:
    return {"type": "http.disconnect"}


class HttpReply:
    """Wraps `send` of one request."""

    def __init__(self, send: Send, path: str, *, receive: Receive, request_id: str = "") -> None:
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

    @property
    def begun(self) -> bool:
        """True if the head of the answer was sent."""
        return self._begun

    def let_go(self) -> None:
        """The request is over. The server holds its scope, which holds the caller, who holds this;
        if this went on to hold the server's part, only the collector could free them."""
        self._send, self._receive = _send_nowhere, _receive_nothing

    async def send(self, message: Message) -> None:
        """Pass on what the application says."""
        if self.refused:
            return
        if not self._begun and message["type"] in _HEADS:
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


# ── The request body, counted and awaited no longer than allowed ────────────────────

_GONE: Message = {"type": "http.disconnect"}


class BodyLimit:
    """Wraps `receive` and `send` of one request.

    When a limit is exceeded the client is answered from here, and the application sees a
    disconnect, so that it stops working.
    """

    def __init__(
        self, scope: Scope, receive: Receive, *, limits: ServerLimits, reply: HttpReply
    ) -> None:
        self._scope = scope
        self._receive = receive
        self._limits = limits
        self._reply = reply
        self._bytes = 0
        self._whole = False
        self._deadline: float | None = None

    async def receive(self) -> Message:
        """The next message from the server."""
        if self._whole:
            return _GONE if self._reply.refused else await self._receive()
        try:
            came = BODY_CAME in self._scope
            message = await (self._receive() if came else self._receive_in_time())
        except TimeoutError:
            return await self._turn_away(_refuse_slowness(self._limits))
        self._bytes += len(message.get("body", b""))
        if self._bytes > self._limits.body_bytes:
            return await self._turn_away(refuse_body(self._limits))
        self._whole = not message.get("more_body", False)
        return message

    async def _receive_in_time(self) -> Message:
        async with asyncio.timeout_at(self._find_deadline()):
            return await self._receive()

    def _find_deadline(self) -> float:
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + self._limits.body_seconds
        return self._deadline

    async def _turn_away(self, refused: RequestRefused) -> Message:
        self._whole = True
        await self._reply.refuse(refused)
        return _GONE


def _refuse_slowness(limits: ServerLimits) -> RequestRefused:
    return RequestRefused(
        408,
        f"the request did not come within {limits.body_seconds:g} seconds",
        code="request_timeout",
        headers=((b"connection", b"close"),),
    )


# ── The middleware ──────────────────────────────────────────────────────────────────


class ProxyMiddleware:
    """An ASGI application around another."""

    def __init__(
        self,
        app: ASGIApp,
        config: Config,
        *,
        keys: KeyStore | None = None,
        rate_limits: RateLimits | None = None,
        on_refusal: Callable[[HttpRefusal], None] = tell_nobody,
    ) -> None:
        """`on_refusal` is called for every request that is turned away, here or because no route
        serves it."""
        self._app = app
        self._config = config
        self._keys = keys
        self._rate_limits = rate_limits or RateLimits()
        self._on_refusal = on_refusal

    def reload(self, config: Config, *, keys: KeyStore | None = None) -> None:
        """Use other settings from the next request on; `ConfigError` if they are not safe.

        `keys` takes the place of the store that it has.
        """
        self._config = take_over(self._config, config)
        self._keys = keys or self._keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: PLR0917 - the form of ASGI
        """Serve one connection's event, as ASGI has it."""
        if scope["type"] == "websocket":
            await self._serve_socket(scope, receive, send=send)
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        reply = HttpReply(send, scope["path"], receive=receive)
        reply.on_refusal = self._on_refusal
        head = RequestHead.of(scope)
        reply.request_id = request_id = choose_request_id(head)
        try:
            reply.origin = check_head(head, self._config, public=scope["path"] == _ALIVE)
            if is_preflight(head, reply.origin):
                await reply.approve(approve_preflight(head))
                return
            key = self._find_key(head)
            reply.key_id = key.id
            takes_place = self._admit(head, key)
            try:
                scope[CALLER] = Caller(key, request_id, head.named, refuse=reply.note)
                if head.path.startswith(_SHELL):
                    put_admission(scope, partial(self._is_admitted, head))
                intake = BodyLimit(scope, receive, limits=self._config.limits, reply=reply)
                await self._app(scope, intake.receive, reply.send)
            finally:
                if takes_place:
                    self._rate_limits.end(key)
        except RequestRefused as refused:
            await reply.refuse(refused)
        except Exception:
            # Our own bug: the client learns that it is one, and the server logs it.
            await reply.refuse(BUG)
            raise
        finally:
            reply.let_go()

    async def _serve_socket(self, scope: Scope, receive: Receive, *, send: Send) -> None:
        """Admit a WebSocket as any request; each request that comes over it is admitted, too."""
        head = RequestHead.of(scope)
        request_id = choose_request_id(head)
        refuse = partial(_refuse_socket, send)
        reply = HttpReply(refuse, head.path, receive=receive)
        reply.on_refusal, reply.request_id = self._on_refusal, request_id
        try:
            reply.origin = check_head(head, self._config, public=False)
            key = self._find_key(head)
            reply.key_id = key.id
            scope[CALLER] = Caller(key, request_id, head.named, refuse=reply.note)
            scope[ADMISSION] = partial(self._take_place, head)
            await self._app(scope, receive, reply.send)
        except RequestRefused as refused:
            await reply.refuse(refused)
        except Exception:
            if reply.begun:
                await send({"type": "websocket.close", "code": _INTERNAL_ERROR})
            await reply.refuse(BUG)
            raise
        finally:
            reply.let_go()

    @contextmanager
    def _take_place(self, head: RequestHead) -> Iterator[Key]:
        """Admit one of the requests of a WebSocket, whose key may have ended since it began."""
        key = self._find_key(head)
        takes_place = self._admit(head, key)
        try:
            yield key
        finally:
            if takes_place:
                self._rate_limits.end(key)

    def _is_open(self, head: RequestHead) -> bool:
        """Return True if the page needs no key. It is read-only."""
        looks = head.method in _LOOKS
        return _is_shell(head.path) or (looks and _is_below(head.path, self._config.keys.open))

    def _find_key(self, head: RequestHead) -> Key:
        if self._is_open(head):
            return STRANGER
        text = read_key(head)
        if not self._config.keys.required and (text is None or self._keys is None):
            return ANONYMOUS
        if text is None:
            raise refuse_key(_NO_KEY)
        try:
            key = None if self._keys is None else self._keys.check(text)
        except KeyStoreFailed as error:
            _LOG.error("%s", error)
            raise refuse_for_now(503, _NO_KEYS, code="keys_failed", seconds=BUSY_SECONDS) from error
        if key is None:
            raise refuse_key(_BAD_KEY)
        return key

    def _is_admitted(self, head: RequestHead) -> bool:
        """Return True if a request would still be admitted."""
        try:
            self._find_key(head)
        except RequestRefused:
            return False
        return True

    def _admit(self, head: RequestHead, key: Key) -> bool:
        """Take a slot for the request, if there is one; the caller gives it back."""
        takes_long = _takes_long(head)
        wait = self._rate_limits.take(key)
        if wait:
            why = f"this key has {key.rpm} requests a minute, and they are used up"
            raise refuse_for_now(429, why, code="rate_limit_exceeded", seconds=wait)
        if not takes_long:
            return False
        if self._rate_limits.running >= self._config.limits.concurrent:
            raise refuse_for_now(503, _FULL, code="overloaded", seconds=BUSY_SECONDS)
        if not self._rate_limits.begin(key):
            why = f"this key has {key.concurrent} requests at a time, and they are under way"
            raise refuse_for_now(429, why, code="concurrency_limit_exceeded", seconds=BUSY_SECONDS)
        return True


async def _refuse_socket(send: Send, message: Message) -> None:
    """Send a message; an HTTP response takes the place of a WebSocket."""
    kind = message["type"]
    is_http = kind.startswith("http.")
    await send({**message, "type": f"websocket.{kind}"} if is_http else message)


def _is_shell(path: str) -> bool:
    return path in _OPEN or path.rpartition("/")[0] == _SHELL_FILES


def _takes_long(head: RequestHead) -> bool:
    path = head.path
    if path in _RUNS or path.removeprefix("/v1/").partition("/")[0] in _FORWARDED:
        return True
    looks = head.method in _LOOKS and path.startswith(_HELD)
    return looks and wants_stream(QueryParams(head.query))


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


# ── 404, 405 and 500 ────────────────────────────────────────────────────────────────

_UNAVAILABLE = 503
_PAGE = "/inspector"
_VERSION = "/v1"
_WITHOUT_VERSION = ("/chat/completions", "/responses", "/models")
_CODES = {404: "not_found", 405: "method_not_allowed"}


async def _tell(request: Request, error: Exception) -> Response:
    """The answer to an error that a route did not turn into one itself."""
    refused, headers = _read(request, error)
    caller: Caller = request.scope[CALLER]
    path = request.scope["path"]
    caller.refuse(refused)
    body = encode_refusal(path, refused, request_id=caller.request_id)
    return Response(
        body, status_code=refused.status, headers=headers, media_type="application/json"
    )


def _read(request: Request, error: Exception) -> tuple[RequestRefused, Mapping[str, str] | None]:
    if isinstance(error, RequestRefused):
        return error, None
    if isinstance(error, StoreFailed):
        _LOG.error("request %s: %s", request.scope[CALLER].request_id, error.why)
        return RequestRefused(_UNAVAILABLE, str(error), code=CODE), None
    if not isinstance(error, HTTPException):
        return BUG, None
    message = f"{request.method} {request.url.path} is not served here: {error.detail}"
    message += _advise(request.url.path)
    code = _CODES.get(error.status_code, "invalid_request")
    return RequestRefused(error.status_code, message, code=code), error.headers


def _advise(path: str) -> str:
    """Return what the client most likely meant: the page, or another base URL."""
    if path == "/":
        return f". The page to look at, where it is turned on, is {_PAGE}"
    if path.startswith(f"{_VERSION}{_VERSION}/"):
        return f". Leave {_VERSION} out of the base URL: this client adds it itself"
    if path.startswith(_WITHOUT_VERSION):
        return f". The base URL of this client ends with {_VERSION}"
    return ""


ERROR_HANDLERS: Mapping[type[Exception], Callable[[Request, Exception], Awaitable[Response]]] = {
    HTTPException: _tell,
    RequestRefused: _tell,
    StoreFailed: _tell,
    # The server logs it: the caller of the handler raises the error again.
    Exception: _tell,
}
"""For `Starlette(exception_handlers=…)`, inside of an `Edge`."""
