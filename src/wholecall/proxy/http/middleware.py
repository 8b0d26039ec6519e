"""The outermost layer of the proxy, and 404, 405 and 500 bodies in the client protocol's error
format.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial

import msgspec
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from wholecall.events import Value
from wholecall.inspector.live_runs import put_admission
from wholecall.proxy.config.reload import take_over
from wholecall.proxy.config.schema import Config
from wholecall.proxy.http.api_keys import ANONYMOUS, STRANGER, Key, KeyStore, KeyStoreFailed
from wholecall.proxy.http.body_limits import BodyLimit
from wholecall.proxy.http.header_checks import (
    HeaderChecks,
    Headers,
    approve_preflight,
    check_host,
    check_length,
    check_origin,
    check_size,
    choose_request_id,
    is_preflight,
    read_key,
    refuse_key,
    wants_stream,
)
from wholecall.proxy.http.rate_limits import RateLimits
from wholecall.proxy.http.refusals import (
    HttpRefusal,
    HttpReply,
    RequestRefused,
    encode_refusal,
    refuse_for_now,
    tell_nobody,
)
from wholecall.storage import CODE, StoreFailed

_LOG = logging.getLogger(__name__)
CALLER = "wholecall"
"""The key of the `Caller` in the scope of a request."""
BUSY_SECONDS = 1.0
"""`Retry-After` if all slots are taken: it is unknown when one becomes free."""
_ALIVE = "/health"
_SHELL = "/inspector"
"""A page without anything in it. It asks for a key, and for its data with it."""
_OPEN = frozenset({_ALIVE, _SHELL})
_SHELL_FILES = "/inspector/page"
_LOOKS = frozenset({"GET", "HEAD", "OPTIONS"})
_RUNS = frozenset({"/v1/chat/completions", "/v1/responses", "/v1/messages"})
"""Routes that ask a model, which may take minutes."""
_HELD = "/v1/responses/"
"""The prefix of stored responses. Reading the stream of one may take as long."""
_POLICY_VIOLATION = 1008
_NO_KEY = "a key is needed: send it as `Authorization: Bearer wc_…` or as `x-api-key: wc_…`"
_BAD_KEY = "this key is not known, has ended, or was revoked"
_NO_KEYS = "the proxy cannot look up its keys; its log says why"
_FULL = "too many requests are under way"
BUG = RequestRefused(
    500, "the proxy failed; its log says why under this request's id", code="internal_error"
)


def _forget(_: RequestRefused) -> None:
    """Do nothing: no one is listening."""


class Caller(Value, frozen=True, eq=False):
    """The sender of an admitted request."""

    key: Key
    request_id: str
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    """By their names in lower case; of several with one name, the last."""
    refuse: Callable[[RequestRefused], None] = _forget
    """Tells those who look after the proxy that a route turned the request away."""


class ProxyMiddleware:
    """An ASGI application around another."""

    def __init__(
        self,
        app: ASGIApp,
        config: Config,
        *,
        keys: KeyStore | None = None,
        rate_limits: RateLimits | None = None,
    ) -> None:
        self._app = app
        self._config = config
        self._keys = keys
        self._rate_limits = rate_limits or RateLimits()
        self.on_refusal: Callable[[HttpRefusal], None] = tell_nobody
        """Called for every request that is turned away, here or because no route serves it."""

    def check(self, config: Config) -> None:
        """`ConfigError` if these settings are not safe before a restart."""
        take_over(self._config, config)

    def reload(self, config: Config, *, keys: KeyStore | None = None) -> None:
        """Go by other settings from the next request on; `ConfigError` if they are not safe.

        `keys` takes the place of the store that it has.
        """
        self._config = take_over(self._config, config)
        self._keys = keys or self._keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: PLR0917 - the form of ASGI
        """Serve one connection's event, as ASGI has it."""
        if scope["type"] != "http":
            await self._serve_other(scope, receive, send=send)
            return
        arrival = HeaderChecks.of(scope)
        request_id = choose_request_id(arrival)
        reply = HttpReply(send, arrival.path, receive=receive, request_id=request_id)
        reply.on_refusal = self.on_refusal
        try:
            self._look_at(arrival, reply)
            if is_preflight(arrival, reply.origin):
                await reply.approve(approve_preflight(arrival))
                return
            key = self._find_key(arrival)
            reply.key_id = key.id
            takes_place = self._admit(arrival, key)
            try:
                headers = Headers(arrival.by_name)
                scope[CALLER] = Caller(key, request_id, headers, refuse=reply.note)
                if arrival.path.startswith(_SHELL):
                    put_admission(scope, partial(self._is_admitted, arrival))
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

    async def _serve_other(self, scope: Scope, receive: Receive, *, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        else:  # no route speaks WebSocket
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})

    def _look_at(self, arrival: HeaderChecks, reply: HttpReply) -> None:
        config = self._config
        check_size(arrival, config.limits)
        check_length(arrival, config.limits)
        if arrival.path != _ALIVE:
            check_host(arrival, config.listen)
            reply.origin = check_origin(arrival, config.listen)

    def _is_open(self, arrival: HeaderChecks) -> bool:
        """Return True if the page needs no key. It is read-only."""
        looks = arrival.method in _LOOKS
        return _is_shell(arrival.path) or (
            looks and _is_below(arrival.path, self._config.keys.open)
        )

    def _find_key(self, arrival: HeaderChecks) -> Key:
        if self._is_open(arrival):
            return STRANGER
        text = read_key(arrival)
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

    def _is_admitted(self, arrival: HeaderChecks) -> bool:
        """Return True if a request would still be admitted."""
        try:
            self._find_key(arrival)
        except RequestRefused:
            return False
        return True

    def _admit(self, arrival: HeaderChecks, key: Key) -> bool:
        """Take a slot for the request, if there is one; the caller gives it back."""
        wait = self._rate_limits.take(key)
        if wait:
            why = f"this key has {key.rpm} requests a minute, and they are used up"
            raise refuse_for_now(429, why, code="rate_limit_exceeded", seconds=wait)
        if not _takes_long(arrival):
            return False
        if self._rate_limits.running >= self._config.limits.concurrent:
            raise refuse_for_now(503, _FULL, code="overloaded", seconds=BUSY_SECONDS)
        if not self._rate_limits.begin(key):
            why = f"this key has {key.concurrent} requests at a time, and they are under way"
            raise refuse_for_now(429, why, code="concurrency_limit_exceeded", seconds=BUSY_SECONDS)
        return True


def _is_shell(path: str) -> bool:
    return path in _OPEN or path.rpartition("/")[0] == _SHELL_FILES


def _takes_long(arrival: HeaderChecks) -> bool:
    looks = arrival.method in _LOOKS and arrival.path.startswith(_HELD)
    return arrival.path in _RUNS or (looks and wants_stream(QueryParams(arrival.query)))


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


# 404, 405 and 500 bodies in the client protocol's error format.


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
        return f". Leave {_VERSION} out of the base URL: Anthropic's clients add it themselves"
    if path.startswith(_WITHOUT_VERSION):
        return f". The base URL of OpenAI's clients ends with {_VERSION}"
    return ""


ERROR_HANDLERS: Mapping[type[Exception], Callable[[Request, Exception], Awaitable[Response]]] = {
    HTTPException: _tell,
    RequestRefused: _tell,
    StoreFailed: _tell,
    # The server logs it: the caller of the handler raises the error again.
    Exception: _tell,
}
"""For `Starlette(exception_handlers=…)`, inside of an `Edge`."""
