"""The outermost layer of the proxy: nothing inside is reached without its checks.

Host, Origin, key, rate, and the size of headers and bodies are checked here, for every route,
whether it exists or not. Only `/health` answers everyone, and the inspector's page comes without
its data.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import msgspec
from starlette.datastructures import QueryParams
from starlette.types import ASGIApp, Receive, Scope, Send

from wholecall.core.values import Value
from wholecall.inspector.admission import put_admission
from wholecall.proxy.arrival import (
    Arrival,
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
from wholecall.proxy.config.changing import take_over
from wholecall.proxy.config.settings import Config
from wholecall.proxy.intake import Intake
from wholecall.proxy.keys import ANONYMOUS, STRANGER, Key, KeyStore, KeyStoreFailed
from wholecall.proxy.quotas import Quotas
from wholecall.proxy.refusing import Refused, refuse_for_now
from wholecall.proxy.reply import Refusal, Reply, tell_nobody

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
BUG = Refused(
    500, "the proxy failed; its log says why under this request's id", code="internal_error"
)


def _forget(_: Refused) -> None:
    """Do nothing: there is no listener."""


class Caller(Value, frozen=True, eq=False):
    """The sender of an admitted request."""

    key: Key
    request_id: str
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    """By their names in lower case; of several with one name, the last."""
    refuse: Callable[[Refused], None] = _forget
    """Tells those who look after the proxy that a route turned the request away."""


class Edge:
    """An ASGI application around another."""

    def __init__(
        self,
        app: ASGIApp,
        config: Config,
        *,
        keys: KeyStore | None = None,
        quotas: Quotas | None = None,
    ) -> None:
        self._app = app
        self._config = config
        self._keys = keys
        self._quotas = quotas or Quotas()
        self.on_refusal: Callable[[Refusal], None] = tell_nobody
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
        arrival = Arrival.of(scope)
        request_id = choose_request_id(arrival)
        reply = Reply(send, arrival.path, receive=receive, request_id=request_id)
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
                intake = Intake(scope, receive, limits=self._config.limits, reply=reply)
                await self._app(scope, intake.receive, reply.send)
            finally:
                if takes_place:
                    self._quotas.end(key)
        except Refused as refused:
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

    def _look_at(self, arrival: Arrival, reply: Reply) -> None:
        config = self._config
        check_size(arrival, config.limits)
        check_length(arrival, config.limits)
        if arrival.path != _ALIVE:
            check_host(arrival, config.listen)
            reply.origin = check_origin(arrival, config.listen)

    def _is_open(self, arrival: Arrival) -> bool:
        """Return True if the page needs no key. It is read-only."""
        looks = arrival.method in _LOOKS
        return _is_shell(arrival.path) or (
            looks and _is_below(arrival.path, self._config.keys.open)
        )

    def _find_key(self, arrival: Arrival) -> Key:
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

    def _is_admitted(self, arrival: Arrival) -> bool:
        """Return True if a request would still be admitted."""
        try:
            self._find_key(arrival)
        except Refused:
            return False
        return True

    def _admit(self, arrival: Arrival, key: Key) -> bool:
        """Take a slot for the request, if there is one; the caller gives it back."""
        wait = self._quotas.take(key)
        if wait:
            why = f"this key has {key.rpm} requests a minute, and they are used up"
            raise refuse_for_now(429, why, code="rate_limit_exceeded", seconds=wait)
        if not _takes_long(arrival):
            return False
        if self._quotas.running >= self._config.limits.concurrent:
            raise refuse_for_now(503, _FULL, code="overloaded", seconds=BUSY_SECONDS)
        if not self._quotas.begin(key):
            why = f"this key has {key.concurrent} requests at a time, and they are under way"
            raise refuse_for_now(429, why, code="concurrency_limit_exceeded", seconds=BUSY_SECONDS)
        return True


def _is_shell(path: str) -> bool:
    return path in _OPEN or path.rpartition("/")[0] == _SHELL_FILES


def _takes_long(arrival: Arrival) -> bool:
    looks = arrival.method in _LOOKS and arrival.path.startswith(_HELD)
    return arrival.path in _RUNS or (looks and wants_stream(QueryParams(arrival.query)))


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)
