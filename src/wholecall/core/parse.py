"""Strict JSON, parsed once, with every limit checked before the parser can trip over it.

The standard library's parser does the work. Around it stands what it lets through or
falls over: NaN and Infinity, numbers without measure, keys given twice, halves of
surrogate pairs, nesting that ends in a RecursionError. When it fails, `flaw.find_flaw`
says where, and whether the text was cut off or is broken.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NoReturn

from wholecall.core.flaw import BadLiteral, find_flaw, find_too_deep
from wholecall.core.grammar import DIGITS, Cause, Walk, number_flaw
from wholecall.core.limits import DEFAULT
from wholecall.core.values import JSON, Reason, Repair, Value
from wholecall.core.words import cut

EXCERPT = 40
"""Characters of the text that a message or a repair quotes."""


class Parsed(Value, frozen=True):
    """A value, what was changed in its text, and which keys were given twice."""

    value: JSON
    changes: tuple[Repair, ...] = ()
    duplicates: tuple[str, ...] = ()
    """JSON paths. The value holds what stood there last."""


class Unparsed(Value, frozen=True):
    """Why a text is not strict JSON."""

    message: str
    position: int
    found: str
    """The text that stood there, cut to `EXCERPT` characters."""
    reason: Reason
    """TRUNCATED, BAD_JSON or LIMIT."""

    @property
    def cut(self) -> bool:
        """Whether the text is a proper prefix of some JSON: more of it could be whole."""
        return self.reason is Reason.TRUNCATED


# A walk that is complete although the parser failed would be our bug: a KeyError.
_REASONS = {
    Cause.CUT: Reason.TRUNCATED,
    Cause.BROKEN: Reason.BAD_JSON,
    Cause.DEEP: Reason.LIMIT,
}


def parse(text: str, *, depth: int = DEFAULT.depth) -> Parsed | Unparsed:
    """Parse strict JSON. The text is never repaired here, except for lone surrogates."""
    text, changes = _replace_lone_surrogates(text)
    too_deep = find_too_deep(text, depth)
    try:
        value, duplicates = _decode(text[:too_deep])
    except (json.JSONDecodeError, BadLiteral) as error:
        return _explain(text, find_flaw(text[:too_deep], error, depth=depth), too_deep)
    return Parsed(value, changes, duplicates)


def excerpt(text: str) -> str:
    """The beginning of a text, for a message or a repair."""
    return cut(text, EXCERPT)


def _explain(text: str, walked: Walk, too_deep: int | None) -> Unparsed:
    if too_deep is not None and walked.cause is Cause.CUT:
        # It was cut by us, and up to there it is JSON.
        depth, position = len(walked.closers) - 1, too_deep - 1
        message = f"nested more than {depth} deep"
        found = excerpt(text[position : position + EXCERPT + 1])
        return Unparsed(message, position, found, Reason.LIMIT)
    return Unparsed(
        message=walked.message,
        position=walked.position,
        found=excerpt(text[walked.position : walked.position + EXCERPT + 1]),
        reason=_REASONS[walked.cause],
    )


# ── What the parser would let through ───────────────────────────────────────────────


def _read_integer(literal: str) -> int:
    if len(literal) > DIGITS:
        raise BadLiteral(literal)
    return int(literal)


def _read_float(literal: str) -> float:
    if number_flaw(literal):
        raise BadLiteral(literal)
    return float(literal)


def _refuse_constant(literal: str) -> NoReturn:
    raise BadLiteral(literal)


# ── Keys given twice ────────────────────────────────────────────────────────────────


_MOST_DOUBLED = 32
"""Paths of keys given twice that are told. A hostile text has a hundred thousand."""


class _KeyTwice(Exception):
    """Some object gives a key twice."""


class _Doubled(dict[str, Any]):
    """An object that gives keys twice, and which."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = Counter(key for key, _ in pairs)
        self.twice = [key for key, count in counts.items() if count > 1]


def _read_unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise _KeyTwice
    return members


def _make_decoder(read_pairs: Callable[[list[tuple[str, Any]]], Any]) -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=read_pairs,
        parse_int=_read_integer,
        parse_float=_read_float,
        parse_constant=_refuse_constant,
    )


_UNIQUE_KEYS = _make_decoder(_read_unique)
_ANY_KEYS = _make_decoder(_Doubled)


def _decode(text: str) -> tuple[JSON, tuple[str, ...]]:
    """The value and the paths of keys given twice; an error if it is not strict JSON."""
    try:
        return _UNIQUE_KEYS.decode(text), ()
    except _KeyTwice:
        # The parser does not know its path, so the value is asked. This is rare enough.
        value = _ANY_KEYS.decode(text)
        return value, tuple(islice(_find_doubled(value, "$"), _MOST_DOUBLED))


def _find_doubled(value: JSON, path: str) -> Iterator[str]:
    if isinstance(value, _Doubled):
        yield from (join_path(path, key) for key in value.twice)
        for key, member in value.items():
            yield from _find_doubled(member, join_path(path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _find_doubled(item, join_path(path, index))


_LONGEST_STEP = 128
_LONGEST_PATH = 1024
"""Every value inside may get a path of its own, so that a key of megabytes in each of them
would be terabytes. A longer path is that of the value's forebear."""


def join_path(path: str, step: str | int) -> str:
    """Go one step down a JSON path: `$.days[0]`, `$["odd key"]`."""
    if len(path) > _LONGEST_PATH:
        return path
    if isinstance(step, str):
        if len(step) > _LONGEST_STEP:
            step = cut(step, _LONGEST_STEP)
        if step.isidentifier():
            return f"{path}.{step}"
    return f"{path}[{json.dumps(step, ensure_ascii=False)}]"


# ── Lone surrogates ─────────────────────────────────────────────────────────────────

# Half of a pair is no character: nothing can encode it, so the first write would fail.
_MAY_BE_LONE = re.compile(r"[\ud800-\udfff]|\\u[dD][89a-fA-F]")
_UNITS = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<escaped>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    r"|\\."  # any other escape, so that in `\\ud800` the second backslash begins nothing
    r"|(?P<pair>[\ud800-\udbff][\udc00-\udfff])"
    r"|(?P<raw>[\ud800-\udfff])"
)
_INSTEAD = {"escaped": r"\ufffd", "raw": "\ufffd"}


def _replace_lone_surrogates(text: str) -> tuple[str, tuple[Repair, ...]]:
    """Replace them in the text, not in the value: there two keys could become one unseen."""
    if not _MAY_BE_LONE.search(text):
        return text, ()
    lone: list[str] = []

    def replace(found: re.Match[str]) -> str:
        unit, kind = found.group(), found.lastgroup
        if kind is None:
            return unit
        if kind == "pair":
            # Two raw halves, each decoded with its own chunk, are one character again.
            return unit.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        lone.append(unit)
        return _INSTEAD[kind]

    replaced = _UNITS.sub(replace, text)
    before = "".join(lone[:1]).encode("ascii", "backslashreplace").decode()
    return replaced, (Repair("lone_surrogate", before, "\ufffd"),) if lone else ()
