"""Parse a docstring: the description of a function and of its parameters.

Three styles are read, and may be mixed:

    Args:                   Parameters              :param city: Where.
        city: Where.        ----------
                            city : str
                                Where.

In each of them an entry is a line with a name, and deeper indented lines continue it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

_GOOGLE_PARAMETERS = frozenset({"Args:", "Arguments:", "Params:", "Parameters:"})
_SECTIONS = _GOOGLE_PARAMETERS | {
    "Example:",
    "Examples:",
    "Note:",
    "Raises:",
    "Returns:",
    "Yields:",
}
_NUMPY_PARAMETERS = frozenset({"Parameters", "Other Parameters"})
_UNDERLINE = re.compile(r"-{3,}|={3,}")
_FIELD = re.compile(r":[a-z]+(?: [^:]*)?:")
# Each gives the names and the text of an entry.
_GOOGLE = re.compile(r"(?P<names>\*{0,2}\w+)\s*(?:\(.*?\))?\s*:(?:\s+(?P<text>.*))?")
_NUMPY = re.compile(r"(?P<names>\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?(?P<text>)")
_SPHINX = re.compile(
    r":(?:param|parameter|arg|argument|key|keyword) (?:[^:]* )?"
    r"(?P<names>\*{0,2}\w+)\s*:\s*(?P<text>.*)"
)


@dataclass(frozen=True, slots=True)
class Docstring:
    """The parts of a docstring that a model gets to read."""

    summary: str
    """The first paragraph. What follows is for those who read the code."""
    parameters: Mapping[str, str]


def read_docstring(docstring: str | None) -> Docstring:
    """Read a docstring in Google's, NumPy's or Sphinx's style."""
    lines = inspect.cleandoc(docstring or "").splitlines()
    parameters: dict[str, list[str]] = {}
    for entry in _find_entries(lines):
        for name in re.findall(r"\w+", entry.names):
            parameters.setdefault(name, []).append(entry.text)
    return Docstring(
        _join(_summary(lines)), {name: _join(texts) for name, texts in parameters.items()}
    )


class _Entry(NamedTuple):
    names: str
    text: str


def _summary(lines: list[str]) -> Iterator[str]:
    for line, following in pairwise([*lines, ""]):
        begins = line in _SECTIONS or _UNDERLINE.fullmatch(following) or _FIELD.match(line)
        if begins or not line.strip():
            return
        yield line


def _find_entries(lines: list[str]) -> Iterator[_Entry]:
    """Yield each entry; its continuation comes as a further entry of the same names."""
    style: re.Pattern[str] | None = None
    names, depth = "", 0
    for line, following in pairwise([*lines, ""]):
        words = line.strip()
        indent = len(line) - len(line.lstrip())
        if not words:
            continue
        if names and indent > depth:
            yield _Entry(names, words)
            continue
        names, depth = "", indent
        if indent == 0:
            style = _style_at(words, following.strip(), before=style)
        found = _SPHINX.fullmatch(words) or _read_entry(words, style, indent=indent)
        if found:
            names = found["names"]
            yield _Entry(names, found["text"] or "")


def _style_at(
    line: str, following: str, *, before: re.Pattern[str] | None
) -> re.Pattern[str] | None:
    """Return the style of the entries after a line that is not indented."""
    if _UNDERLINE.fullmatch(following):
        return _NUMPY if line in _NUMPY_PARAMETERS else None
    if _UNDERLINE.fullmatch(line):
        return before
    if line in _GOOGLE_PARAMETERS:
        return _GOOGLE
    return before if before is _NUMPY else None


def _read_entry(line: str, style: re.Pattern[str] | None, *, indent: int) -> re.Match[str] | None:
    # Google's entries are indented below their heading, NumPy's are not.
    if style is None or (style is _GOOGLE) != (indent > 0):
        return None
    return None if line in _NUMPY_PARAMETERS else style.fullmatch(line)


def _join(lines: Iterable[str]) -> str:
    return " ".join(line.strip() for line in lines).strip()
