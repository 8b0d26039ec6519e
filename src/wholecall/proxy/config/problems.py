"""A problem of a configuration: its position, what it is, and what to write instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wholecall.errors import WholecallError


class Position(NamedTuple):
    """The position of a value."""

    file: str
    """A file, or the environment variable that holds the value."""
    line: int | None = None
    """Counted from 1; None for an environment variable."""

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One thing that is wrong."""

    place: Position
    setting: str
    """Its name with those of its sections: `models.fast.mode`; empty for the file as a whole."""
    message: str

    def __str__(self) -> str:
        setting = f"{self.setting}: " if self.setting else ""
        return f"{self.place}: {setting}{self.message}"


class ConfigError(WholecallError, ValueError):
    """A configuration cannot be used."""

    def __init__(self, problems: Sequence[ConfigProblem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = tuple(problems)
        """All of them, in the order in which they were found."""
        self.file, self.line = problems[0].place
        self.message = problems[0].message
