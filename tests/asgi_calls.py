"""An ASGI server for tests: it sends one request to an application and keeps the answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message, Scope

SECONDS = 20


@dataclass
class Answered:
    """What an application said."""

    messages: list[Message] = field(default_factory=list)
    scope: Scope = field(default_factory=dict)

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"])

    @property
    def headers(self) -> dict[str, str]:
        raw = self.messages[0]["headers"]
        return {name.decode(): value.decode() for name, value in raw}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages[1:])

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def make_scope(method: str, path: str, *, headers: Mapping[str, str] | None = None) -> Scope:
    """The head of a request, to a loopback address unless the headers say otherwise."""
    given = {"host": "127.0.0.1:8787", **(headers or {})}
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in given.items()],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 8787),
        "state": {},
    }


async def call(app: ASGIApp, scope: Scope, *, pieces: Iterable[bytes] = (b"",)) -> Answered:
    """Send a request whose body comes in pieces; afterwards the client stays on the line."""
    answered = Answered(scope=scope)
    left = list(pieces)

    async def receive() -> Message:
        if not left:
            await asyncio.Event().wait()
        body = left.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(left)}

    async def send(message: Message) -> None:
        answered.messages.append(message)

    async with asyncio.timeout(SECONDS):
        await app(scope, receive, send)
    return answered


def ask(
    app: ASGIApp,
    path: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    pieces: Iterable[bytes] = (b"",),
) -> Answered:
    """`call`, for tests without an event loop."""
    return asyncio.run(call(app, make_scope(method, path, headers=headers), pieces=pieces))
