"""The name that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_NAME = 64
"""Characters of a name that are compared. Comparing takes their square."""
_NAMES = 256
"""Names that one name is compared with."""
_ALIKE = 0.6
"""How alike names must be, of 1, for one to be suggested in place of the other."""
_SAME = 0.85
"""How alike they must be to be taken for the same name misspelt."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The most similar of the known names, if any is similar."""
    return _pick(name, known, _ALIKE)


def misspelt(name: str, known: Iterable[str]) -> str | None:
    """The known name of which this can only be another spelling: `dryRun` of `dry_run`."""
    return _pick(name, known, _SAME)


def _pick(name: str, known: Iterable[str], likeness: float) -> str | None:
    spelt: dict[str, str] = {}
    for other in sorted(known)[:_NAMES]:
        spelt.setdefault(_simplify(other), other)
    matches = difflib.get_close_matches(_simplify(name), spelt, n=1, cutoff=likeness)
    return spelt[matches[0]] if matches else None


def _simplify(name: str) -> str:
    """Case and separators tell nothing: every framework has its own."""
    return name[:_NAME].casefold().replace("_", "").replace("-", "").replace(".", "")
