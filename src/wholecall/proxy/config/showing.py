"""A configuration in words: every setting, its value and where it comes from. No secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wholecall.core.words import show
from wholecall.proxy.config.leaves import walk
from wholecall.proxy.config.loading import Loaded
from wholecall.proxy.config.problems import Position
from wholecall.proxy.config.reading import Path
from wholecall.proxy.config.secret import Secret

DEFAULT = "default"


def show_config(loaded: Loaded) -> Iterator[str]:
    """One line a setting: `listen.port = 8787  # wholecall.yaml:3`."""
    for leaf in walk(loaded.config):
        origin = _find_origin(loaded.places, leaf.path)
        yield f"{'.'.join(leaf.path)} = {_show_value(leaf.value)}  # {origin}"


def _show_value(value: object) -> str:
    match value:
        case Secret():
            return show(value.written)
        case tuple():
            return f"[{', '.join(map(_show_value, value))}]"
        case _:
            return show(value)


def _find_origin(places: Mapping[Path, Position], path: Path) -> str:
    place = places.get(path)
    return DEFAULT if place is None else str(place)
