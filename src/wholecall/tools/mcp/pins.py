"""Definitions pinned by their hash: a tool that changes is not offered until it is accepted.

A server can change a tool's description long after an operator read it, and put instructions for
the model into it. So each definition is remembered as it was first seen. Keep the pins with your
configuration: `to_json` and `from_json`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from wholecall.tools.mcp.definitions import Definition


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A tool whose definition is not the pinned one. It is not offered."""

    server: str
    tool: str
    old: str | None
    """The pinned SHA-256; None for a tool that was never seen, where the pins are strict."""
    new: str
    definition: str
    """The current definition as JSON: read it before you accept it."""


@dataclass(frozen=True, slots=True)
class Pins:
    """The SHA-256 of each tool's definition, by server and tool. A value: it does not change."""

    digests: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    strict: bool = field(default=False, kw_only=True)
    """Refuse an unknown tool as well, instead of pinning it."""

    @classmethod
    def from_json(cls, text: str | bytes, *, strict: bool = False) -> Pins:
        """Read what `to_json` wrote; `ValueError` if it is something else."""
        try:
            return cls(msgspec.json.decode(text, type=dict[str, dict[str, str]]), strict=strict)
        except msgspec.DecodeError as error:
            raise ValueError(f"these are no pins: {error}") from error

    def to_json(self) -> str:
        """Write them, sorted, so that a version control shows what changed."""
        text = msgspec.json.encode(self.digests, order="sorted")
        return msgspec.json.format(text, indent=2).decode() + "\n"

    def find(self, server: str, tool: str) -> str | None:
        """The pinned digest of a tool."""
        return self.digests.get(server, {}).get(tool)

    def accept(self, *changes: Changed) -> Pins:
        """Pin what these tools are now."""
        pins = self
        for change in changes:
            pins = pins.pin(change.server, {change.tool: change.new})
        return pins

    def pin(self, server: str, digests: Mapping[str, str]) -> Pins:
        """Pin these tools of a server; the others stay as they are."""
        if not digests:
            return self
        merged = {**self.digests.get(server, {}), **digests}
        return Pins({**self.digests, server: merged}, strict=self.strict)

    def compare(self, server: str, definitions: Iterable[Definition]) -> tuple[Pins, list[Changed]]:
        """Pins with what is seen for the first time, and what differs from what was seen."""
        changes: list[Changed] = []
        fresh: dict[str, str] = {}
        for definition in definitions:
            old = self.find(server, definition.name)
            if old is None and not self.strict:
                fresh[definition.name] = definition.digest
            elif old != definition.digest:
                changes.append(_describe(server, definition, old=old))
        return self.pin(server, fresh), changes


def _describe(server: str, definition: Definition, *, old: str | None) -> Changed:
    return Changed(
        server=server,
        tool=definition.name,
        old=old,
        new=definition.digest,
        definition=definition.canonical,
    )
