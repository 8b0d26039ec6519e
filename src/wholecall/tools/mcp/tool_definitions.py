"""Tools as an MCP server defines them: names, pins by hash, and which of them are offered."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import msgspec

from wholecall.arguments.describe import cut
from wholecall.arguments.validate import admit
from wholecall.events import Start
from wholecall.messages import ToolSpec
from wholecall.tools.mcp.server_config import McpServer

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
    needs_task: bool = False
    """The server runs it only as a task of the protocol, which we do not start."""
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
        if self.needs_task:
            return "the server runs it only as a task (taskSupport: required); not supported"
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
        needs_task=(wire.get("execution") or {}).get("taskSupport") == "required",
        canonical=json.dumps(pinned, sort_keys=True, separators=(",", ":"), ensure_ascii=False),
    )


# Definitions pinned by their hash: a tool that changes is not offered until it is accepted.
#
# A server can change a tool's description long after an operator read it, and put instructions for
# the model into it. So each definition is remembered as it was first seen. Keep the pins with your
# configuration: `to_json` and `from_json`.


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
            raise ValueError(f"these are not pins: {error}") from error

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


# Events of MCP servers, for logs and metrics.


@dataclass(frozen=True, slots=True)
class ToolRefused:
    """A tool that cannot be offered, whatever its pin says."""

    server: str
    tool: str
    reason: str


@dataclass(frozen=True, slots=True)
class ServerStarted:
    """A server is there, for the first time or again."""

    server: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsListed:
    """A server has named its tools, and they are not what they were before."""

    server: str
    offered: tuple[str, ...]
    """By the names that the server gives them."""
    changed: tuple[Changed, ...] = ()
    refused: tuple[ToolRefused, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLost:
    """A server ended, or did not start. It is tried again after `delay` seconds."""

    server: str
    reason: str
    stderr: str
    """The end of what its process wrote to its standard error."""
    delay: float


@dataclass(frozen=True, slots=True)
class ServerNoise:
    """A server wrote something that is not a message. Reported once per connection."""

    server: str
    line: str
    """The beginning of the first such line."""


McpEvent: TypeAlias = ServerStarted | ToolsListed | ServerLost | ServerNoise


# Select the tools of a server that are offered: allowed ones that did not change.


TOOLS = 512
"""Of one server. More would leave a model no room for anything else."""


@dataclass(frozen=True, slots=True)
class ToolListing:
    """The tools of a server as it named them last."""

    definitions: tuple[Definition, ...] = ()
    refused: tuple[ToolRefused, ...] = ()
    """Those that cannot be offered, and why."""


@dataclass(frozen=True, slots=True)
class PinnedListing:
    """A listing, compared with the pins."""

    offered: Mapping[str, Definition] = field(default_factory=dict)
    changed: tuple[Changed, ...] = ()
    refused: tuple[ToolRefused, ...] = ()


def choose(server: McpServer, found: Iterable[Definition]) -> ToolListing:
    """Leave out what the operator does not want and what cannot be offered."""
    chosen: dict[str, Definition] = {}
    refused: list[ToolRefused] = []
    for definition in found:
        if not server.offers(definition.name):
            continue
        flaw = _find_flaw(definition, chosen)
        if flaw:
            refused.append(ToolRefused(server.name, definition.name, flaw))
        else:
            chosen[definition.name] = definition
    return ToolListing(tuple(chosen.values()), tuple(refused))


def arrange(server: str, listing: ToolListing, *, pins: Pins) -> tuple[PinnedListing, Pins]:
    """Leave out what has changed; and the pins with what is new."""
    pins, changed = pins.compare(server, listing.definitions)
    withheld = {change.tool for change in changed}
    offered = {
        definition.name: definition
        for definition in listing.definitions
        if definition.name not in withheld
    }
    return PinnedListing(offered, tuple(changed), listing.refused), pins


def _find_flaw(definition: Definition, chosen: Mapping[str, Definition]) -> str:
    if definition.name in chosen:
        return "the server names it twice"
    if len(chosen) == TOOLS:
        return f"the server has more than {TOOLS} tools"
    return definition.find_flaw()


# Names for the tools of several servers: each of its own, and the same in every order.
#
# A name is the server's prefix and the tool's own name, in the characters and the length that every
# provider takes. When two tools would come to the same name, all of them get a suffix made of where
# they come from, so that none depends on which was listed first.


LONGEST = 64
"""Characters of a name; OpenAI takes no more."""
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")
_SUFFIXES = (8, 16, 32, 56)
"""Characters of a digest, tried in turn: a server could choose names that look suffixed."""


class Origin(NamedTuple):
    """The origin of a tool."""

    server: str
    prefix: str
    tool: str


def name_tools(origins: Iterable[Origin]) -> Mapping[Origin, str]:
    """A name for each tool."""
    names = {origin: _write(origin, 0) for origin in origins}
    for suffix in _SUFFIXES:
        uses = Counter(names.values())
        names = {
            origin: name if uses[name] == 1 else _write(origin, suffix)
            for origin, name in names.items()
        }
    return names


def _write(origin: Origin, suffix: int) -> str:
    name = _FOREIGN.sub("_", origin.prefix + origin.tool) or "_"
    if suffix == 0 and len(name) <= LONGEST:
        return name
    # What had to be cut off stays visible in the digest.
    width = suffix or _SUFFIXES[0]
    digest = hashlib.sha256("\0".join(origin).encode("utf-8", "surrogatepass")).hexdigest()[:width]
    return f"{name[: LONGEST - width - 1]}_{digest}"
