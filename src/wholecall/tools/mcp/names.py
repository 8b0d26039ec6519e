"""Names for the tools of several servers: each of its own, and the same in every order.

A name is the server's prefix and the tool's own name, in the characters and the length that
every provider takes. When two tools would come to the same name, all of them get a suffix
made of where they come from, so that none depends on which was listed first.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

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
