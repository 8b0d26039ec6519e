"""From what was written to the settings: each value is checked against the type of its field.

Every problem is collected, so that a file is mended in one go. A setting that is wrong takes
its default in the meantime, and the result is thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import (
    Annotated,
    Literal,
    NamedTuple,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from wholecall.core.near import nearest
from wholecall.core.words import list_some, show
from wholecall.proxy.config.problems import ConfigProblem, Place
from wholecall.proxy.config.secret import Secret
from wholecall.proxy.config.settings import Range
from wholecall.proxy.config.written import Written
from wholecall.runs.limits import RunLimits

Kind: TypeAlias = object
"""The type of a setting, as its field declares it."""
_Settings = TypeVar("_Settings")

_POSITIVE = Range(0)
# Types that know nothing of files, and where 0 switches something off.
_MAY_BE_ZERO = {(RunLimits, "turn_retries"): Range(0), (RunLimits, "lost_threads"): Range(0)}


class Unusable(NamedTuple):
    """A value that does not fit, in words that complete "it …"."""

    why: str


class Expected(NamedTuple):
    """What a setting takes."""

    kind: Kind
    bounds: Range | None = None


class SettingsReader:
    """Reads one configuration. Afterwards `problems` and `places` say what it found."""

    def __init__(self) -> None:
        self.problems: list[ConfigProblem] = []
        self.places: dict[str, Place] = {}
        """Where each setting was written that was written at all."""

    def read(self, kind: type[_Settings], written: Written) -> _Settings | None:
        """The settings, or None where something that has no default is missing or wrong."""
        return cast("_Settings | None", self._read_section(kind, written, path=""))
