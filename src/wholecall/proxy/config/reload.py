"""The changes of a new configuration, and which of them a running proxy can apply."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from wholecall.proxy.config.check import find_breaches
from wholecall.proxy.config.schema import Config, ConfigError, ConfigProblem, Position
from wholecall.proxy.config.settings_reader import Leaf, Path, expected_of, walk

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Section = TypeVar("_Section", bound="DataclassInstance")
_RELOADED = Position("the new settings")


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


def take_over(old: Config, new: Config) -> Config:
    """Return the settings after a reload: all but those that need a restart. Raise `ConfigError` if
    these contradict the rest.

    A file that moves the proxy to 127.0.0.1 and no longer requires keys is valid; but until the
    restart the old address would be open to everyone.
    """
    config = replace(
        new,
        listen=_keep_old(old.listen, new.listen),
        keys=_keep_old(old.keys, new.keys),
        limits=_keep_old(old.limits, new.limits),
        log=_keep_old(old.log, new.log),
        metrics=_keep_old(old.metrics, new.metrics),
        inspector=_keep_old(old.inspector, new.inspector),
    )
    problems = [
        ConfigProblem(_RELOADED, ".".join(path), f"{why} (it changes with a restart only)")
        for path, why in find_breaches(config)
    ]
    if problems:
        raise ConfigError(problems)
    return config


def _keep_old(old: _Section, new: _Section) -> _Section:
    """A section with the old values of the settings that need a restart."""
    expected = expected_of(type(new))
    kept = {name: getattr(old, name) for name in expected if expected[name].restart}
    return replace(new, **kept)


def _leaves(config: Config) -> dict[Path, Leaf]:
    return {leaf.path: leaf for leaf in walk(config)}


def _value(leaves: dict[Path, Leaf], path: Path) -> object:
    leaf = leaves.get(path)
    return _MISSING if leaf is None else leaf.value


_MISSING = object()
