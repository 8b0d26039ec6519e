"""The definition of a server's tool, and the digest by which a change is noticed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wholecall.core.schema import admit
from wholecall.core.spec import ToolSpec
from wholecall.core.values import Start
from wholecall.core.words import cut

DESCRIPTION_CHARACTERS = 4_096
"""Of a tool's description that the model gets to read. A server could fill the context with it."""
# What the model reads and what we act on. Icons and `_meta` may differ from day to day.
_PINNED = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One tool as its server defines it."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    output: Mapping[str, Any] | None = None
    """The schema of its structured output."""
    read_only: bool = False
    idempotent: bool = False
    destructive: bool = False
    """True if the server declares it; the protocol's default is possible."""
    canonical: str = ""
    """All of it that matters, as JSON that is written in one way only."""

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical form."""
        return hashlib.sha256(self.canonical.encode("utf-8", "surrogatepass")).hexdigest()

    def make_spec(self, name: str, *, trusted: bool) -> ToolSpec:
        """The tool as the model is offered it."""
        early = trusted and (self.read_only or self.idempotent) and not self.destructive
        start = Start.CLOSED if early else Start.CONFIRMED
        return ToolSpec(name, self.parameters, self.description, start)

    def find_flaw(self) -> str:
        """Return why it cannot be offered; empty if it can."""
        problems = admit([ToolSpec("tool", self.parameters)])
        return cut("; ".join(problem.message for problem in problems))


def read_definition(wire: Mapping[str, Any]) -> Definition:
    """Read a tool from a `tools/list` answer that the SDK has checked."""
    hints = wire.get("annotations") or {}
    pinned = {key: wire[key] for key in _PINNED if wire.get(key) is not None}
    destructive = hints.get("destructiveHint") is True
    return Definition(
        name=wire["name"],
        description=cut(wire.get("description") or "", DESCRIPTION_CHARACTERS),
        parameters=wire["inputSchema"],
        output=wire.get("outputSchema"),
        # Read-only and destructive at once cannot be; the careful reading is the second.
        read_only=hints.get("readOnlyHint") is True and not destructive,
        idempotent=hints.get("idempotentHint") is True,
        destructive=destructive,
        canonical=json.dumps(pinned, sort_keys=True, separators=(",", ":"), ensure_ascii=False),
    )
