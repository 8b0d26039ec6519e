"""The outermost layer of the proxy: nothing inside is reached but through its checks.

Host, Origin, key, rate, and the size of headers and bodies are looked at here, for every
route, whether it exists or not. Only `/health` says that it is alive to whoever asks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from wholecall.proxy.arrival import (
    Arrival,
    check_host,
    check_length,
    check_origin,
    check_size,
    choose_request_id,
    read_key,
    refuse_key,
)
from wholecall.proxy.config.settings import Config
from wholecall.proxy.intake import Intake
from wholecall.proxy.keys import ANONYMOUS, Key, KeyStore
from wholecall.proxy.quotas import Quotas
from wholecall.proxy.refusing import Refused, refuse_for_now
from wholecall.proxy.reply import Reply

CALLER = "wholecall"
"""Where the scope of a request has its `Caller`."""
_ALIVE = "/health"
_POLICY_VIOLATION = 1008
_HEADER_NAMES = re.compile(r"[A-Za-z0-9_, -]{0,2000}")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request that was let in."""

    key: Key
    request_id: str


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

    def reload(self, config: Config) -> None:
        """Go by other settings from the next request on."""
        self._config = config

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: PLR0917 - the form of ASGI
        """Serve one connection's event, as ASGI has it."""
        match scope["type"]:
            case "http":
                await self._serve(scope, receive, send=send)
            case "lifespan":
                await self._app(scope, receive, send)
            case _:
                # No route speaks WebSocket.
                await send({"type": "websocket.close", "code": _POLICY_VIOLATION})

    async def _serve(self, scope: Scope, receive: Receive, *, send: Send) -> None:
        arrival = Arrival.of(scope)
        reply = Reply(send, arrival.path, request_id=choose_request_id(arrival))
        limits = self._config.limits
        try:
            key = self._let_in(arrival, reply)
            if key is None:
                await reply.preflight(arrival)
                return
            with self._counted(arrival, key):
                check_length(arrival, limits)
                scope[CALLER] = Caller(key, reply.request_id)
                intake = Intake(receive, limits, reply=reply)
                await self._app(scope, intake.receive, reply.send)
        except Refused as refused:
            await reply.refuse(refused)
        except Exception:
            # A mistake of ours: the client is told so, and the server logs it.
            await reply.refuse(Refused(500, "the proxy failed", code="internal_error"))
            raise
