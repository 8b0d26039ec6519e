"""The accepted values of each setting: the types of its fields, in words and as a check."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Literal,
    NamedTuple,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from wholecall.core.words import list_some, show
from wholecall.proxy.config.secret import Secret
from wholecall.proxy.config.settings import Range, Restart
from wholecall.proxy.config.written import Scalar
from wholecall.runs.limits import RunLimits

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Kind: TypeAlias = object
"""A type, as a field declares it."""

# These types know nothing of files. In them, too, 0 may switch something off.
_BOUNDS: dict[tuple[type, str], Range] = {
    (RunLimits, "turn_retries"): Range(0),
    (RunLimits, "lost_threads"): Range(0),
}


class Expected(NamedTuple):
    """The accepted values of a setting."""

    kind: Kind
    bounds: Range | None = None
    """None: a number must be more than 0."""
    optional: bool = False
    """True if it may be null."""
    restart: bool = False
    """True if a change needs a restart."""

    def within(self, kind: Kind) -> Expected:
        """Return the accepted values of a list's items, or of a mapping's members."""
        return _expect(kind, bounds=self.bounds, restart=self.restart)

    @property
    def members(self) -> tuple[Kind, ...]:
        """The types of a union; of anything else, the type itself."""
        if get_origin(self.kind) in {Union, UnionType}:
            return get_args(self.kind)
        return (self.kind,)

    @property
    def sections(self) -> Iterator[type[DataclassInstance]]:
        """Those of them that hold settings."""
        for member in self.members:
            if isinstance(member, type) and is_dataclass(member):
                yield member


@cache
def expected_of(section: type) -> dict[str, Expected]:
    """Return the accepted values of each setting of a section, by name."""
    return {
        name: _expect(kind, bounds=_BOUNDS.get((section, name)))
        for name, kind in get_type_hints(section, include_extras=True).items()
    }


def _expect(kind: Kind, *, bounds: Range | None = None, restart: bool = False) -> Expected:
    if get_origin(kind) is Annotated:
        kind, *notes = get_args(kind)
        bounds = next((note for note in notes if isinstance(note, Range)), bounds)
        restart = restart or any(isinstance(note, Restart) for note in notes)
    members = [each for each in get_args(kind) if each is not NoneType]
    if get_origin(kind) in {Union, UnionType} and len(members) < len(get_args(kind)):
        # No setting is one of several things or nothing.
        [kind] = members
        return Expected(kind, bounds, optional=True, restart=restart)
    return Expected(kind, bounds, restart=restart)


# ── Words ───────────────────────────────────────────────────────────────────────────


def describe(expected: Expected) -> str:
    """Describe the accepted values: `a whole number from 0 to 65535`."""
    kind = expected.kind
    if get_origin(kind) is Literal:
        return list_some(get_args(kind), " or ", word=show)
    if get_origin(kind) in _CONTAINERS:
        return _CONTAINERS[get_origin(kind)]
    if kind in (int, float):
        return f"{_WORDS[kind]} {_describe_bounds(expected.bounds)}"
    return _WORDS.get(expected.members[0], "a section with settings")


_CONTAINERS: dict[Kind, str] = {tuple: "a list", Mapping: "names with texts"}
_WORDS: dict[Kind, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    Secret: "${NAME}",
}


def _describe_bounds(bounds: Range | None) -> str:
    if bounds is None:
        return "above 0"
    if bounds.most is None:
        return f"of at least {bounds.least}"
    return f"from {bounds.least} to {bounds.most}"


def hint_for(value: Scalar, expected: Expected) -> str:
    """Return what to write instead, if only quotes are missing."""
    if str in expected.members and isinstance(value, int | float):
        return f'; write "{json.dumps(value)}" in quotes'
    if isinstance(value, str) and fits(_unquote(value), expected):
        return f"; write {value.strip()} without quotes"
    return ""


def _unquote(text: str) -> Scalar:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, int | float) else None


# ── Single values ───────────────────────────────────────────────────────────────────


def fits(value: Scalar, expected: Expected) -> bool:
    """Return True if a value that is neither list nor section fits the setting."""
    if get_origin(expected.kind) is Literal:
        return value in get_args(expected.kind)
    return any(
        _CHECKS[kind](value, expected.bounds) for kind in expected.members if kind in _CHECKS
    )


def _is_number(value: Scalar, bounds: Range | None) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return False
    if bounds is None:
        return value > 0
    return bounds.least <= value and (bounds.most is None or value <= bounds.most)


_CHECKS: dict[Kind, Callable[[Scalar, Range | None], bool]] = {
    bool: lambda value, _: isinstance(value, bool),
    int: lambda value, bounds: isinstance(value, int) and _is_number(value, bounds),
    float: _is_number,
    str: lambda value, _: isinstance(value, str),
    Secret: lambda value, _: isinstance(value, Secret),
}
