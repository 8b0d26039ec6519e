"""The proxy's view of a client's protocol, and of one request."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
from starlette.types import Scope

from wholecall.errors import UnreadableRequest
from wholecall.events import Value
from wholecall.protocols.response_base import ResponseStyle
from wholecall.proxy.http.api_keys import ANONYMOUS, Key
from wholecall.proxy.http.middleware import CALLER, Caller

TOOLS_HEADER = "x-wholecall-tools"
"""Names of the server's tools that a request wants, separated by commas; without it, all."""
_PATIENCE = "x-stainless-read-timeout"
"""Seconds after which OpenAI's and Anthropic's SDKs give up if they hear nothing."""
_NO_HEADERS: Mapping[str, str] = {}
_SHORTEST_SILENCE = 1.0
"""Seconds between two keep-alives, at least."""


def _plain_style(_: Mapping[str, Any]) -> ResponseStyle:
    return ResponseStyle()


class UnsupportedField(NamedTuple):
    """The reason why a field cannot be obeyed."""

    why: str
    code: str = "invalid_value"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientProtocol:
    """One API that clients speak."""

    protocol: str
    """Its name in the registries: `openai-chat`, …"""
    path: str
    only_there: Mapping[str, UnsupportedField] = field(default_factory=dict)
    """Fields that name what only an upstream of this protocol knows: no other can obey them."""
    beta: str = ""
    """The header in which its clients ask for features that are not for everybody yet."""
    holds: bool = False
    """True if its answers can be retrieved by their ids."""
    read_style: Callable[[Mapping[str, Any]], ResponseStyle] = _plain_style
    """Reads the client's preferences for its stream from a request's body."""


class ClientRequest(Value, frozen=True, kw_only=True, eq=False):
    """A request as it came, before its conversation is read."""

    client: ClientProtocol
    body: bytes
    headers: Mapping[str, str]
    request_id: str
    key: Key = ANONYMOUS
    """The rights of the client."""
    came: float = msgspec.field(default_factory=time.perf_counter)
    """The time at which all of it had come, by the clock of the taps."""

    @classmethod
    def read(cls, client: ClientProtocol, scope: Scope, *, body: bytes) -> ClientRequest:
        """Read the headers, and what the middleware found out about the caller."""
        caller: Caller = scope[CALLER]
        return cls(
            client=client,
            body=body,
            headers=caller.headers,
            request_id=caller.request_id,
            key=caller.key,
        )

    def shorten(self, silence: float) -> float:
        """Return the longest silence for this client: it gives up after its SDK's timeout."""
        if _PATIENCE not in self.headers:
            return silence
        patience = self.headers[_PATIENCE]
        if not patience.replace(".", "", 1).isdecimal():
            return silence
        return min(silence, max(float(patience) / 2, _SHORTEST_SILENCE))

    @property
    def passed_headers(self) -> Mapping[str, str]:
        """The headers that go on to an upstream of the same protocol. All others are ours."""
        name = self.client.beta
        features = self.headers.get(name, "").strip() if name else ""
        if not features:
            return _NO_HEADERS
        if not (features.isascii() and features.isprintable()):
            raise UnreadableRequest("its value is a list of words, with commas between", param=name)
        return {name: features}

    @property
    def wanted_tools(self) -> tuple[str, ...] | None:
        """The server's tools that the client wants in this run; None: all that it may use."""
        given = self.headers.get(TOOLS_HEADER)
        if given is None:
            return None
        return tuple(name for each in given.split(",") if (name := each.strip()))

    @property
    def wants_progress(self) -> bool:
        """True if the client wants to see what happens between the turns."""
        return self.headers.get("x-wholecall-events", "").strip().lower() in {"1", "true", "yes"}
