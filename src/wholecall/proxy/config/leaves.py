"""The settings of a configuration one by one, each with its name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import NamedTuple

from wholecall.proxy.config.kinds import expected_of
from wholecall.proxy.config.reading import Path


class Leaf(NamedTuple):
    """One setting and its value."""

    path: Path
    value: object
    restart: bool = False
    """True if a change needs a restart."""


def walk(section: object, path: Path = (), *, restart: bool = False) -> Iterator[Leaf]:
    """Every setting below a section, in the order in which they are declared."""
    if is_dataclass(section) and not isinstance(section, type):
        expected = expected_of(type(section))
        for field in fields(section):
            below = getattr(section, field.name)
            yield from walk(below, (*path, field.name), restart=expected[field.name].restart)
    elif isinstance(section, Mapping) and section:
        for name, below in section.items():
            yield from walk(below, (*path, name), restart=restart)
    elif isinstance(section, tuple) and any(map(is_dataclass, section)):
        for number, below in enumerate(section):
            yield from walk(below, (*path, str(number)), restart=restart)
    else:
        yield Leaf(path, section, restart)
