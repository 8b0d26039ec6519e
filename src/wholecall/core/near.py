"""The name that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from heapq import nsmallest
from itertools import islice

_NAME = 64
"""Characters of a name that are compared. Comparing takes their square."""
_NAMES = 128
"""Names that one name is compared with, letter by letter. So many tools may be offered."""
_COMPARED = 16
"""Names that are compared so. Each takes milliseconds."""
_ALIKE = 0.6
"""Similarity, of 1, that a suggestion needs."""
_SAME = 0.85
"""Similarity at which names count as one name misspelt."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The most similar of the known names, if any is similar."""
    return _pick(_simplify(name), _spell(nsmallest(_NAMES, known)), likeness=_ALIKE)


def find_misspelt(names: Iterable[str], known: Collection[str]) -> dict[str, str]:
    """The names that can only be other spellings of known ones: `dryRun` of `dry_run`.

    All that differ in case and separators are found; of the others, the first few are compared.
    """
    spelt = _spell(known)
    found: dict[str, str] = {}
    left = _COMPARED
    for name in names:
        simple = _simplify(name)
        meant = spelt.get(simple)
        if meant is None and left:
            left -= 1
            meant = _pick(simple, spelt, likeness=_SAME)
        if meant is not None:
            found[name] = meant
    return found


def _spell(known: Iterable[str]) -> dict[str, str]:
    """Known names by their simplified form; of two that are alike, the first in order."""
    spelt: dict[str, str] = {}
    for name in sorted(known):
        spelt.setdefault(_simplify(name), name)
    return spelt


def _pick(simple: str, spelt: dict[str, str], *, likeness: float) -> str | None:
    if simple in spelt:
        return spelt[simple]
    others = list(islice(spelt, _NAMES))
    matches = difflib.get_close_matches(simple, others, n=1, cutoff=likeness)
    return spelt[matches[0]] if matches else None


def _simplify(name: str) -> str:
    """Case and separators tell nothing: every framework has its own. Nor do marks that got into
    a name: ` path`, `:path`."""
    name = name[:_NAME].casefold()
    return "".join(filter(str.isalnum, name)) or name
