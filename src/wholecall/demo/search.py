"""Search in Wholecall's own documentation: sections of Markdown, by the words they share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

_WORD = re.compile(r"[a-z0-9_]{2,}")
_HEADING = re.compile(r"^#{1,3} (.+)$", re.MULTILINE)
_IN_TITLE = 3
"""A word of the heading says more than one of the text."""
_SHOWN = 400
"""Characters of a section: a small model has a small context."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page under one heading."""

    page: str
    title: str
    text: str


def search(query: str, sections: Iterable[Section], *, most: int = 3) -> list[Section]:
    """The sections that fit best, the best first."""
    wanted = set(_words(query))
    scored = [(_score(section, wanted), section) for section in sections]
    found = sorted((each for each in scored if each[0]), key=lambda each: -each[0])
    return [section for _, section in found[:most]]


def _score(section: Section, wanted: set[str]) -> float:
    words = Counter(_words(section.text)) + Counter(_words(section.title) * _IN_TITLE)
    hits = [words[word] for word in wanted if word in words]
    # How many of the words occur counts for more than how often they do.
    return len(hits) + sum(hits) / (sum(words.values()) + 1)


def _words(text: str) -> list[str]:
    return [word.rstrip("s") for word in _WORD.findall(text.lower())]


@cache
def load_sections() -> tuple[Section, ...]:
    """The sections of all pages; a wheel carries them, a checkout has them beside the source."""
    shipped = Path(str(resources.files("wholecall"))) / "demo" / "docs"
    folder = shipped if shipped.is_dir() else Path(__file__).parents[3] / "docs"
    return tuple(
        section
        for path in sorted(folder.glob("*.md"))
        for section in read_sections(path.name, path.read_text("utf-8"))
    )


def read_sections(page: str, markdown: str) -> Iterator[Section]:
    """A page, cut at its headings."""
    _, *parts = _HEADING.split(markdown)
    for title, text in zip(parts[::2], parts[1::2], strict=True):
        if text.strip():
            yield Section(page, title, text.strip()[:_SHOWN])
