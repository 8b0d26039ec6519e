"""The changes of a new configuration, and which of them a running proxy can apply."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from wholecall.proxy.config.check import find_breaches
from wholecall.proxy.config.schema import Config, ConfigError, ConfigProblem, Path, Position
from wholecall.proxy.config.settings import needs_restart

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Section = TypeVar("_Section", bound="DataclassInstance")
_RELOADED = Position("the new settings")


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Names of settings that differ, such as `models.fast.mode` or `models.fast (added)`."""

    live: tuple[str, ...]
    """A running proxy can take them over."""
    restart: tuple[str, ...]
    """They stay as they are until the proxy is started anew."""


def changes(old: Config, new: Config) -> Changes:
    """Compare two configurations. What only one of them has is one change, whatever it holds."""
    found = list(_compare(old, new))
    return Changes(
        live=tuple(".".join(path) for path in found if not needs_restart(path)),
        restart=tuple(".".join(path) for path in found if needs_restart(path)),
    )


def _compare(old: object, new: object, *, path: Path = ()) -> Iterator[Path]:
    if old == new:
        return
    before, after = _find_members(old), _find_members(new)
    if type(old) is not type(new) or not (before or after):
        yield path
        return
    for name in {**before, **after}:
        if name not in after:
            yield (*path, f"{name} (removed)")
        elif name not in before:
            yield (*path, f"{name} (added)")
        else:
            yield from _compare(before[name], after[name], path=(*path, name))


def _find_members(section: object) -> dict[str, object]:
    """Return the settings of a section and the entries of models, tools and headers by name."""
    if is_dataclass(section):
        return {field.name: getattr(section, field.name) for field in fields(section)}
    if isinstance(section, tuple) and any(map(is_dataclass, section)):
        return {str(number): entry for number, entry in enumerate(section)}
    return dict(section) if isinstance(section, Mapping) else {}


def take_over(old: Config, new: Config) -> Config:
    """Return the settings after a reload: all but those that need a restart. Raise `ConfigError` if
    these contradict the rest.

    A file that moves the proxy to 127.0.0.1 and no longer requires keys is valid; but until the
    restart the old address would be open to everyone.
    """
    config = _keep_old(old, new)
    problems = [
        ConfigProblem(_RELOADED, ".".join(path), f"{why} (it changes with a restart only)")
        for path, why in find_breaches(config)
    ]
    if problems:
        raise ConfigError(problems)
    return config


def _keep_old(old: _Section, new: _Section, *, path: Path = ()) -> _Section:
    """Return a section with the old values of the settings that need a restart."""
    kept = {}
    for field in fields(new):
        below = (*path, field.name)
        before, after = getattr(old, field.name), getattr(new, field.name)
        if is_dataclass(after):
            kept[field.name] = _keep_old(before, after, path=below)
        elif needs_restart(below):
            kept[field.name] = before
    return replace(new, **kept)
