"""What the proxy knows of a client's protocol, and what a client says with one request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers

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

    @property
    def wants_progress(self) -> bool:
        """Whether the client wants to see what happens between the turns."""
        return self.headers.get("x-wholecall-events", "").strip().lower() in {"1", "true", "yes"}
