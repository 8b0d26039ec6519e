"""What the proxy knows of a client's protocol, and what a client says with one request."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Scope

from wholecall.protocols.answers import Style


def _plain_style(_: Mapping[str, Any]) -> Style:
    return Style()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientProtocol:
    """One API that clients speak."""

    protocol: str
    """Its name in the registries: `openai-chat`, …"""
    path: str
    request_id_header: bytes
    """The header in which the protocol's SDKs look for the id of a request."""
    read_style: Callable[[Mapping[str, Any]], Style] = _plain_style
    """How a request's body says that its stream should look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request as it came, before anybody looked at its conversation."""

    client: ClientProtocol
    body: bytes
    headers: Headers
    request_id: str
    key_id: str = ""
    """Whose key it came with; empty where none is demanded."""
    tools: frozenset[str] | None = None
    """The server's tools that this key may use; None: all of them."""
    models: frozenset[str] | None = None
    """The models that this key may use; None: all of them."""

    @classmethod
    def read(cls, client: ClientProtocol, scope: Scope) -> Asked:
        """What the headers say, and what the edge found out about the caller."""
        return cls(
            client=client,
            body=b"",
            headers=Headers(scope=scope),
            request_id=f"req_{secrets.token_hex(12)}",
        )

    @property
    def answer_headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """The headers that every answer has."""
        return ((self.client.request_id_header, self.request_id.encode("latin-1")),)

    @property
    def wants_progress(self) -> bool:
        """Whether the client wants to see what happens between the turns."""
        return self.headers.get("x-wholecall-events", "").strip().lower() in {"1", "true", "yes"}
