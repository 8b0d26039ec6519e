"""Select the tools of a server that are offered: allowed ones that did not change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from wholecall.tools.mcp.definitions import Definition
from wholecall.tools.mcp.events import Refused
from wholecall.tools.mcp.pins import Changed, Pins
from wholecall.tools.mcp.server import McpServer

TOOLS = 512
"""Of one server. More would leave a model no room for anything else."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools of a server as it named them last."""

    definitions: tuple[Definition, ...] = ()
    refused: tuple[Refused, ...] = ()
    """Those that cannot be offered, and why."""


@dataclass(frozen=True, slots=True)
class Pinned:
    """A listing, compared with the pins."""

    offered: Mapping[str, Definition] = field(default_factory=dict)
    changed: tuple[Changed, ...] = ()
    refused: tuple[Refused, ...] = ()


def choose(server: McpServer, found: Iterable[Definition]) -> Listing:
    """Leave out what the operator does not want and what cannot be offered."""
    chosen: dict[str, Definition] = {}
    refused: list[Refused] = []
    for definition in found:
        if not server.offers(definition.name):
            continue
        flaw = _find_flaw(definition, chosen)
        if flaw:
            refused.append(Refused(server.name, definition.name, flaw))
        else:
            chosen[definition.name] = definition
    return Listing(tuple(chosen.values()), tuple(refused))


def arrange(server: str, listing: Listing, *, pins: Pins) -> tuple[Pinned, Pins]:
    """Leave out what has changed; and the pins with what is new."""
    pins, changed = pins.compare(server, listing.definitions)
    withheld = {change.tool for change in changed}
    offered = {
        definition.name: definition
        for definition in listing.definitions
        if definition.name not in withheld
    }
    return Pinned(offered, tuple(changed), listing.refused), pins


def _find_flaw(definition: Definition, chosen: Mapping[str, Definition]) -> str:
    if definition.name in chosen:
        return "the server names it twice"
    if len(chosen) == TOOLS:
        return f"the server has more than {TOOLS} tools"
    return definition.find_flaw()
