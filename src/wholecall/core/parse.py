"""Strict JSON, parsed once, with every limit checked before the parser can trip over it.

The standard library's parser does the work. This module catches what the parser lets through or
fails on: NaN and Infinity, numbers without bound, duplicate keys, lone surrogates, nesting that
ends in a RecursionError, a million values in a short text. When it fails, `flaw.find_flaw` says
where, and whether the text was cut off or is broken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import islice
from math import isinf
from typing import Any, NamedTuple, NoReturn

from wholecall.core.extent import measure_text
from wholecall.core.flaw import BadLiteral, find_flaw
from wholecall.core.grammar import DIGITS, Cause, Walk
from wholecall.core.limits import DEFAULT, Limits
from wholecall.core.surrogates import HALVES, replace_lone
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
    """The reason why a text is not strict JSON."""

    message: str
    position: int
    found: str
    """The text that stood there, cut to `EXCERPT` characters."""
    reason: Reason
    """TRUNCATED, BAD_JSON or LIMIT."""

    @property
    def detail(self) -> str:
        """All of it in one sentence, for people and models."""
        return _DETAILS[self.reason].format(
            message=self.message,
            position=self.position,
            place=self.position + 1,
            found=self.found,
        )

    @property
    def cut(self) -> bool:
        """True if the text is a proper prefix of some JSON: more of it could be whole."""
        return self.reason is Reason.TRUNCATED


_DETAILS = {
    Reason.TRUNCATED: "the arguments are cut off after {position} characters: {message}",
    Reason.BAD_JSON: (
        "the arguments are not valid JSON: {message} at character {place}, found {found!r}"
    ),
    Reason.LIMIT: "the arguments are {message}",
}
# A walk that is complete although the parser failed would be our bug: a KeyError.
_REASONS = {
    Cause.CUT: Reason.TRUNCATED,
    Cause.BROKEN: Reason.BAD_JSON,
    Cause.DEEP: Reason.LIMIT,
}


def parse(text: str, *, limits: Limits = DEFAULT) -> Parsed | Unparsed:
    """Parse strict JSON. The text is never repaired here, except for lone surrogates."""
    whole = replace_lone(text)
    if whole is None:
        return _refuse(text, 0, message=f"garbled: more than {HALVES} halves of surrogate pairs")
    text = whole.text
    excess, too_deep = measure_text(text, limits)
    if excess:
        return _refuse(text, 0, message=excess)
    try:
        value, duplicates = _decode(text[:too_deep])
    except (json.JSONDecodeError, BadLiteral) as error:
        walked = find_flaw(text[:too_deep], error, depth=limits.depth)
        return _explain(text, walked, too_deep=too_deep)
    changes = (Repair("lone_surrogate", whole.lone, "\ufffd"),) if whole.lone else ()
    return Parsed(value, changes, duplicates)


def excerpt(text: str) -> str:
    """The beginning of a text, for a message or a repair."""
    return cut(text, EXCERPT)


def _explain(text: str, walked: Walk, *, too_deep: int | None) -> Unparsed:
    if too_deep is not None and walked.cause is Cause.CUT:
        # It was cut by us, and up to there it is JSON.
        message = f"nested more than {len(walked.closers) - 1} deep"
        return _refuse(text, too_deep - 1, message=message)
    found = _quote(text, walked.position)
    return Unparsed(walked.message, walked.position, found, _REASONS[walked.cause])


def _refuse(text: str, position: int, *, message: str) -> Unparsed:
    return Unparsed(message, position, _quote(text, position), Reason.LIMIT)


def _quote(text: str, position: int) -> str:
    return excerpt(text[position : position + EXCERPT + 1])


# ── What the parser would let through ───────────────────────────────────────────────


def _read_integer(literal: str) -> int:
    if len(literal) > DIGITS:
        raise BadLiteral(literal)
    return int(literal)


def _read_float(literal: str) -> float:
    number = float(literal)
    if len(literal) > DIGITS or isinf(number):
        raise BadLiteral(literal)
    return number


def _refuse_constant(literal: str) -> NoReturn:
    raise BadLiteral(literal)


# ── Keys given twice ────────────────────────────────────────────────────────────────


_MOST_DOUBLED = 32
"""Paths of duplicate keys that are reported. A hostile text has a hundred thousand."""


class _KeyTwice(Exception):
    """Some object gives a key twice."""


class _Doubled(dict[str, Any]):
    """An object that gives keys twice, and which."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.twice = tuple(islice(_find_twice(pairs), _MOST_DOUBLED))


def _find_twice(pairs: list[tuple[str, Any]]) -> Iterator[str]:
    seen: set[str] = set()
    told: set[str] = set()
    for key, _ in pairs:
        if key in seen and key not in told:
            told.add(key)
            yield key
        seen.add(key)


def _read_unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise _KeyTwice
    return members


def _read_any(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    return members if len(members) == len(pairs) else _Doubled(pairs)


def _make_decoder(
    read_pairs: Callable[[list[tuple[str, Any]]], Any], read_integer: Callable[[str], int]
) -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=read_pairs,
        parse_int=read_integer,
        parse_float=_read_float,
        parse_constant=_refuse_constant,
    )


class _Decoders(NamedTuple):
    unique_keys: json.JSONDecoder
    any_keys: json.JSONDecoder


_CAREFUL = _Decoders(*(_make_decoder(each, _read_integer) for each in (_read_unique, _read_any)))
_FAST = _Decoders(*(_make_decoder(each, int) for each in (_read_unique, _read_any)))
_SHORT_NUMBERS = re.compile(rf"(?:[^0-9]++|[0-9]{{1,{DIGITS - 1}}}+(?![0-9]))*+")


def _choose_decoders(text: str) -> _Decoders:
    """Choose the decoders. Checking each integer costs more than reading it, so a text that may
    hold many integers is checked as a whole."""
    # In a longer text that has as many commas, most of them stand in strings.
    is_dense = _LARGE < len(text) < min(text.count(","), DEFAULT.values) * _DENSE
    return _FAST if is_dense and _SHORT_NUMBERS.fullmatch(text) else _CAREFUL


_DENSE = 16
_LARGE = 4096


def _decode(text: str) -> tuple[JSON, tuple[str, ...]]:
    """The value and the paths of keys given twice; an error if it is not strict JSON."""
    decoders = _choose_decoders(text)
    try:
        return decoders.unique_keys.decode(text), ()
    except _KeyTwice:
        # The parser does not know its path, so the value is asked. This is rare enough.
        value = decoders.any_keys.decode(text)
        return value, tuple(islice(_find_doubled(value, "$"), _MOST_DOUBLED))


def _find_doubled(value: JSON, path: str) -> Iterator[str]:
    if isinstance(value, _Doubled):
        yield from (join_path(path, key) for key in value.twice)
    inside = value.items() if isinstance(value, dict) else enumerate(_items(value))
    for step, child in inside:
        if isinstance(child, (dict, list)):
            yield from _find_doubled(child, join_path(path, step))


def _items(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []


_LONGEST_STEP = 128
_LONGEST_PATH = 1024
"""Every value inside may get a path of its own, so that a key of megabytes in each of them
would be terabytes. A longer path is that of the value's forebear."""


def join_path(path: str, step: str | int) -> str:
    """Go one step down a JSON path: `$.days[0]`, `$["odd key"]`."""
    if len(path) > _LONGEST_PATH:
        return path
    if isinstance(step, int):
        return f"{path}[{step}]"
    if len(step) > _LONGEST_STEP:
        step = cut(step, _LONGEST_STEP)
    if step.isidentifier():
        return f"{path}.{step}"
    return f"{path}[{json.dumps(step, ensure_ascii=False)}]"
