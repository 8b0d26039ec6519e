"""What a new configuration changes, and which of it a running proxy can take over."""

from __future__ import annotations

from dataclasses import dataclass

from wholecall.proxy.config.leaves import Leaf, walk
from wholecall.proxy.config.reading import Path
from wholecall.proxy.config.settings import Config


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Names of settings that differ, such as `models.fast.mode`."""

    live: tuple[str, ...]
    """A running proxy can take them over."""
    restart: tuple[str, ...]
    """They stay as they are until the proxy is started anew."""


def changes(old: Config, new: Config) -> Changes:
    """Compare two configurations. What only one of them has is a change, too."""
    before, after = _leaves(old), _leaves(new)
    names = [*before, *(path for path in after if path not in before)]
    different = [
        after.get(path) or before[path]
        for path in names
        if _value(before, path) != _value(after, path)
    ]
    return Changes(
        live=tuple(".".join(leaf.path) for leaf in different if not leaf.restart),
        restart=tuple(".".join(leaf.path) for leaf in different if leaf.restart),
    )


def _leaves(config: Config) -> dict[Path, Leaf]:
    return {leaf.path: leaf for leaf in walk(config)}


def _value(leaves: dict[Path, Leaf], path: Path) -> object:
    leaf = leaves.get(path)
    return _MISSING if leaf is None else leaf.value


_MISSING = object()
