"""Show every setting: its value and origin, or its type and default. Never a secret."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields
from functools import cache
from textwrap import dedent
from typing import TYPE_CHECKING, NamedTuple, get_args, get_origin

from wholecall.arguments.describe import show
from wholecall.proxy.config.load import Loaded
from wholecall.proxy.config.schema import Config, Position, Secret
from wholecall.proxy.config.settings_reader import ExpectedType, Path, describe, expected_of, walk

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


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


# Every setting in a table: what docs/configuration.md and `wholecall config settings` show.


_HEAD = (
    "| setting | takes | default | meaning |",
    "|---|---|---|---|",
)
_RESTART_MARK = " †"
REQUIRED = "(required)"
"""In the place of a default."""


class SettingRow(NamedTuple):
    """One setting."""

    setting: str
    """Its full name; `NAME` is a name that the operator chooses, `N` an item of a list."""
    takes: str
    default: str
    meaning: str
    restart: bool = False


def list_settings() -> list[SettingRow]:
    """Every setting, in the order of the file."""
    return list(_list_section(Config, ""))


def write_markdown() -> str:
    """The table of the docs."""
    return "\n".join([*_HEAD, *map(_write, list_settings())])


def _write(row: SettingRow) -> str:
    mark = _RESTART_MARK if row.restart else ""
    cells = (f"`{row.setting}`{mark}", row.takes, row.default, row.meaning)
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _list_section(section: type[DataclassInstance], prefix: str) -> Iterator[SettingRow]:
    meanings = _read_meanings(section)
    for field in fields(section):
        expected = expected_of(section)[field.name]
        name = prefix + field.name
        below = list(_sections_below(expected))
        for suffix, part in below:
            yield from _list_section(part, f"{name}{suffix}.")
        if not below:
            meaning = meanings[field.name]
            default = _write_default(field)
            yield SettingRow(name, describe(expected), default, meaning, restart=expected.restart)


def _sections_below(expected: ExpectedType) -> Iterator[tuple[str, type[DataclassInstance]]]:
    """Yield the sections that a setting holds, and the suffix of their names."""
    suffix = ""
    if get_origin(expected.kind) is Mapping:
        suffix, expected = ".NAME", expected.within(get_args(expected.kind)[1])
    elif get_origin(expected.kind) is tuple:
        suffix, expected = ".N", expected.within(get_args(expected.kind)[0])
    for section in expected.sections:
        yield suffix, section


def _write_default(field: Field[object]) -> str:
    value = field.default if field.default_factory is MISSING else field.default_factory()
    if value is MISSING:
        return REQUIRED
    if value is None or value in ({}, ()):
        return "none"
    return f"`{show(list(value) if isinstance(value, tuple) else value)}`"


@cache
def _read_meanings(section: type) -> dict[str, str]:
    """The texts below the fields of a class. Python does not keep them; its source has them."""
    [definition] = ast.parse(dedent(inspect.getsource(section))).body
    found: dict[str, str] = {}
    name = ""
    for statement in definition.body if isinstance(definition, ast.ClassDef) else ():
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name)):
                found[name] = ""
            case ast.Expr(value=ast.Constant(value=str(text))) if name:
                found[name] = " ".join(text.split())
    return found
