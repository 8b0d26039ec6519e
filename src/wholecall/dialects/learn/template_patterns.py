"""Regular expressions read as data: marks, white space, named places. They are never run.

Formats of answers that ship with tokenizers are described by regular expressions, most of
which say no more than `<tool_call>\\s*<function=(?P<name>\\w+)>`: a mark, white space, a mark,
a name, a mark. Those are read here; what says more is refused by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from wholecall.errors import UnusableDialect

_MOST_WAYS = 16
"""Alternatives that a pattern may have. Real ones have two."""
_DEEPEST = 8
"""Groups in each other. Real ones are one deep."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Literal text."""

    text: str


@dataclass(frozen=True, slots=True)
class Blanks:
    """White space, or none."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Text that is wanted, under its name; without one, it is read over."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class TextEdge:
    """The beginning or the end of the text."""


Part: TypeAlias = Mark | Blanks | Gap | TextEdge
Alternative: TypeAlias = tuple[Part, ...]
"""One way in which a pattern can stand in a text."""

_TOKEN = re.compile(
    r"""(?P<group>\(\?P<(?P<name>\w+)>|\(\?:)
    | (?P<unread>\(|\\[1-9bBAdDW]|\{\d)
    | (?P<close>\))
    | (?P<or>\|)
    | (?P<edge>\^|\$|\\Z)
    | (?P<blank>\\s)
    | (?P<many>\[(?:\\.|[^\]\\])+\]|\\[wS]|\.)
    | \\(?P<control>[nrt])
    | \\(?P<escaped>.)
    | (?P<literal>[^\\])""",
    re.VERBOSE | re.DOTALL,
)
_REPEAT = re.compile(r"[*+][?+]?|\?{1,2}")
_LONGEST_SHOWN = 48
_CLASSES: dict[str, Part] = {"edge": TextEdge(), "blank": Blanks(), "many": Gap()}
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t"}


def read_pattern(pattern: str) -> tuple[Alternative, ...]:
    """The ways in which a pattern can stand in a text; UnusableDialect if it says more."""
    reader = _Reader(pattern)
    ways = reader.ways()
    if reader.at < len(pattern):
        raise UnusableDialect(f"')' in {pattern!r} closes nothing")
    return tuple(_joined(way) for way in ways)


class _Reader:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self.at = 0
        self._depth = 0

    def ways(self) -> list[Alternative]:
        """Alternatives up to a closing parenthesis or the end."""
        done: list[Alternative] = []
        ways: list[Alternative] = [()]
        while self.at < len(self._pattern) and self._pattern[self.at] != ")":
            found = self._token()
            if found["or"]:
                done += ways
                ways = [()]
                continue
            further = self._atom(found)
            ways = [(*way, *more) for way in ways for more in further]
            if len(done) + len(ways) > _MOST_WAYS:
                raise UnusableDialect(f"{self._pattern!r} has too many alternatives")
        return done + ways

    def _token(self) -> re.Match[str]:
        found = _TOKEN.match(self._pattern, self.at)
        if found is None or found["unread"]:
            raise self._refusal(self.at, self.at + 12)
        self.at = found.end()
        return found

    def _repeat(self) -> str:
        found = _REPEAT.match(self._pattern, self.at)
        self.at = found.end() if found else self.at
        return found.group() if found else ""

    def _atom(self, found: re.Match[str]) -> list[Alternative]:
        begin = found.start()
        if found["group"]:
            return self._group(found["name"] or "", begin)
        repeat = self._repeat()
        for kind, part in _CLASSES.items():
            if found[kind]:
                return [(part,)]
        literal = _CONTROLS.get(found["control"] or "") or found["escaped"] or found["literal"]
        if not repeat:
            return [(Mark(literal),)]
        if literal.isspace():
            return [(Blanks(),)]
        if repeat == "?":
            return [(Mark(literal),), ()]
        raise self._refusal(begin)

    def _group(self, name: str, begin: int) -> list[Alternative]:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise UnusableDialect(f"{self._pattern!r} has too many groups in each other")
        ways = self.ways()
        self._depth -= 1
        if self.at >= len(self._pattern):
            raise UnusableDialect(f"a group in {self._pattern!r} is not closed")
        self.at += 1
        repeat = self._repeat()
        if name and (repeat or ways != [(Gap(),)]):
            raise self._refusal(begin)
        if name:
            return [(Gap(name),)]
        if repeat not in ("", "?"):
            raise self._refusal(begin)
        return [*ways, ()] if repeat else ways

    def _refusal(self, begin: int, end: int | None = None) -> UnusableDialect:
        culprit, pattern = self._pattern[begin : end or self.at], self._pattern
        return UnusableDialect(f"{_cut(culprit)} in {_cut(pattern)} cannot be translated")


def _cut(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…")


def _joined(way: Alternative) -> Alternative:
    """The same with neighbouring marks as one, and neighbouring blanks, too."""
    parts: list[Part] = []
    for part in way:
        last = parts[-1] if parts else None
        if isinstance(last, Mark) and isinstance(part, Mark):
            parts[-1] = Mark(last.text + part.text)
        elif not (isinstance(part, Blanks) and isinstance(last, Blanks)):
            parts.append(part)
    return tuple(parts)
